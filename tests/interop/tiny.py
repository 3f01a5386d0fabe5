"""Tiny random models of every family, made by transformers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

BERT_SIZES = {
    "vocab_size": 53,
    "hidden_size": 12,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "intermediate_size": 7,
    "max_position_embeddings": 21,
}
LLAMA_SIZES = {**BERT_SIZES, "num_attention_heads": 2, "hidden_size": 12, "bos_token_id": None, "eos_token_id": None}


def gpt2(**more: Any) -> Any:
    sizes = {"vocab_size": 53, "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 21}
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**{**sizes, "bos_token_id": None, "eos_token_id": None, **more})
    )


def llama(**more: Any) -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**LLAMA_SIZES, **more}))


def qwen2(**more: Any) -> Any:
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**{**LLAMA_SIZES, **more}))


def qwen3(**more: Any) -> Any:
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**{**LLAMA_SIZES, **more}))


# Angles of rotary positions, by their type: small enough that texts of a dozen tokens tell them apart.
ROPES: dict[str, dict[str, Any]] = {
    "linear": {"factor": 2.5},
    "dynamic": {"factor": 3.0},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 0.1,
        "high_freq_factor": 2.0,
        "original_max_position_embeddings": 10,
    },
    "yarn": {"factor": 2.0, "original_max_position_embeddings": 10},
    "yarn, every setting": {
        "factor": 4.0,
        "original_max_position_embeddings": 12,
        "beta_fast": 3,
        "beta_slow": 0.05,
        "mscale": 0.7,
        "mscale_all_dim": 1.3,
    },
}


def ropes(name: str) -> dict[str, Any]:
    return {"rope_type": name.split(",")[0], "rope_theta": 50.0, **ROPES[name]}


def bert(made_by: str = "BertForMaskedLM", **more: Any) -> Any:
    return getattr(transformers, made_by)(transformers.BertConfig(**{**BERT_SIZES, **more}))


def roberta(made_by: str = "RobertaForMaskedLM", **more: Any) -> Any:
    return getattr(transformers, made_by)(transformers.RobertaConfig(**{**BERT_SIZES, **more}))


def distilbert(made_by: str = "DistilBertForMaskedLM", **more: Any) -> Any:
    sizes = {"vocab_size": 53, "dim": 12, "n_heads": 3, "n_layers": 2, "hidden_dim": 7, "max_position_embeddings": 21}
    return getattr(transformers, made_by)(transformers.DistilBertConfig(**{**sizes, **more}))


def electra(made_by: str = "ElectraForMaskedLM", **more: Any) -> Any:
    return getattr(transformers, made_by)(transformers.ElectraConfig(**{**BERT_SIZES, "embedding_size": 5, **more}))


def xlnet(made_by: str = "XLNetLMHeadModel", **more: Any) -> Any:
    sizes = {"vocab_size": 53, "d_model": 12, "n_head": 3, "n_layer": 2, "d_inner": 7, "pad_token_id": 0}
    return getattr(transformers, made_by)(transformers.XLNetConfig(**{**sizes, **more}))


MODELS: dict[str, Callable[[], Any]] = {
    "gpt2": gpt2,
    "gpt2, untied, narrow": lambda: gpt2(tie_word_embeddings=False, n_inner=5, activation_function="relu"),
    "llama": llama,
    "llama, tied, grouped heads": lambda: llama(
        tie_word_embeddings=True, num_attention_heads=6, num_key_value_heads=2, rope_theta=500.0, rms_norm_eps=1e-3
    ),
    "llama, wide heads, biases": lambda: llama(head_dim=10, attention_bias=True, mlp_bias=True),
    "qwen2": lambda: qwen2(num_attention_heads=6, num_key_value_heads=3),
    "qwen2, tied": lambda: qwen2(tie_word_embeddings=True, num_key_value_heads=2),
    "qwen3": lambda: qwen3(head_dim=8, num_key_value_heads=1),
    "qwen3, tied": lambda: qwen3(tie_word_embeddings=True, head_dim=6, num_key_value_heads=2),
    **{f"llama, {name} angles": lambda name=name: llama(rope_parameters=ropes(name)) for name in ROPES},
    "qwen3, yarn angles": lambda: qwen3(head_dim=8, num_key_value_heads=1, rope_parameters=ropes("yarn")),
    "bert": bert,
    "bert, untied, one segment": lambda: bert(tie_word_embeddings=False, type_vocab_size=1),
    "bert with next sentences": lambda: bert("BertForPreTraining"),
    "bert without a head": lambda: bert("BertModel", hidden_act="relu"),
    "bert that classifies": lambda: bert("BertForSequenceClassification"),
    "bert of one number": lambda: bert("BertForSequenceClassification", num_labels=1),
    "roberta": lambda: roberta(type_vocab_size=1),
    "roberta, untied, two segments": lambda: roberta(tie_word_embeddings=False),
    "roberta without a head": lambda: roberta("RobertaModel"),
    "roberta that classifies": lambda: roberta("RobertaForSequenceClassification", num_labels=12),
    "distilbert": distilbert,
    "distilbert, untied": lambda: distilbert(tie_word_embeddings=False),
    "distilbert without a head": lambda: distilbert("DistilBertModel", activation="relu"),
    "distilbert that classifies": lambda: distilbert(
        "DistilBertForSequenceClassification", id2label={0: "NEGATIVE", 1: "POSITIVE"}
    ),
    "electra": electra,
    "electra, untied, not narrow": lambda: electra(tie_word_embeddings=False, embedding_size=12),
    "electra that tells real words": lambda: electra("ElectraForPreTraining"),
    "electra that classifies": lambda: electra("ElectraForSequenceClassification", num_labels=3),
    "xlnet": xlnet,
    "xlnet without a head": lambda: xlnet("XLNetModel", ff_activation="relu"),
    "xlnet that classifies": lambda: xlnet("XLNetForSequenceClassification"),
}


def make(name: str, folder: Path) -> Any:
    """A model with weights that are far from zero, also where transformers begins with zeros and ones."""
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    model.save_pretrained(folder)
    return model
