"""A warning that points at our code is an error; one that points at another package is not."""

import os
import warnings

import pytest
import torch

CATEGORIES = [DeprecationWarning, PendingDeprecationWarning, FutureWarning, UserWarning, ResourceWarning]


def warn_in(module: str, category: type[Warning] = DeprecationWarning, stacklevel: int = 1) -> None:
    """Warn as if a function of `module` called `warnings.warn`."""
    place = {"__name__": module, "warn": warnings.warn, "category": category, "stacklevel": stacklevel}
    exec("def function():\n    warn('this will go', category, stacklevel)", place)
    place["function"]()  # type: ignore[operator]


@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize(
    "module", ["regard", "regard.nn.attention", "bench.timing", "tests.interop.tiny", "conftest", "tiny_data"]
)
def test_a_warning_of_ours_is_an_error(module: str, category: type[Warning]) -> None:
    with pytest.raises(category, match="this will go"):
        warn_in(module, category)


@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("module", ["torch._something", "torch", "transformers.models.gpt2", "regardless", "benchmark"])
def test_a_warning_of_another_package_is_none(module: str, category: type[Warning]) -> None:
    with warnings.catch_warnings(record=True):  # not listed after the tests
        warn_in(module, category)


def test_a_warning_of_torch_about_its_caller_is_an_error() -> None:
    """The caller, two levels up, is this module."""
    with pytest.raises(DeprecationWarning, match="this will go"):
        warn_in("torch._something", stacklevel=3)


def test_a_warning_from_torchs_kernels_is_an_error() -> None:
    with pytest.raises(UserWarning, match="not writable"):
        torch.frombuffer(b"1234", dtype=torch.uint8)


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="only `pytest -n` shares the cores")
def test_a_process_of_many_has_one_thread() -> None:
    assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "1"
    assert torch.get_num_threads() == 1
