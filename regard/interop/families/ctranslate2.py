"""CTranslate2: which of its variables are which weights of ours, in encoder-decoders and in stacks that write."""

from collections.abc import Iterator
from typing import NamedTuple

from regard.checks import expect
from regard.config import Settings
from regard.errors import ConfigError, RunError
from regard.interop.families.family import Family, Imported, Weight
from regard.interop.families.settings import Theirs, exchange_of
from regard.interop.families.tensor_forms import AS_IS, Form, stacked
from regard.models.transformer import TransformerConfig
from regard.nn.attention import BIASES
from regard.runs.recipe import Recipe

FUNCTIONS = ("RELU", "GELUTanh", "SWISH", "GELU")  # by their number
ACTIVATIONS = {  # of a feed-forward net: the function, and whether it gates
    "relu": ("RELU", False),
    "gelu": ("GELU", False),
    "gelu_tanh": ("GELUTanh", False),
    "swish": ("SWISH", False),
    "swiglu": ("SWISH", True),
    "geglu": ("GELUTanh", True),
}
ADDED = ("none", "sinusoidal", "sinusoidal_halves", "learned")  # positions that are a table
EPSILONS = {"layer": 1e-5, "rms": 1e-6}  # of a norm, where the settings name none
COPIES = (
    ("decoder/projection/weight", "decoder/embeddings/weight"),
    ("encoder/embeddings_0/weight", "decoder/embeddings/weight"),
)


class SideNames(NamedTuple):
    """The names of our parts of an encoder or a decoder."""

    blocks: str
    position: str
    embedding_norm: str
    norm: str


ENCODER = SideNames("encoder", "source_position", "source_norm", "encoder_norm")
DECODER = SideNames("decoder", "target_position", "target_norm", "decoder_norm")
STACK = SideNames("reader.blocks", "reader.position", "reader.embedding_norm", "reader.norm")


def read_config(theirs: Theirs) -> Imported:
    """What the shapes say (see `settings_of`) is as it is; numbers of a file are checked."""
    kind = FUNCTIONS[theirs.integer("activation", None, len(FUNCTIONS) - 1, least=0)], theirs.flag("gates", False)
    nets = [net for net, made_of in ACTIVATIONS.items() if made_of == kind]
    if not nets:
        raise ConfigError(f"activation = {kind[0]} with a gate is not something that regard's models do")
    model: Settings = {name: theirs.get(name, None) for name in ("position", "score", "norm", "bias")}
    model |= {
        "d_model": theirs.width("d_model"),
        "n_heads": theirs.width("num_heads"),
        "n_layers": theirs.layers("n_layers"),
        "d_ff": theirs.width("d_ff"),
        "max_length": theirs.length("max_length"),
        "vocab_size": theirs.width("vocab_size"),
        "n_buckets": theirs.width("n_buckets"),
        "furthest": theirs.length("furthest"),
        "feed_forward": nets[0],
        "pre_norm": bool(theirs.integer("pre_norm", None, 1, least=0)),
        "norm_eps": theirs.number("layer_norm_epsilon", EPSILONS[model["norm"]]),
        "scale_embedding": theirs.flag("scale_embedding", True),
        "embedding_norm": theirs.flag("layernorm_embedding", False),
        "tied": theirs.flag("tied", True),
        "output_bias": theirs.flag("has_output_bias", False),
    }
    d_head, n_key_heads = theirs.width("d_head"), theirs.width("n_key_heads")
    model["d_head"] = 0 if d_head * model["n_heads"] == model["d_model"] else d_head
    model["n_key_heads"] = 0 if n_key_heads == model["n_heads"] else n_key_heads
    starts_empty = theirs.flag("start_from_zero_embedding", False)
    task = {"target_start": model["vocab_size"] - 1 if starts_empty else theirs.token("decoder_start_id")}
    if "source_start" in theirs.settings:
        task["source_start"] = theirs.token("source_start")
    return Imported(model, "translation", task)


def write_config(recipe: Recipe) -> dict[str, object]:
    raise RunError("to write for CTranslate2: regard export RUN --to ctranslate2 FOLDER")


