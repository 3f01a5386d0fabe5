"""Captioners: the doubly stochastic penalty by its equation, images of several sizes, costs, and samples."""

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate
from regard.decoding.ensemble import Ensemble
from regard.errors import ConfigError
from regard.models.image_seq2seq import ImageSeq2Seq, ImageSeq2SeqConfig
from regard.models.image_transformer import ImageTransformer, ImageTransformerConfig
from regard.models.interface import Translator
from regard.models.seq2seq import LOOKS
from regard.nn import paths
from regard.nn.grid import ImagePrompt
from regard.nn.layout import Ragged
from regard.nn.linear import logits
from regard.nn.recurrent import Cell
from regard.nn.scores import SCORES
from regard.nn.watch import watch

V, START, END = 11, 1, 2
SHAPES = [(2, 2), (3, 1), (2, 2), (3, 3)]
TARGETS = [4, 2, 1, 3]
CPU = torch.device("cpu")
IMAGES = {"vocab_size": V, "patch": 4, "side": 3, "dropout": 0.0}


def recurrent(**settings: object) -> ImageSeq2Seq:
    torch.manual_seed(0)
    small = {**IMAGES, "d_model": 8, "d_hidden": 8, "d_image": 32, "n_blocks": 1, "max_length": 32}
    return ImageSeq2Seq(ImageSeq2SeqConfig(**small | settings)).eval()


def transformer(**settings: object) -> ImageTransformer:
    torch.manual_seed(0)
    small = {**IMAGES, "d_model": 16, "n_heads": 2, "n_layers": 1, "d_ff": 32, "max_length": 32}
    return ImageTransformer(ImageTransformerConfig(**small | settings)).eval()


MODELS = {
    **{f"recurrent-{score}": (recurrent, {"score": score}) for score in (*SCORES, "none")},
    **{f"recurrent-{look}": (recurrent, {"look": look}) for look in ("feed", "before")},
    **{f"transformer-{place}": (transformer, {"position": place}) for place in ("sinusoidal", "learned", "rotary")},
    "class-row": (transformer, {"class_row": True}),
    "convolutions": (transformer, {"convolutions": True}),
    "location": (transformer, {"score": "location"}),
}


def made(name: str) -> Translator:
    make, settings = MODELS[name]
    return make(**settings)


def prompts_for(model: Translator, shapes: list[tuple[int, int]] = SHAPES) -> list[ImagePrompt]:
    draw = torch.Generator().manual_seed(1)
    n_before = int(model.config.grid.class_row)
    return [
        ImagePrompt(torch.randint(0, 256, (n_before + h * w, 48), generator=draw).byte(), (h, w)) for h, w in shapes
    ]


def targets() -> tuple[Tensor, Ragged]:
    return torch.randint(0, V, (sum(TARGETS),), generator=torch.Generator().manual_seed(2)), Ragged(TARGETS)


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture")
@pytest.mark.parametrize("name", MODELS)
def test_alone_as_beside_images_of_other_sizes(name: str) -> None:
    model = made(name)
    prompts, (target, layout) = prompts_for(model), targets()
    rows = model(*model.inputs.join(prompts, CPU), target, layout).split(TARGETS)
    for prompt, own, together in zip(prompts, target.split(TARGETS), rows, strict=True):
        alone = model(*model.inputs.join([prompt], CPU), own, Ragged([len(own)]))
        torch.testing.assert_close(alone, together, atol=1e-5, rtol=1e-5)


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture")
@pytest.mark.parametrize("name", MODELS)
def test_what_is_written_depends_on_the_image(name: str) -> None:
    model = made(name)
    (one, other), target = prompts_for(model, [(2, 2)] * 2), torch.tensor([START, 5, 6])
    rows = [model(*model.inputs.join([prompt], CPU), target, Ragged([3])) for prompt in (one, other)]
    assert (rows[0] - rows[1]).abs().max() > 1e-3


