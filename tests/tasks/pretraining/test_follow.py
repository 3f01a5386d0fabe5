"""`follow`: the probability that BERT's head gives to one text after another, in Python and as a command."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from small_documents import make

from regard.data.batching.passages import Passages
from regard.data.files.plain import PlainText
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.errors import RegardError
from regard.models.masked import MaskedWords
from regard.models.stack import Stack, StackConfig
from regard.nn.layout import Ragged
from regard.tasks.pretraining import use
from regard.tasks.pretraining.batches import FOLLOWS, MaskedPassages
from regard.tasks.pretraining.task import MaskedLanguage
from regard.tasks.pretraining.verbs import Follow, Followed
from regard.tasks.setup import Use
from regard.text import Tokenizer, TokenizerConfig


def model_for(task: MaskedLanguage) -> MaskedWords:
    torch.manual_seed(0)
    sizes = {"d_model": 32, "n_heads": 2, "n_layers": 2, "d_ff": 64, "max_length": 16, "n_segments": 2, "dropout": 0.0}
    return MaskedWords(Stack(StackConfig(vocab_size=task.tokenizer.vocab_size, causal=False, **sizes)), nsp=True)  # type: ignore[arg-type]


def asked(task: MaskedLanguage, model: MaskedWords, texts: list[str], nexts: list[str]) -> list[Followed]:
    return task.verbs["follow"](Use(model, Engine(model), DecodingConfig()), Follow(texts, nexts))


def test_it_is_the_head_of_the_model(tmp_path: Path) -> None:
    task = make(tmp_path)
    model = model_for(task).eval()
    texts, nexts = ["the cat says meow", "the dog", ""], ["meow .", "the cat says meow meow .", "the"]
    answers = asked(task, model, texts, nexts)
    start, end = task.tokenizer.start_id, task.tokenizer.end_id
    for text, after, answer in zip(texts, nexts, answers, strict=True):
        ids = torch.tensor([start, *task.tokenizer.encode(text), end, *task.tokenizer.encode(after), end])
        layout = Ragged([len(ids)])
        with torch.no_grad():
            share = model.next_logits(model(ids, layout), layout).softmax(-1)[0, FOLLOWS]
        assert answer.probability == pytest.approx(float(share), abs=1e-6)
    assert [answer.notes for answer in answers] == [[], [], ["the first text is empty"]]


def test_a_long_pair_is_cut_where_it_does_not_meet(tmp_path: Path) -> None:
    task = make(tmp_path)
    model = model_for(task).eval()
    long, short = "cow " * 30 + "the cat says", "meow meow ."
    whole, cut = asked(task, model, [long, "cow " * 7 + "the cat says"], [short, short])
    assert whole.probability == pytest.approx(cut.probability, abs=1e-6)
    assert whole.notes == ["cut to 13 of 36 tokens, those around the place where they meet"] and cut.notes == []


def test_lines_have_two_texts() -> None:
    assert (
        Follow([], []).read("a b\tc", "x:1")
        == Follow([], []).read("a b [SEP] c", "x:1")
        == {"texts": "a b", "nexts": "c"}
    )
    assert Follow([], ["c"]).read("a b", "") == {"texts": "a b"}
    with pytest.raises(RegardError, match="x:3 is one text, 'a b'; give the text that may follow it with --next"):
        Follow([], []).read("a b", "x:3")


@pytest.mark.parametrize("line", ["a b\tc", "a b [SEP] c", "a [SEP] b [SEP] c"])
@pytest.mark.parametrize("where", ["x:3", ""])
def test_pairs_do_not_get_another_text(line: str, where: str) -> None:
    hint = "leave out --next, or give one text per line"
    said = f"{where or repr(line)}: a tab or [SEP] already divides two texts; {hint}"
    with pytest.raises(RegardError, match=re.escape(said)):
        Follow([], ["c"]).read(line, where)


@pytest.mark.parametrize("kind", ["bpe", "words", "characters", "spaces"])
def test_the_second_text_is_read_as_in_training(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("Cats", "Dogs", "Cows", "Hens", "Owls", "Foxes")
    lines = [f"{names[i % 6]} eat {i % 7}. {names[i // 6 % 6]} sleep." for i in range(60)]
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    text = PlainText.read(("text.txt",), str(tmp_path))
    tokenizer = Tokenizer.train(lines, TokenizerConfig(kind=kind, vocab_size=400, extra=("<mask>",)))
    passages = MaskedPassages(Passages(text, "lines", 61, tokenizer, None), tokenizer, 0.15, nsp=True)
    batch = passages.batch(np.arange(len(lines)), seed=1, draw=0)
    tokens = batch.tokens.clone()
    tokens[batch.places] = batch.labels
    trained = [row.tolist() for row in tokens.split(batch.layout.lengths.tolist())]
    parts = [row[1:-1].index(tokenizer.end_id) + 1 for row in trained]
    firsts = [tokenizer.decode(row[:middle]) for row, middle in zip(trained, parts, strict=True)]
    cut_seconds = [tokenizer.decode(row[middle:]).strip() for row, middle in zip(trained, parts, strict=True)]
    # A second text of training may end early: asked about is the rest of its document, too.
    rests = [next(line[line.index(cut) :] for line in lines if cut in line) for cut in cut_seconds]

    read: list[np.ndarray] = []
    monkeypatch.setattr(use, "read_together", lambda documents, *_: read.extend(documents) or [])
    sizes = {"d_model": 8, "n_heads": 1, "n_layers": 1, "d_ff": 8, "max_length": 100}
    model = MaskedWords(Stack(StackConfig(vocab_size=tokenizer.vocab_size, causal=False, **sizes)), nsp=True)  # type: ignore[arg-type]
    use.follow(model, tokenizer, Follow(firsts, rests), 1000)
    assert len(set(rests) & set(lines)) > 5  # whole documents
    for row, ids in zip(trained, read, strict=True):
        assert ids[: len(row) - 1].tolist() == row[:-1]


def test_a_model_without_the_head_does_not_offer_it(tmp_path: Path) -> None:
    assert "follow" not in make(tmp_path, nsp=False).verbs
