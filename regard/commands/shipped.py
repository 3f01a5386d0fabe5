"""regard recipes: what is shipped, by task; regard data: what it learns from, and where that can be had."""

import tomllib
from pathlib import Path
from typing import Annotated

import typer

from regard import config
from regard.choose import choose
from regard.commands.lines import print_table
from regard.data.bringing import bring
from regard.data.sets import DataSet, data_sets, recipes_with, sets_of

MINUTES = Path(__file__).with_name("minutes.toml")  # of a whole training: on 2 CPU cores, on one H200
N_NEXT = 3  # recipes of a data set whose command is written out


def recipes() -> None:
    """List the shipped recipes by task, with the minutes they take; those that need no data come first."""
    settings = {name: config.load(name) for name in config.shipped_recipes()}
    groups: dict[str, list[str]] = {}
    for name, tables in settings.items():
        groups.setdefault(tables.get("task", {}).get("kind", "translation"), []).append(name)
    width = max(map(len, settings))
    minutes: dict[str, list[str]] = tomllib.loads(MINUTES.read_text(encoding="utf-8"))
    print(f"{'':{width}}  2 cores     GPU  minutes of a training (~: estimated); regard data NAME gets [data: NAME]")
    for kind, names in sorted(groups.items()):
        print(f"\n{kind}")
        needed = {name: needs(settings[name]) for name in names}
        for name in sorted(names, key=lambda name: (bool(needed[name]), name)):
            cores, gpu = minutes.get(name, ("", ""))
            print(f"{name:{width}}  {cores:>7} {gpu:>7}  {title(name)}{needed[name]}")


def needs(settings: config.Settings) -> str:
    """The data sets that a recipe needs and that no command generates."""
    names = [name for name in sets_of(settings) if not data_sets()[name].make]
    return f" [data: {', '.join(names)}]" if names else ""


def title(recipe: str) -> str:
    """The first line of a recipe says what it is."""
    return config.shipped_recipes()[recipe].read_text(encoding="utf-8").splitlines()[0].lstrip("# ")


def data(
    name: Annotated[str | None, typer.Argument(help="a data set; without it, all are listed")] = None,
    from_: Annotated[
        Path | None, typer.Option("--from", metavar="DIR|FILE", help="where you have it: a folder, a file, an archive")
    ] = None,
    root: Annotated[Path, typer.Option(help="the folder that recipes look in (data.root)")] = Path("data"),
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="take files of the right name, whatever their sums")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace files that differ")] = False,
) -> None:
    """List the data sets that recipes name, say where one can be had, or put it where recipes look."""
    if name is None:
        if from_ is not None:
            raise typer.BadParameter(f"say which data set is in {from_}: regard data NAME --from {from_}")
        list_sets(root)
        return
    known = choose(data_sets(), name, "data set")
    if from_ is None:
        describe(known, root)
        return
    states = bring(known, from_, root, unchecked, overwrite)
    print_table(("file", "what became of it"), list(states.items()), f"{root / known.name}")
    elsewhere = "" if root == Path("data") else f" --set data.root={root}"
    first, more = recipes_with()[known.name][:N_NEXT], recipes_with()[known.name][N_NEXT:]
    for recipe in first:
        print(f"next: regard train {recipe}{elsewhere}")
    if more:
        print(f"or:   {', '.join(more)}")


def list_sets(root: Path) -> None:
    """Those that people have to get first, then those that a command generates."""
    for known in sorted(data_sets().values(), key=lambda known: (bool(known.make), known.name)):
        place = f" (in {root}/)" if known.is_in(root) else ""
        print(f"{known.name}{place}: {known.what}")
        facts = (known.size, known.license and f"license: {known.license}", known.home, known.make)
        print("    " + "; ".join(fact for fact in facts if fact))
    print(
        "\nregard data NAME says more; regard data NAME --from DIR|FILE checks a copy and puts it where recipes look."
        "\nHome pages and licenses are as others quote them; read the license of a set before you use it."
    )


def describe(known: DataSet, root: Path) -> None:
    """What it is, where it can be had, and what is there."""
    facts = {
        "what": known.what,
        "size": known.size,
        "license": known.license,
        "home page": known.home,
        "form": known.get,
        "generate it": known.make,
        "recipes": ", ".join(recipes_with()[known.name]),
    }
    for what, text in facts.items():
        if text:
            print(f"{what:12} {text}")
    for file, digest in known.files.items():
        path = root / known.name / file
        print(f"{'file':12} {path}, {'there' if path.is_file() else 'not there'}, SHA-256 {digest or 'not known'}")
    if not known.make:
        print(f"regard data {known.name} --from DIR|FILE checks a copy and puts it there.")
