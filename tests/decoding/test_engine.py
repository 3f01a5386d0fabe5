"""Searches that come and go give the answers that they give alone."""

import itertools
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from table_model import END, START, TableModel

from regard.decoding import engine as engines
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine, generate
from regard.decoding.search import Search, plan
from regard.decoding.stopping import Stops
from regard.decoding.ticket import Ticket
from regard.errors import RegardError
from regard.memory import TooLarge
from regard.models.heads import LanguageModel
from regard.models.markov import Markov, MarkovConfig
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.stack import Stack, StackConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.transformer_xl import TransformerXL, TransformerXLConfig

MANNERS = {
    "greedy": DecodingConfig(extra_length=9),
    "beam": DecodingConfig(beam=3, n_best=2, extra_length=9),
    "narrow": DecodingConfig(beam=2, extra_length=6, length_penalty=1.0),
    "sampling": DecodingConfig(sample=True, n_best=2, temperature=1.3, seed=3, extra_length=9),
    "other seed": DecodingConfig(sample=True, n_best=2, temperature=1.3, seed=4, extra_length=7),
    "constrained": DecodingConfig(extra_length=9, repetition_penalty=1.5, block_ngrams=2, min_length=4),
    "counted": DecodingConfig(beam=3, extra_length=9, repetition_penalty=1.2, counted="prompt", never_first=(2,)),
}


def spell(tokens: object) -> str:
    return "".join(chr(ord("a") + token) for token in tokens)  # type: ignore[attr-defined]


def draw_search(random: random.Random, vocab_size: int) -> Search:
    config = MANNERS[random.choice(sorted(MANNERS))]
    prompt = [random.randrange(2, vocab_size) for _ in range(random.randrange(1, 8))]
    prefix = [random.randrange(2, vocab_size) for _ in range(random.choice([0, 0, 1, 3]))]
    stops = Stops(["cd"], spell) if config.beam == 1 and random.random() < 0.3 else None
    return plan([prompt], config, START, END, [prefix], stops)[0]


def run_in_company(engine: Engine, searches: list[Search], random: random.Random) -> list[Ticket]:
    """Searches join at random steps, and some leave before they are done."""
    tickets = [Ticket(search) for search in searches]
    waiting, leaving = list(tickets), []
    while waiting or not engine.is_idle:
        for _ in range(random.randrange(3)):
            if waiting:
                engine.submit(waiting.pop(0))
                if random.random() < 0.2:  # beside it one that nobody will wait for
                    leaving.append(Ticket(random.choice(searches)))
                    engine.submit(leaving[-1])
        engine.step()
        if leaving and random.random() < 0.5:
            leaving.pop(0).cancel()
    return tickets


