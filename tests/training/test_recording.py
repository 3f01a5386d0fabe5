"""Batches filled up to few shapes teach the same, and a recorded step is the step itself."""

import copy
from unittest.mock import patch

import numpy as np
import pytest
import torch
from tiny_training import CPU, TinyModel, TinyTask
from torch.nn import functional as F

from regard.data.batching.packing import Packing
from regard.learning.config import TrainingConfig
from regard.models.heads import Classifier, LanguageModel
from regard.models.masked import MaskedWords
from regard.models.residual import ResidualNetworkConfig
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.stack import Stack, StackConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.vit import ViT, ViTConfig
from regard.nn.attention import pads
from regard.nn.grid import GridForm
from regard.nn.layout import Ragged, filled, power_of_two, rounded
from regard.nn.loss import IGNORED
from regard.tasks.classification.batches import DocumentBatch
from regard.tasks.classification.task import label_nats
from regard.tasks.images.batches import read_pixels
from regard.tasks.images.task import LabeledImageBatch
from regard.tasks.language.batches import TextBatch
from regard.tasks.pretraining.batches import MaskedBatch
from regard.tasks.pretraining.task import MaskedLanguage
from regard.tasks.tagging.batches import TagBatch
from regard.tasks.translation.batches import Frame, PairBatch, make_batch
from regard.tasks.translation.framed import pair_loss
from regard.training.learner import Learner
from regard.training.recording import Recorder, can_be_recorded, copy_of, shape_of, tensors_of

VOCABULARY = 90
CONFIG = TransformerConfig(vocab_size=VOCABULARY, d_model=32, n_heads=2, n_layers=2, d_ff=64, dropout=0.0)


def make(lengths: list[tuple[int, int]], seed: int = 0) -> PairBatch:
    random = np.random.default_rng(seed)
    sources, targets = ([random.integers(5, VOCABULARY, n) for n in side] for side in zip(*lengths, strict=True))
    return make_batch(sources, targets, ["" for _ in lengths], Frame(1, 2))


def test_sizes_are_rounded_up_a_little() -> None:
    for n in range(1, 300):
        assert n <= rounded(n) <= n * 17 / 16 and rounded(rounded(n)) == rounded(n)
        assert n <= power_of_two(n) < 2 * n and power_of_two(n).bit_count() == 1


@pytest.mark.parametrize("lengths", [[(3, 5), (40, 31), (7, 7)], [(1, 90)], [(60, 2)] * 5, [(32, 32)]])
def test_a_filled_batch_has_the_loss_and_gradients_of_its_sentences(lengths: list[tuple[int, int]]) -> None:
    torch.manual_seed(0)
    model, batch = Transformer(CONFIG), make(lengths)
    full = batch.filled()
    assert (full.n_targets, full.n_tokens) == (batch.n_targets, batch.n_tokens)
    assert int((full.labels == IGNORED).sum()) == full.n_added[1] == full.target_layout.n_rows - batch.n_targets
    for layout, real in ((full.source_layout, batch.source_layout), (full.target_layout, batch.target_layout)):
        assert int(layout.lengths.max()) == real.longest  # positions that the model has
    found = []
    for one in (batch, full):
        loss = pair_loss(model, one, 0.1)
        found.append((loss, *torch.autograd.grad(loss, list(model.parameters()))))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)


@pytest.mark.slow  # walks whole epochs
def test_all_batches_together_have_few_shapes_and_few_rows_more() -> None:
    random = np.random.default_rng(0)
    sources = np.clip(24 * np.exp(0.55 * random.standard_normal(50_000)), 3, 120).astype(int)
    targets = np.clip(sources * np.exp(0.2 * random.standard_normal(50_000)), 3, 120).astype(int)
    batches = Packing(np.maximum(sources, targets) + 1, 4096, "grouped", seed=0).epoch(0)
    all_filled = [make([(sources[i], targets[i]) for i in batch]).filled() for batch in batches]
    shapes = {shape_of(batch) for batch in all_filled}
    assert len(shapes) < len(all_filled) / 6 and len(shapes) < 64
    rows = sum(batch.source_layout.n_rows + batch.target_layout.n_rows for batch in all_filled)
    assert rows < 1.02 * sum(batch.n_tokens for batch in all_filled)


def test_shapes_tell_apart_what_kernels_do() -> None:
    one, same, other = make([(3, 5), (4, 4)]), make([(4, 4), (3, 5)]), make([(3, 4), (4, 5)])
    assert shape_of(one) == shape_of(same) == shape_of(other)
    assert shape_of(one) != shape_of(make([(3, 6), (4, 3)]))  # another longest target
    assert [t.shape for t in tensors_of(one)] == [t.shape for t in tensors_of(same)]


def test_a_copy_has_tensors_of_its_own() -> None:
    batch = make([(3, 5), (4, 4)]).filled()
    copied = copy_of(batch)
    assert shape_of(copied) == shape_of(batch) and copied.n_targets == batch.n_targets
    for one, other in zip(tensors_of(batch), tensors_of(copied), strict=True):
        assert torch.equal(one, other) and one.data_ptr() != other.data_ptr()


