"""docs/recipes.md: every setting with its default, from the dataclasses and the comments beside their fields."""

import ast
import dataclasses
import inspect
import io
import re
import textwrap
import tokenize
import tomllib
from functools import cache
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from docs.writing import cell, markdown, wrapped
from regard.config import to_toml
from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.learning.config import TrainingConfig
from regard.learning.distribution import DistributionConfig
from regard.models import ARCHITECTURES
from regard.nn.lora import LoraConfig
from regard.nn.loss import DistillationConfig
from regard.tasks.table import TASKS
from regard.text.tokenizer import TokenizerConfig

HERE = Path(__file__).resolve().parent

RECIPES = """\
# Recipes

A recipe is one TOML file. Its tables and their settings are below; a setting that is left out has the default given
here, and a name that is not here is an error. `regard recipes` lists the shipped recipes. A recipe is given as a
shipped name, a path, or a run folder (which holds its own `recipe.toml`, written out in full).

```
regard show multi30k-ende                                  parts, parameters, FLOPs, memory
regard doctor multi30k-ende                                the data and the fit, before training
regard train multi30k-ende --set training.steps=2000 --set model.position=rotary
```

`--set table.name=value` changes one setting and may be repeated; values are TOML, and a bare name needs no quotes.
`translate` and `evaluate` take settings of `[decoding]` without the table: `--set beam=4`.

`make docs` writes this page from the dataclasses in the code and the comments beside their fields; `docs/settings.toml`
introduces the sections.

{contents}

{sections}
"""


def settings_of(entry: Any) -> type:
    """The settings of an entry of TASKS or ARCHITECTURES: the first of a row, or what a class declares as its own."""
    settings: type = entry[0] if isinstance(entry, tuple) else entry.settings
    return settings


TABLES: dict[str, type] = {
    **{f"[task] {kind}": settings_of(entry) for kind, entry in TASKS.items()},
    "[data]": DataConfig,
    "[tokenizer]": TokenizerConfig,
    **{f"[model] {name}": settings_of(entry) for name, entry in ARCHITECTURES.items()},
    "[lora]": LoraConfig,
    "[distillation]": DistillationConfig,
    "[distribution]": DistributionConfig,
    "[training]": TrainingConfig,
    "[decoding]": DecodingConfig,
}


@cache
def introductions() -> dict[str, dict[str, str]]:
    """What docs/settings.toml says `about` a section, above its settings, or `after` them."""
    tables = tomllib.loads((HERE / "settings.toml").read_text(encoding="utf-8"))
    found = {}
    for group, entry in tables.items():
        whole = group not in ("task", "model")
        found |= {f"[{group}]": entry} if whole else {f"[{group}] {name}": texts for name, texts in entry.items()}
    return found


@cache
def comments(cls: type) -> dict[str, str]:
    """The words about the fields that a dataclass itself declares: the comment beside a field or, where there is none,
    the comment lines right above it."""
    source = textwrap.dedent(inspect.getsource(cls))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    by_line = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    whole_lines = {line for line in by_line if source.splitlines()[line - 1].lstrip().startswith("#")}
    [definition] = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            first = node.lineno
            beside = [by_line[line] for line in range(first, (node.end_lineno or first) + 1) if line in by_line]
            above = [by_line[line] for line in takewhile(whole_lines.__contains__, count(first - 1, -1))]
            found[node.target.id] = " ".join(beside or reversed(above))
    return found


def meaning(cls: type, setting: str) -> str:
    """The words about a field, in the class or the nearest above it that has some; names of settings as code."""
    texts = (comments(each).get(setting, "") for each in cls.__mro__ if dataclasses.is_dataclass(each))
    spans = re.split(r"(`[^`]*`)", markdown(next((text for text in texts if text), "")))
    for i in range(0, len(spans), 2):
        spans[i] = re.sub(r"\b[a-z]+(?:[_.][a-z]+)+\b", r"`\g<0>`", spans[i])
    return "".join(spans)


def settings_section(table: str) -> str:
    parts = [f"## {table}"]
    about = introductions().get(table, {})
    if "about" in about:
        parts.append(wrapped(about["about"]))
    rows = []
    for field in dataclasses.fields(TABLES[table]):
        default = "from `[tokenizer]`" if field.default is dataclasses.MISSING else f"`{to_toml(field.default)}`"
        rows.append(f"| `{field.name}` | {default} | {cell(meaning(TABLES[table], field.name))} |")
    if rows:
        parts.append("\n".join(["| setting | default | meaning |", "|---|---|---|", *rows]))
    if "after" in about:
        parts.append(wrapped(about["after"]))
    return "\n\n".join(parts)


def page() -> str:
    groups: dict[str, list[str]] = {}
    for table in TABLES:
        group, _, name = table.partition(" ")
        slug = re.sub(r"[^\w\- ]", "", table).replace(" ", "-")
        groups.setdefault(group, []).append(f"[{name or group.strip('[]')}](#{slug})")
    lines = [
        "| table | sections |",
        "|---|---|",
        *(f"| `{group}` | {', '.join(all_)} |" for group, all_ in groups.items()),
    ]
    return RECIPES.format(contents="\n".join(lines), sections="\n\n".join(map(settings_section, TABLES)))


def gaps() -> list[str]:
    """Settings without words, and introductions of sections that do not exist."""
    undescribed = [
        f"{table} {field.name} has no comment beside it in {cls.__module__}.{cls.__qualname__}"
        for table, cls in TABLES.items()
        for field in dataclasses.fields(cls)
        if not meaning(cls, field.name)
    ]
    misplaced = [
        f"docs/settings.toml: {table} {key} introduces no section; words about a setting stand beside its field"
        for table, texts in introductions().items()
        for key in sorted(texts)
        if table not in TABLES or key not in ("about", "after")
    ]
    return undescribed + misplaced
