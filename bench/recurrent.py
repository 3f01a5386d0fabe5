"""Training recurrent nets: an LSTM that models language, and one that reads both ways, beside torch.nn.LSTM.

A step is forward, backward and AdamW.  All contenders have the same weights and, where the order is the same, the same
batches.  nn.LSTM gets rectangles, padded to the longest sentence; both ways it would read that padding, so there it
gets packed sequences.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bench.data import IGNORED, TYPICAL, sentences
from bench.report import Report, Row
from bench.timing import say, take_turns
from bench.trainers import Trainer
from regard.data.batching.packing import cut
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.nn.layout import Ragged
from regard.nn.loss import cross_entropy
from regard.training.environment import reproducible

POOL = 8  # the batches are a sample of this many times as many, so that grouped ones are tight


@dataclass(frozen=True, kw_only=True)
class Plan:
    shape: RecurrentConfig
    longest: int  # tokens of a sentence
    budget: int  # real tokens a step
    n_batches: int
    rounds: int
    n_passes: int = 1  # over the batches, in a round


LARGE = RecurrentConfig(vocab_size=10_000, d_model=512, d_hidden=512, dropout=0.0)
SMALL = RecurrentConfig(vocab_size=8_000, d_model=256, d_hidden=256, dropout=0.0)
TINY = RecurrentConfig(vocab_size=100, d_model=16, d_hidden=16, dropout=0.0)
PLANS = {
    "cuda": Plan(shape=LARGE, longest=120, budget=16_000, n_batches=8, rounds=5, n_passes=15),  # a round of a second
    "cpu": Plan(shape=SMALL, longest=60, budget=1_600, n_batches=6, rounds=5),  # about 64 sentences
    "tiny": Plan(shape=TINY, longest=30, budget=200, n_batches=2, rounds=2),
}


@dataclass(frozen=True)
class Text:
    """Sentences and what is to be said of each token: the next one."""

    tokens: Tensor  # N
    labels: Tensor  # N
    layout: Ragged

    @property
    def n_targets(self) -> int:
        return self.layout.n_rows

    def to(self, device: torch.device) -> "Text":
        return Text(self.tokens.to(device), self.labels.to(device), self.layout.to(device))


@dataclass(frozen=True)
class PaddedText:
    tokens: Tensor  # B T
    labels: Tensor  # B T, IGNORED where there is nothing
    lengths: Tensor  # B, on the CPU, where packing wants them


class Ours(nn.Module):
    """A reader and its output table."""

    def __init__(self, config: RecurrentConfig):
        super().__init__()
        self.reader = Recurrent(config)
        self.output = nn.Linear(self.reader.d_out, config.vocab_size, bias=False)

    def forward(self, text: Text) -> Tensor:
        return cross_entropy(self.reader(text.tokens, text.layout), self.output.weight, text.labels)


class Theirs(nn.Module):
    """torch.nn.LSTM between PyTorch's embedding, linear layer and loss, as its tutorials put them together."""

    def __init__(self, ours: Ours):
        super().__init__()
        c, stack = ours.reader.config, ours.reader.stack
        self.embedding = nn.Embedding(c.vocab_size, c.d_model)
        self.embedding.load_state_dict(ours.reader.embedding.state_dict())
        self.lstm = nn.LSTM(c.d_model, c.d_hidden, c.n_layers, batch_first=True, bidirectional=c.bidirectional)
        self.lstm.load_state_dict(
            {
                f"{name.removesuffix('0')}{depth}{suffix}": weight
                for layers, suffix in ((stack.forwards, ""), (stack.backwards, "_reverse"))
                for depth, layer in enumerate(layers)
                for name, weight in layer.kernel.state_dict().items()
            }
        )
        self.output = nn.Linear(ours.output.in_features, c.vocab_size, bias=False)
        self.output.load_state_dict(ours.output.state_dict())

    def forward(self, text: PaddedText) -> Tensor:
        x = self.embedding(text.tokens)
        if self.lstm.bidirectional:
            packed = pack_padded_sequence(x, text.lengths, batch_first=True, enforce_sorted=False)
            hidden, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        else:
            hidden, _ = self.lstm(x)
        logits = self.output(hidden).flatten(0, 1)
        return F.cross_entropy(logits.float(), text.labels.flatten(), ignore_index=IGNORED, reduction="sum")


def padded(text: Text) -> PaddedText:
    layout = text.layout
    nothing = layout.pad(torch.ones_like(text.labels)) == 0
    labels = layout.pad(text.labels).masked_fill(nothing, IGNORED)
    return PaddedText(layout.pad(text.tokens), labels, layout.lengths.cpu())


