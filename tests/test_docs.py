"""The documents say what the code does: the tree, the places, every setting with its default, commands, links."""

import dataclasses
import re
from pathlib import Path

import pytest
import typer

from regard.__main__ import app
from regard.config import to_toml
from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.learning.config import TrainingConfig
from regard.models import ARCHITECTURES
from regard.nn.distillation import DistillationConfig
from regard.nn.lora import LoraConfig
from regard.nn.paths import FAST_PATHS
from regard.nn.positions import POSITIONS
from regard.nn.scores import SCORES
from regard.tasks.table import TASKS
from regard.text.tokenizer import TokenizerConfig

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").glob("*.md")
)
TABLES = {
    **{f"[task] {kind}": row[0] for kind, row in TASKS.items()},
    "[data]": DataConfig,
    "[tokenizer]": TokenizerConfig,
    **{f"[model] {name}": row.config for name, row in ARCHITECTURES.items()},
    "[lora]": LoraConfig,
    "[distillation]": DistillationConfig,
    "[training]": TrainingConfig,
    "[decoding]": DecodingConfig,
}


def section(text: str, heading: str) -> str:
    """What stands between a heading and the next of its kind."""
    level = heading.split()[0]
    return text.split(f"{heading}\n", 1)[1].split(f"\n{level} ", 1)[0]


def test_where_is_names_what_is_there() -> None:
    rows = [row for row in section(README, "## Where is …?").splitlines() if row.startswith("| ") and "regard/" in row]
    assert len(rows) > 15
    for row in rows:
        place = row.split(" | ")[1]
        text = "".join((ROOT / name).read_text(encoding="utf-8") for name in re.findall(r"`(regard/[\w/.]+)`", place))
        for name in re.findall(r"`([A-Za-z_][\w.]*)`", re.sub(r"`regard/[^`]*`", "", place)):
            last = name.split(".")[-1]
            assert re.search(rf"^\s*(def|class) {last}\b|^{last}\b.* = ", text, re.MULTILINE), f"{name}: {row}"


@pytest.mark.parametrize("table", TABLES)
def test_every_setting_is_described_with_its_default(table: str) -> None:
    text = section((ROOT / "docs" / "recipes.md").read_text(encoding="utf-8"), f"## {table}")
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.+) \|$", text, re.MULTILINE)
    shown = {name: default for name, default, _ in rows}
    expected = {
        field.name: "from `[tokenizer]`" if field.default is dataclasses.MISSING else f"`{to_toml(field.default)}`"
        for field in dataclasses.fields(TABLES[table])
    }
    assert shown == expected


@pytest.mark.parametrize(
    ("heading", "table"),
    [("## Positions", POSITIONS), ("## Scores", SCORES), ("## Two paths, one meaning", FAST_PATHS)],
)
def test_the_tables_of_attention_are_whole(heading: str, table: dict[str, object]) -> None:
    text = section((ROOT / "docs" / "attention.md").read_text(encoding="utf-8"), heading)
    first = re.findall(r"^\| `?(\w+)`? \|", text, re.MULTILINE)
    assert set(table) <= set(first)


def test_commands_in_the_documents_exist() -> None:
    group = typer.main.get_command(app)
    known = set(group.commands)  # type: ignore[attr-defined]
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        used = set(re.findall(r"(?:^\s*|`)regard ([a-z]+)", text, re.MULTILINE))
        assert used <= known, f"{page.name}: {used - known}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        other = page.parent / name if name else page
        assert other.is_file(), f"{page.name}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", other.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, f"{page.name}: {target}"
