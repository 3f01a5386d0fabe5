"""Recipes are TOML; a setting that no dataclass declares is an error, never ignored."""

import dataclasses
import difflib
import json
import math
import reprlib
import tomllib
import types
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from regard.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
Settings = dict[str, Any]  # values as TOML and JSON have them; whoever reads one checks it

LARGEST = 10**18 - 1  # of whole numbers: every library takes 64 bits
# Settings that earlier versions had in another table: a run writes all of them out, and is to be read for good.
MOVED = {("distribution", "checkpointing"): ("training", "checkpointing")}
SHIPPED = Path(__file__).parent / "recipes"


def shipped_recipes() -> dict[str, Path]:
    return {path.stem: path for path in sorted(SHIPPED.glob("*.toml"), key=lambda path: path.stem)}


def find_recipe(name: str) -> Path:
    """A shipped name, a TOML file, or a run folder (which holds its own recipe)."""
    shipped = shipped_recipes()
    if name in shipped:
        return shipped[name]
    path = Path(name)
    if (path / "recipe.toml").is_file():
        return path / "recipe.toml"
    if path.is_file():
        return path
    near = difflib.get_close_matches(name, shipped, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"shipped: {', '.join(shipped)}"
    raise ConfigError(f"no recipe {name!r}: neither a shipped name nor a file; {hint}")


def load(name: str, overrides: Iterable[str] = ()) -> Settings:
    """Read a recipe and apply overrides such as "model.n_layers=4" (values are TOML)."""
    path = find_recipe(name)
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # ValueError: not UTF-8, not TOML, a number of 5,000 digits
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    follow_moves(settings)
    if path.parent == Path(name):
        use_own_data(settings, path.parent)
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not all(key.split(".")):
            raise ConfigError(f"--set needs table.name=value, got {override!r}")
        change(settings, key, parse(value), f"--set {override}")
    return settings


def follow_moves(settings: Settings) -> None:
    """Put what an earlier version wrote where it is looked for now; what is there already wins."""
    for (table, name), (to_table, to_name) in MOVED.items():
        if isinstance(settings.get(table), dict) and name in settings[table]:
            value, target_table = settings[table].pop(name), settings.setdefault(to_table, {})
            if isinstance(target_table, dict):
                target_table.setdefault(to_name, value)


def use_own_data(settings: Settings, run: Path) -> None:
    """A run that has all files of its recipe in its own folder RUN/data reads them there, wherever it was copied to."""
    data, inside = settings.get("data"), run / "data"
    if not isinstance(data, dict) or not inside.is_dir():
        return
    lists = [files for part in ("train", "valid", "test") if isinstance(files := data.get(part, []), list)]
    names = [Path(name) for files in lists for name in files if isinstance(name, str) and "\0" not in name]
    root = data.get("root", "data")
    if not names or not all((inside / name).exists() for name in names) or not isinstance(root, str):
        return
    if Path(root.replace("\0", "")).resolve() != inside.resolve():  # elsewhere; a name that fits stays as it is
        data["root"] = str(inside)


def change(settings: Settings, key: str, value: object, where: str) -> None:
    """Set "table.name" of a recipe."""
    *tables, last = key.split(".")
    table = settings
    for step in tables:
        table = table.setdefault(step, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{where}: {step!r} is a value, not a table")
    table[last] = value


def parse(text: str) -> object:
    """A TOML value, or the text itself when it is not one (so that names need no quotes)."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--set: {text[:40]!r}... is not a value: {error}") from None


def build(cls: type[T], settings: Settings, where: str) -> T:
    """Make the dataclass `cls` from one table of a recipe, refusing names and types it does not declare."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for name in settings:
        if name not in fields:
            near = difflib.get_close_matches(name, fields, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(fields)}"
            raise ConfigError(f"[{where}] has no setting {name!r}; {hint}")
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in settings:
            raise ConfigError(f"[{where}] needs a value for {name!r}")
    kinds = get_type_hints(cls)
    checked = {name: check(value, kinds[name], f"[{where}] {name}") for name, value in settings.items()}
    try:
        return cls(**checked)
    except ConfigError as error:
        raise ConfigError(f"[{where}] {error}") from None


def check(value: object, kind: type | types.UnionType | types.GenericAlias, where: str) -> object:
    """The value as `kind` (int, float, bool, str, tuple[str, ...] or a union with None)."""
    words = [word for part in get_args(kind) if get_origin(part) is Literal for word in get_args(part)]
    if words:  # a number, or a word that stands for one
        number = get_args(kind)[0]
        if type(value) is str and value not in words:
            raise ConfigError(f"{where} must be {number.__name__} or {words[0]!r}, got {reprlib.repr(value)}")
        return value if value in words else check(value, number, where)
    if isinstance(kind, types.UnionType):
        return check(value, next(k for k in get_args(kind) if k is not types.NoneType), where)
    if type(value) is int and not -LARGEST <= value <= LARGEST:
        raise ConfigError(f"{where} must be a number of at most 18 digits, got {str(value)[:40]}")
    if kind is float and type(value) is int:  # 1 is a fine way to write 1.0
        return float(value)
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where} must be a list, got {reprlib.repr(value)}")
        return tuple(check(item, get_args(kind)[0], where) for item in value)
    if type(value) is not kind:
        raise ConfigError(f"{where} must be {kind.__name__}, got {reprlib.repr(value)}")
    if type(value) is float and not math.isfinite(value):
        raise ConfigError(f"{where} must be a finite number, got {value}")
    return value


def as_settings(config: "DataclassInstance") -> Settings:
    """A dataclass as a table: the opposite of `build`.  None means "not set" and is left out."""
    return {name: value for name, value in dataclasses.asdict(config).items() if value is not None}


def write(tables: dict[str, Settings], path: Path) -> None:
    lines = []
    for table, settings in tables.items():
        lines += [f"[{table}]", *(f"{name} = {to_toml(value)}" for name, value in settings.items()), ""]
    path.write_text("\n".join(lines), encoding="utf-8")


def to_toml(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(to_toml(item) for item in value) + "]"
    if isinstance(value, float):
        return repr(value)
    # TOML writes strings, numbers and booleans as JSON does, but for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
