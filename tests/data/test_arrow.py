"""Parquet and Arrow files say the same as JSONL; without pyarrow the error says what to install."""

import json
from pathlib import Path

import pytest

from regard.data.config import DataConfig
from regard.data.files.arrow import spread_out
from regard.data.files.labelled import labelled_parts
from regard.data.files.reading import read_columns
from regard.errors import DataError, MissingLibrary
from regard.tasks.recognition import recognize

ROWS = [{"text": f"the {i}th dog is {word}", "label": i % 2} for i, word in enumerate(["good", "bad"] * 20)]


def write_table(path: Path, rows: list[dict[str, object]], names: list[str] | None = None) -> Path:
    """As `datasets` writes them, with the names of labels in the metadata."""
    arrow = pytest.importorskip("pyarrow")
    table = arrow.Table.from_pylist(rows)
    if names:
        features = {"label": {"names": names, "_type": "ClassLabel"}, "text": {"_type": "Value", "dtype": "string"}}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, path)
    else:
        import pyarrow.ipc

        with pyarrow.ipc.new_stream(str(path), table.schema) as stream:
            stream.write_table(table)
    return path


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        with pytest.raises(MissingLibrary, match=r"pip install '\.\[parquet\]' in a checkout"):
            read_columns(tmp_path / "a.parquet", ("text",))
    else:
        with pytest.raises(DataError, match="cannot be read as Parquet"):
            read_columns(tmp_path / "a.parquet", ("text",))


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_table_says_the_same_as_jsonl(kind: str, tmp_path: Path) -> None:
    path = write_table(tmp_path / f"a.{kind}", ROWS)
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    columns = ("text", "label")
    assert read_columns(path, columns) == read_columns(tmp_path / "a.jsonl", columns)
    with pytest.raises(DataError, match="has no 'title'; it has: text, label"):
        read_columns(path, ("title",))
    chosen = recognize([path], None)
    assert chosen.kind == "classification" and chosen.files.data["columns"] == columns


def test_a_saved_folder_is_recognized_with_its_parts_and_the_names_of_labels(tmp_path: Path) -> None:
    folder = tmp_path / "reviews"
    for part in ("train", "validation", "test"):
        file = write_table(folder / part / "data-00000-of-00001.arrow", ROWS, ["negative", "positive"])
        (folder / part / "state.json").write_text(json.dumps({"_data_files": [{"filename": file.name}]}))
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "validation", "test"]}))
    chosen = recognize([folder], None)
    assert chosen.kind == "classification"
    assert chosen.files.data["valid"] == ("validation/data-00000-of-00001.arrow",)
    data = DataConfig(**chosen.files.data)  # type: ignore[arg-type]
    assert set(labelled_parts(data).train.labels) == {"negative", "positive"}


def test_a_folder_of_parquet_files_is_its_files(tmp_path: Path) -> None:
    for name in ("train-0.parquet", "test-0.parquet"):
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / name).write_bytes(b"")
    assert [path.name for path in spread_out([tmp_path])] == ["test-0.parquet", "train-0.parquet"]
    assert list(spread_out([tmp_path / "else"])) == [tmp_path / "else"]
