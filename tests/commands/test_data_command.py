"""`regard data`: what recipes learn from, checked and put where they look."""

import hashlib
import lzma
import re
import zipfile
from pathlib import Path

import pytest
from calling import Call

from regard.config import load, shipped_recipes
from regard.data import sets
from regard.data.sets import DataSet, data_sets, recipes_with

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
CONTENT = b"ham\thello there\nspam\twin now\n"


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> DataSet:
    """A data set of a single file that is packed where recipes look."""
    made = DataSet(name="tiny", what="messages", files={"messages.tsv.xz": hashlib.sha256(CONTENT).hexdigest()})
    monkeypatch.setattr("regard.data.sets.data_sets", lambda: {"tiny": made})
    monkeypatch.setattr("regard.commands.shipped.data_sets", lambda: {"tiny": made})
    monkeypatch.setattr("regard.commands.shipped.recipes_with", lambda: {"tiny": ["sms-bag"]})
    return made


def test_every_file_of_a_shipped_recipe_is_in_the_list() -> None:
    for name in shipped_recipes():
        data = load(name).get("data", {})
        for file in (file for part in ("train", "valid", "test") for file in data.get(part, []) if "/" in file):
            folder, rest = file.split("/", 1)
            assert rest in data_sets()[folder].files, f"{name}: {file}"
    assert all(recipes_with().values()), "a data set that no recipe names"


def test_a_set_says_where_it_can_be_had_or_how_it_is_made() -> None:
    for name, known in data_sets().items():
        assert known.make or known.home or name == "text", name
        assert all(re.fullmatch(r"[0-9a-f]{64}|", digest) for digest in known.files.values())
        if known.home:
            assert known.license and known.size, name


def test_all_are_listed(regard: Call) -> None:
    told = regard("data")
    assert told.code == 0 and all(f"{name}: " in told.out for name in data_sets())
    assert "https://github.com/multi30k/dataset" in told.out
    one = regard("data", "multi30k")
    assert "multi30k-ende" in one.out and "data/multi30k/train.en.xz, not there" in one.out


@pytest.mark.parametrize("form", ["plain", "packed", "zip", "other name"])
def test_a_copy_is_found_by_its_content_and_packed_as_recipes_want_it(
    form: str, known: DataSet, regard: Call, tmp_path: Path
) -> None:
    place = tmp_path / "copy"
    (place / "inner").mkdir(parents=True)
    if form == "zip":
        with zipfile.ZipFile(place / "all.zip", "w") as archive:
            archive.writestr("x/messages.tsv", CONTENT)
        place = place / "all.zip"
    elif form == "packed":
        (place / "messages.tsv.xz").write_bytes(lzma.compress(CONTENT))
    else:
        (place / "inner" / ("messages.tsv" if form == "plain" else "download")).write_bytes(CONTENT)
    brought = regard("data", "tiny", "--from", place)
    assert brought.code == 0, brought.err
    assert "its sum is right" in brought.out and "next: regard train sms-bag" in brought.out
    assert lzma.decompress((tmp_path / "data/tiny/messages.tsv.xz").read_bytes()) == CONTENT
    assert "already there" in regard("data", "tiny", "--from", place).out


def test_another_content_is_refused_unless_told(known: DataSet, regard: Call, tmp_path: Path) -> None:
    (tmp_path / "messages.tsv").write_bytes(b"something else\n")
    refused = regard("data", "tiny", "--from", "messages.tsv")
    assert refused.code == 1 and "Nothing was written" in refused.err and "--unchecked" in refused.err
    assert not (tmp_path / "data").exists()
    taken = regard("data", "tiny", "--from", "messages.tsv", "--unchecked")
    assert taken.code == 0 and "its sum was not checked" in taken.out
    (tmp_path / "right").write_bytes(CONTENT)
    kept = regard("data", "tiny", "--from", "right")
    assert kept.code == 1 and "was left as it is; replace it with --overwrite" in kept.err
    assert regard("data", "tiny", "--from", "right", "--overwrite").code == 0
    assert lzma.decompress((tmp_path / "data/tiny/messages.tsv.xz").read_bytes()) == CONTENT


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tiny", "--from", "nowhere"), "no file or folder nowhere; check its name"),
        (("tiny", "--from", "empty"), "empty has none of the files of tiny: messages.tsv.xz"),
        (("tinny",), "unknown data set 'tinny'; choose one of: tiny"),
    ],
)
def test_mistakes_are_named(
    arguments: tuple[str, ...], message: str, known: DataSet, regard: Call, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    refused = regard("data", *arguments)
    assert refused.code == 1 and message in refused.err


@pytest.mark.parametrize("name", ["imdb", "quac", "aeslc", "tatoeba-en-fr"])
def test_an_original_in_another_form_is_told_what_recipes_read(name: str, regard: Call, tmp_path: Path) -> None:
    (tmp_path / "original" / "train").mkdir(parents=True)
    (tmp_path / "original" / "train" / "0_9.txt").write_text("a file for each\n", encoding="utf-8")
    refused = regard("data", name, "--from", "original")
    assert refused.code == 1 and f"has none of the files of {name}" in refused.err
    assert f"What recipes read: {data_sets()[name].get}. If you have only the original, make " in refused.err
    assert "and add --unchecked, as their sums are not ours" in refused.err
    file = next(iter(data_sets()[name].files)).removesuffix(".xz")
    (tmp_path / file).write_text("made of the original\n", encoding="utf-8")
    refused = regard("data", name, "--from", file)
    assert refused.code == 1 and "The known sums are of our own copy" in refused.err
    assert regard("data", name, "--from", file, "--unchecked").code == 0


def test_a_missing_file_says_how_to_get_it(regard: Call) -> None:
    missing = regard("train", "sms-bag", "--device", "cpu")
    assert missing.code == 1
    assert "no file data/sms-spam/SMSSpamCollection.tsv.xz; `regard data sms-spam` says where" in missing.err
    assert "`regard data sms-spam --from FOLDER` puts it there" in missing.err
    elsewhere = regard("train", "sms-bag", "--set", "data.root=/nowhere", "--device", "cpu")
    assert "`regard data sms-spam --from FOLDER --root /nowhere`" in elsewhere.err
    made = regard("train", "listops", "--device", "cpu")
    assert "it is generated: python -m regard.data.corpora.listops data/listops" in made.err


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="no shared data")
def test_the_sums_are_those_of_the_files() -> None:
    for name, known in data_sets().items():
        for file, digest in known.files.items():
            path = DATA / name / file
            if path.is_file() and digest:
                assert hashlib.sha256(lzma.decompress(path.read_bytes())).hexdigest() == digest, path
    assert sets.TABLE.is_file()
