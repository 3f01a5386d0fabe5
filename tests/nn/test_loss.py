import pytest
import torch
from torch.nn import functional as F

from regard.nn import loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [7, 64, 10**6])  # 1 row, 5 rows, all rows at a time
@pytest.mark.parametrize("has_bias", [False, True])
def test_chunks_give_the_loss_and_gradients_of_the_whole(smoothing, chunk, has_bias, monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setitem(loss.CHUNK, "cpu", chunk)
    hidden, weight = torch.randn(31, 8, requires_grad=True), torch.randn(12, 8, requires_grad=True)
    bias = torch.randn(12, requires_grad=True) if has_bias else None
    learnt = (hidden, weight, bias) if has_bias else (hidden, weight)
    labels = torch.randint(0, 12, (31,))
    results = []
    for function in (loss.cross_entropy, loss.plain_cross_entropy):
        value = function(hidden, weight, labels, smoothing, bias)
        results.append([value, *torch.autograd.grad(value * 0.5, learnt)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_two_kernels_agree(smoothing):
    torch.manual_seed(0)
    logits, labels = torch.randn(5, 12), torch.randint(0, 12, (5, 1))
    one = loss.loss_and_gradient(logits, labels, smoothing, 12)
    other = loss.loss_and_gradient_in_place(logits.clone(), labels, smoothing, 12)
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_in_half_precision_the_logits_are_rounded_and_nothing_else(smoothing):
    """On a CPU, too, under autocast: the sum over thousands of words is made in float32."""
    torch.manual_seed(0)
    hidden, weight = torch.randn(64, 16).bfloat16(), torch.randn(4000, 16).bfloat16()
    labels = torch.randint(0, 4000, (64,))
    learnt = [hidden.requires_grad_(), weight.requires_grad_()]
    found = loss.cross_entropy(*learnt, labels, smoothing)
    exact = F.cross_entropy(F.linear(*learnt).float(), labels, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=0)
    for ours, theirs in zip(torch.autograd.grad(found, learnt), torch.autograd.grad(exact, learnt), strict=True):
        assert (ours - theirs).norm() <= 1e-2 * theirs.norm()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("has_bias", [False, True])
def test_tables_filled_up_to_what_kernels_like_change_nothing(smoothing, has_bias, monkeypatch):
    torch.manual_seed(0)
    hidden, weight = torch.randn(9, 8, requires_grad=True), torch.randn(13, 8, requires_grad=True)
    bias = torch.randn(13, requires_grad=True) if has_bias else None
    learnt = (hidden, weight, bias) if has_bias else (hidden, weight)
    labels = torch.randint(0, 13, (9,))
    expected = torch.autograd.grad(loss.plain_cross_entropy(hidden, weight, labels, smoothing, bias), learnt)
    monkeypatch.setitem(loss.ALIGNED, "cpu", 8)
    for one_kernel in (loss.loss_and_gradient, loss.loss_and_gradient_in_place):
        monkeypatch.setattr(loss, "kernel", lambda device, dtype, one=one_kernel: one)
        value = loss.cross_entropy(hidden, weight, labels, smoothing, bias)
        torch.testing.assert_close(torch.autograd.grad(value, learnt), expected, atol=1e-5, rtol=1e-5)


def test_without_gradients_only_the_loss_is_made():
    hidden, weight, labels = torch.randn(5, 8), torch.randn(12, 8), torch.zeros(5, dtype=torch.long)
    ours = loss.cross_entropy(hidden, weight, labels, 0.1)
    torch.testing.assert_close(ours, loss.plain_cross_entropy(hidden, weight, labels, 0.1))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernel is for a GPU")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("n_words", [100, 4096, 37001])
def test_the_kernel_of_a_gpu_gives_what_the_equation_gives(smoothing, n_words):
    torch.manual_seed(0)
    hidden, weight = torch.randn(33, 16, device="cuda"), torch.randn(n_words, 16, device="cuda")
    learnt = hidden.requires_grad_(), weight.requires_grad_()
    labels = torch.randint(0, n_words, (33,), device="cuda")
    results = []
    for function in (loss.cross_entropy, loss.plain_cross_entropy):
        value = function(hidden, weight, labels, smoothing)
        results.append([value, *torch.autograd.grad(value, learnt)])
    torch.testing.assert_close(*results, atol=1e-4, rtol=1e-4)
