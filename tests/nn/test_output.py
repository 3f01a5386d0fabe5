import pytest
import torch

from regard.nn.output import BLOCK, logits


@pytest.mark.parametrize("n_words", [7, BLOCK, 2 * BLOCK + 3])
@pytest.mark.parametrize("shape", [(5,), (2, 3), (1, 1)])
def test_blocks_give_the_whole_product(n_words, shape):
    torch.manual_seed(0)
    hidden, table = torch.randn(*shape, 16), torch.randn(n_words, 16)
    with torch.no_grad():
        out = logits(hidden, table)
    assert out.shape == (*shape, n_words)
    torch.testing.assert_close(out, hidden @ table.T)


def test_with_gradients_it_is_a_plain_product():
    hidden, table = torch.randn(3, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    logits(hidden, table).sum().backward()
    torch.testing.assert_close(hidden.grad, table.sum(0).expand(3, -1))