@pytest.mark.slow  # hundreds of searches; one kind of state comes and goes below
@given(seed=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_an_answer_is_the_same_alone_and_in_any_company(seed: int) -> None:
    chance = random.Random(seed)
    model = TableModel(vocab_size=8, seed=seed, end_bias=1.0)
    searches = [draw_search(chance, 8) for _ in range(12)]
    for ticket in run_in_company(Engine(model), searches, chance):
        assert ticket.answer() == Engine(model).answer([ticket.search])[0]


WORDS = 30


def counted_chain() -> Markov:
    model, chance = Markov(MarkovConfig(vocab_size=WORDS, order=2)), np.random.default_rng(0)
    model.count([(chance.integers(2, WORDS, 400), np.full(40, 10))])
    return model


ARCHITECTURES = {
    "transformer": lambda: Transformer(
        TransformerConfig(vocab_size=WORDS, d_model=16, n_heads=2, n_layers=2, d_ff=32, max_length=40)
    ),
    "seq2seq": lambda: Seq2Seq(Seq2SeqConfig(vocab_size=WORDS, d_model=12, d_hidden=16)),
    "stack": lambda: LanguageModel(
        Stack(StackConfig(vocab_size=WORDS, d_model=16, n_heads=2, n_layers=2, d_ff=32, max_length=40))
    ),
    "llama": lambda: LanguageModel(  # heads that share keys, turned; a gate
        Stack(
            StackConfig(
                vocab_size=WORDS,
                d_model=16,
                n_heads=4,
                n_key_heads=2,
                n_layers=2,
                d_ff=32,
                max_length=40,
                position="rotary",
                norm="rms",
                feed_forward="swiglu",
                bias="none",
            )
        )
    ),
    "markov": counted_chain,
    "lstm": lambda: LanguageModel(Recurrent(RecurrentConfig(vocab_size=WORDS, d_model=12, d_hidden=16))),
    "transformer-xl": lambda: LanguageModel(
        TransformerXL(
            TransformerXLConfig(
                vocab_size=WORDS, d_model=16, n_heads=2, n_layers=2, d_ff=32, max_length=40, memory=6, position="alibi"
            )
        )
    ),
}


@pytest.mark.sampled("every architecture or strategy takes its own searches; one shows that the way holds")
@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("seed", range(2))
def test_every_kind_of_state_lets_searches_come_and_go(name: str, seed: int) -> None:
    torch.manual_seed(seed)
    model, chance = ARCHITECTURES[name]().eval(), random.Random(seed)
    searches = [draw_search(chance, 10) for _ in range(14)]
    for ticket in run_in_company(Engine(model), searches, chance):
        alone = Engine(model).answer([ticket.search])[0]
        assert len(alone) == len(ticket.answer())
        for one, other in zip(ticket.answer(), alone, strict=True):
            if one.near_ties == other.near_ties == 0:
                assert one.tokens == other.tokens
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)


