"""The data sets that shipped recipes name (sets.toml): what each is, where it can be had, and the sums of its files."""

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from regard import config

DEMO = Path("runs/demo/data")  # where the recipe `demo` looks
TABLE = Path(__file__).with_name("sets.toml")


@dataclass(frozen=True, kw_only=True)
class DataSet:
    name: str
    what: str
    size: str = ""
    license: str = ""
    home: str = ""
    get: str = ""  # in which form, and who else has it
    own_form: bool = False  # the original download is in another form, so its sums say nothing
    make: str = ""  # the command that generates it
    files: dict[str, str] = field(default_factory=dict)  # SHA-256 of what is in them, unpacked; "": not known

    def is_in(self, root: Path) -> bool:
        return all((root / self.name / file).is_file() for file in self.files)


@cache
def data_sets() -> dict[str, DataSet]:
    tables = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {name: DataSet(name=name, **table) for name, table in tables.items()}


@cache
def recipes_with() -> dict[str, list[str]]:
    """The recipes that name each data set."""
    recipes_of: dict[str, list[str]] = {name: [] for name in data_sets()}
    for recipe in config.shipped_recipes():
        for name in sets_of(config.load(recipe)):
            recipes_of[name].append(recipe)
    return recipes_of


def sets_of(settings: config.Settings) -> list[str]:
    """The data sets that a recipe names."""
    data = settings.get("data", {})
    files = [file for part in ("train", "valid", "test") for file in data.get(part, [])]
    return [name for name in dict.fromkeys(file.split("/")[0] for file in files) if name in data_sets()]


def how_to_get(path: Path) -> str:
    """What to do where a file of a known data set is missing; "" of any other file."""
    if path.parent == DEMO:
        return "`regard demo` generates it"
    known = data_sets().get(path.parent.name)
    if known is None or path.name not in known.files:
        return ""
    root = path.parent.parent
    if known.make:
        return f"it is generated: {known.make.replace(f'data/{known.name}', str(path.parent))}"
    elsewhere = "" if str(root) == "data" else f" --root {root}"
    return (
        f"`regard data {known.name}` says where it can be had, and `regard data {known.name} --from FOLDER{elsewhere}` "
        "puts it there; if you have it elsewhere, set data.root to the folder above it"
    )
