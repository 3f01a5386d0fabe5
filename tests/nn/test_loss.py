import pytest
import torch

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
    one = loss.loss_and_gradient(logits, labels, smoothing)
    other = loss.loss_and_gradient_in_place(logits.clone(), labels, smoothing)
    torch.testing.assert_close(one, other)


def test_without_gradients_only_the_loss_is_made():
    hidden, weight, labels = torch.randn(5, 8), torch.randn(12, 8), torch.zeros(5, dtype=torch.long)
    ours = loss.cross_entropy(hidden, weight, labels, 0.1)
    torch.testing.assert_close(ours, loss.plain_cross_entropy(hidden, weight, labels, 0.1))
