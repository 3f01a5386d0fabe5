"""The folder of an encoder-decoder of CTranslate2.  What it has and we do not is refused."""

import math
import re
from pathlib import Path
from typing import Any

from regard.errors import RunError
from regard.interop.formats.ctranslate2_file import CTranslate2File
from regard.interop.formats.safe import read_json
from regard.text.foreign import read_words

# Settings that may be present with these values: regard does the same.
PLAIN = {
    "multi_query_attention": 0,
    "alibi": 0,
    "alibi_use_positive_positions": 0,
    "scale_alibi": 0,
    "embeddings_merge": 0,
}
VOCABULARY = "shared_vocabulary.json"
IGNORED = ("alignment_heads", "alignment_layer")  # for its own word alignments


class CTranslate2Folder:
    """model.bin and what lies beside it, or in the folder above, as Argos packs it; the settings as one `config`."""

    def __init__(self, path: Path):
        self.path, folder = path, model_folder(path)
        self.file = CTranslate2File(folder / "model.bin")
        if self.file.kind != "TransformerSpec":
            raise RunError(
                f"{self.file.path} is a {self.file.kind}; of CTranslate2's models regard reads TransformerSpec"
            )
        self.shapes, self.read = self.file.shapes, self.file.read
        settings = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
        if settings.get("add_source_bos") or settings.get("add_source_eos") is False:
            raise RunError(f"{folder / 'config.json'} adds other tokens to a source than regard does")
        self.config = settings_of(self.file) | {"layer_norm_epsilon": settings.get("layer_norm_epsilon")}
        if not (folder / VOCABULARY).is_file():
            raise RunError(f"{folder} has no {VOCABULARY}; regard's translators have one for source and target")
        self.words = read_words(folder / VOCABULARY)
        if settings.get("decoder_start_token") in self.words:
            self.config["decoder_start_id"] = self.words.index(settings["decoder_start_token"])


def is_ctranslate2(path: Path) -> bool:
    file = model_folder(path) / "model.bin"
    if not file.is_file() or (path / "model.safetensors").is_file():
        return False
    with open(file, "rb") as opened:
        return not opened.read(4).startswith((b"PK", b"\x80"))  # the pickles of PyTorch may have that name, too


def words_of(path: Path) -> list[str]:
    return read_words(model_folder(path) / VOCABULARY)


def model_folder(path: Path) -> Path:
    return path / "model" if (path / "model" / "model.bin").is_file() else path


def settings_of(file: CTranslate2File) -> dict[str, Any]:
    """Both sides must agree; the shapes say the rest."""
    sides: list[dict[str, Any]] = []
    for side in ("encoder", "decoder"):
        start = f"{side}/"
        settings = {name.removeprefix(start): n for name, n in file.settings.items() if name.startswith(start)}
        for name in IGNORED:
            settings.pop(name, None)
        for name, usual in PLAIN.items():
            if settings.pop(name, usual) != usual:
                raise RunError(
                    f"{file.path} has {side}/{name}, which regard's models do not have; nothing was imported"
                )
        settings["scale_embedding"] = scales(settings.pop("scale_embeddings", 1), file)
        layers = {match[1] for name in file.shapes if (match := re.match(rf"{side}/layer_(\d+)/", name))}
        sides.append({**settings, "n_layers": len(layers)})
    starts_empty = bool(sides[1].pop("start_from_zero_embedding", 0))
    if sides[0] != sides[1]:
        raise RunError(f"{file.path} has other settings in its encoder than in its decoder: {sides[0]}, {sides[1]}")
    known = {"activation", "num_heads", "pre_norm", "scale_embedding", "n_layers"}
    if unknown := sorted(sides[0].keys() - known):
        raise RunError(f"{file.path} has the setting {unknown[0]}, which regard's models do not have")
    n_words, d_model = shape(file, "decoder/embeddings/weight", 2)
    return {
        **sides[0],
        "model_type": "ctranslate2",
        "vocab_size": n_words + starts_empty,  # one more, of zeros, for the start
        "start_from_zero_embedding": starts_empty,
        "d_model": d_model,
        "d_ff": shape(file, "decoder/layer_0/ffn/linear_0/weight", 2)[0],
        "max_length": shape(file, "decoder/position_encodings/encodings", 2)[0],
        "has_output_bias": "decoder/projection/bias" in file.shapes,
        "layernorm_embedding": "decoder/layernorm_embedding/gamma" in file.shapes,
    }


def shape(file: CTranslate2File, name: str, n_dimensions: int) -> tuple[int, ...]:
    dimensions = file.shapes.get(name, ())
    if len(dimensions) != n_dimensions:
        raise RunError(f"{file.path} has no {name} with {n_dimensions} dimensions; regard has no such model")
    return dimensions


def scales(factor: float, file: CTranslate2File) -> bool:
    """A whole number says whether, another by how much."""
    if isinstance(factor, int):
        return bool(factor)
    root = math.sqrt(shape(file, "decoder/embeddings/weight", 2)[1])
    if factor != 1.0 and not math.isclose(factor, root, rel_tol=1e-6):
        raise RunError(f"{file.path} scales its embeddings by {factor}; regard scales by {root} or not at all")
    return factor != 1.0
