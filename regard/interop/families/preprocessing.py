"""How other tools make pixels of an image file, in our words and back: transformers' preprocessor_config.json, and
`pretrained_cfg` in the config.json of timm."""

import math
from typing import Any, NamedTuple

from regard.checks import expect
from regard.config import Settings
from regard.errors import ConfigError
from regard.interop.families.settings import Theirs, WordSetting
from regard.models.vit import ViTConfig
from regard.runs.recipe import Recipe
from regard.tasks.images.task import ImageLabelsConfig

PROCESSOR = "preprocessor_config.json"
PROCESSORS = ("ViTImageProcessor", "ViTImageProcessorFast", "ViTImageProcessorPil", "ViTFeatureExtractor")
FILTERS = {2: "bilinear", 3: "bicubic", 1: "lanczos"}  # by PIL's numbers
READ = {  # settings of such a file that are read here ...
    *("image_processor_type", "feature_extractor_type", "do_resize", "size", "default_to_square", "resample"),
    *("do_center_crop", "crop_size", "do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std"),
}
SILENT = {  # ... and that change no pixel: a pipeline always reads colors
    *("do_convert_rgb", "data_format", "input_data_format", "device", "return_tensors", "disable_grouping"),
    *("image_seq_length", "processor_class", "use_fast", "_valid_processor_keys", "transformers_version"),
}
TIMM_FILTER = WordSetting("interpolation", {name: name for name in FILTERS.values()}, "bicubic")
CROPS = {"center": "crop", "squash": "stretch"}
# What timm takes where a pretrained_cfg does not say.
IMAGENET_MEAN, IMAGENET_DEVIATION, CROP_SHARE = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), 0.875
HALF = (0.5, 0.5, 0.5)  # what transformers takes


class PixelSettings(NamedTuple):
    """Settings of our [model] table, and of our [task] table."""

    model: Settings
    task: Settings


