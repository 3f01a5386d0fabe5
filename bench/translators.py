"""The contenders in decoding, each made with the weights of one of our Transformers."""

import tempfile
from collections.abc import Callable
from typing import Any

import torch

from bench.peers import ctranslate2_folder, marian
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.models.transformer import Transformer
from regard.text.words import END, START

BEAM = 4

Translate = Callable[[list[list[int]]], list[list[int]]]  # a batch of sources -> the best hypothesis of each


def ours(model: Transformer, n_tokens: int, weights: str = "float32") -> Translate:
    """As a loaded run does it."""
    engine = Engine(model)

    def translate(sources: list[list[int]]) -> list[list[int]]:
        config = DecodingConfig(
            beam=BEAM,
            length_ratio=0.0,
            extra_length=n_tokens,
            batch_tokens=len(sources) * n_tokens,
            weights=weights,
        )
        return [best.tokens for best, *_ in engine.generate(sources, config, START, END)]

    return translate


def transformers_generate(model: Transformer, n_tokens: int, static: bool) -> Translate:
    """`generate` with its growing cache; or with a static one, for which it compiles the step on a GPU."""
    weight = model.embedding.weight
    made = marian(model).to(weight.device, weight.dtype).eval()
    settings: dict[str, Any] = {"cache_implementation": "static"} if static else {}

    def translate(sources: list[list[int]]) -> list[list[int]]:
        rows = [torch.tensor(source) for source in sources]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=made.config.pad_token_id)
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
        out = made.generate(
            ids.to(weight.device),
            attention_mask=mask.to(weight.device),
            num_beams=BEAM,
            max_new_tokens=n_tokens,
            do_sample=False,
            **settings,
        )
        return out[:, 1:].tolist()

    return translate


def ctranslate2_translator(model: Transformer, n_tokens: int, compute_type: str) -> Translate:
    import ctranslate2

    with tempfile.TemporaryDirectory() as folder:
        ctranslate2_folder(marian(model), folder)
        translator = ctranslate2.Translator(
            folder, device="cpu", compute_type=compute_type, inter_threads=1, intra_threads=torch.get_num_threads()
        )

    def translate(sources: list[list[int]]) -> list[list[int]]:
        words = [[str(token) for token in source] for source in sources]
        results = translator.translate_batch(words, beam_size=BEAM, max_decoding_length=n_tokens)
        return [[int(word) for word in result.hypotheses[0]] for result in results]

    return translate


CONTENDERS: dict[str, Callable[[Transformer, int], Translate]] = {
    "regard": ours,
    "transformers": lambda model, n: transformers_generate(model, n, static=False),
    "transformers static": lambda model, n: transformers_generate(model, n, static=True),
    "CTranslate2 float32": lambda model, n: ctranslate2_translator(model, n, "float32"),
    "regard int8": lambda model, n: ours(model, n, "int8"),
    "CTranslate2 int8": lambda model, n: ctranslate2_translator(model, n, "int8"),
}
INT8 = ("regard int8", "CTranslate2 int8")  # a case of their own
CPU_ONLY = ("CTranslate2 float32", *INT8)
GPU_ONLY = ("transformers static",)
EXACT = ("regard", "transformers", "CTranslate2 float32")  # those that must find the same translations in float32
PACKAGES = {
    "transformers": ("transformers",),
    "transformers static": ("transformers",),
    "CTranslate2 float32": ("ctranslate2", "transformers"),  # which converts for it
    "CTranslate2 int8": ("ctranslate2", "transformers"),
}
