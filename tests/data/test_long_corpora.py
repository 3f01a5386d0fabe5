"""Generated texts: what they say is true, and the same every time."""

import random
from itertools import islice

import pytest

from regard.data.corpora import listops, recall, totals


@pytest.mark.parametrize("length", [41, 4096])
def test_a_far_line_is_as_long_as_asked_and_answers_its_own_questions(length):
    (text,) = recall.far_lines(length, 1)
    assert len(text) == length
    asked, value = recall.question(text)
    key = asked[-1]
    assert text[text.index(key) + 1] == value  # the first time that it stands there is its definition
    pairs = {text[i : i + 2] for i in range(0, 2 * recall.N_PAIRS, 2)}
    assert {*text.split("?")[1:]} == pairs and len(pairs) == recall.N_PAIRS
    assert recall.far_lines(length, 1) == [text]


def test_near_lines_have_all_distances():
    counts = [text.count(".") for text in recall.near_lines(0, 300)]
    assert min(counts) < 8 and max(counts) > 80 and sum(count < 20 for count in counts) in range(110, 190)


def value_of(tokens):
    """An oracle: a stack of open lists."""
    lists, names = [[]], []
    for token in tokens:
        if token.isdigit():
            lists[-1].append(int(token))
        elif token == "]":
            values, name = sorted(lists.pop()), names.pop()
            n = len(values)
            middle = values[n // 2] if n % 2 else (values[n // 2 - 1] + values[n // 2]) // 2
            lists[-1].append({"MIN": values[0], "MAX": values[-1], "SM": sum(values) % 10, "MED": middle}[name])
        else:
            names.append(token)
            lists.append([])
    ((value,),) = lists
    return value


def test_lists_come_to_what_an_oracle_says():
    drawn = list(islice(listops.trees(3, lengths=(20, 200)), 100))
    for tree in drawn:
        assert value_of(tree.tokens) == tree.value and 20 < len(tree.tokens) < 200
    assert {token for tree in drawn for token in tree.tokens} == {*listops.OPERATORS, "]", *map(str, range(10))}


def test_a_tree_is_not_deeper_than_it_may_be():
    deepest = 0
    draw = random.Random(0)
    for _ in range(2000):
        depth = 0
        for token in listops.Tree(draw).tokens:
            depth += (token in listops.OPERATORS) - (token == "]")
            deepest = max(deepest, depth)
    assert deepest == listops.MOST_DEEP - 1


def test_the_files_are_written(tmp_path):
    assert "96 of train.tsv" in listops.write(tmp_path, share=0.001)
    label, text = (tmp_path / "test.tsv").read_text().splitlines()[0].split("\t")
    assert str(value_of(text.split())) == label


def test_totals_are_what_the_words_come_to():
    drawn = list(islice(totals.sums(0), 200))
    assert drawn == list(islice(totals.sums(0), 200)) and len({str(rows) for rows in drawn}) == 200
    digits = {word: str(digit) for digit, word in enumerate(totals.DIGITS)}
    for rows in drawn:
        for n in range(1, len(rows) + 1):
            words = [word for word, _ in rows[: n - (rows[n - 1][0] in totals.SIGNS)]]
            read = " ".join({"plus": "+", "minus": "-"}.get(word) or digits[word] for word in words)
            assert eval(read) == rows[n - 1][1]


def test_totals_are_written_as_words_and_numbers(tmp_path):
    told = totals.write(tmp_path)
    blocks = [(tmp_path / f"{part}.txt").read_text().split("\n\n") for part in ("train", "valid", "test")]
    assert [len(part) for part in blocks] == [8000, 500, 1000] and "8,000 (train)" in told
    texts = [" ".join(row.split("\t")[0] for row in block.splitlines()) for part in blocks for block in part]
    assert len(set(texts)) == 9500  # no sum is in two parts
