"""The Vision Transformer (Dosovitskiy et al. 2021) in transformers: a stack over patches that reads a label off the row
of its class token."""

from collections.abc import Iterator

from regard.checks import expect
from regard.errors import ConfigError
from regard.interop.families.family import Family, Imported, Weight, product
from regard.interop.families.labels import label_names, name_settings, numbers, told_apart
from regard.interop.families.preprocessing import PROCESSOR, read_processor, write_processor
from regard.interop.families.settings import PLAIN, SettingsTable, SharedSetting, Theirs, WordSetting
from regard.interop.families.tensor_forms import shaped
from regard.models.vit import ViTConfig
from regard.nn.attention import BIASES
from regard.runs.recipe import Recipe
from regard.tasks.exchange import IMAGE_LABELS
from regard.tasks.images.task import ImageLabelsConfig

TANH = dict.fromkeys(("gelu_new", "gelu_fast", "gelu_pytorch_tanh"), "gelu_tanh")
ACTIVATIONS = {"gelu": "gelu", **TANH, "relu": "relu", "silu": "swish", "swish": "swish"}
BLOCK = {
    "layernorm_before": "attention_residual.norm",
    "attention.output.dense": "attention.to_output",
    "layernorm_after": "feed_forward_residual.norm",
    "intermediate.dense": "feed_forward.expand",
    "output.dense": "feed_forward.contract",
}
INPUTS = {"query": "to_queries", "key": "to_keys", "value": "to_values"}
# What transformers 5 calls them in memory; its files keep the older names.
NEWER = (
    (r"encoder\.layer\.", "layers."),
    (r"attention\.attention\.(query|key|value)", r"attention.\1"),
    (r"attention\.query", "attention.q_proj"),
    (r"attention\.key", "attention.k_proj"),
    (r"attention\.value", "attention.v_proj"),
    (r"attention\.output\.dense", "attention.o_proj"),
    (r"intermediate\.dense", "mlp.fc1"),
    (r"output\.dense", "mlp.fc2"),
)
# What every plain ViT has, whichever tool it is of; of the settings of attention, biases may differ.
SHAPE = {name: value for name, value in PLAIN.items() if name != "bias"} | {
    "causal": False,
    "pre_norm": True,
    "position": "learned",
    "norm": "layer",
    "channels": 3,
    "convolutions": False,
}
SETTINGS = SettingsTable(
    model_type="vit",
    classes={IMAGE_LABELS.head: "ViTForImageClassification"},
    shape=SHAPE | {"class_row": True},
    table={
        "d_model": SharedSetting("hidden_size", default=768),
        "n_heads": SharedSetting("num_attention_heads", default=12),
        "n_layers": SharedSetting("num_hidden_layers", Theirs.layers, 12),
        "d_ff": SharedSetting("intermediate_size", default=3072),
        "dropout": SharedSetting("hidden_dropout_prob", Theirs.number, 0.0),
        "feed_forward": WordSetting("hidden_act", ACTIVATIONS, "gelu"),
        "norm_eps": SharedSetting("layer_norm_eps", Theirs.number, 1e-12),
    },
)


