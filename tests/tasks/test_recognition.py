"""Which task takes which files for its own, and settings that read them."""

import gzip
import json
import random
from pathlib import Path

import pytest

from regard.config import build
from regard.data.config import DataConfig
from regard.tasks.table import TASKS, recognize_all

DATA = Path(__file__).parents[2].parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="no shared data")

WORDS = ["apple", "bird", "black", "dog", "eats", "green", "house", "in", "man", "on", "red", "sees", "the", "under"]


def sentences(n: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(4, 12))) for _ in range(n)]


def write(folder: Path, name: str, lines: list[str]) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_records(folder: Path, name: str, records: list[dict[str, object]]) -> Path:
    return write(folder, name, [json.dumps(record) for record in records])


def read(files: list[Path]) -> tuple[str, dict[str, object], dict[str, object]]:
    """The first task; its settings must be settings, and it must read its training data with them."""
    name, recognized = recognize_all(files)[0]
    data, task = dict(recognized.data), dict(recognized.task)
    settings = build(TASKS[name].settings, task, "task")
    assert TASKS[name].read_parts(settings, build(DataConfig, data, "data")).train is not None
    assert 0 < recognized.certainty <= 1
    assert recognized.why.startswith(files[0].name) or files[0].name in recognized.why
    return name, data, task


def reversed_words(lines: list[str]) -> list[str]:
    return [" ".join(word[::-1] for word in line.split()) for line in lines]


def test_parallel_text_is_translated_in_the_order_given(tmp_path):
    files = []
    for part, n, seed in (("train", 40, 0), ("dev", 20, 1), ("test_2016", 20, 2)):
        lines = sentences(n, seed)
        files.append(write(tmp_path, f"{part}.en", lines))
        files.append(write(tmp_path, f"{part}.fr.gz", reversed_words(lines)))
    files[2:4] = files[3], files[2]  # what the training files say holds for the others
    name, data, task = read(files)
    assert (name, task) == ("translation", {"source": "English", "target": "French"})
    assert data == {
        "root": str(tmp_path),
        "train": ("train.en", "train.fr.gz"),
        "valid": ("dev.en", "dev.fr.gz"),
        "test": ("test_2016.en", "test_2016.fr.gz"),
    }


def test_text_with_another_number_of_lines_is_not_parallel(tmp_path):
    lines = sentences(40)
    files = [write(tmp_path, "a.en", lines), write(tmp_path, "a.fr", reversed_words(lines[1:]))]
    assert recognize_all(files) == []


def test_text_whose_lines_do_not_belong_together_is_not_parallel(tmp_path):
    files = [write(tmp_path, "a.en", sentences(500)), write(tmp_path, "a.fr", sentences(500, seed=1))]
    assert recognize_all(files) == []


def test_a_labeled_table_has_its_text_before_its_label(tmp_path):
    rows = [f"{('ham', 'spam')[i % 2]}\t{line}" for i, line in enumerate(sentences(30))]
    name, data, _ = read([write(tmp_path, "messages.tsv", rows)])
    assert (name, data["columns"], data["valid_share"]) == ("classification", ("2", "1"), 0.1)


def test_a_header_names_the_columns(tmp_path):
    rows = ["id,text,label", *(f'{i},"{line}, so",{i % 3}' for i, line in enumerate(sentences(30)))]
    name, data, _ = read([write(tmp_path, "x/train.csv", rows), write(tmp_path, "y/test.csv", rows)])
    assert (name, data["columns"]) == ("classification", ("text", "label"))
    assert (data["root"], data["train"], data["test"]) == (str(tmp_path), ("x/train.csv",), ("y/test.csv",))


def test_pairs_of_texts_can_have_a_label(tmp_path):
    records = [{"a": line, "b": line[::-1], "label": i % 2 == 0} for i, line in enumerate(sentences(30))]
    name, data, _ = read([write_records(tmp_path, "pairs.jsonl", records)])
    assert (name, data["columns"]) == ("classification", ("a", "b", "label"))


def test_a_table_of_a_long_and_a_short_text_is_summarized(tmp_path):
    pairs = zip(sentences(30), sentences(150, seed=1), strict=False)
    rows = ["subject\tbody", *(f"{short}\t{' '.join([text] * 6)}" for short, text in pairs)]
    name, data, task = read([write(tmp_path, "mails.tsv", rows)])
    assert (name, data["columns"]) == ("translation", ("body", "subject"))
    assert task == {"source": "body", "target": "subject", "long": "cut"}


def test_plain_text_is_divided_by_name(tmp_path):
    files = [write(tmp_path, f"wiki.{part}.tokens", sentences(30, i)) for i, part in enumerate(("test", "train"))]
    name, data, _ = read(files)
    assert (name, data["train"], data["test"]) == ("language", ("wiki.train.tokens",), ("wiki.test.tokens",))


def test_wrapped_lines_are_one_text(tmp_path):
    text = " ".join(sentences(60))
    lines = [text[i : i + 70].strip() for i in range(0, len(text), 70)]
    assert read([write(tmp_path, "book.txt", lines)])[2] == {"unit": "text"}


def test_words_with_tags_have_empty_lines_between_sentences(tmp_path):
    lines = []
    for sentence in sentences(20):
        lines += [f"{word} X {'NOUN' if len(word) > 3 else 'O'}" for word in sentence.split()] + [""]
    name, data, task = read([write(tmp_path, "train.conll", lines), write(tmp_path, "valid.conll", lines)])
    assert (name, data["valid"], task) == ("tagging", ("valid.conll",), {"neutral": "O"})


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (lambda word: len(word) - 0.5, "numbers"),  # numbers with a point are no names
        (lambda word: 37 * sum(map(ord, word)), "numbers"),  # too many different ones for tags
        (lambda word: len(word) % 3, "tagging"),
    ],
)
def test_words_with_numbers(tmp_path, number, kind):
    lines = [row for text in sentences(20) for row in (*(f"{word} {number(word)}" for word in text.split()), "")]
    assert read([write(tmp_path, "train.txt", lines)])[0] == kind