def test_only_what_never_pads_is_recorded() -> None:
    cuda, cpu = torch.device("cuda"), torch.device("cpu")
    assert can_be_recorded(Transformer(CONFIG), cuda) and not can_be_recorded(Transformer(CONFIG), cpu)
    for setting in ({"position": "alibi"}, {"position": "buckets"}, {"score": "additive"}, {"d_head": 12}):
        model = Transformer(TransformerConfig(vocab_size=9, d_model=16, n_heads=2, n_layers=1, d_ff=16, **setting))
        assert pads(model) and not can_be_recorded(model, cuda)
    assert not can_be_recorded(Seq2Seq(Seq2SeqConfig(vocab_size=9, d_model=6, d_hidden=5)), cuda)


def test_what_cannot_be_filled_is_learnt_from_as_it_comes() -> None:
    learnt = []
    recorder = Recorder(lambda batch, n: learnt.append(batch) or n)
    for _ in range(3):
        recorder(TagBatch([], torch.arange(1), Ragged([1]), torch.arange(1), torch.arange(1)), torch.tensor(1.0))
    assert len(learnt) == 3 and not recorder.recordings and not recorder.seen


def test_layouts_filled_up_have_round_sizes_and_empty_sequences_at_their_end() -> None:
    one, other = filled(Ragged([20, 2, 21, 3, 3]), Ragged([30, 30, 30, 1, 1]))
    assert one.lengths.tolist() == [20, 2, 21, 3, 3, 1, 0, 0] and other.lengths.tolist() == [30, 30, 30, 1, 1, 0, 0, 0]
    assert one.offsets.tolist() == [0, 20, 22, 43, 46, 49, 50, 50, 50]
    assert (one.longest, one.true_longest, other.longest, other.true_longest) == (32, 21, 32, 30)


def test_lines_filled_up_teach_the_same_and_full_windows_stay() -> None:
    torch.manual_seed(0)
    config = StackConfig(vocab_size=VOCABULARY, d_model=32, n_heads=2, n_layers=2, d_ff=64, dropout=0.0, max_length=64)
    model, tokens = LanguageModel(Stack(config)), torch.randint(0, VOCABULARY, (71,))
    batch = TextBatch(["", "", ""], tokens, tokens.flip(0), Ragged([40, 1, 30]))
    more = batch.filled()
    assert (more.n_targets, more.n_tokens, more.layout.n_rows) == (71, 71, 72)
    found = []
    for one in (batch, more):
        nats = model.nats(one.tokens, one.labels, one.layout)
        found.append((nats, *torch.autograd.grad(nats, list(model.parameters()))))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)
    full = TextBatch(["", ""], tokens[:60], tokens[:60], Ragged([30, 30]))
    assert full.filled() is full


def small_stack(**settings: object) -> Stack:
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCABULARY, "d_model": 32, "n_heads": 2, "n_layers": 2, "d_ff": 64, "max_length": 64}
    return Stack(StackConfig(**sizes, dropout=0.0, causal=False, **settings))


@pytest.mark.parametrize("pooling", ["first", "mean", "max", "last"])
@pytest.mark.parametrize("lengths", [[40, 1, 30], [7], [3] * 9])
def test_documents_filled_up_teach_the_same(pooling: str, lengths: list[int]) -> None:
    model = Classifier(small_stack(), n_labels=3, pooling=pooling, dropout=0.0)
    tokens = torch.randint(0, VOCABULARY, (sum(lengths),))
    batch = DocumentBatch(["" for _ in lengths], tokens, Ragged(lengths), torch.arange(len(lengths)) % 3)
    more = batch.filled()
    assert (more.n_targets, more.n_tokens) == (batch.n_targets, batch.n_tokens) == (len(lengths), sum(lengths))
    assert power_of_two(more.layout.n_sequences) == more.layout.n_sequences > batch.layout.n_sequences
    found = []
    for one in (batch, more):
        nats = label_nats(model, one, smoothing=0.1)
        found.append((nats, *torch.autograd.grad(nats, list(model.parameters()))))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_documents_with_ratings_are_not_filled_up() -> None:
    batch = DocumentBatch([""], torch.arange(3), Ragged([3]), torch.tensor([4.5]))
    assert batch.filled() is batch and not batch.is_fillable


@pytest.mark.parametrize("nsp", [False, True])
def test_masked_words_filled_up_teach_the_same(nsp: bool) -> None:
    model = MaskedWords(small_stack(tied=False), nsp)
    lengths = [40, 5, 30]
    tokens, places = torch.randint(0, VOCABULARY, (75,)), torch.arange(0, 74, 2)
    follows = torch.tensor([0, 1, 1]) if nsp else None
    words_each = torch.tensor(len(places) / 3)
    batch = MaskedBatch(["", "", ""], tokens, Ragged(lengths), places, tokens[places], follows, words_each)
    more = batch.filled()
    assert (more.n_targets, more.n_tokens) == (batch.n_targets, batch.n_tokens) == (37, 75)
    assert len(more.labels) == rounded(37) == 37 + more.n_added[1] and more.n_added[1] > 0
    found = []
    for one in (batch, more):
        nats = MaskedLanguage.nats(None, model, one, 0.0)
        found.append((nats, *torch.autograd.grad(nats, list(model.parameters()), allow_unused=True)))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)


