"""Pools of slots, which a CUDA graph steps, change the speed and nothing else.  On a CPU a step is recorded and played
again, as a graph does it, so that all but the kernels is tested everywhere."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from test_engine import ARCHITECTURES, END, START, draw_search, run_in_company
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.decoding import pool
from regard.decoding.config import DecodingConfig
from regard.decoding.constraints import Active
from regard.decoding.engine import Engine
from regard.decoding.pool import Pool, PoolSlots, captures, rounded
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.watch import watch

CAPTURABLE = ["transformer", "seq2seq", "stack", "lstm"]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]


class Record(TorchDispatchMode):
    """What is computed within, to be computed again from the same tensors into the same tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[Any, ...]] = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        made = operation(*args, **(kwargs or {}))
        self.done.append((operation, args, kwargs or {}, made))
        return made

    def play(self) -> None:
        for operation, args, kwargs, made in self.done:
            if not operation.is_view:
                for old, new in zip(tree_leaves(made), tree_leaves(operation(*args, **kwargs)), strict=True):
                    if old is not new:
                        old.copy_(new)


def recorded(self: Pool[Any], active: Active) -> Callable[[], None]:
    run, record = partial(self.run, active), Record()
    self.rehearse(run)
    changing = [*self.changing.values(), *self.state.changing()]
    before = [tensor.clone() for tensor in changing]
    with record:
        run()
    for tensor, value in zip(changing, before, strict=True):
        tensor.copy_(value)
    return record.play


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if not torch.cuda.is_available():
        monkeypatch.setattr(Pool, "captured", recorded)
    yield monkeypatch.setattr(pool, "DEVICES", ("cuda", "cpu"))


def test_rooms_are_powers_of_two() -> None:
    assert rounded((1, 32, 33)) == (32, 32, 64)


def test_where_someone_watches_and_on_a_cpu_nothing_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ARCHITECTURES["transformer"]().eval()
    assert not captures(model)
    monkeypatch.setattr(pool, "DEVICES", ("cpu",))
    assert captures(model)
    with watch(model):
        assert not captures(model)
    assert not captures(ARCHITECTURES["transformer-xl"]())  # its memory moves


@pytest.mark.sampled("every architecture or strategy takes its own searches; one shows that the way holds")
@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CAPTURABLE)
def test_in_a_pool_an_answer_is_what_it_is_alone_without_one(
    name: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    model, chance = ARCHITECTURES[name]().eval().to(device), random.Random(1)
    searches = [draw_search(chance, 10) for _ in range(20)]
    engine = Engine(model)
    tickets = run_in_company(engine, searches, chance)
    assert engine.pools.kept
    monkeypatch.setattr(pool, "DEVICES", ())
    for ticket in tickets:
        alone = Engine(model).answer([ticket.search])[0]
        assert len(alone) == len(ticket.answer())
        for one, other in zip(ticket.answer(), alone, strict=True):
            if one.near_ties == other.near_ties == 0:
                assert one.tokens == other.tokens
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-3)


@pytest.mark.usefixtures("everywhere")
def test_pools_grow_shrink_and_are_used_again() -> None:
    model = ARCHITECTURES["stack"]().eval()
    engine, config = Engine(model), DecodingConfig(length_ratio=2.0, extra_length=1)
    prompts = [[5, 6, 7][: 1 + i % 3] for i in range(16)]
    first = engine.generate(prompts, config, START, END)
    pools = dict(engine.pools.kept)
    assert {n_slots for _, n_slots in pools} >= {16}
    assert engine.generate(prompts, config, START, END) == first
    assert all(engine.pools.kept[key] is pools[key] for key in pools)
    for i, prompt in enumerate(prompts):
        assert engine.generate([prompt], config, START, END)[0][0].tokens == first[i][0].tokens
    assert len(engine.pools.kept) <= engine.pools.most


@pytest.mark.usefixtures("everywhere")
def test_who_cancels_frees_its_slot() -> None:
    engine = Engine(ARCHITECTURES["transformer"]().eval())
    stream = engine.stream([5, 6], DecodingConfig(extra_length=20), START, END)
    next(stream)
    (slots,) = engine.slots.values()
    assert isinstance(slots, PoolSlots) and len(slots.tickets) == 1
    stream.close()
    for _ in range(2):
        engine.step()
    assert engine.is_idle


@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs are of CUDA")
@pytest.mark.parametrize("beam", [1, 4])
def test_graphed_steps_write_what_eager_steps_write(beam: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(vocab_size=50, d_model=64, n_heads=4, n_layers=2, d_ff=128)).cuda().eval()
    engine, config = Engine(model), DecodingConfig(beam=beam, extra_length=10)
    for seed, n in ((1, 5), (2, 5), (3, 9)):  # the second batch reuses the first one's graph
        draw = torch.Generator().manual_seed(seed)
        lengths = torch.randint(1, 12, (n,), generator=draw).tolist()
        prompts = [torch.randint(4, 50, (k,), generator=draw).tolist() for k in lengths]
        fast = engine.generate(prompts, config, 1, 2)
        with monkeypatch.context() as patch:
            patch.setattr(pool, "DEVICES", ())
            eager = Engine(model).generate(prompts, config, 1, 2)
        assert [h[0].tokens for h in fast] == [h[0].tokens for h in eager]
        assert [h[0].log_prob for h in fast] == pytest.approx([h[0].log_prob for h in eager], abs=1e-3)
