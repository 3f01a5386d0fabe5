"""The plain Vision Transformers of timm: config.json names an architecture, which says how many heads there are, and
`model_args` what differs from it."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from regard.checks import expect
from regard.config import Settings
from regard.errors import ConfigError
from regard.interop.families.family import Family, Imported, Weight, product
from regard.interop.families.labels import MOST, numbers
from regard.interop.families.preprocessing import read_pretrained, write_pretrained
from regard.interop.families.settings import Theirs, WordSetting
from regard.interop.families.tensor_forms import Form, shaped, stacked, without_first
from regard.interop.families.vit import SHAPE, grid, read_labels, read_square
from regard.models.vit import ViTConfig
from regard.nn.attention import BIASES
from regard.runs.recipe import Recipe
from regard.tasks.images.task import ImageLabelsConfig

EPS = 1e-6  # of timm's norms; no file says it
ACTIVATION = WordSetting(
    "act_layer",
    {"gelu": "gelu", "gelu_tanh": "gelu_tanh", "relu": "relu", "silu": "swish", "swish": "swish"},
    "gelu",
)
POOLINGS = {"token": "first", "avg": "mean"}
BLOCK = {
    "norm1": "attention_residual.norm",
    "attn.proj": "attention.to_output",
    "norm2": "feed_forward_residual.norm",
    "mlp.fc1": "feed_forward.expand",
    "mlp.fc2": "feed_forward.contract",
}


class Size(NamedTuple):
    d_model: int
    n_layers: int
    n_heads: int
    ratio: float = 4.0  # of d_ff to d_model


SIZES = {
    "tiny": Size(192, 12, 3),
    "small": Size(384, 12, 6),
    "base": Size(768, 12, 12),
    "large": Size(1024, 24, 16),
    "huge": Size(1280, 32, 16),
    "giant": Size(1408, 40, 16, 48 / 11),
    "gigantic": Size(1664, 48, 16, 64 / 13),
}
NAME = re.compile(rf"(?:vit|deit)_({'|'.join(SIZES)})_patch(\d{{1,3}})_(\d{{1,4}})")
SHAPING = {  # arguments that say what a model is, ...
    *("img_size", "patch_size", "in_chans", "num_classes", "global_pool", "embed_dim", "depth", "num_heads"),
    *("mlp_ratio", "qkv_bias", "class_token", "fc_norm", "act_layer"),
}
USUAL: Settings = {  # ... those that regard's ViT has in one way only, ...
    "qk_norm": False,
    "scale_attn_norm": False,
    "scale_mlp_norm": False,
    "proj_bias": True,
    "init_values": None,
    "pos_embed": "learn",
    "no_embed_class": False,
    "reg_tokens": 0,
    "pre_norm": False,
    "final_norm": True,
    "pool_include_prefix": False,
    "dynamic_img_size": False,
    "dynamic_img_pad": False,
}
TRAINING = {  # ... and those that matter in training alone
    *("drop_rate", "pos_drop_rate", "patch_drop_rate", "proj_drop_rate", "attn_drop_rate", "drop_path_rate"),
    *("weight_init", "fix_init"),
}


def is_timm(settings: Settings) -> bool:
    """transformers names a model_type."""
    return "architecture" in settings and "model_type" not in settings


def read_config(theirs: Theirs) -> Imported:
    name = theirs.settings["architecture"]
    match = NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        known = f"vit_SIZE_patchN_N or deit_SIZE_patchN_N, where SIZE is {', '.join(SIZES)}"
        raise ConfigError(f"architecture = {str(name)[:80]!r} is not a plain ViT of timm that regard knows: {known}")
    size, patch, side = SIZES[match[1]], int(match[2]), int(match[3])
    given, args = table(theirs, "pretrained_cfg"), table(theirs, "model_args")
    check_arguments(args)
    pixels = read_square(args, "img_size", read_input(given, side))
    class_row = args.flag("class_token", True)
    d_model = args.width("embed_dim", size.d_model)
    ratio = args.number("mlp_ratio", size.ratio)
    if not 0 < d_model * ratio <= theirs.n_weights:
        raise ConfigError(f"mlp_ratio must be above 0 and fit these files, got {ratio:g}")
    model = SHAPE | grid(theirs, pixels, read_square(args, "patch_size", patch))
    model |= {
        "d_model": d_model,
        "n_layers": args.layers("depth", size.n_layers),
        "n_heads": args.width("num_heads", size.n_heads),
        "d_ff": int(d_model * ratio),
        "dropout": 0.0,
        "feed_forward": ACTIVATION.read(args),
        "norm_eps": EPS,
        "class_row": class_row,
        "bias": "all" if args.flag("qkv_bias", True) else "outputs",
    }
    made = read_pretrained(given, pixels)
    pooling = read_pooling(given, args, class_row)
    labels = read_names(theirs, given, args)
    return Imported(model | made.model, "images", labels | made.task | {"pooling": pooling})


def table(theirs: Theirs, name: str) -> Theirs:
    value = theirs.get(name, {} if name == "model_args" else None)
    if not isinstance(value, dict):
        hint = "regard reads mean, std, input_size, crop_pct and interpolation there"
        raise ConfigError(f"config.json of timm has no table {name}; {hint}")
    return theirs.within(value)


def check_arguments(args: Theirs) -> None:
    unknown = args.settings.keys() - SHAPING - USUAL.keys() - TRAINING
    if unknown:
        raise ConfigError(f"model_args.{min(unknown)} is something that regard lacks; nothing was imported")
    args.expect(**USUAL, in_chans=3)


def read_input(given: Theirs, default: int) -> int:
    """The size of images that timm would make the model for."""
    size = given.get("input_size", [3, default, default])
    if not isinstance(size, list) or len(size) != 3 or type(size[1]) is not int:
        raise ConfigError(f"input_size in pretrained_cfg must be three whole numbers, got {str(size)[:80]}")
    return size[1] if given.flag("fixed_input_size", False) else default


def read_pooling(given: Theirs, args: Theirs, class_row: bool) -> str:
    word = str(args.get("global_pool", given.get("global_pool", "token")))
    if word not in POOLINGS:
        raise ConfigError(f"global_pool = {word[:80]!r} is something that regard lacks: it must be token or avg")
    if args.flag("fc_norm", word == "avg"):
        raise ConfigError("fc_norm, a norm after the pooling, is something that regard lacks: it must be false")
    if (word == "token") != class_row:
        raise ConfigError(
            f"global_pool = {word!r} with class_token = {class_row} is something that regard lacks: it reads the class "
            "token, or the mean of all rows where there is none"
        )
    return POOLINGS[word]


def read_names(theirs: Theirs, given: Theirs, args: Theirs) -> dict[str, object]:
    n = 0
    for settings in (given, theirs, args):  # the last one counts
        n = settings.integer("num_classes", n, MOST, least=0)
    if n < 2:
        raise ConfigError(f"num_classes = {n}: regard reads a ViT that gives one of several labels")
    names = theirs.get("label_names", given.get("label_names", None))
    if isinstance(names, dict):
        names = [names.get(str(i)) for i in range(n)]
    if names is None:
        return {"labels": numbers(n), "names": ()}
    if not isinstance(names, list) or len(names) != n or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"label_names must be {n:,} names, as many as num_classes; got {str(names)[:80]}")
    return read_labels(tuple(names))


def write_config(recipe: Recipe) -> dict[str, object]:
    model, task = expect(recipe.model, ViTConfig), expect(recipe.task, ImageLabelsConfig)
    for name, value in SHAPE.items():
        if (got := getattr(model, name)) != value:
            raise ConfigError(f"timm needs model.{name} = {value!r}, and this run has {got!r}")
    pooling = {"first": "token", "mean": "avg"}.get(task.pooling)
    if pooling is None or (pooling == "token") != model.class_row:
        pair = f"task.pooling = {task.pooling!r} with model.class_row = {str(model.class_row).lower()}"
        raise ConfigError(f"timm reads the class row, or the mean where there is none; this run has {pair}")
    if not BIASES[model.bias][1]:
        raise ConfigError(f"timm needs model.bias = 'all' or 'outputs', and this run has {model.bias!r}")
    arguments: dict[str, object] = {
        "img_size": model.side * model.patch,
        "patch_size": model.patch,
        "embed_dim": model.d_model,
        "depth": model.n_layers,
        "num_heads": model.n_heads,
        "mlp_ratio": ratio_of(model.d_ff, model.d_model),
        "qkv_bias": BIASES[model.bias][0],
        "act_layer": ACTIVATION.write(model.feed_forward, "timm"),
    }
    if not model.class_row:
        arguments |= {"class_token": False, "global_pool": pooling, "fc_norm": False}
    return {
        "architecture": "vit_base_patch16_224",
        "num_classes": task.n_labels,
        "num_features": model.d_model,
        "global_pool": pooling,
        "label_names": list(task.shown_labels),
        "model_args": arguments,
        "pretrained_cfg": write_pretrained(recipe)
        | {"num_classes": task.n_labels, "first_conv": "patch_embed.proj", "classifier": "head"},
    }


def ratio_of(d_ff: int, d_model: int) -> float:
    """By which timm multiplies d_model and rounds down."""
    ratio = d_ff / d_model
    return ratio if int(d_model * ratio) == d_ff else (d_ff + 0.5) / d_model


def weights(recipe: Recipe) -> Iterator[Weight]:
    c = expect(recipe.model, ViTConfig)
    d, n, p = c.d_model, c.grid.n_places, c.patch
    places: Form = without_first((n - 1, d))
    if c.class_row:
        yield Weight("cls_token", ("reader.embedding.class_vector",), shaped((1, 1, d), (d,)))
        places = shaped((1, n, d), (n, d))
    yield Weight("pos_embed", ("reader.position.table",), places)
    yield from product("patch_embed.proj", "reader.embedding.project", shaped((d, c.channels, p, p), (d, 3 * p * p)))
    for i in range(c.n_layers):
        theirs, ours = f"blocks.{i}", f"reader.blocks.{i}"
        for part in ("weight", "bias") if BIASES[c.bias][0] else ("weight",):
            inputs = tuple(f"{ours}.attention.{name}.{part}" for name in ("to_queries", "to_keys", "to_values"))
            yield Weight(f"{theirs}.attn.qkv.{part}", inputs, stacked((d,) * 3))
        for name, own in BLOCK.items():
            yield from product(f"{theirs}.{name}", f"{ours}.{own}")
    yield from product("norm", "reader.norm")
    yield from product("head", "to_labels")


def with_their_eps(config: ViTConfig, tensors: Mapping[str, Tensor]) -> tuple[ViTConfig, dict[str, Tensor]]:
    """The same model with timm's number in its norms: (x - m) / sqrt(v + e) stays as it is if all that is added up to x
    is multiplied by sqrt(e' / e) and e becomes e'."""
    if config.norm_eps == EPS:
        return config, dict(tensors)
    factor = math.sqrt(EPS / config.norm_eps)
    added = ("reader.embedding.", "reader.position.table")
    ends = tuple(f".{name}.{part}" for name in ("to_output", "contract") for part in ("weight", "bias"))
    scaled = {
        name: tensor * factor if name.startswith(added) or name.endswith(ends) else tensor
        for name, tensor in tensors.items()
    }
    return replace(config, norm_eps=EPS), scaled


TIMM = Family(
    read_config=read_config,
    write_config=write_config,
    weights=weights,
    architecture="vit",
    reads_images=True,
)
