"""The documents say what the code does: the made pages, the places, every setting, commands, figures, links."""

import dataclasses
import re
from pathlib import Path

import pytest
import typer

from docs import code_map, make, settings
from docs.writing import WIDTH
from regard.__main__ import app
from regard.config import to_toml
from regard.nn.paths import FAST_PATHS
from regard.nn.positions import POSITIONS
from regard.nn.scores import SCORES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(DOCS.glob("*.md"))

# Pages whose prose wraps; tables, code and lines that are one link may be longer.
WRAPPED = [str(page.relative_to(ROOT)) for page in PAGES]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What stands between a heading and the next of its kind."""
    level = heading.split()[0]
    return text.split(f"{heading}\n", 1)[1].split(f"\n{level} ", 1)[0]


@pytest.mark.parametrize("name", make.PAGES)
def test_made_pages_are_what_the_code_says(name: str) -> None:
    assert read(f"docs/{name}") == make.PAGES[name](), f"docs/{name} is out of date: run `make docs`"


def test_made_pages_have_no_gaps() -> None:
    assert make.problems() == []


def test_the_map_has_every_file() -> None:
    text = read("docs/map.md")
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "regard").rglob("*.py")]
    assert [name for name in files if not name.endswith("__init__.py") and f"(../{name})" not in text] == []


def test_a_place_is_looked_up() -> None:
    assert code_map.place("Attend.weights, Attend.readable") == (
        "`Attend.weights` and `Attend.readable` in [`regard/nn/attention.py`](../regard/nn/attention.py)"
    )
    assert code_map.place("nn.SCORES") == "`SCORES` in [`regard/nn/scores.py`](../regard/nn/scores.py)"
    assert code_map.place("bpe.py") == "[`regard/text/bpe.py`](../regard/text/bpe.py)"
    with pytest.raises(LookupError, match="'Nonsense' is in 0 files"):
        code_map.place("Nonsense")
    with pytest.raises(LookupError, match="different files"):
        code_map.place("Causal, Attend")


def test_contributing_names_the_tables() -> None:
    rows = re.findall(r"`([A-Z_]+)` in `(regard/[\w/.]+)` \|$", read("CONTRIBUTING.md"), re.MULTILINE)
    assert len(rows) >= 9
    for table, file in rows:
        assert Path(file) in code_map.homes()[table], f"{table} is not in {file}"


@pytest.mark.parametrize("table", settings.TABLES)
def test_every_setting_is_described_with_its_default(table: str) -> None:
    text = section(read("docs/recipes.md"), f"## {table}")
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.+) \|$", text, re.MULTILINE)
    expected = {
        field.name: "from `[tokenizer]`" if field.default is dataclasses.MISSING else f"`{to_toml(field.default)}`"
        for field in dataclasses.fields(settings.TABLES[table])
    }
    assert {name: default for name, default, _ in rows} == expected


@dataclasses.dataclass
class Parent:
    beside: int = 1  # words beside it
    # words on two
    # lines above it
    above: int = 2
    # The heading of a group.
    grouped: int = 3  # words of its own

    # A remark on nothing.

    bare: int = 4


@dataclasses.dataclass
class Child(Parent):
    beside: int = 10
    above: int = 20  # <s> and data.max_length


def test_the_words_about_a_setting_are_its_comment(monkeypatch: pytest.MonkeyPatch) -> None:
    words = {name: settings.meaning(Parent, name) for name in ("beside", "above", "grouped", "bare")}
    assert words == {
        "beside": "words beside it",
        "above": "words on two lines above it",
        "grouped": "words of its own",
        "bare": "",
    }
    assert settings.meaning(Child, "beside") == "words beside it"
    assert settings.meaning(Child, "above") == "`<s>` and `data.max_length`"
    monkeypatch.setattr(settings, "TABLES", {**settings.TABLES, "[child]": Child})
    gaps = [gap for gap in settings.gaps() if "[child]" in gap]
    assert gaps == [f"[child] bare has no comment beside it in {__name__}.Child"]


@pytest.mark.parametrize(
    ("heading", "table"),
    [("## Positions", POSITIONS), ("## Scores", SCORES), ("## Two paths, one meaning", FAST_PATHS)],
)
def test_the_tables_of_attention_are_whole(heading: str, table: dict[str, object]) -> None:
    text = section(read("docs/attention.md"), heading)
    first = re.findall(r"^\| `?(\w+)`? \|", text, re.MULTILINE)
    assert set(table) <= set(first)


def test_commands_in_the_documents_exist() -> None:
    group = typer.main.get_command(app)
    known = set(group.commands)  # type: ignore[attr-defined]
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        used = set(re.findall(r"(?:^\s*|`)regard ([a-z]+)", text, re.MULTILINE))
        assert used <= known, f"{page.name}: {used - known}"


def test_the_readme_is_short_and_its_figures_are_in_the_results() -> None:
    readme = read("README.md")
    assert len(readme.splitlines()) <= 150
    figures = re.findall(
        r"\d[\d,]*\.?\d+×?", " ".join(row.split("|")[2] for row in tables(section(readme, "## Results")))
    )
    assert len(figures) > 10
    assert [figure for figure in figures if figure not in read("docs/results.md")] == []


def tables(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


def test_the_index_leads_to_every_page() -> None:
    linked = re.findall(r"\]\(([\w-]+\.md)\)", read("docs/index.md"))
    assert sorted(linked) == sorted(page.name for page in DOCS.glob("*.md") if page.name != "index.md")


@pytest.mark.parametrize("name", WRAPPED)
def test_prose_wraps(name: str) -> None:
    text = re.sub(r"^ *```.*?^ *```$", "", read(name), flags=re.DOTALL | re.MULTILINE)
    only_link = r"[ \-*]*!?\[[^\]]*\]\([^)]*\)[.,;:]?"
    long = [line for line in text.splitlines() if len(line) > WIDTH and not line.lstrip().startswith("|")]
    assert [line for line in long if not line.startswith("    ") and not re.fullmatch(only_link, line)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        other = page.parent / name if name else page
        assert other.is_file(), f"{page.name}: {target}"
        if anchor and other.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", other.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_section_stands_once_below_its_heading(page: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    above: list[str] = []  # the headings that a heading stands below, and itself
    found: list[tuple[str, ...]] = []
    for marks, words in re.findall(r"^(#+) (.+)$", text, re.MULTILINE):
        above = [*above[: len(marks) - 1], words]
        found.append(tuple(above))
    assert sorted(name for name in set(found) if found.count(name) > 1) == []


def test_tables_whose_order_depends_on_the_steps_say_so() -> None:
    parts = section(read("docs/results.md"), "## The ladder").split("\n\n")
    tables = [i for i, part in enumerate(parts) if part.startswith("| rung |") or part.startswith("| distance |")]
    assert len(tables) == 3
    for i in tables:
        beside = " ".join(" ".join(parts[i - 1 : i] + parts[i + 1 : i + 3]).split())
        assert "number of steps" in beside, parts[i].splitlines()[0]


def test_recipes_of_gpt_have_their_figures() -> None:
    page = read("docs/gpt.md")
    recipes = re.findall(r"^\| `([\w-]+)` \|", section(page, "## Recipes to train"), re.MULTILINE)
    figures = section(read("docs/results.md"), "## Language modeling")
    assert len(recipes) >= 5 and [name for name in recipes if f"| {name}" not in figures] == []
    assert "not been trained" not in page and "not trained" not in page
