"""`regard look`: in the terminal, as a picture, as a page; the positions of a run, and those of the lectures."""

from pathlib import Path

import pytest
from calling import Call

from regard.commands.replacing import free_name

TIRED = "The animal didn't cross the street because it was too tired."
PNG = b"\x89PNG"


def test_look_in_the_terminal_as_picture_and_as_page(lab: Path, regard: Call, tmp_path: Path) -> None:
    shown = regard("look", lab / "one", TIRED, "--kind", "encoder", "--layer", "1", "--head", "0", "--device", "cpu")
    assert shown.code == 0, shown.err
    assert shown.out.startswith(TIRED) and "Encoder self-attention" in shown.out and "</s>" in shown.out
    drawn = regard("look", lab / "one", TIRED, "--png", "a.png", "--html", "a.html", "--device", "cpu")
    assert drawn.code == 0 and (tmp_path / "a.png").read_bytes().startswith(PNG)
    assert regard("look", lab / "one", TIRED, "--png", "g.png", "--grid", "--device", "cpu").code == 0
    assert (tmp_path / "g.png").read_bytes() != (tmp_path / "a.png").read_bytes()
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "connect-src" in page or "default-src 'none'" in page


def test_no_file_is_replaced_unless_told(lab: Path, regard: Call, tmp_path: Path) -> None:
    (tmp_path / "mine.png").write_bytes(b"mine")
    look = ("look", lab / "one", "The animal", "--png", "mine.png", "--device", "cpu")
    refused = regard(*look)
    assert refused.code == 1 and "mine.png exists and was left as it is" in refused.err
    assert (tmp_path / "mine.png").read_bytes() == b"mine"
    assert regard(*look, "--overwrite").code == 0 and (tmp_path / "mine.png").read_bytes() != b"mine"


def test_a_page_of_its_own_gets_a_free_name(tmp_path: Path) -> None:
    names = []
    for _ in range(3):
        names.append(free_name(tmp_path / "attention.html"))
        names[-1].touch()
    assert [name.name for name in names] == ["attention.html", "attention-2.html", "attention-3.html"]


@pytest.mark.slow  # a picture of each encoding; their tables are tested fast
def test_look_draws_the_positions(lab: Path, regard: Call, tmp_path: Path) -> None:
    drawn = regard("look", lab / "one", "--positions", "positions.png", "--device", "cpu")
    assert drawn.code == 0 and (tmp_path / "positions.png").read_bytes().startswith(PNG)
    assert "sinusoidal, source and target: added to the embeddings, 60 of 128 positions by 32 channels" in drawn.out


@pytest.mark.slow  # drawn by Matplotlib
def test_the_picture_of_the_lectures_needs_no_run(lab: Path, regard: Call, tmp_path: Path) -> None:
    drawn = regard("look", "--sinusoids", "lecture.png")
    assert drawn.code == 0, drawn.err
    assert drawn.out == "lecture.png: Sinusoids, 60 positions by 32 channels\n"
    assert (tmp_path / "lecture.png").read_bytes().startswith(PNG)
    both = regard("look", lab / "one", "--sinusoids", "again.png", "--positions", "own.png", "--device", "cpu")
    assert both.code == 0 and both.out.count("\n") == 2, both.err
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "lecture.png").read_bytes()
    assert (tmp_path / "own.png").is_file()
    assert regard("look", lab / "one", "--sinusoids", "again.png", "--overwrite", "--device", "cpu").code == 0


@pytest.mark.parametrize(
    "arguments", [(), ("--positions", "own.png"), ("--sinusoids", "a.png", "--positions", "b.png")]
)
def test_all_else_that_look_shows_needs_a_run(arguments: tuple[str, ...], regard: Call, tmp_path: Path) -> None:
    missing = regard("look", *arguments)
    assert missing.code == 2 and "a run folder is missing" in missing.err
    assert list(tmp_path.iterdir()) == []


def test_look_keeps_a_script_as_text(lab: Path, regard: Call, tmp_path: Path) -> None:
    regard("look", lab / "one", "a <script>alert(1)</script>", "--html", "a.html", "--vectors", "--device", "cpu")
    assert "<script>alert(1)" not in (tmp_path / "a.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("more", [(), ("--terminal",), ("--html", "a.html")])
def test_a_grid_is_a_picture(more: tuple[str, ...], regard: Call, tmp_path: Path) -> None:
    refused = regard("look", "one", TIRED, "--grid", *more)
    assert refused.code == 2 and "--grid says what --png draws: give both" in refused.err


@pytest.mark.parametrize(
    ("named", "opens"),
    [
        (("--kind", "encoder", "--layer", "1", "--head", "0"), '{"kind":"encoder","layer":1,"head":0}'),
        (("--layer", "1"), '{"kind":"cross","layer":1,"head":null}'),
        ((), "null"),
    ],
)
def test_the_page_opens_where_it_is_told_to(
    named: tuple[str, ...], opens: str, lab: Path, regard: Call, tmp_path: Path
) -> None:
    assert regard("look", lab / "one", TIRED, *named, "--html", "a.html", "--device", "cpu").code == 0
    assert f'"opens":{opens}' in (tmp_path / "a.html").read_text(encoding="utf-8")
