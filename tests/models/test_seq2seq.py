import itertools

import pytest
import torch
from torch import nn

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate
from regard.decoding.ensemble import Ensemble
from regard.decoding.forced import score as forced_score
from regard.errors import ConfigError, RegardError
from regard.models.seq2seq import LOOKS, Seq2Seq, Seq2SeqConfig
from regard.nn.layout import Ragged, Rectangle
from regard.nn.linear import logits
from regard.nn.recurrent import CELLS
from regard.nn.scores import SCORES
from regard.nn.watch import watch

SOURCES, TARGETS = [3, 1, 6], [4, 2, 1]
BEGIN = 1  # every target begins with it
START, END = 1, 2
VARIANTS = [
    *({"score": score} for score in (*SCORES, "none")),
    *({"cell": cell, "n_layers": 2} for cell in CELLS),
    {"bidirectional": False},
    {"bidirectional": False, "score": "none"},
    {"tied": False},
    *({"look": look, "score": score} for look in ("feed", "before") for score in ("additive", "location")),
    *({"look": look, "cell": cell, "n_layers": 2} for look in ("feed", "before") for cell in ("lstm", "gru")),
]


def make(vocab_size=11, **settings):
    torch.manual_seed(0)
    small = {"d_model": 6, "d_hidden": 8, "dropout": 0.0, "max_length": 32}
    return Seq2Seq(Seq2SeqConfig(vocab_size=vocab_size, **small | settings)).eval()


def batch():
    torch.manual_seed(1)
    tokens = torch.randint(0, 11, (sum(SOURCES),)), torch.randint(0, 11, (sum(TARGETS),))
    layout = Ragged(TARGETS)
    tokens[1][layout.offsets[:-1].long()] = BEGIN
    return tokens[0], Ragged(SOURCES), tokens[1], layout


def prompts_of(source):
    return [part.tolist() for part in source.split(SOURCES)]


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture", cases=3)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_future_does_not_change_the_past(variant):
    model = make(**variant)
    source, source_layout, target, target_layout = batch()
    changed = target.clone()
    changed[2:4] = (changed[2:4] + 1) % 11  # the end of the first target
    one, other = (model(source, source_layout, t, target_layout) for t in (target, changed))
    close(one[:2], other[:2])
    close(one[4:], other[4:])  # nor another sentence
    assert (one[2:4] - other[2:4]).abs().max() > 1e-3


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture", cases=3)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_sentence_alone_is_as_in_the_batch(variant):
    model = make(**variant)
    source, source_layout, target, target_layout = batch()
    whole = model(source, source_layout, target, target_layout)
    pairs = zip(source.split(SOURCES), target.split(TARGETS), strict=True)
    close(torch.cat([model(s, Ragged([len(s)]), t, Ragged([len(t)])) for s, t in pairs]), whole)
    rectangles = [Rectangle(layout.lengths, layout.longest) for layout in (source_layout, target_layout)]
    padded = model(source_layout.pad(source), rectangles[0], target_layout.pad(target), rectangles[1])
    close(target_layout.flatten(padded), whole)


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture", cases=3)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_steps_give_the_logits_of_the_whole(variant):
    model = make(**variant)
    source, source_layout, target, target_layout = batch()
    with torch.no_grad():
        expected = logits(model(source, source_layout, target, target_layout), model.output_table)
        padded = target_layout.pad(target)
        for sizes in ([1, 1, 1], [2, 1], [3]):
            state, first = model.start(prompts_of(source), BEGIN, room=4)
            steps = [model.step(part, state) for part in padded[:, 1:].split(sizes, dim=1)]
            close(target_layout.flatten(torch.cat([first[:, None], *steps], dim=1)), expected)
            assert state.n_rows == 3 and state.lengths.tolist() == [4, 4, 4]


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture", cases=3)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_select_and_join_keep_every_row_its_own(variant):
    model = make(**variant)
    prompts = prompts_of(batch()[0])
    rows = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    with torch.no_grad():
        (state, _), (other, _) = model.start(prompts[:2], BEGIN, room=8), model.start(prompts[2:], BEGIN, room=5)
        model.step(rows[:2], state)
        model.step(rows[2:, :2], other)
        state.join(other)
        state.select(torch.tensor([2, 1]))
        assert state.lengths.tolist() == [3, 4]
        got = model.step(torch.tensor([[3], [3]]), state)[:, 0]
        for i, (prompt, past) in enumerate([(prompts[2], [7, 8, 3]), (prompts[1], [4, 5, 6, 3])]):
            close(got[i], model.step(torch.tensor([past]), model.start([prompt], BEGIN, room=4)[0])[0, -1])
        with pytest.raises(RegardError, match="cannot take tokens back"):
            state.truncate(torch.tensor([1, 1]))


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture", cases=3)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_copies_share_one_memory_and_give_the_same_logits(variant):
    model = make(**variant)
    prompts = prompts_of(batch()[0])
    tokens = torch.tensor([[1], [2], [3], [4], [5], [6]])
    with torch.no_grad():
        shared, _ = model.start(prompts, BEGIN, copies=2, room=4)
        apart, _ = model.start([prompt for prompt in prompts for _ in range(2)], BEGIN, room=4)
        close(model.step(tokens, shared), model.step(tokens, apart))
        assert shared.source.n_rows == 3
        swap = torch.tensor([1, 1, 2, 3, 5, 4])
        for move in ("select", "reorder"):
            getattr(shared, move)(swap)
            apart.select(swap)
            close(model.step(tokens, shared), model.step(tokens, apart))


