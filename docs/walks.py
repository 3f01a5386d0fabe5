"""docs/walk.md: a sentence and a batch, followed through the code; every stop is a function with a link to its line."""

import ast
import tomllib
from functools import cache
from pathlib import Path

from docs.code_map import ROOT, parsed
from docs.writing import wrapped

MOST = 25  # stops of a walk

PAGE = """\
# A walk through the code

Two walks, written down so that you can follow them in an editor: one sentence from the command line to its printed
translation, and one batch through a step of training. A stop is a function that changes the value; each links to its
line. `make docs` writes this page from `docs/walk.toml`, and a test runs both and checks that the stops are
passed in this order.

{walks}
"""


@cache
def walks() -> dict[str, dict[str, object]]:
    return tomllib.loads((ROOT / "docs" / "walk.toml").read_text(encoding="utf-8"))


def stops(name: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = walks()[name]["stops"]  # type: ignore[assignment]
    return found


def line_of(place: str) -> int:
    """The line of "regard/nn/blocks.py:EncoderBlock.forward"."""
    path, _, names = place.partition(":")
    body: list[ast.stmt] = parsed()[Path(path)].body
    line = 0
    for name in names.split("."):
        node = next((node for node in body if getattr(node, "name", None) == name), None)
        if node is None:
            raise LookupError(f"docs/walk.toml: there is no {place}")
        body, line = node.body, node.lineno  # type: ignore[attr-defined]
    return line


def section(name: str) -> str:
    walk = walks()[name]
    rows = [f"## {walk['title']}", "", wrapped(str(walk["before"])), ""]
    for number, stop in enumerate(stops(name), start=1):
        path, _, function = stop["at"].partition(":")
        rows.append(wrapped(f"{number}. [`{function}`](../{path}#L{line_of(stop['at'])}): {stop['does']}"))
    return "\n".join([*rows, "", wrapped(str(walk["after"]))])


def page() -> str:
    return PAGE.format(walks="\n\n".join(section(name) for name in walks()))


def gaps() -> list[str]:
    """Stops that are not in the code, and walks that are too long."""
    problems = [f"docs/walk.toml: {name} has {len(stops(name))} stops" for name in walks() if len(stops(name)) > MOST]
    for name in walks():
        for stop in stops(name):
            try:
                line_of(stop["at"])
            except LookupError as problem:
                problems.append(str(problem))
    return problems
