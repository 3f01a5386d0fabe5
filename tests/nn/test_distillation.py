import pytest
import torch
from torch.nn import functional as F

from regard.errors import ConfigError
from regard.nn.loss import DistillationConfig, cosine_loss, soft_loss


def test_the_soft_loss_is_the_papers() -> None:
    """T² Σ p log(p / q), p and q being the softmax of logits / T."""
    student, teacher = torch.randn(2, 5, 7, dtype=torch.float64).unbind()
    for temperature in (1.0, 2.0, 5.0):
        p, q = (F.softmax(logits.float() / temperature, -1) for logits in (teacher, student))
        expected = temperature**2 * (p * (p / q).log()).sum()
        torch.testing.assert_close(soft_loss(student, teacher, temperature), expected)
    assert float(soft_loss(teacher, teacher, 2.0)) == pytest.approx(0, abs=1e-5)


def test_the_temperature_does_not_scale_the_gradients_away() -> None:
    """For a high T the gradient tends to (student - teacher) / classes, for logits of mean 0 (Hinton et al. 2015)."""
    student, teacher = torch.randn(2, 4, 6).unbind()
    student, teacher = (logits - logits.mean(-1, keepdim=True) for logits in (student, teacher))
    student.requires_grad_()
    soft_loss(student, teacher, 100.0).backward()
    assert student.grad is not None
    torch.testing.assert_close(student.grad, (student.detach() - teacher) / 6, atol=0.01, rtol=0.1)


def test_angles_of_rows() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    assert float(cosine_loss(x, 3 * x)) == pytest.approx(0)
    assert float(cosine_loss(x, -x)) == pytest.approx(2)
    assert float(cosine_loss(x, x.flip(0))) == pytest.approx(1)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"soft": -1.0}, "soft must not be negative"),
        ({"soft": 0.0, "hard": 0.0, "cosine": 0.0}, "must not all be 0"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        DistillationConfig(**settings)  # type: ignore[arg-type]
