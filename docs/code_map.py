"""docs/map.md: where to look for what, and the tree of the code, from the docstrings of its modules."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from docs.writing import cell, first_sentence, markdown, wrapped

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

MAP = """\
# Map of the code

`make docs` writes this page: the table from `docs/places.toml`, the tree from the docstrings of the modules.

## Where is …?

| what | where |
|---|---|
{places}

## The tree

A package uses only packages that stand above it.

```
{tree}
```

{packages}
"""


@cache
def parsed() -> dict[Path, ast.Module]:
    """The files of the library, by their path below the root."""
    paths = sorted((ROOT / "regard").rglob("*.py"))
    return {path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def docstring(path: Path) -> str:
    return ast.get_docstring(parsed()[path]) or ""


def names_in(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """What a module or class defines: functions, classes and what is in them, and names that are assigned."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from names_in(node.body, f"{prefix}{node.name}.")
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        yield from (prefix + target.id for target in targets if isinstance(target, ast.Name))


@cache
def homes() -> dict[str, list[Path]]:
    """The files that define a name."""
    found: dict[str, list[Path]] = {}
    for path, module in parsed().items():
        for name in dict.fromkeys(names_in(module.body)):
            found.setdefault(name, []).append(path)
    return found


def home(name: str) -> Path:
    """The one file that `name` means; a first part may name the folder or module it lies in."""
    if name.endswith(".py"):
        files = [path for path in parsed() if f"/{path.as_posix()}".endswith(f"/{name}")]
    else:
        package, _, rest = name.partition(".")
        files = homes().get(name, [])
        if not files:
            files = [path for path in homes().get(rest, []) if package in (*path.parts, path.stem)]
    if len(files) != 1:
        raise LookupError(
            f"docs/places.toml: {name!r} is in {len(files)} files: {', '.join(map(str, files)) or 'none'}"
        )
    return files[0]


def link(path: Path) -> str:
    return f"[`{path.as_posix()}`](../{path.as_posix()})"


def place(names: str) -> str:
    """ "A, B" → `A` and `B` in the file that has them."""
    parts = names.split(", ")
    files = dict.fromkeys(home(part) for part in parts)
    if len(files) != 1:
        raise LookupError(f"docs/places.toml: {names} are in different files: {', '.join(map(str, files))}")
    [path] = files
    if parts == [names] and names.endswith(".py"):
        return link(path)
    shown = [part if part in homes() else part.partition(".")[2] for part in parts]
    return " and ".join(f"`{part}`" for part in shown) + f" in {link(path)}"


def where_is() -> tuple[list[str], list[str]]:
    """The rows of the table, and what was not found of them (which is left out)."""
    rows, problems = [], []
    for what, where in tomllib.loads((HERE / "places.toml").read_text(encoding="utf-8")).items():
        try:
            found = re.sub(r"\{([^}]+)\}", lambda match: place(match[1]), where)
        except LookupError as problem:
            problems.append(str(problem))
        else:
            rows.append(f"| {cell(what)} | {cell(found)} |")
    return rows, problems


def packages() -> list[Path]:
    """Every package after those that it imports; the library itself is first."""
    imported: dict[str, set[str]] = {}
    for path, module in parsed().items():
        own = path.parts[1]
        for node in ast.walk(module):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            imported.setdefault(own, set()).update(name.split(".")[1] for name in names if name.startswith("regard."))

    level = dict.fromkeys(imported, 0)
    for _ in imported:  # as many rounds as the longest chain could need
        for package, others in imported.items():
            level[package] = 1 + max((level[other] for other in others - {package} if other in level), default=0)

    def rank(folder: Path) -> tuple[int, Path]:
        return (level[folder.parts[1]] if len(folder.parts) > 1 else 0), folder

    return sorted({path.parent for path in parsed() if path.name == "__init__.py"}, key=rank)


def described(text: str) -> str:
    """A package's docstring: prose is wrapped, and what is set out in columns stays as it is."""
    blocks = []
    for paragraph in text.split("\n\n"):
        is_code = re.search(r"^ |\S {3,}| = ", paragraph, re.MULTILINE)
        blocks.append(f"```\n{paragraph}\n```" if is_code else wrapped(markdown(paragraph)))
    return "\n\n".join(blocks)


def package_section(folder: Path) -> str:
    files = [path for path in parsed() if path.parent == folder and path.name != "__init__.py"]
    rows = [
        f"| [`{path.name}`](../{path.as_posix()}) | {cell(markdown(first_sentence(docstring(path))))} |"
        for path in files
    ]
    table = ["", "| file | what is in it |", "|---|---|", *rows] if rows else []
    return "\n".join([f"### `{folder.as_posix()}`", "", described(docstring(folder / "__init__.py")), *table])


def page() -> str:
    folders = packages()
    tree = []
    for folder in folders:
        name = "  " * (len(folder.parts) - 1) + folder.name + "/"
        tree.append(f"{name:22}{first_sentence(docstring(folder / '__init__.py'))}")
    sections = "\n\n".join(package_section(folder) for folder in folders)
    return MAP.format(places="\n".join(where_is()[0]), tree="\n".join(tree), packages=sections)


def gaps() -> list[str]:
    """Places that are not in the code."""
    return where_is()[1]