@pytest.mark.parametrize("look", LOOKS)
def test_the_forward_pass_is_the_equations(look):
    """One sentence at a time, one step at a time; the encoder by PyTorch's own bidirectional LSTM."""
    model = make(d_model=5, d_hidden=4, look=look)
    score, attention = model.attention.attend.score, []
    twin = nn.LSTM(5, 4, bidirectional=True)
    for name, cell in (("", model.encoder.forwards[0]), ("_reverse", model.encoder.backwards[0])):
        for kind, weight in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), cell.weights(), strict=True):
            getattr(twin, f"{kind}_l0{name}").data = weight.data
    source, source_layout, target, target_layout = batch()
    expected = []

    def look_with(h, memory):
        hidden = torch.tanh(score.query_to_hidden.weight @ h[0] + memory @ score.key_to_hidden.weight.T)
        attention.append((hidden @ score.hidden_to_score).softmax(0))
        return attention[-1] @ memory

    for s, t in zip(source.split(SOURCES), target.split(TARGETS), strict=True):
        rows, (h_last, _) = twin(model.embedding.weight[s] * 5**0.5)
        memory = rows @ model.to_memory.weight.T
        h, c = torch.tanh(model.bridge(h_last.flatten())).view(2, 1, 4)
        cell, attentional = model.decoder.forwards[0], torch.zeros(5)
        for y in model.embedding.weight[t] * 5**0.5:
            if look == "before":  # Bahdanau: alpha from s_{i-1}, and c_i goes into s_i
                context = look_with(h, memory)
                y = torch.cat([y, context])
            if look == "feed":  # Luong: the last h̃ goes into h_t, which then looks
                y = torch.cat([y, attentional])
            h, c = cell.step(y[None], torch.stack([h, c]), cell.weights())
            if look != "before":
                context = look_with(h, memory)
            attentional = torch.tanh(model.combine.weight @ torch.cat([context, h[0]]))
            expected.append(attentional)
    with watch(model) as seen:
        close(model(source, source_layout, target, target_layout), torch.stack(expected))
    assert len(seen.sightings) == 1
    seen_rows = target_layout.flatten(seen.of("cross", 0).weights[:, 0])
    for row, weights in zip(seen_rows, attention, strict=True):
        close(row[: len(weights)], weights)


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture", cases=3)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("look", LOOKS)
def test_seen_weights_sum_to_one_and_make_the_answer(score, cell, look):
    model = make(score=score, cell=cell, look=look)
    source, source_layout, target, target_layout = batch()
    with watch(model, vectors=True) as seen, torch.no_grad():
        out = model(source, source_layout, target, target_layout)
    with torch.no_grad():
        states = model.read_both(source, source_layout, target, target_layout).hidden
    assert [(s.kind, s.layer, s.heads) for s in seen.sightings] == [("cross", 0, (0,))]
    cross = seen.of("cross", 0)
    assert cross.error < 1e-5
    for i, (n_read, n_said) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        weights = cross.weights[i, 0, :n_said]
        close(weights.sum(-1), torch.ones(n_said))
        assert weights[:, n_read:].eq(0).all()
    contexts = target_layout.flatten((cross.weights @ cross.values)[:, 0])
    close(torch.tanh(model.combine(torch.cat([contexts, states], -1))), out)


def test_without_attention_only_the_bridge_brings_the_source():
    source, source_layout, target, target_layout = batch()
    other = (source + 1) % 11
    for score, is_deaf in (("none", True), ("additive", False)):
        model = make(score=score)
        one, two = (model(s, source_layout, target, target_layout) for s in (source, other))
        assert (one - two).abs().max() > 1e-3
        nn.init.zeros_(model.bridge.weight)
        one, two = (model(s, source_layout, target, target_layout) for s in (source, other))
        assert one.equal(two) == is_deaf
        assert bool(list(model.attentions())) != is_deaf