def test_a_distilled_training_is_not_recorded() -> None:
    """Its loss compares all rows of a batch with the teacher's, those that fill it up too."""
    config = TrainingConfig(precision="bfloat16")
    with patch("regard.training.learner.can_be_recorded", lambda model, device: True):
        model, task = TinyModel(), TinyTask()
        made = [Learner(model, task, config, CPU, 8, True, loss) for loss in (None, task.loss)]
    assert [learner.recorder is None for learner in made] == [False, True]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs")
def test_a_recorded_step_gives_the_gradients_of_the_step() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = Transformer(CONFIG).to(device)
    twin = copy.deepcopy(model)
    model.compile(dynamic=True)
    twin.compile(dynamic=True)

    def learning(which: Transformer):
        def learn(batch: PairBatch, n_targets: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cuda", torch.bfloat16):
                loss = pair_loss(which, batch, 0.1) / n_targets
            loss.backward()
            return loss.detach()

        return learn

    recorder, plainly = Recorder(learning(model)), learning(twin)
    shapes = [[(3, 5), (40, 31), (7, 7)], [(9, 9)] * 12]
    given = []
    for step in range(8):  # each shape comes four times, with other words
        batch = make(shapes[step % 2], seed=step).filled().to(device)
        given.append((batch, [tensor.clone() for tensor in tensors_of(batch)]))
        n_targets = torch.full((), float(batch.n_targets + step), device=device)
        losses = [learn(batch, n_targets) for learn in (recorder, plainly)]
        losses[0] += recorder(batch, n_targets)  # gradients are added up
        losses[1] += plainly(batch, n_targets)
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-3, atol=1e-3)
        for one, other in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad, rtol=2e-2, atol=2e-2 * float(other.grad.abs().max()))
            one.grad.zero_()
            other.grad.zero_()
    assert len(recorder.recordings) == 2
    for batch, before in given:  # nobody wrote over them
        torch.testing.assert_close(tensors_of(batch), before, rtol=0, atol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs")
def test_replayed_dropout_is_drawn_anew_and_repeats_with_the_generator() -> None:
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.ones(64, device="cuda"))

    def learn(batch: PairBatch, n_targets: torch.Tensor) -> torch.Tensor:
        loss = torch.nn.functional.dropout(weight, 0.5).sum() / n_targets
        loss.backward()
        return loss.detach()

    recorder, batch = Recorder(learn), make([(3, 4)]).to(torch.device("cuda"))
    n_targets = torch.ones((), device="cuda")
    recorder(batch, n_targets)
    recorder(batch, n_targets)
    state = torch.cuda.get_rng_state()
    first = [float(recorder(batch, n_targets)) for _ in range(4)]
    torch.cuda.set_rng_state(state)
    assert len(set(first)) > 1 and [float(recorder(batch, n_targets)) for _ in range(4)] == first


def images_of(sides: list[tuple[int, int]], form: GridForm) -> LabeledImageBatch:
    draw = np.random.default_rng(1)
    images = [draw.integers(0, 256, (4 * height, 4 * width, 3), np.uint8) for height, width in sides]
    return LabeledImageBatch(["" for _ in sides], *read_pixels(images, form), None, torch.arange(len(sides)) % 3)


def test_images_of_many_sizes_filled_up_teach_the_same() -> None:
    torch.manual_seed(0)
    config = ViTConfig(vocab_size=9, patch=4, side=5, d_model=32, n_heads=2, n_layers=2, d_ff=64, dropout=0.0)
    model = Classifier(ViT(config), n_labels=3, pooling="first", dropout=0.0)
    batch = images_of([(1, 3), (2, 2), (5, 5), (5, 4), (5, 4)], config.grid)
    more = batch.filled()
    assert more.is_fillable and not batch.is_fillable and sum(more.n_added) > 0
    assert (more.n_targets, more.n_tokens) == (batch.n_targets, batch.n_tokens) == (5, 5 + 3 + 4 + 25 + 20 + 20)
    found = []
    for one in (batch, more):
        nats = F.cross_entropy(model(one.patches(), one.layout), one.labels, reduction="sum")
        found.append((nats, *torch.autograd.grad(nats, list(model.parameters()))))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)


def test_images_of_one_size_and_those_that_must_stay_whole_are_not_filled_up() -> None:
    form = ViTConfig(vocab_size=9, patch=4, side=5).grid
    same = images_of([(2, 3)] * 4, form)
    assert same.filled().pixels is same.pixels and same.is_fillable
    for config in (ViTConfig(vocab_size=9, patch=4, side=5, convolutions=True), ResidualNetworkConfig(vocab_size=9)):
        whole = images_of([(2, 3), (3, 3)], config.grid)
        assert whole.filled().pixels is whole.pixels and not whole.filled().is_fillable
