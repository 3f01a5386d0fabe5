"""A name means one thing: no two classes share one, and none differs from another by a plural alone."""

import ast
from collections import defaultdict
from pathlib import PurePath

from tests.trees import nodes, trees

# Classes and type aliases that share a name, or have one that is another's plural.
SAME_NAMES = {
    "Frame": "the tokens around a pair, and a data frame of another library",
    "Table": "a table that is printed, and a table of numbers in time",
}
PLURALS = {"Prompt": "a prompt, and a sequence of them, in signatures side by side"}
SAME_FILES = {
    "batch": "what all batches share, and in each folder of tasks its own",
    "forecast": "the command, and the errors of forecasts",
    "table": "the tasks and the games by name, and tables of numbers in time",
}


def is_type_name(name: str) -> bool:
    return len(name) > 1 and name[0].isupper() and not name.isupper()


def types_in(tree: ast.Module) -> list[str]:
    """Classes, and what is assigned to a name that looks like one."""
    classes = [node.name for node in nodes(tree) if isinstance(node, ast.ClassDef)]
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    return classes + [target.id for target in targets if isinstance(target, ast.Name) and is_type_name(target.id)]


def homes() -> dict[str, list[str]]:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees().items():
        for name in types_in(tree):
            places[name].append(path)
    return places


def with_plural(names: set[str]) -> set[str]:
    return {name for name in names if names & {f"{name}s", f"{name}es"}}


def test_no_two_classes_share_a_name() -> None:
    shared = {name: places for name, places in homes().items() if len(places) > 1}
    assert set(shared) == set(SAME_NAMES), shared


def test_no_two_classes_differ_by_a_plural() -> None:
    assert with_plural(set(homes())) == set(PLURALS)


def test_no_two_files_differ_by_a_plural() -> None:
    assert with_plural({PurePath(path).stem for path in trees()}) == set(SAME_FILES)


def test_each_kind_of_name_is_seen() -> None:
    code = "class Row:\n    pass\nRows = list[Row]\nLIMIT = 3\nT = TypeVar('T')\nbatch = 1"
    assert types_in(ast.parse(code)) == ["Row", "Rows"]
    assert with_plural({"Row", "Rows", "Box", "Boxes", "Line"}) == {"Row", "Box"}
