"""Nobody asks for the name of a task to decide what to do: what differs between tasks is declared on `Task`.

Read off the syntax trees, so a new `if recipe.kind == "translation"` fails here before it spreads.
"""

import ast
from collections.abc import Callable, Iterator

import pytest

from regard.tasks.table import TASKS
from tests.trees import nodes, trees

HOMES = ("tasks/", "runs/recipe.py")  # where a task's name may be looked at

# Strings that are also a task's name, in tables and comparisons of something else.
OTHER_NAMES = {
    ("models/markov.py", "masked"): "a kind of Markov model",
    ("ladder/rungs.py", "masked"): "a rung: that kind of Markov model",
    ("serving/libretranslate.py", "language"): "a field of LibreTranslate's answers",
    ("serving/verb_routes.py", "answers"): "the field of a route's answer",
    ("ladder/rungs.py", "language"): "a ladder, by the name that the command takes",
    ("ladder/rungs.py", "translation"): "a ladder, by the name that the command takes",
}

# Where an attribute is read by a name that only the running program knows.
GETATTR = {
    "__init__.py": "the public names, each imported when it is first used",
    "checks.py": "checks of settings by name",
    "runs/recipe.py": "the tables of a recipe by name",
    "data/config.py": "settings by name",
    "data/batching/batch.py": "the fields of a batch, a dataclass",
    "interop/families/bart.py": "settings by name, of models of other tools",
    "interop/families/bert.py": "settings by name, of models of other tools",
    "interop/families/settings.py": "settings by name, of models of other tools",
    "interop/families/timm.py": "settings by name, of models of other tools",
    "interop/certifying/in_transformers.py": "a class of another library by its name",
    "ladder/climb.py": "settings by name",
    "nn/layout.py": "the tensors of a layout by name",
    "training/recording.py": "the tensors of a layout by name",
    "viewer/map_set.py": "the fields of a map, a dataclass",
}

Finding = tuple[int, str]  # a line, and what stands there


def last_name(node: ast.AST) -> str:
    """What a person would call a value: "recipe" of `run.recipe`, "Recipe.read" of `Recipe.read(...)`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=name):
            return name
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            return f"{last_name(owner)}.{name}"
        case ast.Call(func=function):
            return last_name(function)
    return ""


def recipes_in(tree: ast.AST) -> set[str]:
    """Names that hold a recipe: annotated as one, or assigned from something called so."""
    names = set()
    for node in nodes(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            if "Recipe" in ast.unparse(node.annotation):
                names.add(node.arg if isinstance(node, ast.arg) else last_name(node.target))
        elif isinstance(node, ast.Assign) and "recipe" in last_name(node.value).lower():
            names |= {last_name(target) for target in node.targets}
    return names - {""}


def kinds_read(tree: ast.AST) -> Iterator[Finding]:
    """`.kind` of a recipe."""
    recipes = recipes_in(tree)
    for node in nodes(tree):
        if isinstance(node, ast.Attribute) and node.attr == "kind":
            owner = last_name(node.value)
            if owner in recipes or "recipe" in owner.lower():
                yield node.lineno, ast.unparse(node)


def tables_indexed(tree: ast.AST) -> Iterator[Finding]:
    """TASKS[...], TASKS.get(...), choose(TASKS, ...), `x in TASKS`.  To list all of it is allowed."""
    for node in nodes(tree):
        match node:
            case ast.Subscript(value=table) if last_name(table) == "TASKS":
                yield node.lineno, ast.unparse(node)
            case ast.Call(func=ast.Attribute(value=table, attr="get" | "__getitem__")) if last_name(table) == "TASKS":
                yield node.lineno, ast.unparse(node)
            case ast.Call(func=ast.Name(id="choose"), args=[table, *_]) if last_name(table) == "TASKS":
                yield node.lineno, ast.unparse(node)
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[table]) if last_name(table) == "TASKS":
                yield node.lineno, ast.unparse(node)


def constants(node: ast.AST) -> Iterator[str]:
    """The strings of a comparison; those of an index or an argument inside are not compared."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            for item in items:
                yield from constants(item)


