import lzma
from pathlib import Path

import pytest

from regard.data.files.labelled import label_set, read_labelled
from regard.errors import ConfigError, DataError

ROWS = [("good film", "pos"), ("bad film", "neg"), ("a <br />b", "pos"), ("", "neg")]


def write(folder: Path, name: str, lines: list[str]) -> None:
    data = ("\n".join(lines) + "\n").encode()
    (folder / name).write_bytes(lzma.compress(data) if name.endswith(".xz") else data)


def labeled(folder: Path, rows: list[tuple[str, str]], name: str = "train.tsv"):  # type: ignore[no-untyped-def]
    write(folder, name, [f"{text}\t{label}" for text, label in rows])
    return read_labelled((name,), ("1", "2"), folder)


@pytest.mark.parametrize(
    ("files", "columns"),
    [
        ({"a.tsv": ["text\tlabel"] + [f"{text}\t{label}" for text, label in ROWS]}, ("text", "label")),
        ({"a.tsv.xz": [f"{label}\t{text}" for text, label in ROWS]}, ("2", "1")),
        ({"a.csv": ["label,text"] + [f"{label},{text}" for text, label in ROWS]}, ("text", "label")),
        ({"a.jsonl": [f'{{"t": "{text}", "y": "{label}"}}' for text, label in ROWS]}, ("t", "y")),
        ({"a.txt": [text for text, _ in ROWS], "a.labels": [f"{label} " for _, label in ROWS]}, ()),
    ],
)
def test_every_form_reads_the_same(files: dict[str, list[str]], columns: tuple[str, ...], tmp_path: Path) -> None:
    for name, lines in files.items():
        write(tmp_path, name, lines)
    read = read_labelled(tuple(files), columns, tmp_path)
    assert list(zip(read.texts, read.labels, strict=True)) == ROWS  # the text as it is, breaks and all
    assert len(read.examples.columns) == 1
    assert label_set(read) == ("neg", "pos")
    assert read.ids(("neg", "pos")).tolist() == [1, 0, 1, 0]


def test_numbers_are_labels_too(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", ['{"t": "x", "y": 1}', '{"t": "y", "y": 0}'])
    assert label_set(read_labelled(("a.jsonl",), ("t", "y"), tmp_path)) == ("0", "1")


def test_a_label_that_only_the_test_file_has_is_named_with_its_line(tmp_path: Path) -> None:
    train = labeled(tmp_path, ROWS)
    test = labeled(tmp_path, [("x", "pos"), ("y", "neutral")], "test.tsv")
    message = r"test\.tsv:2 has the label 'neutral', which training does not have; it has: neg, pos"
    with pytest.raises(DataError, match=message):
        test.ids(label_set(train))


def test_many_labels_are_not_all_named(tmp_path: Path) -> None:
    train = labeled(tmp_path, [(f"t{i}", f"l{i:02}") for i in range(30) for _ in range(3)])
    with pytest.raises(DataError, match=r"it has: l00, .*, l09, \.\.\. \(30 in all\)"):
        labeled(tmp_path, [("x", "other")], "test.tsv").ids(label_set(train))


def test_a_listed_label_needs_an_example(tmp_path: Path) -> None:
    train = labeled(tmp_path, ROWS)
    assert label_set(train, ("pos", "neg")) == ("neg", "pos")
    with pytest.raises(DataError, match=r"no example of train\.tsv has the label 'neutral'.* it has: neg, pos"):
        label_set(train, ("neg", "neutral", "pos"))
    three = labeled(tmp_path, [*ROWS, ("x", "neutral")], "three.tsv")
    with pytest.raises(DataError, match=r"three\.tsv:5 has the label 'neutral', which is not listed; .*: neg, pos"):
        label_set(three, ("neg", "pos"))


def test_one_label_is_not_enough(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"every example of train\.tsv has the label 'pos'.* needs two labels"):
        label_set(labeled(tmp_path, [("a", "pos"), ("b", "pos")]))


def test_an_empty_label_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.tsv:2 has no label"):
        labeled(tmp_path, [("a", "pos"), ("b", " ")])


def test_swapped_columns_are_noticed(tmp_path: Path) -> None:
    rows = [(f"text {i}", "pos" if i % 2 else "neg") for i in range(40)]
    write(tmp_path, "a.tsv", [f"{text}\t{label}" for text, label in rows])
    with pytest.raises(DataError, match=r"40 different labels in 40 examples.*texts first"):
        label_set(read_labelled(("a.tsv",), ("2", "1"), tmp_path))


def test_two_columns_are_needed(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", ["a", "b"])
    with pytest.raises(ConfigError, match=r"two columns \(text, label\), or three for pairs of texts; a\.txt give"):
        read_labelled(("a.txt",), (), tmp_path)
    write(tmp_path, "b.labels", ["x"])
    with pytest.raises(DataError, match=r"a\.txt has 2 lines but .*b\.labels has 1"):
        read_labelled(("a.txt", "b.labels"), (), tmp_path)