def read_config(theirs: Theirs) -> Imported:
    theirs.expect(num_channels=3)
    if theirs.made_by not in ("", SETTINGS.classes[IMAGE_LABELS.head]):
        wanted = SETTINGS.classes[IMAGE_LABELS.head]
        raise ConfigError(f"a {theirs.made_by} has no labels, and regard reads a ViT that classifies images ({wanted})")
    model = SETTINGS.read(theirs)
    if (d_head := theirs.width("head_dim", model["d_model"] // model["n_heads"] or 1)) * model["n_heads"] != model[
        "d_model"
    ]:
        raise ConfigError(f"head_dim = {d_head} is not hidden_size / num_attention_heads, which regard's ViT has")
    names = label_names(theirs)
    if len(names) < 2 or theirs.settings.get("problem_type") not in (None, "single_label_classification"):
        raise ConfigError("regard reads a ViT that gives one of several labels, not a number or several labels at once")
    size, patch = read_square(theirs, "image_size", 224), read_square(theirs, "patch_size", 16)
    model |= grid(theirs, size, patch) | {"bias": "all" if theirs.flag("qkv_bias", True) else "outputs"}
    pixels = read_processor(theirs.within(expect(theirs.settings[PROCESSOR], dict)), size)
    return Imported(model | pixels.model, "images", read_labels(names) | pixels.task | {"pooling": "first"})


def read_square(theirs: Theirs, name: str, default: int) -> int:
    """Pixels of a side: a number, or two that are equal."""
    value = theirs.get(name, default)
    if isinstance(value, list) and len(value) == 2 and value[0] == value[1]:
        value = value[0]
    if type(value) is not int or not 1 <= value <= 8192:
        raise ConfigError(f"{name} must be a whole number from 1 to 8,192, of a square; got {str(value)[:80]}")
    return value


def grid(theirs: Theirs, size: int, patch: int) -> dict[str, object]:
    """How the model reads images.  There is a vector for each patch, and a number for each pixel of one."""
    if size % patch:
        raise ConfigError(f"images of {size} pixels are not whole patches of {patch}: regard would read the rest, too")
    side = size // patch
    if max(side**2, 3 * patch**2) > theirs.n_weights:
        raise ConfigError(f"{side**2:,} patches of {3 * patch**2:,} numbers are more than these files hold")
    return {"side": side, "patch": patch, "max_length": 1 + side**2}


def read_labels(names: tuple[str, ...]) -> dict[str, object]:
    """Labels are numbers here too, with their names beside them."""
    return {"labels": numbers(len(names)), "names": told_apart(names)}


def write_config(recipe: Recipe) -> dict[str, object]:
    model, task = expect(recipe.model, ViTConfig), expect(recipe.task, ImageLabelsConfig)
    settings = SETTINGS.write(recipe)
    if task.pooling != "first":
        raise ConfigError(f"vit needs task.pooling = 'first', and this run has {task.pooling!r}")
    if not BIASES[model.bias][1]:
        raise ConfigError(f"vit needs model.bias = 'all' or 'outputs', and this run has {model.bias!r}")
    return {
        **settings,
        **name_settings(task.shown_labels),
        "num_channels": model.channels,
        "image_size": model.side * model.patch,
        "patch_size": model.patch,
        "encoder_stride": model.patch,
        "qkv_bias": BIASES[model.bias][0],
        "attention_probs_dropout_prob": 0.0,
        PROCESSOR: write_processor(recipe),
    }


def weights(recipe: Recipe) -> Iterator[Weight]:
    c = expect(recipe.model, ViTConfig)
    d, n, p = c.d_model, c.grid.n_places, c.patch
    yield Weight("vit.embeddings.cls_token", ("reader.embedding.class_vector",), shaped((1, 1, d), (d,)))
    yield Weight("vit.embeddings.position_embeddings", ("reader.position.table",), shaped((1, n, d), (n, d)))
    form = shaped((d, c.channels, p, p), (d, c.grid.d_patch))
    yield from product("vit.embeddings.patch_embeddings.projection", "reader.embedding.project", form)
    for i in range(c.n_layers):
        theirs, ours = f"vit.encoder.layer.{i}", f"reader.blocks.{i}"
        for name, own in INPUTS.items():
            yield from product(
                f"{theirs}.attention.attention.{name}", f"{ours}.attention.{own}", bias=BIASES[c.bias][0]
            )
        for name, own in BLOCK.items():
            yield from product(f"{theirs}.{name}", f"{ours}.{own}")
    yield from product("vit.layernorm", "reader.norm")
    yield from product("classifier", "to_labels")


VIT = Family(
    read_config=read_config,
    write_config=write_config,
    weights=weights,
    architecture="vit",
    beside=PROCESSOR,
    reads_images=True,
    prefix="vit.",
    heads=(r"(vit\.)?pooler\..*", r"(vit\.)?embeddings\.mask_token"),
    renamed=NEWER,
)
