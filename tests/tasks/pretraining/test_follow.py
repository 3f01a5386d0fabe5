"""`follow`: the probability that BERT's head gives to one text after another, in Python and as a command."""

from pathlib import Path

import pytest
import torch
from small_documents import make

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.errors import RegardError
from regard.models.masked import MaskedWords
from regard.models.stack import Stack, StackConfig
from regard.nn.layout import Ragged
from regard.tasks.pretraining.batches import FOLLOWS
from regard.tasks.pretraining.task import MaskedLanguage
from regard.tasks.pretraining.verbs import Follow, Followed
from regard.tasks.setup import Use


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


def test_a_model_without_the_head_does_not_offer_it(tmp_path: Path) -> None:
    assert "follow" not in make(tmp_path, nsp=False).verbs
