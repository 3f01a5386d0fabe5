"""An encoder-decoder of CTranslate2: its variables as weights of ours.  What it has and we do not is refused."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.errors import RunError
from regard.interop.families.family import Family, Imported, Theirs, Weight
from regard.interop.families.forms import AS_IS, Form, OneMore, Stacked
from regard.interop.formats.ctranslate2_file import CTranslate2File
from regard.interop.formats.safe import read_json
from regard.interop.formats.to_ctranslate2 import ACTIVATIONS
from regard.runs.recipe import Recipe
from regard.text.foreign import read_words

FUNCTIONS = ("RELU", "GELUTanh", "SWISH", "GELU")  # by their number
NEVER = -1e4  # the logit of a token that is not to be written, also in half precision
EPSILON = 1e-5  # where the settings name none
# Numbers that may be there and say nothing that we would do otherwise.
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
        said = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
        if said.get("add_source_bos") or said.get("add_source_eos") is False:
            raise RunError(f"{folder / 'config.json'} frames a source in a way that is not known here")
        self.config = settings_of(self.file) | {"layer_norm_epsilon": said.get("layer_norm_epsilon")}
        if not (folder / VOCABULARY).is_file():
            raise RunError(f"{folder} has no {VOCABULARY}; regard's translators have one for source and target")
        self.words = read_words(folder / VOCABULARY)
        if said.get("decoder_start_token") in self.words:
            self.config["decoder_start_id"] = self.words.index(said["decoder_start_token"])


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
        said = {name.removeprefix(f"{side}/"): n for name, n in file.settings.items() if name.startswith(f"{side}/")}
        for name in IGNORED:
            said.pop(name, None)
        for name, usual in PLAIN.items():
            if said.pop(name, usual) != usual:
                raise RunError(f"{file.path} has {side}/{name}, which regard's models have not; nothing was imported")
        said["scale_embedding"] = scales(said.pop("scale_embeddings", 1), file)
        layers = {re.match(rf"{side}/layer_(\d+)/", name) for name in file.shapes}
        sides.append({**said, "n_layers": len({found.group(1) for found in layers if found})})
    starts_empty = bool(sides[1].pop("start_from_zero_embedding", 0))
    if sides[0] != sides[1]:
        raise RunError(f"{file.path} has another encoder than decoder ({sides[0]}, {sides[1]}); regard's are alike")
    known = {"activation", "num_heads", "pre_norm", "scale_embedding", "n_layers"}
    if unknown := sorted(sides[0].keys() - known):
        raise RunError(f"{file.path} has the setting {unknown[0]}, which regard's models have not")
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
    found = file.shapes.get(name, ())
    if len(found) != n_dimensions:
        raise RunError(f"{file.path} has no {name} with {n_dimensions} dimensions; regard has no such model")
    return found


def read_config(theirs: Theirs) -> Imported:
    d_model = theirs.width("d_model")
    function = FUNCTIONS[theirs.integer("activation", None, len(FUNCTIONS) - 1, least=0)]
    starts_empty = theirs.flag("start_from_zero_embedding", False)
    model: dict[str, Any] = {
        "d_model": d_model,
        "n_heads": theirs.width("num_heads"),
        "n_layers": theirs.layers("n_layers"),
        "d_ff": theirs.width("d_ff"),
        "max_length": theirs.width("max_length"),
        "vocab_size": theirs.width("vocab_size"),
        "feed_forward": next(name for name, kind in ACTIVATIONS.items() if kind == (function, False)),
        "pre_norm": bool(theirs.integer("pre_norm", None, 1, least=0)),
        "norm_eps": theirs.number("layer_norm_epsilon", EPSILON),
        "scale_embedding": theirs.flag("scale_embedding", True),
        "position": "learned",  # a table that they wrote out, whatever it was made by
        "embedding_norm": theirs.flag("layernorm_embedding", False),
        "output_bias": theirs.flag("has_output_bias", False) or starts_empty,
    }
    start = model["vocab_size"] - 1 if starts_empty else theirs.token("decoder_start_id")
    return Imported("transformer", model, "translation", {"target_start": start})


def scales(said: float, file: CTranslate2File) -> bool:
    """A whole number says whether, another by how much."""
    if isinstance(said, int):
        return bool(said)
    root = math.sqrt(shape(file, "decoder/embeddings/weight", 2)[1])
    if said != 1.0 and not math.isclose(said, root, rel_tol=1e-6):
        raise RunError(f"{file.path} scales its embeddings by {said}; regard's are by {root} or not at all")
    return said != 1.0


def write_config(recipe: Recipe) -> dict[str, Any]:
    raise RunError("to write for CTranslate2: regard export RUN --to ctranslate2 FOLDER")


def weights(recipe: Recipe) -> Iterator[Weight]:
    c = recipe.model
    is_longer = recipe.task.target_start == c.vocab_size - 1 and c.output_bias
    more: Form = OneMore(0.0) if is_longer else AS_IS
    yield Weight("decoder/embeddings/weight", ("embedding.weight",), more)
    if c.output_bias:
        yield Weight("decoder/projection/bias", ("output_bias",), OneMore(NEVER) if is_longer else AS_IS)
    for side, name in (("encoder", "source"), ("decoder", "target")):
        yield Weight(f"{side}/position_encodings/encodings", (f"{name}_position.table",))
        if c.embedding_norm:
            yield from norm(f"{side}/layernorm_embedding", f"{name}_norm")
        if c.pre_norm:
            yield from norm(f"{side}/layer_norm", f"{side}_norm")
        for i in range(c.n_layers):
            yield from block(f"{side}/layer_{i}", f"{side}.{i}", side == "decoder", c.d_model)


def block(theirs: str, ours: str, is_decoder: bool, d_model: int) -> Iterator[Weight]:
    inputs = ("to_queries", "to_keys", "to_values")
    yield from products(f"{theirs}/self_attention", f"{ours}.attention", [inputs, ("to_output",)], d_model)
    yield from norm(f"{theirs}/self_attention/layer_norm", f"{ours}.attention_residual.norm")
    if is_decoder:
        groups = [inputs[:1], inputs[1:], ("to_output",)]
        yield from products(f"{theirs}/attention", f"{ours}.cross_attention", groups, d_model)
        yield from norm(f"{theirs}/attention/layer_norm", f"{ours}.cross_attention_residual.norm")
    for name, own in (("linear_0", "expand"), ("linear_1", "contract")):
        for part in ("weight", "bias"):
            yield Weight(f"{theirs}/ffn/{name}/{part}", (f"{ours}.feed_forward.{own}.{part}",))
    yield from norm(f"{theirs}/ffn/layer_norm", f"{ours}.feed_forward_residual.norm")


def products(theirs: str, ours: str, groups: list[tuple[str, ...]], d_model: int) -> Iterator[Weight]:
    """Products of one input lie in one matrix."""
    for i, group in enumerate(groups):
        form: Form = Stacked((d_model,) * len(group)) if len(group) > 1 else AS_IS
        for part in ("weight", "bias"):
            yield Weight(f"{theirs}/linear_{i}/{part}", tuple(f"{ours}.{name}.{part}" for name in group), form)


def norm(theirs: str, ours: str) -> Iterator[Weight]:
    yield Weight(f"{theirs}/gamma", (f"{ours}.weight",))
    yield Weight(f"{theirs}/beta", (f"{ours}.bias",))


CTRANSLATE2 = Family(
    read_config=read_config,
    write_config=write_config,
    weights=weights,
    copies=(
        ("decoder/projection/weight", "decoder/embeddings/weight"),
        ("encoder/embeddings_0/weight", "decoder/embeddings/weight"),
    ),
)