def weights(recipe: Recipe) -> Iterator[Weight]:
    """The table of a position is what it adds to the embeddings, also where we compute it."""
    c = expect(recipe.model, TransformerConfig)
    if exchange_of(recipe).translates:
        yield Weight("decoder/embeddings/weight", ("embedding.weight",))
        if c.output_bias:
            yield Weight("decoder/projection/bias", ("output_bias",))
        yield from side("encoder", ENCODER, c)
        yield from side("decoder", DECODER, c)
    else:
        yield Weight("decoder/embeddings/weight", ("reader.embedding.weight",))
        yield from side("decoder", STACK, c)
    if not c.tied:
        yield Weight("decoder/projection/weight", ("own_table",))


def side(theirs: str, ours: SideNames, c: TransformerConfig) -> Iterator[Weight]:
    if c.position in ADDED:
        yield Weight(f"{theirs}/position_encodings/encodings", (f"{ours.position}.table",))
    if c.embedding_norm:
        yield from norm(f"{theirs}/layernorm_embedding", ours.embedding_norm, c)
    if c.pre_norm:
        yield from norm(f"{theirs}/layer_norm", ours.norm, c)
    for i in range(c.n_layers):
        if c.position == "buckets":
            yield Weight(f"{theirs}/layer_{i}/self_attention/relative_attention_bias", (f"{ours.position}.table",))
        yield from block(f"{theirs}/layer_{i}", f"{ours.blocks}.{i}", c, crosses=ours is DECODER)


def block(theirs: str, ours: str, c: TransformerConfig, crosses: bool) -> Iterator[Weight]:
    inputs = ("to_queries", "to_keys", "to_values")
    yield from attention(f"{theirs}/self_attention", f"{ours}.attention", [inputs], c)
    if crosses:
        yield from attention(f"{theirs}/attention", f"{ours}.cross_attention", [inputs[:1], inputs[1:]], c)
    gates = ACTIVATIONS[c.feed_forward][1]
    net = {"linear_0": "gate", "linear_0_noact": "expand"} if gates else {"linear_0": "expand"}
    for name, own in {**net, "linear_1": "contract"}.items():
        yield from linear(f"{theirs}/ffn/{name}", [f"{ours}.feed_forward.{own}"], has_bias=BIASES[c.bias][1])
    yield from norm(f"{theirs}/ffn/layer_norm", f"{ours}.feed_forward_residual.norm", c)


def attention(theirs: str, ours: str, inputs: list[tuple[str, ...]], c: TransformerConfig) -> Iterator[Weight]:
    """Products of one input lie in one matrix."""
    width, n_shared = c.heads.width, c.heads.shared
    sizes = {"to_queries": c.n_heads * width, "to_keys": n_shared * width, "to_values": n_shared * width}
    for i, group in enumerate(inputs):
        form = stacked(tuple(sizes[name] for name in group))
        yield from linear(f"{theirs}/linear_{i}", [f"{ours}.{name}" for name in group], BIASES[c.bias][0], form)
    yield from linear(f"{theirs}/linear_{len(inputs)}", [f"{ours}.to_output"], BIASES[c.bias][1])
    yield from norm(f"{theirs}/layer_norm", f"{ours}_residual.norm", c)
    if c.norm_heads:
        yield Weight(f"{theirs}/q_norm/gamma", (f"{ours}.norm_queries.weight",))
        yield Weight(f"{theirs}/k_norm/gamma", (f"{ours}.norm_keys.weight",))


def linear(theirs: str, ours: list[str], has_bias: bool, form: Form = AS_IS) -> Iterator[Weight]:
    for part in ("weight", "bias") if has_bias else ("weight",):
        yield Weight(f"{theirs}/{part}", tuple(f"{name}.{part}" for name in ours), form)


def norm(theirs: str, ours: str, c: TransformerConfig) -> Iterator[Weight]:
    yield Weight(f"{theirs}/gamma", (f"{ours}.weight",))
    if c.norm == "layer":
        yield Weight(f"{theirs}/beta", (f"{ours}.bias",))


CTRANSLATE2 = Family(
    read_config=read_config,
    write_config=write_config,
    weights=weights,
    architecture="transformer",
    copies=COPIES,
)
