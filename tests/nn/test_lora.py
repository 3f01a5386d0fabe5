"""LoRA: where it begins, what learns, and that adapters apart are the merged weights."""

import pytest
import torch
from torch import nn

from regard.errors import ConfigError
from regard.models.heads import Classifier, LanguageModel
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.stack import Stack, StackConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.layout import Ragged
from regard.nn.lora import AdaptedLinear, LoraConfig, adapt, merged
from regard.nn.recurrent import Cell

SMALL = {"vocab_size": 11, "d_model": 8, "n_heads": 2, "n_layers": 2, "d_ff": 16, "dropout": 0.0, "max_length": 16}
CONFIG = LoraConfig(rank=3, alpha=6.0, targets=("to_queries", "to_values", "expand"))
OF_CELLS = LoraConfig(rank=3, alpha=6.0, targets=("U", "V"))
TOKENS, LAYOUT = torch.tensor([1, 5, 4, 9, 1, 7]), Ragged([4, 2])


def language() -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(Stack(StackConfig(**SMALL)))


def classifier() -> Classifier:
    torch.manual_seed(0)
    return Classifier(Stack(StackConfig(**SMALL, causal=False)), 2, "mean", 0.0)


class Translation(nn.Module):
    """A translator, called as readers are: the target is the source."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = Transformer(TransformerConfig(**SMALL))

    def forward(self, tokens, layout):
        return self.inner(tokens, layout, tokens, layout)


def recurrent() -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(Recurrent(RecurrentConfig(vocab_size=11, d_model=8, d_hidden=8, cell="gru", dropout=0.0)))


MODELS = {"recurrent": recurrent, "language": language, "classifier": classifier, "translation": Translation}


def learn_something(model: nn.Module, steps: int = 3) -> None:
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(learnt, lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        model(TOKENS, LAYOUT).square().sum().backward()
        optimizer.step()


def give_adapters(model: nn.Module) -> None:
    adapt(model, OF_CELLS if any(isinstance(module, Cell) for module in model.modules()) else CONFIG)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_it_begins_where_the_other_ended_and_leaves_that_alone(make):
    before, model = make(), make()
    give_adapters(model)
    assert torch.equal(model(TOKENS, LAYOUT), before(TOKENS, LAYOUT))
    learn_something(model)
    assert not torch.allclose(model(TOKENS, LAYOUT), before(TOKENS, LAYOUT), atol=1e-3)
    after = model.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.state_dict().items())


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_merged_is_the_same_as_apart(make):
    model, whole = make(), make()
    give_adapters(model)
    learn_something(model)
    whole.load_state_dict(merged(model.state_dict(), CONFIG.scale))  # strict: under the names without adapters
    torch.testing.assert_close(whole(TOKENS, LAYOUT), model(TOKENS, LAYOUT), atol=1e-5, rtol=1e-5)
    with torch.no_grad():  # the order of products that decoding uses
        torch.testing.assert_close(whole(TOKENS, LAYOUT), model(TOKENS, LAYOUT), atol=1e-5, rtol=1e-5)


def test_the_equation():
    torch.manual_seed(0)
    frozen = nn.Linear(5, 4)
    adapted = AdaptedLinear(frozen, rank=2, scale=1.5)
    with torch.no_grad():
        adapted.lora_up.normal_()
    x = torch.randn(3, 5)
    A, B = adapted.lora_down, adapted.lora_up
    expected = x @ frozen.weight.T + frozen.bias + 1.5 * x @ A.T @ B.T
    torch.testing.assert_close(adapted(x), expected)


def test_a_cell_reads_the_same_by_its_kernel_and_by_its_equation():
    model = recurrent()
    give_adapters(model)
    learn_something(model)
    cell, x = model.reader.stack.forwards[0], torch.randn(2, 5, 8)
    state = cell.zero_state(2, x)
    for one, other in zip(cell(x, state), cell.readable(x, state), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_only_adapters_learn_and_what_is_new():
    model = classifier()
    adapt(model, CONFIG, also={"to_labels.weight", "to_labels.bias"})
    learnt = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    adapters = {name for name in learnt if ".lora_" in name}
    assert learnt - adapters == {"to_labels.weight", "to_labels.bias"}
    assert len(adapters) == 2 * 2 * 3  # A and B, in two layers, of three products
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters() if name in adapters and "blocks.0" in name}
    assert shapes["reader.blocks.0.feed_forward.expand.lora_down"] == (3, 8)
    assert shapes["reader.blocks.0.feed_forward.expand.lora_up"] == (16, 3)


def test_the_scale_follows_alpha_over_rank():
    assert LoraConfig(rank=4, alpha=8.0).scale == 2.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": -1}, "rank must not be negative"),
        ({"rank": 2, "alpha": 0.0}, "alpha must be above 0"),
        ({"rank": 2, "targets": ()}, "targets must name"),
    ],
)
def test_settings_that_mean_nothing(settings, message):
    with pytest.raises(ConfigError, match=message):
        LoraConfig(**settings)


def test_a_target_that_is_not_there():
    with pytest.raises(ConfigError, match="no product 'to_quarries'; its products are: contract, expand"):
        adapt(language(), LoraConfig(rank=2, targets=("to_quarries",)))
    with pytest.raises(ConfigError, match="its products are: U, V"):
        adapt(LanguageModel(Recurrent(RecurrentConfig(vocab_size=9, d_model=4))), LoraConfig(rank=2))
