import pytest
import torch
from rich.console import Console
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from bench.layers import PLANS, draw, peak, run, slope
from bench.memory import STATUS
from bench.table1 import LAYERS, WIDTH, MaskedSelfAttention, SelfAttention, measured_path
from regard.nn.layout import Ragged
from regard.nn.sight import window

CPU = torch.device("cpu")


@pytest.mark.sampled("the cases differ in shape alone", cases=3)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("n", [2, 17, WIDTH + 1, WIDTH + 2])
def test_a_change_travels_as_far_as_the_formula_says(name, n):
    assert measured_path(LAYERS[name], n) == LAYERS[name].longest_path(n)


def test_paths_are_short_through_attention_and_dilation_and_long_through_the_others():
    paths = {name: layer.longest_path(8192) for name, layer in LAYERS.items()}
    assert paths == {
        "self-attention": 1,
        "restricted, mask": 128,
        "restricted": 128,
        "recurrent (LSTM)": 8192,
        "convolution": 8191,
        "dilated": 13,
    }


def multiplications(work):
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        work()
    return counter.get_total_flops() // 2  # a multiplication and an addition


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "recurrent (LSTM)"])
@pytest.mark.parametrize("n", [3 * WIDTH, 5 * WIDTH])
def test_the_counts_are_those_of_the_forward_pass(name, n):
    d = 16
    layer, x = LAYERS[name].make(d, 2), torch.randn(n, d, requires_grad=True)
    assert multiplications(lambda: layer(x, Ragged([n]))) == LAYERS[name].operations(n, d)


def test_the_count_of_the_recurrence_is_that_of_its_equation():
    n, d = 10, 16
    cell, x = LAYERS["recurrent (LSTM)"].make(d, 0).cell, torch.randn(1, n, d)
    work = multiplications(lambda: cell.readable(x, cell.zero_state(1, x)))
    assert work == LAYERS["recurrent (LSTM)"].operations(n, d)


@pytest.mark.parametrize("lengths", [[1], [400], [3, 301, 1, 88]])
def test_blocks_give_what_the_mask_gives(lengths):
    torch.manual_seed(0)
    masked, blocked = MaskedSelfAttention(8, window(4)).double(), SelfAttention(8, window(4)).double()
    blocked.load_state_dict(masked.state_dict())
    x = torch.randn(sum(lengths), 8, dtype=torch.double, requires_grad=True)
    seed = torch.randn_like(x)
    out, gradient = zip(
        *((out := layer(x, Ragged(lengths)), torch.autograd.grad(out, x, seed)[0]) for layer in (masked, blocked)),
        strict=True,
    )
    torch.testing.assert_close(out[0], out[1])
    torch.testing.assert_close(gradient[0], gradient[1])


def test_the_slope_is_the_exponent():
    n = [8, 16, 64]
    assert slope(n, [5 * x**2 for x in n]) == pytest.approx(2)
    assert slope(n, [0, 1, 2]) is None and slope([8], [1]) is None


@pytest.mark.slow  # a whole bench, three seconds
def test_the_report_has_every_layer_at_every_length_and_can_be_drawn(tmp_path, capsys):
    report = run(CPU, 1, tiny=True, skip=("dilated",))
    assert [(row.n, row.contender) for row in report.rows] == [
        (n, name) for n in PLANS["tiny"].lengths for name in LAYERS if name != "dilated"
    ]
    found = report.to_json()["layers"]["recurrent (LSTM)"]
    assert [(each["n"], each["steps"]) for each in found["by_length"]] == [(8, 8), (16, 16), (80, 80)]
    assert found["exponents"]["table"] == 1 and found["exponents"]["counted"] == pytest.approx(1)
    report.print(Console(width=100))
    printed = capsys.readouterr().out
    assert "n² d" in printed and "…" not in printed  # all columns fit
    draw(report, tmp_path / "layers.png")
    assert (tmp_path / "layers.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="only Linux tells")
def test_a_mask_takes_memory_that_blocks_do_not():
    masked, blocked = (peak(name, 4096, PLANS["cpu"], CPU) for name in ("restricted, mask", "restricted"))
    assert masked > 2 * blocked > 0
