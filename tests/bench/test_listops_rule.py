"""The rule that looks at the first operator alone, on lines where it is known what that is worth."""

from pathlib import Path

from bench.listops import measure


def test_the_rule_answers_what_is_most_frequent_after_an_operator(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("0\tMIN 0 4 ]\n0\tMIN 0 2 ]\n4\tMIN 4 5 ]\n9\tMAX 9 MIN 4 0 ] ]\n")
    (tmp_path / "test.tsv").write_text("0\tMIN 0 9 ]\n4\tMIN 4 MAX 3 9 ] ]\n9\tMAX 9 0 ]\n3\tSM 1 2 ]\n")
    assert measure(tmp_path) == ({"MIN": "0", "MAX": "9"}, 2, 4)
