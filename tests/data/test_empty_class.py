"""A class of which nothing was said cannot be learnt."""

from pathlib import Path

import pytest

from regard.data.files.labelled import label_set, read_labelled
from regard.errors import DataError


@pytest.mark.parametrize("listed", [(), ("0", "1")])
def test_texts_that_are_empty_teach_nothing(listed: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\tlabel\nhi there\t0\n \t1\n\t1\n")
    labeled = read_labelled(("a.tsv",), ("text", "label"), str(tmp_path))
    with pytest.raises(DataError, match=r"no example of .*a.tsv has the label '1' and a text"):
        label_set(labeled, listed)


def test_no_text_at_all(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\tlabel\n\t0\n \t1\n")
    with pytest.raises(DataError, match=r"every text of .*a.tsv is empty"):
        label_set(read_labelled(("a.tsv",), ("text", "label"), str(tmp_path)))
