from pathlib import Path
from typing import Any

import pytest
import torch
from small_documents import setup
from torch.nn import functional as F

from regard.errors import ConfigError
from regard.models.masked import ReplacedWords, draw
from regard.models.stack import Stack, StackConfig
from regard.runs.weights import weights_of
from regard.tasks.pretraining.task import ReplacedConfig, ReplacedLanguage, judge


@pytest.fixture
def task(tmp_path: Path) -> ReplacedLanguage:
    return ReplacedLanguage.make(ReplacedConfig(window=16), setup(tmp_path))


def model(task: ReplacedLanguage, **settings: Any) -> ReplacedWords:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"d_model": 16, "n_heads": 4, "n_layers": 1, "d_ff": 32, "max_length": 32, "dropout": 0.0}
    sizes |= {"causal": False, "scale_embedding": False, "embedding_norm": True, "pre_norm": False}
    reader = Stack(StackConfig(vocab_size=task.tokenizer.vocab_size, **sizes | settings))
    return task.config.build(reader)


def test_the_generator_is_narrower_and_has_the_readers_embeddings(task: ReplacedLanguage) -> None:
    net = model(task)
    small = net.generator.reader.config
    assert (small.d_model, small.n_heads, small.d_ff, small.d_embedding) == (4, 1, 8, 16)
    assert net.generator.reader.word_table is net.reader.word_table
    names = [name for name in weights_of(net) if name.endswith("embedding.weight")]
    assert names == ["reader.embedding.weight"]  # which another task begins with; the generator's words are the same


@torch.no_grad()
def test_what_is_judged_is_the_text_with_the_generators_words(task: ReplacedLanguage) -> None:
    net, batch = model(task).eval(), task.batch(0, 0)
    found = judge(net, batch)
    own = batch.tokens.clone()
    own[batch.places] = batch.labels
    elsewhere = torch.ones(len(own), dtype=torch.bool)
    elsewhere[batch.places] = False
    assert torch.equal(found.tokens[elsewhere], own[elsewhere])  # also where words were hidden behind others
    assert torch.equal(found.is_replaced, found.tokens != own) and 0 < found.is_replaced.sum() <= batch.n_targets
    assert torch.equal(found.logits, net.replaced_logits(net(found.tokens, batch.layout)))


@torch.no_grad()
def test_a_word_guessed_right_is_the_texts_own(task: ReplacedLanguage, monkeypatch: pytest.MonkeyPatch) -> None:
    net, batch = model(task).eval(), task.batch(0, 0)
    monkeypatch.setattr("regard.tasks.pretraining.task.draw", lambda logits, chance: batch.labels)
    assert not judge(net, batch).is_replaced.any()


@torch.no_grad()
def test_the_loss_is_the_papers(task: ReplacedLanguage) -> None:
    net, batch = model(task).eval(), task.batch(0, 0)
    torch.manual_seed(5)
    loss = task.loss(net, batch) / batch.n_targets
    torch.manual_seed(5)
    found = judge(net, batch)
    hidden = net.generator(batch.tokens, batch.layout)[batch.places]
    words = F.cross_entropy(net.generator.word_logits(hidden), batch.labels)
    p = torch.sigmoid(found.logits)
    told = -torch.where(found.is_replaced, p.log(), (1 - p).log()).mean()
    assert float(loss) == pytest.approx(float(words + 50 * told), rel=1e-5)


def test_no_gradient_goes_through_the_drawn_words(task: ReplacedLanguage) -> None:
    net, batch = model(task), task.batch(0, 0)
    judge(net, batch).nats.backward()
    touched = {name.split(".")[0] for name, parameter in net.named_parameters() if parameter.grad is not None}
    assert touched == {"reader", "detect", "to_replaced"}


def test_words_are_drawn_by_their_probability() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0]]).expand(20_000, 3)
    chance = torch.Generator().manual_seed(0)
    shares = torch.bincount(draw(logits, chance), minlength=3) / 20_000
    torch.testing.assert_close(shares, logits[0].softmax(0), atol=0.02, rtol=0.0)


def test_validation_is_the_same_each_time(task: ReplacedLanguage) -> None:
    net = model(task).eval()
    values = task.validate(net)
    torch.rand(3)
    assert values == task.validate(net) and values.keys() == {"loss", "accuracy", "found", "word_loss"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"generator": 0.0}, "generator must be above 0"), ({"weight": 0.0}, "weight must be above 0")],
)
def test_settings_that_cannot_be(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ReplacedConfig(**settings)
