"""docs/recipes.md: every setting with its default, from the dataclasses, their comments and docs/settings.toml."""

import ast
import dataclasses
import inspect
import io
import re
import textwrap
import tokenize
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from docs.writing import cell, markdown, wrapped
from regard.config import to_toml
from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.learning.config import TrainingConfig
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

`make docs` writes this page from the dataclasses in the code, the comments beside their fields, and
`docs/settings.toml`.

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
    "[training]": TrainingConfig,
    "[decoding]": DecodingConfig,
}


@cache
def words() -> dict[str, Any]:
    return tomllib.loads((HERE / "settings.toml").read_text(encoding="utf-8"))


def words_of(table: str) -> dict[str, str]:
    """What settings.toml says of "[task] chat" or "[data]", with what it says of the section that this one is like."""
    group, _, name = table.strip("[").partition("] ")
    entry: dict[str, str] = words().get(group, {}).get(name, {}) if name else words().get(group.rstrip("]"), {})
    if "as_of" in entry:
        other = {key: text for key, text in words_of(f"[{group}] {entry['as_of']}").items() if key != "about"}
        entry = other | {key: text for key, text in entry.items() if key != "as_of"}
    return entry


@cache
def comments(cls: type) -> dict[str, str]:
    """The comments beside the fields that a dataclass itself declares."""
    source = textwrap.dedent(inspect.getsource(cls))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    by_line = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    [definition] = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            found[node.target.id] = " ".join(by_line[line] for line in lines if line in by_line)
    return found


def commented(cls: type, setting: str) -> str:
    """The comment beside a field, in the class or the nearest above it that has one; names of settings as code."""
    texts = (comments(each).get(setting, "") for each in cls.__mro__ if dataclasses.is_dataclass(each))
    spans = re.split(r"(`[^`]*`)", markdown(next((text for text in texts if text), "")))
    for i in range(0, len(spans), 2):
        spans[i] = re.sub(r"\b[a-z]+(?:[_.][a-z]+)+\b", r"`\g<0>`", spans[i])
    return "".join(spans)


def meaning(table: str, setting: str) -> str:
    anywhere = words()["any"].get(table.strip("[").partition("]")[0], {})
    return words_of(table).get(setting) or commented(TABLES[table], setting) or anywhere.get(setting, "")


def settings_section(table: str) -> str:
    parts = [f"## {table}"]
    about = words_of(table)
    if "about" in about:
        parts.append(wrapped(about["about"]))
    rows = []
    for field in dataclasses.fields(TABLES[table]):
        default = "from `[tokenizer]`" if field.default is dataclasses.MISSING else f"`{to_toml(field.default)}`"
        rows.append(f"| `{field.name}` | {default} | {cell(meaning(table, field.name))} |")
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
    """Settings that nothing describes, and words about settings that do not exist."""
    fields = {table: {field.name for field in dataclasses.fields(cls)} for table, cls in TABLES.items()}
    undescribed = [
        f"{table} {name} has neither a comment beside it nor words in docs/settings.toml"
        for table, names in fields.items()
        for name in sorted(names)
        if not meaning(table, name)
    ]
    described = {f"[{group}]": entry for group, entry in words().items() if group not in ("any", "task", "model")}
    for group in ("task", "model"):
        described |= {f"[{group}] {name}": entry for name, entry in words()[group].items()}
    unused = [
        f"docs/settings.toml: {table} has no setting {name!r}"
        for table, entry in described.items()
        for name in sorted(set(entry) - {"about", "after", "as_of"} - fields.get(table, set()))
    ]
    return undescribed + unused
