"""How fast rotary positions turn: every scaling as transformers has it, and texts that outgrow a training."""

import pytest
import torch

from regard.errors import ConfigError
from regard.models.heads import LanguageModel
from regard.models.stack import Stack, StackConfig
from regard.models.transformer import TransformerConfig
from regard.nn.layout import Ragged
from regard.nn.linear import logits
from regard.nn.positions import POSITIONS, Space
from regard.nn.turning import SCALINGS, Turning

D_HEAD, LONGEST, BEFORE = 16, 512, 64
SETTINGS = {
    "none": ({}, {"rope_type": "default"}),
    "linear": ({}, {"rope_type": "linear", "factor": 8.0}),
    "dynamic": ({}, {"rope_type": "dynamic", "factor": 8.0}),
    "llama3": (
        {"slow": 1.0, "fast": 4.0},
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    ),
    "yarn": ({"slow": 2.0, "fast": 16.0}, {"rope_type": "yarn", "factor": 8.0, "beta_slow": 2.0, "beta_fast": 16.0}),
}
SMALL = {"d_model": 32, "n_heads": 2, "n_layers": 2, "d_ff": 24, "vocab_size": 20, "dropout": 0.0, "max_length": 64}
DYNAMIC = SMALL | {"position": "rotary", "rotary_scaling": "dynamic", "rotary_factor": 4.0, "rotary_length": 16}


def space(scaling: str, **more: float) -> Space:
    turning = Turning(base=500.0, scaling=scaling, factor=8.0, length=BEFORE, **more)  # type: ignore[arg-type]
    return Space(32, 2, LONGEST, turning=turning)


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("length", [BEFORE, LONGEST])
def test_angles_are_those_of_transformers(scaling: str, length: int) -> None:
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    more, theirs = SETTINGS[scaling]
    longest = BEFORE if scaling == "dynamic" else LONGEST  # there it is the length of the first training
    before = {"original_max_position_embeddings": BEFORE} if scaling in ("llama3", "yarn") else {}
    angles = {"rope_theta": 500.0, **before, **theirs}
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": longest}
    rotary = llama.LlamaRotaryEmbedding(llama.LlamaConfig(**sizes, rope_parameters=angles))
    cos, sin = rotary(torch.zeros(1), torch.arange(length)[None])
    turn = POSITIONS["rotary"](space(scaling, **more)).turn(Ragged([length]))
    torch.testing.assert_close(turn[:, 1::2], cos[0, :, : D_HEAD // 2], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(turn[:, 0::2], sin[0, :, : D_HEAD // 2], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("scaling", [name for name in SCALINGS if name != "none"])
def test_every_scaling_turns_long_texts_slower(scaling: str) -> None:
    plain, scaled = (POSITIONS["rotary"](space(name)).turn(Ragged([LONGEST])) for name in ("none", scaling))
    gain = scaled[0, 1]  # of the first place, which is not turned
    assert (scaled[:, -1] / gain)[-1] > plain[-1, -1]


def test_each_sequence_is_turned_by_its_own_length() -> None:
    rotary = POSITIONS["rotary"](space("dynamic"))
    together = rotary.turn(Ragged([BEFORE, 200, LONGEST]))
    for part, length in zip(together.split([BEFORE, 200, LONGEST]), (BEFORE, 200, LONGEST), strict=True):
        torch.testing.assert_close(part, rotary.turn(Ragged([length])))


@torch.no_grad()
def test_a_text_that_grows_is_turned_by_its_length_so_far() -> None:
    """Each new token by the rates of its step, as transformers' cache has it; in rows of several lengths, too."""
    torch.manual_seed(0)
    stack = Stack(StackConfig(**DYNAMIC)).eval()
    state = stack.start(2, 40)
    rotary, seen = stack.position, []
    for n in (10, 1, 20):
        seen.append(rotary.turn(state.queries(n)))
        stack.step(torch.ones(2, n, dtype=torch.long), state)
    for turn, (first, last) in zip(seen, ((0, 10), (10, 11), (11, 31)), strict=True):
        torch.testing.assert_close(turn[0], rotary.turn(Ragged([last]))[first:])


@torch.no_grad()
def test_a_prompt_counts_whole_whatever_stands_beside_it() -> None:
    """Other prompts are longer, which does not change its angles."""
    torch.manual_seed(0)
    model = LanguageModel(Stack(StackConfig(**DYNAMIC))).eval()
    prompts = [torch.randint(20, (n,)).tolist() for n in (1, 30, 33, 12)]
    _, first = model.start(prompts, 0, room=4)
    for row, prompt in zip(first, prompts, strict=True):
        whole = model(torch.tensor(prompt), Ragged([len(prompt)]))[-1]
        torch.testing.assert_close(row, logits(whole, model.output_table), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("config", [TransformerConfig, StackConfig])
def test_settings_that_mean_nothing_are_errors(config: type[TransformerConfig]) -> None:
    for wrong, message in (
        ({"rotary_scaling": "longrope"}, "unknown scaling of rotary positions"),
        ({"rotary_factor": 0.5}, "rotary_factor must be at least 1"),
        ({"rotary_length": -1}, "rotary_length must not be negative"),
        ({"rotary_scaling": "yarn", "rotary_slow": 32.0}, "rotary_fast .32.0. must be above rotary_slow .32.0."),
        ({"rotary_gain": -1.0}, "rotary_gain must not be negative"),
        ({"rotary_scaling": "dynamic", "d_head": 2}, "heads of more than 2 channels"),
        ({"rotary_scaling": "linear", "position": "learned"}, 'rotary_scaling needs position = "rotary"'),
    ):
        with pytest.raises(ConfigError, match=message):
            config(**{**DYNAMIC, **wrong})  # type: ignore[arg-type]
