"""The syntax trees of the library: each file is parsed and walked once for all the tests that read them."""

import ast
from functools import cache

from docs import code_map


@cache
def trees() -> dict[str, ast.Module]:
    """By the path of the file in the package, such as "nn/sight.py"."""
    return {path.relative_to("regard").as_posix(): tree for path, tree in code_map.parsed().items()}


@cache
def nodes(tree: ast.AST) -> list[ast.AST]:
    """All that `ast.walk` finds in a tree."""
    return list(ast.walk(tree))
