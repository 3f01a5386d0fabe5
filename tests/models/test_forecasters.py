"""Forecasters: what each window depends on, what normalizing it undoes, and steps that are written one by one."""

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.models.channel_series import ITransformer, ITransformerConfig
from regard.models.forecaster import Forecaster
from regard.models.linear_series import DLinear, DLinearConfig, NLinear, NLinearConfig, moving_average
from regard.models.patch_series import PatchTST, PatchTSTConfig
from regard.models.recurrent_series import RecurrentSeries, RecurrentSeriesConfig
from regard.models.step_series import TransformerSeries, TransformerSeriesConfig
from regard.nn.series import LEVELS, WindowNorm

SIZES: dict[str, Any] = {"vocab_size": 10, "look_back": 24, "horizon": 6, "n_columns": 3, "n_outputs": 2}
BLOCKS: dict[str, Any] = {"d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 32}
MORE: dict[str, Any] = {"n_seen": 1, "n_known": 2}


def make(normalize: str | None = None) -> dict[str, Forecaster]:
    torch.manual_seed(0)
    how = {} if normalize is None else {"normalize": normalize}
    models = {
        "nlinear": NLinear(NLinearConfig(**SIZES, **how)),
        "dlinear": DLinear(DLinearConfig(**SIZES, **how, smooth=5)),
        "nlinear, individual": NLinear(NLinearConfig(**SIZES, **how, individual=True)),
        "dlinear, individual": DLinear(DLinearConfig(**SIZES, **how, smooth=5, individual=True)),
        "patchtst": PatchTST(PatchTSTConfig(**SIZES, **BLOCKS, **how, patch=6, stride=3)),
        "itransformer": ITransformer(ITransformerConfig(**SIZES, **BLOCKS, **MORE, **how)),
        "recurrent": RecurrentSeries(RecurrentSeriesConfig(**SIZES, **MORE, **how, d_hidden=16)),
        "transformer": TransformerSeries(TransformerSeriesConfig(**SIZES, **BLOCKS, **MORE, **how)),
    }
    for model in models.values():
        for weight in model.parameters():
            torch.nn.init.normal_(weight, std=0.2)
    return {name: model.eval() for name, model in models.items()}


def window(model: Forecaster, n: int = 2) -> tuple[Tensor, Tensor]:
    form, draw = model.form, torch.Generator().manual_seed(1)
    past = torch.randn(n, form.look_back, form.n_columns + form.n_seen, generator=draw)
    return past, torch.randn(n, form.n_steps, form.n_known, generator=draw)


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture")
@pytest.mark.parametrize("name", make())
@torch.no_grad()
def test_windows_do_not_see_each_other_and_have_their_shape(name: str) -> None:
    model = make()[name]
    past, features = window(model, 3)
    together = model(past, features)
    assert together.shape == (3, 6, 3, 2)
    for i in range(3):
        torch.testing.assert_close(model(past[i : i + 1], features[i : i + 1])[0], together[i], rtol=1e-4, atol=1e-5)


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture")
@pytest.mark.parametrize("name", make())
@torch.no_grad()
def test_a_window_that_is_shifted_and_stretched_has_such_a_forecast(name: str) -> None:
    """(Kim et al. 2022): what normalizing takes away, it gives back."""
    model = make("window")[name]
    past, features = window(model)
    wanted = 50 + 7 * model(past, features)
    torch.testing.assert_close(model(50 + 7 * past, features), wanted, rtol=1e-3, atol=5e-3)
    shifted = make("last")[name]
    torch.testing.assert_close(shifted(past + 9, features), shifted(past, features) + 9, rtol=1e-4, atol=1e-3)
    plain = make("none")[name]
    assert not torch.allclose(plain(past + 9, features), plain(past, features) + 9, atol=0.1)


@pytest.mark.parametrize("kind", LEVELS)
def test_a_norm_is_undone(kind: str) -> None:
    norm = WindowNorm(kind, 4, affine=True)
    torch.nn.init.normal_(norm.gain, 2.0)
    torch.nn.init.normal_(norm.shift)
    past = torch.randn(5, 20, 4) * 3 + 10
    levels = norm.levels(past)
    back = norm.undo(norm.apply_to(past, levels)[..., None], levels)[..., 0]
    torch.testing.assert_close(back, past, rtol=1e-4, atol=1e-4)
    assert torch.equal(norm.apply_to(past[..., :2], levels), norm.apply_to(past, levels)[..., :2])


BY_COLUMN = ("nlinear", "dlinear", "nlinear, individual", "dlinear, individual", "patchtst")


@pytest.mark.parametrize("name", BY_COLUMN)
@torch.no_grad()
def test_columns_are_read_by_themselves(name: str) -> None:
    model = make()[name]
    past, features = window(model)
    changed = past.clone()
    changed[..., 1] += torch.randn(24)
    before, after = model(past, features), model(changed, features)
    torch.testing.assert_close(before[:, :, [0, 2]], after[:, :, [0, 2]], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(before[:, :, 1], after[:, :, 1])


@pytest.mark.parametrize("name", BY_COLUMN)
@torch.no_grad()
def test_columns_share_their_weights_unless_each_has_its_own(name: str) -> None:
    model = make()[name]
    past, features = window(model)
    forecast = model(past[..., :1].expand(-1, -1, 3), features)
    is_shared = torch.allclose(forecast[:, :, 0], forecast[:, :, 1], rtol=1e-4, atol=1e-5)
    assert is_shared != name.endswith("individual")
    if "linear" in name:  # 24 steps to 6, as a mean and a quantile, of each of 3 columns
        assert model.multiplications() == 3 * 24 * 6 * 2 * (2 if name.startswith("dlinear") else 1)


@torch.no_grad()
def test_columns_of_the_itransformer_have_no_order() -> None:
    model = make()["itransformer"]
    past, features = window(model)
    order = [2, 0, 1, 3]  # the last is only seen
    torch.testing.assert_close(
        model(past[..., order], features), model(past, features)[:, :, order[:3]], rtol=1e-4, atol=1e-5
    )
    assert not torch.allclose(model(past, features + 1), model(past, features), atol=1e-3)


@torch.no_grad()
def test_steps_that_are_written_are_those_of_one_pass_over_them() -> None:
    """Cached equals uncached: the model's own forecasts, given back as the true values, give the same forecasts."""
    model = make()["transformer"]
    past, features = window(model)
    written = model(past, features)
    torch.testing.assert_close(model(past, features, written[..., 0]), written, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_a_step_reads_only_what_comes_before_it() -> None:
    model = make("none")["transformer"]
    past, features = window(model)
    future = torch.randn(2, 6, 3)
    changed = future.clone()
    changed[:, 3] += 5
    before, after = model(past, features, future), model(past, features, changed)
    torch.testing.assert_close(before[:, :4], after[:, :4], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(before[:, 4:], after[:, 4:], atol=1e-4)


@torch.no_grad()
def test_the_decomposed_linear_map_is_linear() -> None:
    model = make()["dlinear"]
    past, features = window(model)
    zero = model(torch.zeros_like(past), features)
    twice = model(2 * past, features)
    torch.testing.assert_close(twice - zero, 2 * (model(past, features) - zero), rtol=1e-4, atol=1e-4)
    x = torch.tensor([[[0.0, 0.0, 6.0, 0.0]]])
    assert moving_average(x, 3).flatten().tolist() == [0, 2, 2, 2]


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"a patch of 30 steps does not fit look_back = 24"):
        PatchTSTConfig(**SIZES, patch=30)
    with pytest.raises(ConfigError, match="columns have no order"):
        ITransformerConfig(**SIZES, position="learned")
    with pytest.raises(ConfigError, match="and nothing else"):
        NLinearConfig(**SIZES, n_known=1)
    with pytest.raises(ConfigError, match="raise max_length"):
        TransformerSeriesConfig(**{**SIZES, "look_back": 2000})


def test_patches_cover_all_of_the_past_and_repeat_its_last_value() -> None:
    model = make()["patchtst"]
    past = torch.arange(24.0).view(1, 24, 1).expand(1, 24, 3)
    patches = model.patches(past)[0, 0]
    assert patches.shape == (model.config.n_patches, 6)
    assert patches[0].tolist() == [0, 1, 2, 3, 4, 5] and patches[-2].tolist() == [18, 19, 20, 21, 22, 23]
    assert patches[-1].tolist() == [21, 22, 23, 23, 23, 23]
