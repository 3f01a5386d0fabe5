"""One thread for each process of `pytest -n`, warnings as errors where they are ours, and no pictures of trainings."""

import gc
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # `pytest -n`: the cores are shared, and torch, not yet imported, reads these
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

gc.disable()  # until all is collected: what is imported stays

OURS = ["regard", "bench", "tests", *sorted({path.stem for path in Path(__file__).parent.rglob("*.py")})]


def pytest_configure(config: pytest.Config) -> None:
    """A warning is an error where it points at a module of ours; those of other packages are listed after the tests."""
    config.addinivalue_line("filterwarnings", rf"error:::({'|'.join(OURS)})(\.|$)")
    hypothesis.settings.register_profile("ours", deadline=None)  # a busy machine is no fault
    hypothesis.settings.load_profile("ours")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """`pytest -n auto`: one process for each core that may be used, those of hyper-threading included."""
    return len(os.sched_getaffinity(0)) if "sched_getaffinity" in dir(os) else os.cpu_count() or 1


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`@pytest.mark.sampled(reason, cases=n)`: n cases of a test, evenly spread, are fast; the others are slow."""
    of_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            of_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in of_test.values():
        share = cases[0].get_closest_marker("sampled").kwargs.get("cases", 1) / len(cases)
        for i, item in enumerate(cases):
            if i and int(i * share) == int((i - 1) * share):
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """All that was imported stays: the garbage collector need not walk it again, nor a forked child copy it."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 100)  # what tests leave in cycles is little; to look for it took a tenth of the time


@pytest.fixture(autouse=True, scope="session")
def no_wait_for_the_disk() -> Iterator[None]:
    """What these tests write need not outlast a power cut; tests/training/test_durable.py sees what is waited for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def speed_tried_once() -> Iterator[None]:
    """`regard show` tries how quickly this machine multiplies, at its width; here, once at a small one."""
    from regard.training.estimate import product_rate  # by now the threads are settled, and torch is imported

    @cache
    def tried_once(device: object) -> float:
        return product_rate(64, device)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.training.estimate.product_rate", lambda d_model, device: tried_once(device))
        yield


@pytest.fixture(autouse=True, scope="session")
def no_picture() -> Iterator[None]:
    """Drawing the curves takes as long as the trainings of these tests; one test draws."""

    def stand_in(run: Path, metric: str) -> None:
        (run / "curves.png").write_bytes(b"")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.training.loop.draw_curves", stand_in)
        yield


@pytest.fixture(scope="session", autouse=True)
def learns_in_forked_children() -> None:
    """Autograd decides at its first pass whether a forked child may learn.  Builds of PyTorch for GPUs decided against
    it after some tests (2.13 on Python 3.12, without a GPU), so it is asked before the first."""
    import torch  # only in processes that run tests

    torch.ones(1, requires_grad=True).sum().backward()