@pytest.mark.parametrize("look", LOOKS)
def test_the_penalty_is_its_equation(look: str) -> None:
    """λ Σ_i (1 - Σ_t a_ti)², from the weights that a watcher sees."""
    model, (target, layout) = recurrent(doubly_stochastic=0.7, look=look), targets()
    prompts = prompts_for(model)
    source, source_layout = model.inputs.join(prompts, CPU)
    expected = 0.0
    for prompt, own in zip(prompts, target.split(TARGETS), strict=True):
        with watch(model) as seen:
            model(*model.inputs.join([prompt], CPU), own, Ragged([len(own)]))
        weights = seen.of("cross", 0).weights[0, 0]  # words, patches
        expected += 0.7 * sum((1 - float(weights[:, i].sum())) ** 2 for i in range(len(prompt)))
    hidden, penalty = model.penalized(source, source_layout, target, layout)
    assert penalty.item() == pytest.approx(expected, rel=1e-4)
    torch.testing.assert_close(hidden, model(source, source_layout, target, layout))
    penalty.backward()
    assert model.attention.attend.score.query_to_hidden.weight.grad.abs().max() > 0


@pytest.mark.parametrize("make", [recurrent, transformer])
def test_by_default_there_is_no_penalty(make) -> None:
    model, (target, layout) = make(), targets()
    source = model.inputs.join(prompts_for(model), CPU)
    hidden, penalty = model.penalized(*source, target, layout)
    assert float(penalty) == 0
    torch.testing.assert_close(hidden, model(*source, target, layout))


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture")
@pytest.mark.parametrize("make", [recurrent, transformer])
@pytest.mark.parametrize("settings", [{"beam": 3, "n_best": 2}, {"sample": True, "n_best": 3, "seed": 4}], ids=str)
def test_an_image_gets_the_same_captions_in_any_company(make, settings: dict[str, object]) -> None:
    model = make()
    prompts, config = prompts_for(model), DecodingConfig(**settings, max_length=6)
    together = generate(model, prompts, config, START, END)
    for prompt, hypotheses in zip(prompts, together, strict=True):
        [alone] = generate(model, [prompt], config, START, END)
        assert [h.tokens for h in alone] == [h.tokens for h in hypotheses]


def test_images_of_one_size_are_sampled_by_chance_of_their_own() -> None:
    model = transformer()
    with torch.no_grad():
        model.embedding.weight.zero_()  # every token is as likely as any other, whatever the image
    prompts, config = prompts_for(model, [(2, 2)] * 2), DecodingConfig(sample=True, max_length=8, min_length=8)
    one, other = generate(model, prompts, config, START, END)
    assert one[0].tokens != other[0].tokens


def test_an_ensemble_of_both_kinds_writes() -> None:
    models = [recurrent(), transformer()]
    [[found]] = generate(Ensemble(models), prompts_for(models[0])[:1], DecodingConfig(max_length=5), START, END)
    assert found.tokens


def counted(model: Translator, n: int) -> float:
    """FLOPs per target token of the products that PyTorch sees go by, for the largest image."""
    source = model.inputs.join(prompts_for(model, [(3, 3)]), CPU)
    target = torch.zeros(n, dtype=torch.long)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        logits(model(*source, target, Ragged([n])), model.output_table)
    return counter.get_total_flops() / n


def test_the_cost_is_what_pytorch_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 6
    monkeypatch.setattr(paths, "FAST_PATHS", {})  # not every fused kernel is counted
    monkeypatch.setattr(Cell, "forward", Cell.readable)
    for model in (transformer(), transformer(convolutions=True)):
        unseen = 2 * 2 * (n / 2) * 16  # products, FLOPs: the half of the decoder's keys that its rule hides
        assert counted(model, n) == pytest.approx(model.cost(n).forward + unseen)
    for look in LOOKS:
        model = recurrent(score="general", look=look)
        assert counted(model, n) == pytest.approx(model.cost(n).forward)


def test_wrong_settings_say_what_is_wrong() -> None:
    for make, wrong, message in [
        (recurrent, {"d_image": 30}, "d_image must be a multiple of 8 x patch"),
        (recurrent, {"patch": 3}, "power of two"),
        (recurrent, {"doubly_stochastic": -1.0}, "doubly_stochastic"),
        (recurrent, {"doubly_stochastic": 1.0, "score": "none"}, "a penalty on attention"),
        (transformer, {"position": "alibi"}, "position encoding of images"),
        (transformer, {"position": "rotary", "d_head": 6}, "both halves of a head"),
        (transformer, {"channels": 2}, "channels must be 1"),
        (transformer, {"patch": 3, "convolutions": True}, "power of two"),
    ]:
        with pytest.raises(ConfigError, match=message):
            make(**wrong)