@pytest.mark.parametrize("score", ["additive", "none"])
def test_a_wide_beam_is_exhaustive_search(score):
    model = make(vocab_size=4, score=score)
    prompts = [[3, 0, 2], [3, 3, 0, 3, 2]]
    config = DecodingConfig(beam=3**4, n_best=8, length_ratio=0.0, extra_length=4)
    for prompt, found in zip(prompts, generate(model, prompts, config, START, END), strict=True):
        said = [list(t) for n in range(4) for t in itertools.product((0, 1, 3), repeat=n)]
        log_probs = [sum(row) for row in forced_score(model, [prompt] * len(said), said, START, END)]
        by_penalty = sorted(
            ((lp / ((5 + len(t) + 1) / 6) ** 0.6, t) for lp, t in zip(log_probs, said, strict=True)), reverse=True
        )
        assert [h.tokens for h in found] == [tokens for _, tokens in by_penalty[:8]]
        assert [h.score for h in found] == pytest.approx([value for value, _ in by_penalty[:8]], abs=1e-5)


def test_a_beam_is_the_same_in_any_batch_and_ensemble():
    model = make(n_layers=2)
    prompts = prompts_of(batch()[0])
    config = DecodingConfig(beam=3, extra_length=6)
    together = generate(model, prompts, config, START, END)
    twice = generate(Ensemble([model, model]), prompts, config, START, END)
    for prompt, [one], [two] in zip(prompts, together, twice, strict=True):
        [[alone]] = generate(model, [prompt], config, START, END)
        assert one.tokens == alone.tokens == two.tokens
        assert one.log_prob == pytest.approx(alone.log_prob, abs=1e-5) == two.log_prob


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_parameters_are_those_of_the_equations(variant):
    c = make(**variant).config
    ways, gates = (2 if c.bidirectional else 1), {"lstm": 4, "gru": 3}.get(c.cell, 1)
    d, m, last = c.d_model, c.d_hidden, c.n_layers - 1

    def cells(d_in):
        return gates * m * (d_in + m + 2)

    d_fed = {"after": 0, "feed": d, "before": m}[c.look]
    encoder, decoder = ways * (cells(d) + last * cells(ways * m)), cells(d + d_fed) + last * cells(m)
    bridge = (ways * m + 1) * c.n_layers * (2 if c.cell == "lstm" else 1) * m
    scores = {"cosine": 1, "additive": 2 * m * m + m, "location": 32 * m, "general": m * m}
    attends = c.score != "none"
    memory = ways * m * m if attends and c.bidirectional else 0
    attention = memory + scores.get(c.score, 0) + (1 + attends) * m * d
    tables = 11 * d * (1 if c.tied else 2)
    expected = encoder + decoder + bridge + attention + tables
    assert sum(p.numel() for p in make(**variant).parameters()) == expected


def test_a_source_longer_than_the_location_scores_rows_is_an_error():
    model = make(score="location", max_length=5)
    with pytest.raises(RegardError, match="one row per key, 5; got 6 keys"):
        model(*batch())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cell": "lsmt"}, "unknown cell 'lsmt'; choose one of: gru, lstm, relu_rnn, rnn"),
        ({"score": "bahdanau"}, "unknown attention score 'bahdanau'; choose one of: additive, cosine, dot, general, "),
        ({"look": "bahdanau"}, "look must be one of after, feed, before, got 'bahdanau'"),
        ({"look": "feed", "score": "none"}, 'look = "feed" needs attention: set score to other than "none"'),
        ({"n_layers": 0}, "n_layers must be at least 1, got 0"),
        ({"recurrent_dropout": 1.0}, "recurrent_dropout must be at least 0 and below 1, got 1.0"),
    ],
)
def test_wrong_settings_say_what_is_right(settings, message):
    with pytest.raises(ConfigError, match=message):
        make(**settings)


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture", cases=3)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_bfloat16_products_are_near(variant):
    """As training on a GPU and its validation run: under autocast, with float32 weights."""
    model = make(**variant)
    source, source_layout, target, target_layout = batch()
    exact = model(source, source_layout, target, target_layout)
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(source, source_layout, target, target_layout)
        with torch.no_grad():
            state, first = model.start(prompts_of(source), BEGIN, copies=2, room=4)
            said = target_layout.pad(target)[:, 1:2].repeat_interleave(2, 0)
            steps = torch.cat([first.repeat_interleave(2, 0)[:, None], model.step(said, state)], 1)
    torch.testing.assert_close(rough.float(), exact, atol=3e-2, rtol=3e-2)
    expected = logits(target_layout.pad(exact.detach())[:, :2], model.output_table).repeat_interleave(2, 0)
    real = target_layout.pad(torch.ones(sum(TARGETS)))[:, :2].repeat_interleave(2, 0)[..., None]
    torch.testing.assert_close(steps.float() * real, expected * real, atol=5e-2, rtol=5e-2)
    rough.float().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters() if p is not model.own_table)