def of_channels(theirs: Theirs, name: str, default: tuple[float, ...]) -> tuple[float, ...]:
    """A number for each of three channels, or one for all."""
    values: Any = theirs.get(name, list(default))
    listed = values if isinstance(values, list) else [values]
    numbers = [float(value) for value in listed if type(value) in (int, float) and math.isfinite(value)]
    if len(listed) not in (1, 3) or len(numbers) != len(listed):
        raise ConfigError(f"{name} must be a number or a list of three, got {str(values)[:80]}")
    return tuple(numbers * (3 // len(numbers)))


def check_size(name: str, size: int, of_model: int) -> None:
    if size != of_model:
        raise ConfigError(f"{name} makes images of {size} pixels, and the model reads {of_model}; fix one of them")


def share_of(size: int, shortest: int) -> float:
    """What `Resizing.crop_share` must be, so that the shortest side becomes exactly that."""
    share = size / shortest
    return share if int(size / share) == shortest else size / (shortest + 0.5)


# transformers.


def read_processor(theirs: Theirs, size: int) -> PixelSettings:
    """Of a model that reads `size` x `size` pixels."""
    kind = theirs.settings.get("image_processor_type") or theirs.settings.get("feature_extractor_type") or PROCESSORS[0]
    if kind not in PROCESSORS:
        raise ConfigError(f"image_processor_type = {kind!r} is not known here; it must be {' or '.join(PROCESSORS)}")
    unknown = [name for name in theirs.settings.keys() - READ - SILENT if theirs.settings[name] not in (None, False)]
    if unknown:
        name = min(unknown)
        raise ConfigError(f"{name} = {str(theirs.settings[name])[:80]} in {PROCESSOR} is something that regard lacks")
    for name in ("do_resize", "do_rescale"):
        if not theirs.flag(name, True):
            raise ConfigError(f"{name} = false in {PROCESSOR} is something that regard lacks: it must be true")
    factor = theirs.number("rescale_factor", 1 / 255)
    if abs(factor * 255 - 1) > 1e-6:
        raise ConfigError(f"rescale_factor = {factor:g} is something that regard lacks: it must be 1/255")
    number = theirs.get("resample", 2)
    if type(number) is not int or number not in FILTERS:
        names = ", ".join(f"{number} ({name})" for number, name in FILTERS.items())
        raise ConfigError(f"resample must be one of {names}; got {str(number)[:80]}")
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    deviation: tuple[float, ...] = (1.0, 1.0, 1.0)
    if theirs.flag("do_normalize", True):
        mean, deviation = of_channels(theirs, "image_mean", HALF), of_channels(theirs, "image_std", HALF)
    resizing = read_resizing(theirs, size)
    return PixelSettings({"mean": mean, "deviation": deviation}, {**resizing, "filter": FILTERS[number]})


def read_resizing(theirs: Theirs, of_model: int) -> Settings:
    sizes = read_sizes(theirs, "size", 224)
    is_cut = theirs.flag("do_center_crop", False)
    cut = read_sizes(theirs, "crop_size", of_model).get("height", 0) if is_cut else 0
    if "height" in sizes and (not is_cut or cut == sizes["height"]):
        check_size("size", sizes["height"], of_model)
        return {"size": of_model, "resize": "stretch"}
    if "shortest_edge" in sizes and 0 < cut <= sizes["shortest_edge"]:
        check_size("crop_size", cut, of_model)
        share = share_of(of_model, sizes["shortest_edge"])
        return {"size": of_model, "resize": "crop_floor", "crop_share": share}
    what = f"size = {theirs.settings.get('size')!r} with do_center_crop = {is_cut}".lower()
    raise ConfigError(
        f"{what} is something that regard lacks: images are resized to a square (height, width), or to a shortest_edge "
        "of which do_center_crop keeps a square"
    )


def read_sizes(theirs: Theirs, name: str, default: int) -> dict[str, int]:
    """{"height": n} of a square, or {"shortest_edge": n}."""
    value: Any = theirs.get(name, default)
    if isinstance(value, list):
        value = dict(zip(("height", "width"), value, strict=False))
    if not isinstance(value, dict):
        is_square = name != "size" or theirs.flag("default_to_square", True)
        value = {"height": value, "width": value} if is_square else {"shortest_edge": value}
    given = {key: n for key, n in value.items() if n is not None}
    for n in given.values():
        if type(n) is not int or not 1 <= n <= 8192:
            raise ConfigError(f"{name} must be a whole number from 1 to 8,192, got {str(n)[:80]}")
    if given.keys() == {"height", "width"} and given["height"] == given["width"]:
        return {"height": given["height"]}
    if given.keys() == {"shortest_edge"}:
        return given
    raise ConfigError(f"{name} = {str(value)[:80]} is something that regard lacks: a square or a shortest_edge is read")


def write_processor(recipe: Recipe) -> dict[str, object]:
    model, task = expect(recipe.model, ViTConfig), checked_task(recipe, "transformers", ("stretch", "crop_floor"))
    square = {"height": task.size, "width": task.size}
    is_cut = task.resize == "crop_floor"
    return {
        "image_processor_type": PROCESSORS[0],
        "do_resize": True,
        "size": {"shortest_edge": task.shortest} if is_cut else square,
        "resample": next(number for number, name in FILTERS.items() if name == task.filter),
        "do_center_crop": is_cut,
        "crop_size": square,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(model.mean * (3 // len(model.mean))),
        "image_std": list(model.deviation * (3 // len(model.deviation))),
    }


def checked_task(recipe: Recipe, tool: str, resizes: tuple[str, ...]) -> ImageLabelsConfig:
    """The settings of a task whose images come in the one size that the other tool's model reads."""
    model, task = expect(recipe.model, ViTConfig), expect(recipe.task, ImageLabelsConfig)
    if task.resize not in resizes:
        hint = ""
        if task.resize.startswith("crop"):
            hint = f"; change it in the run's recipe.toml to {resizes[-1]!r}, which moves the middle by a pixel at most"
        ways = " or ".join(map(repr, resizes))
        raise ConfigError(f"{tool} needs task.resize = {ways}, and this run has {task.resize!r}{hint}")
    if task.size != model.side * model.patch:
        whole = f"model.side * model.patch = {model.side * model.patch}"
        raise ConfigError(f"{tool} reads images of one size: task.size must be {whole}, and this run has {task.size}")
    return task


# timm.


def read_pretrained(theirs: Theirs, size: int) -> PixelSettings:
    mode = theirs.choice("crop_mode", CROPS, "center")
    share = theirs.number("crop_pct", CROP_SHARE)
    if not 0 < share <= 1:
        raise ConfigError(f"crop_pct must be above 0 and at most 1, got {share:g}")
    if mode == "stretch" and share != 1:
        raise ConfigError(
            f"crop_mode = 'squash' with crop_pct = {share:g} is something that regard lacks: it must be 1"
        )
    if theirs.get("input_size", None) != [3, size, size]:
        got = str(theirs.settings.get("input_size"))[:80]
        raise ConfigError(f"input_size in pretrained_cfg must be [3, {size}, {size}], which the model reads; got {got}")
    mean, deviation = of_channels(theirs, "mean", IMAGENET_MEAN), of_channels(theirs, "std", IMAGENET_DEVIATION)
    resizing = {"size": size, "resize": mode, "crop_share": share, "filter": TIMM_FILTER.read(theirs)}
    return PixelSettings({"mean": mean, "deviation": deviation}, resizing)


def write_pretrained(recipe: Recipe) -> dict[str, object]:
    model, task = expect(recipe.model, ViTConfig), checked_task(recipe, "timm", ("stretch", "crop"))
    return {
        "input_size": [3, task.size, task.size],
        "fixed_input_size": True,
        "interpolation": task.filter,
        "crop_mode": next(mode for mode, resize in CROPS.items() if resize == task.resize),
        "crop_pct": task.crop_share if task.resize == "crop" else 1.0,
        "mean": list(model.mean * (3 // len(model.mean))),
        "std": list(model.deviation * (3 // len(model.deviation))),
    }