def test_slots_stay_full_until_no_search_waits() -> None:
    model = TableModel(vocab_size=8, end_bias=0.5)
    config = DecodingConfig(beam=2, extra_length=20, length_ratio=0.0, batch_tokens=200)  # ten at a time
    prompts = [[2 + i % 6, 2 + i // 6 % 6] for i in range(60)]
    alone = [generate(model, [prompt], config, START, END)[0] for prompt in prompts]
    model.rows_stepped.clear()
    assert generate(model, prompts, config, START, END) == alone
    assert max(model.rows_stepped) == 20
    engine = Engine(model)
    for search in plan(prompts, config, START, END):
        engine.submit(Ticket(search))
    n_running = []
    while engine.waiting:
        engine.step()
        n_running.append(len(engine.running))
    assert len(n_running) > 20 and sum(n_running) >= 0.8 * 10 * len(n_running)  # who leaves is followed at once


def test_who_cancels_frees_its_rows_within_two_steps() -> None:
    engine = Engine(TableModel(end_bias=-9.0))
    long = DecodingConfig(beam=3, extra_length=500)
    tickets = [Ticket(search) for search in plan([[2], [3], [4]], long, START, END)]
    for ticket in tickets:
        engine.submit(ticket)
    for _ in range(4):
        engine.step()
    tickets[1].cancel()
    engine.step()
    engine.step()
    assert engine.running == [tickets[0], tickets[2]]
    tickets[0].cancel()
    tickets[2].cancel()
    engine.step()
    assert engine.is_idle


class Failing(TableModel):
    """Cannot read prompts with a 5, and fails at the third step of those with a 4."""

    def start(self, prompts, begin, copies=1, room=256):  # type: ignore[no-untyped-def]
        if any(5 in prompt for prompt in prompts):
            raise RuntimeError("no fives")
        self.n_steps = 0 if any(4 in prompt for prompt in prompts) else -100
        return super().start(prompts, begin, copies, room)

    def step(self, tokens, state):  # type: ignore[no-untyped-def]
        self.n_steps += 1
        if self.n_steps == 3:
            raise RuntimeError("third step")
        return super().step(tokens, state)


def test_a_step_that_fails_answers_its_searches_and_goes_on_for_others() -> None:
    engine = Engine(Failing(end_bias=-2.0))
    config = DecodingConfig(extra_length=8)
    for prompt, message in (([5], "no fives"), ([4], "third step")):
        (ticket,) = (Ticket(search) for search in plan([prompt], config, START, END))
        engine.submit(ticket)
        while not ticket.is_over:
            engine.step()
        with pytest.raises(RuntimeError, match=message):
            ticket.answer()
        assert engine.is_idle
    assert engine.generate([[2]], config, START, END) == generate(TableModel(end_bias=-2.0), [[2]], config, START, END)


class Small(TableModel):
    """Has memory for so many rows at a time."""

    most = 4

    def check_room(self, n_rows: int, room: int) -> None:
        if n_rows > self.most:
            raise TooLarge(f"{n_rows} rows are too many")


def test_searches_wait_for_memory_and_only_what_never_fits_is_refused() -> None:
    config, wide = DecodingConfig(beam=3, extra_length=5), DecodingConfig(beam=5, extra_length=5)
    model = Small(end_bias=1.0)
    assert generate(model, [[2], [3], [4]], config, START, END) == generate(
        TableModel(end_bias=1.0), [[2], [3], [4]], config, START, END
    )
    with pytest.raises(RegardError, match="5 rows are too many"):
        generate(model, [[2]], wide, START, END)


@torch.no_grad()
def test_a_long_prompt_is_read_in_pieces_beside_running_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "PIECE", 4)
    torch.manual_seed(0)
    model = ARCHITECTURES["stack"]().eval()
    shapes, step = [], model.reader.step
    monkeypatch.setattr(
        model.reader, "step", lambda tokens, state: shapes.append(tuple(tokens.shape)) or step(tokens, state)
    )
    short, long = [5, 6], [3, 4, 5, 6, 7, 8, 9, 3, 4, 5]
    for config in (DecodingConfig(length_ratio=0, extra_length=12), DecodingConfig(beam=2, length_ratio=0)):
        alone = [Engine(model).generate([prompt], config.within(25), START, END)[0] for prompt in (short, long)]
        engine = Engine(model)
        tickets = [Ticket(search) for search in plan([short, long], config.within(25), START, END)]
        engine.submit(tickets[0])
        engine.step()
        engine.submit(tickets[1])
        shapes.clear()
        engine.step()
        assert [shape[1] for shape in shapes] == [4, 1]  # a piece, and the other search beside it
        while not engine.is_idle:
            engine.step()
        for ticket, expected in zip(tickets, alone, strict=True):
            assert [h.tokens for h in ticket.answer()] == [h.tokens for h in expected]


@pytest.mark.sampled("every architecture or strategy takes its own searches; one shows that the way holds")
@pytest.mark.parametrize("beam", [1, 2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_a_stream_gives_the_answer_and_never_takes_a_word_back(beam: int, seed: int) -> None:
    model = TableModel(vocab_size=8, seed=seed, scale=4.0, end_bias=-1.0)
    config = DecodingConfig(beam=beam, extra_length=15)
    heard: list[list[int]] = []
    (search,) = plan([[3, 4]], config, START, END)
    engine, ticket = Engine(model), Ticket(search, lambda tokens: heard.append(list(tokens)))
    engine.submit(ticket)
    while not ticket.is_over:
        engine.step()
    best = ticket.answer()[0].tokens
    assert all(later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(heard))
    assert all(best[: len(tokens)] == tokens for tokens in heard)
    assert beam > 1 or any(0 < len(tokens) < len(best) for tokens in heard)  # some of it came before the end
    assert list(Engine(model).stream([3, 4], config, START, END)) == best


def test_a_stream_that_is_left_and_another_search_do_not_disturb_each_other() -> None:
    model, config = TableModel(end_bias=-2.0), DecodingConfig(extra_length=30)
    engine = Engine(model)
    whole = list(engine.stream([3], config, START, END))
    stream = engine.stream([3], config, START, END)
    assert [next(stream), next(stream)] == whole[:2]
    assert engine.generate([[2], [4]], config, START, END) == generate(model, [[2], [4]], config, START, END)
    assert [*whole[:2], *stream] == whole
    left = engine.stream([3], config, START, END)
    next(left)
    left.close()
    engine.step()
    assert engine.is_idle
