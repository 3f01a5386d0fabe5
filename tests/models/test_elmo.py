"""ELMo: what each direction may see, the loss by hand, the mix, and what is frozen."""

import pytest
import torch
from torch.nn import functional as F

from regard.errors import ConfigError
from regard.models.elmo import BiLM, BiLMConfig, Elmo, ElmoConfig
from regard.models.heads import Classifier, LanguageModel, Tagger
from regard.nn.layout import Ragged, Rectangle

LENGTHS = [3, 1, 6]
D = 6
SMALL = {"vocab_size": 11, "d_model": D, "n_layers": 2, "dropout": 0.0}


def make_bilm(**settings) -> BiLM:
    torch.manual_seed(0)
    return BiLM(BiLMConfig(**SMALL | settings))


def make_elmo(**settings) -> Elmo:
    torch.manual_seed(0)
    return Elmo(ElmoConfig(**SMALL | {"d_task": 4, "feature_dropout": 0.0} | settings))


def tokens_of(lengths):
    torch.manual_seed(1)
    return torch.randint(0, 11, (sum(lengths),)), Ragged(lengths)


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_each_direction_sees_its_own_side_only():
    model = make_bilm()
    tokens, layout = tokens_of(LENGTHS)
    changed = tokens.clone()
    changed[7] = (changed[7] + 1) % 11  # fourth of the last sequence
    moved = (model.layers(tokens, layout) - model.layers(changed, layout)).abs() > 1e-7
    for j, (there, back) in enumerate(zip(moved[..., :D].any(-1), moved[..., D:].any(-1), strict=True)):
        assert there.tolist() == [False] * 7 + [True] + [j > 0] * 2, j
        assert back.tolist() == [False] * 4 + [j > 0] * 3 + [True] + [False] * 2, j


@torch.no_grad()
def test_the_loss_is_that_of_the_next_and_of_the_previous_token():
    """By hand: each token of z_0 .. z_n from those before it alone, and from those behind it alone."""
    model = make_bilm(n_layers=3).double()
    texts = [torch.tensor([1, 4, 7, 2, 9]), torch.tensor([3, 3])]
    table = model.embedding.weight

    def log_p(read, cells, token):
        x = table[read][None]
        for i, cell in enumerate(cells):
            h, _ = cell.readable(x, cell.zero_state(1, x))
            x = h + x if i else h
        return F.log_softmax(table @ x[0, -1], 0)[token]

    by_hand = 0.0
    for z in texts:
        by_hand -= sum(log_p(z[:k], model.forwards, z[k]) for k in range(1, len(z)))
        by_hand -= sum(log_p(z[k + 1 :].flip(0), model.backwards, z[k]) for k in range(len(z) - 1))
    tokens, labels = torch.cat([z[:-1] for z in texts]), torch.cat([z[1:] for z in texts])
    nats = model.nats(tokens, labels, Ragged([len(z) - 1 for z in texts]))
    assert float(nats) == pytest.approx(float(by_hand) / 2, rel=1e-6)


def test_a_sentence_alone_is_as_in_the_batch():
    model = make_elmo().eval()
    tokens, layout = tokens_of(LENGTHS)
    for read, width in ((model.layers, 2 * D), (model.features, 2 * D), (model, 8)):
        whole = read(tokens, layout)
        assert whole.shape[-2:] == (10, width)
        close(torch.cat([read(part, Ragged([len(part)])) for part in tokens.split(LENGTHS)], -2), whole)
    padded = model(layout.pad(tokens), Rectangle(layout.lengths, layout.longest))
    close(layout.flatten(padded), model(tokens, layout))


def test_sequences_without_tokens_are_read():
    model = make_elmo().eval()
    tokens, _ = tokens_of([4])
    close(model(tokens, Ragged([0, 4, 0])), model(tokens, Ragged([4])))
    assert model.layers(tokens[:0], Ragged([0, 0])).shape == (3, 0, 2 * D)
    assert model(tokens[:0], Ragged([0])).shape == (0, 8)


@torch.no_grad()
def test_the_mix_is_equation_1():
    model = make_elmo()
    tokens, layout = tokens_of(LENGTHS)
    layers = model.layers(tokens, layout)
    close(model.features(tokens, layout), layers.mean(0))  # before anything is learnt, all layers alike
    close(BiLM.features(model, tokens, layout), layers.mean(0))
    close(layers[0], model.embedding(tokens, layout).repeat(1, 2))
    model.w.copy_(torch.tensor([0.3, -1.0, 2.0]))
    model.gamma.fill_(1.7)
    s = model.weights()
    assert float(s.sum()) == pytest.approx(1) and (s > 0).all()
    close(model.features(tokens, layout), 1.7 * (s[0] * layers[0] + s[1] * layers[1] + s[2] * layers[2]))


@pytest.mark.parametrize("frozen", [True, False])
def test_frozen_language_models_stay_while_the_mix_learns(frozen):
    model = Classifier(make_elmo(frozen=frozen), n_labels=2, pooling="mean", dropout=0.0)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.1, weight_decay=0.1)
    tokens, layout = tokens_of(LENGTHS)
    F.cross_entropy(model(tokens, layout), torch.tensor([0, 1, 1])).backward()
    optimizer.step()
    stayed = {name for name, weight in model.named_parameters() if torch.equal(weight, before[name])}
    below = {f"reader.{name}" for name, _ in make_bilm().named_parameters()}
    assert stayed == (below if frozen else set())


def test_frozen_language_models_drop_nothing():
    tokens, layout = tokens_of(LENGTHS)
    for frozen in (True, False):
        model = make_elmo(frozen=frozen, dropout=0.5)
        learning, resting = (model.train(mode).layers(tokens, layout) for mode in (True, False))
        assert torch.equal(learning, resting) == frozen
    assert make_elmo(feature_dropout=0.5, d_task=0).train()(tokens, layout).eq(0).any()


def test_what_reads_the_mix_has_the_width_it_was_given():
    tokens, layout = tokens_of(LENGTHS)
    for d_task, width in ((4, 8), (0, 2 * D)):
        model = make_elmo(d_task=d_task, n_task_layers=2)
        assert model(tokens, layout).shape == (10, width) and model.d_out == width
        assert Tagger(model, n_tags=3, dropout=0.0)(tokens, layout).shape == (10, 3)


def test_it_is_no_language_model_for_writing():
    with pytest.raises(ConfigError, match="must not see the future"):
        LanguageModel(make_elmo())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_layers": 0}, "n_layers must be at least 1"),
        ({"dropout": 1.0}, "dropout must be"),
        ({"d_task": -1}, "d_task must not be negative"),
        ({"n_task_layers": 0}, "n_task_layers must be"),
        ({"feature_dropout": -0.1}, "feature_dropout must be"),
    ],
)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises(ConfigError, match=words):
        make_elmo(**settings)