def regard_trainer(model: Ours) -> Trainer:
    """As the training loop does it: on CPU also with deterministic algorithms."""
    device = model.output.weight.device
    return Trainer(model, lambda text: text, model, lambda: reproducible(device))


def torch_trainer(model: Ours) -> Trainer:
    theirs = Theirs(model).to(model.output.weight.device)
    return Trainer(theirs, padded, theirs)


CONTENDERS: dict[str, tuple[Callable[[Ours], Trainer], str]] = {
    "regard, grouped": (regard_trainer, "grouped"),
    "nn.LSTM, grouped": (torch_trainer, "grouped"),
    "regard, random": (regard_trainer, "random"),
    "nn.LSTM, random": (torch_trainer, "random"),
}
CASES = {"language model": False, "both ways": True}  # whether it is bidirectional
ORDERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "random": lambda lengths: np.arange(len(lengths)),
    "grouped": lambda lengths: np.argsort(lengths, kind="stable"),
}


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    plan = PLANS["tiny" if tiny else device.type]
    names = [name for name in CONTENDERS if name not in skip]
    work = {order: make_batches(plan, order) for order in ORDERS}
    shares = ", ".join(f"{order} {padding(texts):.0%}" for order, texts in work.items())
    report = Report("recurrent", "tok/s", describe(plan, device), notes=[f"padding, once padded: {shares}"])
    for case, both_ways in CASES.items():
        if case in skip:
            continue
        shape = replace(plan.shape, bidirectional=both_ways)
        check_same_loss(shape, work["random"][0], device)
        runs = {
            name: a_round(CONTENDERS[name][0](make(shape, device)), work[CONTENDERS[name][1]], plan) for name in names
        }
        for name, warm_up in runs.items():
            say(f"warming up: {name}")
            warm_up()
        taken = take_turns(runs, rounds or plan.rounds, device)
        for name in names:
            n_tokens = plan.n_passes * sum(text.n_targets for text in work[CONTENDERS[name][1]])
            report.rows.append(Row(case=case, contender=name, figures=taken[name].rates(n_tokens)))
    report.notes.append("checked before timing: all find the same loss of the same sentences, to 1e-4")
    return report


def describe(plan: Plan, device: torch.device) -> str:
    c = plan.shape
    return (
        f"LSTM, {c.n_layers} layers of {c.d_hidden}, {c.vocab_size:,} words, sentences of 3 to {plan.longest} tokens, "
        f"about {plan.budget:,} a step, {'bfloat16' if device.type == 'cuda' else 'float32'}"
    )


def make(shape: RecurrentConfig, device: torch.device) -> Ours:
    torch.manual_seed(0)
    return Ours(shape).to(device)


def make_batches(plan: Plan, order: str) -> list[Text]:
    """Batches of about `budget` tokens each, from the shortest sentences to the longest."""
    targets = sentences(POOL * plan.n_batches * plan.budget // TYPICAL, plan.longest, plan.shape.vocab_size).targets
    lengths = np.array([len(sentence) - 1 for sentence in targets])
    batches = cut(ORDERS[order](lengths), lengths, plan.budget)[:-1]  # the last is not full
    batches.sort(key=lambda batch: float(lengths[batch].mean()))
    chosen = [batches[i] for i in np.linspace(0, len(batches) - 1, plan.n_batches + 2).astype(int)[1:-1]]
    return [make_text([targets[i] for i in batch]) for batch in chosen]


def make_text(chosen: list[np.ndarray]) -> Text:
    tokens, labels = (
        torch.from_numpy(np.concatenate(side)) for side in ([s[:-1] for s in chosen], [s[1:] for s in chosen])
    )
    return Text(tokens, labels, Ragged([len(sentence) - 1 for sentence in chosen]))


def padding(texts: list[Text]) -> float:
    """The share of padding, once all are padded to the longest."""
    layouts = [text.layout for text in texts]
    return 1 - sum(x.n_rows for x in layouts) / sum(x.n_sequences * x.longest for x in layouts)


def check_same_loss(shape: RecurrentConfig, text: Text, device: torch.device) -> None:
    losses = []
    for contender in (regard_trainer, torch_trainer):
        trainer = contender(make(shape, device))
        ((batch, n_targets),) = trainer.prepared([text])
        losses.append(float(trainer.loss(batch).detach()) / n_targets)
    if abs(losses[0] - losses[1]) > 1e-4:
        raise AssertionError(f"the contenders do not do the same work: their losses are {losses}")


def a_round(trainer: Trainer, texts: list[Text], plan: Plan) -> Callable[[], None]:
    prepared = trainer.prepared(texts)
    return lambda: trainer.train(plan.n_passes * prepared)