def names_compared(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """A task's name on a side of ==, !=, in, in a `case`, or as a key of a table."""
    for node in nodes(tree):
        sides: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            sides = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.MatchValue):
            sides = [node.value]
        for side in sides:
            for text in constants(side):
                if text in TASKS:
                    yield side.lineno, text, ast.unparse(node)[:100]  # type: ignore[attr-defined]


def probes(tree: ast.AST, *functions: str) -> Iterator[Finding]:
    for node in nodes(tree):
        if isinstance(node, ast.Call) and last_name(node.func) in functions and isinstance(node.func, ast.Name):
            yield node.lineno, ast.unparse(node)


def findings(find: Callable[[ast.AST], Iterator[Finding]]) -> list[str]:
    return [
        f"regard/{name}:{line} {what}"
        for name, tree in trees().items()
        if not name.startswith(HOMES)
        for line, what in find(tree)
    ]


def other_names(name: str, tree: ast.AST) -> set[tuple[str, str]]:
    return {(name, text) for _, text, _ in names_compared(tree)}


def test_nobody_reads_the_kind_of_a_recipe():
    assert findings(kinds_read) == []


def test_nobody_picks_a_task_by_its_name():
    assert findings(tables_indexed) == []


def test_nobody_compares_with_the_name_of_a_task():
    def find(name: str) -> Iterator[str]:
        for line, text, what in names_compared(trees()[name]):
            if (name, text) not in OTHER_NAMES:
                yield f"regard/{name}:{line} {what}"

    assert [what for name in trees() if not name.startswith(HOMES) for what in find(name)] == []


def test_nobody_probes_for_attributes():
    assert [f"{name}:{line} {what}" for name, tree in trees().items() for line, what in probes(tree, "hasattr")] == []
    unknown = [
        f"regard/{name}:{line} {what}"
        for name, tree in trees().items()
        for line, what in probes(tree, "getattr")
        if name not in GETATTR
    ]
    assert unknown == []


def test_getattr_never_has_a_default_or_a_name_that_is_known():
    """Both mean a probe: of a thing that may not have it, or that should declare it."""
    calls = [
        (name, node)
        for name, tree in trees().items()
        for node in nodes(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr"
    ]
    assert calls
    assert [name for name, node in calls if len(node.args) != 2 or isinstance(node.args[1], ast.Constant)] == []


def test_no_exemption_is_left_over():
    used = set().union(*(other_names(name, tree) for name, tree in trees().items()))
    assert set(OTHER_NAMES) - used == set()
    probing = {name for name, tree in trees().items() if any(probes(tree, "getattr"))}
    assert set(GETATTR) - probing == set()


@pytest.mark.parametrize(
    "code, find",
    [
        ('if recipe.kind == "x": pass', kinds_read),
        ("print(run.recipe.kind)", kinds_read),
        ("def show(chosen: 'Recipe') -> None: print(chosen.kind)", kinds_read),
        ("theirs = Recipe.of_run(folder)\nprint(theirs.kind)", kinds_read),
        ("print(Recipe.read(name).kind)", kinds_read),
        ("TASKS[name]", tables_indexed),
        ("table.TASKS.get(name)", tables_indexed),
        ('choose(TASKS, name, "task")', tables_indexed),
        ("name in TASKS", tables_indexed),
        ('kind == "translation"', names_compared),
        ('kind in ("language", "chat")', names_compared),
        ('"masked" != kind', names_compared),
        ('{"tagging": tag}[kind]', names_compared),
        ('match kind:\n    case "answers": pass', names_compared),
    ],
)
def test_each_way_to_ask_is_seen(code, find):
    assert list(find(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ["tokenizer.kind", "for name in TASKS: print(name)", "sorted(TASKS)", 'config.read("translation")']
)
def test_what_is_allowed_is_not_seen(code):
    assert not [*kinds_read(ast.parse(code)), *tables_indexed(ast.parse(code)), *names_compared(ast.parse(code))]