def test_columns_of_numbers_are_no_words(tmp_path):
    lines = [row for i in range(20) for row in (f"{i} {i / 7}", f"{i + 1} {i / 3}", "")]
    assert recognize_all([write(tmp_path, "train.txt", lines)]) == []


def test_questions_come_with_a_text_that_answers_them(tmp_path):
    contexts = sentences(40)
    records = [{"question": "What?", "context": line, "answers": [line.split()[0]]} for line in contexts]
    assert read([write_records(tmp_path, "train.jsonl", records)])[0] == "answers"
    asked = {"question": "What?", "id": "1", "answers": [{"text": contexts[0].split()[0], "answer_start": 0}]}
    squad = {"version": "1.1", "data": [{"paragraphs": [{"context": line, "qas": [asked]} for line in contexts]}]}
    assert read([write(tmp_path, "squad.json", [json.dumps(squad)])])[0] == "answers"


def test_conversations_end_with_an_answer(tmp_path):
    lines = sentences(40)
    answer = {"role": "assistant", "content": "Good morning."}
    talks = [{"messages": [{"role": "user", "content": line}, answer]} for line in lines]
    assert read([write_records(tmp_path, "train.jsonl", talks)])[0] == "chat"
    assert (
        read([write_records(tmp_path, "a.jsonl", [{"prompt": line, "answer": "Yes."} for line in lines])])[0] == "chat"
    )
    records = [{"instruction": line, "output": line[::-1]} for line in lines]
    name, data, _ = read([write_records(tmp_path, "b.jsonl", records)])
    assert (name, data["columns"]) == ("chat", ("instruction", "output"))


def test_chosen_and_rejected_answers_are_preferences(tmp_path):
    pair = {"prompt": "Hello!", "chosen": "Good morning.", "rejected": "What?"}
    names = [name for name, _ in recognize_all([write_records(tmp_path, "pairs.jsonl", [pair] * 30)])]
    assert names == ["preference"]


@pytest.mark.sampled("every case is a training of its own")
@pytest.mark.parametrize(
    "name, data",
    [
        ("binary.txt", bytes(range(256)) * 40),
        ("zeros.txt", b"text\0text\n" * 40),
        ("one-line.txt", b"word " * 300_000),
        ("one-line.jsonl", b'{"messages": "' + b"x" * 2_000_000),
        ("empty.txt", b""),
        ("cut.txt.gz", gzip.compress(random.Random(0).randbytes(4000))[:-1000]),
        ("not-packed.xz", b"plain text\n" * 10),
        ("numbers.csv", b"date,a,b\n" + b"2016-07-01 00:00:00,5.8,2.0\n" * 40),
        ("ragged.tsv", b"one\ttwo\none\n" * 40),
        ("open.csv", b'a,"b\n' * 41),
        ("numbers.txt", b"1 2 3\n4 5 6\n" * 40),
        ("list.jsonl", b"[1, 2]\n" * 40),
        ("settings.json", b'{"a": 1}'),
        ("deep.jsonl", b"[" * 100_000 + b"\n"),
        ("latin.txt", "été\n".encode("latin-1") * 40),
    ],
)
def test_what_is_something_else_is_not_recognized(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    assert recognize_all([tmp_path / name]) == []
    assert recognize_all([tmp_path / name, tmp_path / name]) == []


def test_folders_and_missing_files_are_not_recognized(tmp_path):
    assert recognize_all([]) == []
    assert recognize_all([tmp_path]) == []
    assert recognize_all([tmp_path / "missing.txt"]) == []


MULTI30K = tuple(f"multi30k/{part}.{code}.xz" for part in ("train", "val", "test_2016_flickr") for code in ("en", "de"))
TATOEBA = tuple(f"tatoeba-en-fr/{part}.{code}.xz" for part in ("train", "valid") for code in ("en", "fr"))


REAL = {
    "translation": [TATOEBA, MULTI30K, ("aeslc/train.jsonl.xz", "aeslc/dev.jsonl.xz", "aeslc/test.jsonl.xz")],
    "classification": [
        ("sms-spam/SMSSpamCollection.tsv.xz",),
        ("sst2/train.tsv.xz", "sst2/dev.tsv.xz"),
        ("imdb/train.tsv.xz", "imdb/test.tsv.xz"),
        ("boolq/train.jsonl.xz", "boolq/dev.jsonl.xz"),
    ],
    "language": [
        ("timemachine/timemachine.txt.xz",),
        tuple(f"ptb/ptb.{part}.txt.xz" for part in ("train", "valid", "test")),
        tuple(f"wikitext2/wiki.{part}.tokens.xz" for part in ("train", "valid", "test")),
    ],
    "answers": [("xquad/xquad.en.json.xz",), ("quac/train.jsonl.xz", "quac/val.jsonl.xz")],
    "forecasting": [("ett/ETTh1.csv.xz",), ("weather/weather.csv.xz",)],
}


@pytest.mark.slow  # real data: they take seconds to be unpacked
@needs_data
@pytest.mark.parametrize(
    "task, names",
    [(task, names) for task, sets in REAL.items() for names in sets],
)
def test_real_data_sets_are_recognized(task, names):
    assert recognize_all([DATA / name for name in names])[0][0] == task


@needs_data
def test_images_without_labels_are_not_recognized():
    assert recognize_all([DATA / "mnist/t10k-images.idx3-ubyte.xz"]) == []
