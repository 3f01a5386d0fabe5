"""BERT (Devlin et al. 2019) and its relatives RoBERTa, DistilBERT and ELECTRA: stacks that look both ways, whose parts
have other names in each of them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from regard.errors import ConfigError
from regard.interop.families.family import PLAIN, Family, Imported, Theirs, Weight, product, require, word_for
from regard.interop.families.forms import AS_IS, AfterRows, FirstRows, Form, Zeros
from regard.interop.families.labels import read_labels, tells_one_of_several, write_labels
from regard.runs.recipe import Recipe

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu", "silu": "swish"}
BLOCK = {  # their names in a block of BERT, RoBERTa and ELECTRA
    "attention.self.query": "attention.to_queries",
    "attention.self.key": "attention.to_keys",
    "attention.self.value": "attention.to_values",
    "attention.output.dense": "attention.to_output",
    "attention.output.LayerNorm": "attention_residual.norm",
    "intermediate.dense": "feed_forward.expand",
    "output.dense": "feed_forward.contract",
    "output.LayerNorm": "feed_forward_residual.norm",
}
SETTINGS = {  # theirs, by ours
    "d_model": "hidden_size",
    "n_heads": "num_attention_heads",
    "n_layers": "num_hidden_layers",
    "d_ff": "intermediate_size",
    "dropout": "hidden_dropout_prob",
    "feed_forward": "hidden_act",
}

CLASSES = {"masked": "ForMaskedLM", "reading": "Model", "classification": "ForSequenceClassification"}  # by task

HEADS = r"(cls|lm_head|vocab_\w+|\w*classifier|qa_outputs|\w+_predictions|\w+_lm_head)\..*"


@dataclass(frozen=True, kw_only=True)
class BertRelative:
    """One of the relatives: what it calls its parts, and what it has that the others have not."""

    model_type: str
    name: str  # as the classes of transformers begin
    blocks: str  # where the blocks are
    block: dict[str, str]
    settings: dict[str, str]
    transform: str  # of the head that tells hidden words: its product, ...
    norm: str  # ... its norm, ...
    output: str  # ... and the table, if it is not the embeddings
    bias: str
    pooler: str  # of the head that tells labels: the layer behind the first row, ...
    activation: str  # ... what it does, ...
    labels: str  # ... and the product
    segments: int | None = None  # how many it tells apart; None: as many as its settings say
    is_narrow: bool = False  # its embeddings may be narrower than its blocks
    first_place: int = 0  # rows of the table of places that no token uses
    pretrained_by: str = ""  # its class with the head of next sentences, if it has one
    norm_eps: float | None = None  # where it cannot be set

    @property
    def prefix(self) -> str:
        return f"{self.model_type}."

    def read_config(self, theirs: Theirs) -> Imported:
        theirs.expect(is_decoder=False, add_cross_attention=False, position_embedding_type="absolute")
        if self.first_place:  # places are counted from behind that of padding
            theirs.expect(pad_token_id=self.first_place - 1)
        s, made_by = self.settings, theirs.heads
        model: dict[str, Any] = {
            "d_model": theirs.width(s["d_model"]),
            "n_heads": theirs.width(s["n_heads"]),
            "n_layers": theirs.layers(s["n_layers"]),
            "d_ff": theirs.width(s["d_ff"]),
            "max_length": theirs.width("max_position_embeddings") - self.first_place,
            "dropout": theirs.number(s["dropout"], 0.1),
            "feed_forward": theirs.choice(s["feed_forward"], ACTIVATIONS, "gelu"),
            "norm_eps": self.norm_eps or theirs.number("layer_norm_eps", 1e-12),
            "vocab_size": theirs.width("vocab_size"),
            "tied": theirs.flag("tie_word_embeddings", True),
            "n_segments": theirs.width("type_vocab_size", 2) if self.segments is None else self.segments,
            "pre_norm": False,
            "causal": False,
            "position": "learned",
            "scale_embedding": False,
            "embedding_norm": True,
        }
        d_embedding = theirs.width("embedding_size", model["d_model"]) if self.is_narrow else model["d_model"]
        model["d_embedding"] = 0 if d_embedding == model["d_model"] else d_embedding
        if made_by == f"{self.name}ForSequenceClassification" and tells_one_of_several(theirs):
            return Imported("stack", model, "classification", read_labels(theirs, self.activation))
        has_next = bool(self.pretrained_by) and made_by == self.pretrained_by
        if made_by != f"{self.name}ForMaskedLM" and not has_next:
            return Imported("stack", model, "reading", {})
        if model["feed_forward"] != "gelu":
            raise ConfigError("a head that tells hidden words has the activation 'gelu' in regard, and this one not")
        return Imported("stack", model, "masked", {"nsp": has_next, "window": min(128, model["max_length"])})

    def write_config(self, recipe: Recipe) -> dict[str, Any]:
        c, s = recipe.model, self.settings
        of_family = {"causal": False, "pre_norm": False, "position": "learned", "norm": "layer", "embedding_norm": True}
        free = {"n_segments": self.segments if self.segments and c.n_segments else c.n_segments}
        free["d_embedding"] = c.d_embedding if self.is_narrow else 0
        require(recipe, self.model_type, tuple(CLASSES), PLAIN | of_family | free)
        if self.norm_eps and c.norm_eps != self.norm_eps:
            raise ConfigError(f"{self.model_type} has norm_eps = {self.norm_eps} always, and this run {c.norm_eps}")
        has_next = recipe.kind == "masked" and recipe.task.nsp
        if has_next and not self.pretrained_by:
            raise ConfigError(f"{self.model_type} does not tell next sentences, and this run has task.nsp = true")
        found = {
            "model_type": self.model_type,
            "architectures": [self.pretrained_by if has_next else f"{self.name}{CLASSES[recipe.kind]}"],
            **{there: getattr(c, here) for here, there in s.items() if here != "feed_forward"},
            s["feed_forward"]: word_for(ACTIVATIONS, c.feed_forward, self.model_type),
            "max_position_embeddings": c.max_length + self.first_place,
            "layer_norm_eps": c.norm_eps,
            "vocab_size": c.vocab_size,
            "tie_word_embeddings": c.tied,
            **(write_labels(recipe.task, self.model_type, self.activation) if recipe.kind == "classification" else {}),
        }
        if self.segments != 0:
            found["type_vocab_size"] = max(1, c.n_segments)
        if self.is_narrow:
            found["embedding_size"] = c.embedding_width
        if self.first_place:
            found["pad_token_id"] = self.first_place - 1
        return found

    def weights(self, recipe: Recipe) -> Iterator[Weight]:
        c, start = recipe.model, f"{self.model_type}."
        places: Form = AfterRows(self.first_place) if self.first_place else AS_IS
        yield Weight(f"{start}embeddings.word_embeddings.weight", ("reader.embedding.weight",))
        yield Weight(f"{start}embeddings.position_embeddings.weight", ("reader.position.table",), places)
        if self.segments != 0:
            name = f"{start}embeddings.token_type_embeddings.weight"
            if c.n_segments:
                yield Weight(name, ("reader.segment.weight",), FirstRows(c.n_segments))
            else:
                yield Weight(name, (), Zeros((1, c.embedding_width)))
        yield from product(f"{start}embeddings.LayerNorm", "reader.embedding_norm")
        if c.d_embedding:
            yield from product(f"{start}embeddings_project", "reader.widen")
        for i in range(c.n_layers):
            for there, here in self.block.items():
                yield from product(f"{start}{self.blocks}.{i}.{there}", f"reader.blocks.{i}.{here}")
        if recipe.kind == "masked":
            yield from self.head_weights(recipe)
        if recipe.kind == "classification":
            yield from product(self.pooler, "pooler")
            yield from product(self.labels, "to_labels")

    def head_weights(self, recipe: Recipe) -> Iterator[Weight]:
        yield from product(self.transform, "transform")
        yield from product(self.norm, "norm")
        yield Weight(self.bias, ("output_bias",))
        if not recipe.model.tied:
            yield Weight(f"{self.output}.weight", ("own_table",))
            if self.bias != f"{self.output}.bias":  # in files that have both, this is the one that counts
                yield Weight(f"{self.output}.bias", ("output_bias",))
        if recipe.task.nsp:
            yield from product(f"{self.prefix}pooler.dense", "pooler")
            yield from product("cls.seq_relationship", "to_next")

    def family(self) -> Family:
        return Family(
            read_config=self.read_config,
            write_config=self.write_config,
            weights=self.weights,
            prefix=self.prefix,
            spare=(r".*position_ids", rf"{re.escape(self.output)}\.bias", re.escape(self.bias)),
            copies=((f"{self.output}.weight", f"{self.prefix}embeddings.word_embeddings.weight"),),
            heads=(rf"({self.prefix})?pooler\..*", HEADS),
            old_endings=(
                ("LayerNorm.weight", "LayerNorm.gamma"),
                ("LayerNorm.bias", "LayerNorm.beta"),
                (f"{self.output}.bias", self.bias),
            ),
        )


BERT = BertRelative(
    model_type="bert",
    name="Bert",
    blocks="encoder.layer",
    block=BLOCK,
    settings=SETTINGS,
    transform="cls.predictions.transform.dense",
    norm="cls.predictions.transform.LayerNorm",
    output="cls.predictions.decoder",
    bias="cls.predictions.bias",
    pooler="bert.pooler.dense",
    activation="tanh",
    labels="classifier",
    pretrained_by="BertForPreTraining",
).family()
ROBERTA = BertRelative(
    model_type="roberta",
    name="Roberta",
    blocks="encoder.layer",
    block=BLOCK,
    settings=SETTINGS,
    transform="lm_head.dense",
    norm="lm_head.layer_norm",
    output="lm_head.decoder",
    bias="lm_head.bias",
    pooler="classifier.dense",
    activation="tanh",
    labels="classifier.out_proj",
    first_place=2,
    segments=1,
).family()
DISTILBERT = BertRelative(
    model_type="distilbert",
    name="DistilBert",
    blocks="transformer.layer",
    block={
        "attention.q_lin": "attention.to_queries",
        "attention.k_lin": "attention.to_keys",
        "attention.v_lin": "attention.to_values",
        "attention.out_lin": "attention.to_output",
        "sa_layer_norm": "attention_residual.norm",
        "ffn.lin1": "feed_forward.expand",
        "ffn.lin2": "feed_forward.contract",
        "output_layer_norm": "feed_forward_residual.norm",
    },
    settings={
        "d_model": "dim",
        "n_heads": "n_heads",
        "n_layers": "n_layers",
        "d_ff": "hidden_dim",
        "dropout": "dropout",
        "feed_forward": "activation",
    },
    transform="vocab_transform",
    norm="vocab_layer_norm",
    output="vocab_projector",
    bias="vocab_projector.bias",
    pooler="pre_classifier",
    activation="relu",
    labels="classifier",
    segments=0,
    norm_eps=1e-12,
).family()
ELECTRA = BertRelative(
    model_type="electra",
    name="Electra",
    blocks="encoder.layer",
    block=BLOCK,
    settings=SETTINGS,
    transform="generator_predictions.dense",
    norm="generator_predictions.LayerNorm",
    output="generator_lm_head",
    bias="generator_lm_head.bias",
    pooler="classifier.dense",
    activation="gelu",
    labels="classifier.out_proj",
    is_narrow=True,
).family()
