"""Fine-tuning BERT on sentences as long as those of SST-2: flat batches beside the padded ones of transformers.

A step is forward, backward and AdamW.  All contenders have the same weights and get the same sentences in the same
random batches; only ours need no padding.  "grouped": ours with sentences of about one length in a batch, as the
recipes have it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from bench.machine import which_can_run
from bench.peers import copy_blocks
from bench.report import Report, Row
from bench.timing import say, take_turns
from bench.trainers import Trainer, same_work
from regard.data.batching.packing import cut
from regard.models.heads import Classifier
from regard.models.stack import Stack, StackConfig
from regard.nn.layout import Ragged
from regard.tasks.classification.batches import DocumentBatch, flat
from regard.tasks.classification.task import label_nats
from regard.text.words import END, PAD, SPECIAL, START
from regard.training.environment import compile_model, reproducible

# SST-2's training sentences in tokens of byte-pair encoding (16,000, trained on film reviews and WikiText-2), with <s>
# and </s>: percent of the sentences that are no longer.
LENGTHS = {0: 3, 5: 8, 10: 10, 20: 14, 30: 17, 40: 20, 50: 24, 60: 27, 70: 30, 80: 35, 90: 41, 95: 46, 98: 52, 99: 55,
           99.9: 64, 100: 74}  # fmt: skip
POOL = 8  # grouped batches are a sample of this many times as many, so that they are tight
BERT_BLOCK = {
    "attention.to_queries": "attention.self.query",
    "attention.to_keys": "attention.self.key",
    "attention.to_values": "attention.self.value",
    "attention.to_output": "attention.output.dense",
    "attention_residual.norm": "attention.output.LayerNorm",
    "feed_forward.expand": "intermediate.dense",
    "feed_forward.contract": "output.dense",
    "feed_forward_residual.norm": "output.LayerNorm",
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    shape: StackConfig
    budget: int  # real tokens a step
    n_batches: int  # steps a round
    rounds: int


def bert(**sizes: int) -> StackConfig:
    return StackConfig(
        causal=False, n_segments=2, pre_norm=False, embedding_norm=True, scale_embedding=False, norm_eps=1e-12, **sizes
    )


PLANS = {
    "cuda": Plan(shape=bert(vocab_size=30_522, max_length=512), budget=16_384, n_batches=8, rounds=5),
    # About 32 sentences, as most people fine-tune.
    "cpu": Plan(
        shape=bert(vocab_size=16_000, d_model=512, n_heads=8, n_layers=6, d_ff=2048, max_length=512),
        budget=790, n_batches=4, rounds=3,
    ),
    "tiny": Plan(
        shape=bert(vocab_size=100, d_model=16, n_heads=2, n_layers=2, d_ff=32, max_length=128),
        budget=200, n_batches=2, rounds=2,
    ),
}  # fmt: skip


def make_batches(plan: Plan, order: str, seed: int = 0) -> list[DocumentBatch]:
    """Batches of about `budget` tokens; grouped ones are from the shortest sentences to the longest."""
    random = np.random.default_rng(seed)
    n = POOL * plan.n_batches * plan.budget // LENGTHS[50]
    lengths = np.interp(100 * random.random(n), list(LENGTHS), list(LENGTHS.values())).round().astype(int)
    texts = [random.integers(len(SPECIAL), plan.shape.vocab_size, length) for length in lengths]
    for text in texts:
        text[0], text[-1] = START, END
    places = np.argsort(lengths, kind="stable") if order == "grouped" else np.arange(n)
    batches = cut(places, lengths, plan.budget)[:-1]  # the last is not full
    chosen = [batches[i] for i in np.linspace(0, len(batches) - 1, plan.n_batches + 2).astype(int)[1:-1]]
    return [make_batch([texts[i] for i in batch], random) for batch in chosen]


def make_batch(texts: list[np.ndarray], random: np.random.Generator) -> DocumentBatch:
    return DocumentBatch([], *flat(texts), torch.from_numpy(random.integers(0, 2, len(texts))))


def ours(model: Classifier, compiled: bool) -> Trainer:
    """As the training loop does it: on CPU also with deterministic algorithms, compiled also recorded."""
    device = model.to_labels.weight.device
    if compiled:
        done = compile_model(model, "on", device)
        if done != "compiled":
            raise RuntimeError(done)
    loss = partial(label_nats, model, smoothing=0.0)
    return Trainer(model, lambda batch: batch, loss, lambda: reproducible(device), is_recorded=compiled)


@torch.no_grad()
def bert_classifier(model: Classifier) -> Any:
    """transformers' BertForSequenceClassification with our weights, and, like ours, no dropout on attention weights."""
    import transformers

    transformers.logging.set_verbosity_error()
    c, reader = model.reader.config, model.reader
    config = transformers.BertConfig(
        vocab_size=c.vocab_size,
        hidden_size=c.d_model,
        num_hidden_layers=c.n_layers,
        num_attention_heads=c.n_heads,
        intermediate_size=c.d_ff,
        max_position_embeddings=c.max_length,
        hidden_dropout_prob=c.dropout,
        attention_probs_dropout_prob=0.0,
        layer_norm_eps=c.norm_eps,
        pad_token_id=PAD,
        num_labels=2,
        attn_implementation="sdpa",
    )
    made: Any = transformers.BertForSequenceClassification(config)
    theirs = made.bert.embeddings
    theirs.word_embeddings.weight.copy_(reader.embedding.weight)
    theirs.position_embeddings.weight.copy_(reader.position.table)
    theirs.token_type_embeddings.weight.copy_(reader.segment.weight)
    theirs.LayerNorm.load_state_dict(reader.embedding_norm.state_dict())
    copy_blocks(reader.blocks, made.bert.encoder.layer, BERT_BLOCK)
    assert model.pooler is not None
    made.bert.pooler.dense.load_state_dict(model.pooler.state_dict())
    made.classifier.load_state_dict(model.to_labels.state_dict())
    return made


def theirs(model: Classifier, compiled: bool) -> Trainer:
    made = bert_classifier(model).to(model.to_labels.weight.device)

    def loss(tokens: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        logits = made(input_ids=tokens, attention_mask=mask).logits
        return F.cross_entropy(logits.float(), labels, reduction="sum")

    run = torch.compile(loss, dynamic=True) if compiled else loss
    return Trainer(made, padded, lambda batch: run(*batch))


def padded(batch: DocumentBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens and mask (B, T), padded to the longest of the batch."""
    layout = batch.layout
    return layout.pad(batch.tokens), layout.pad(torch.ones_like(batch.tokens)), batch.labels


# How they train, and in which batches.
CONTENDERS: dict[str, tuple[Callable[[Classifier], Trainer], str]] = {
    "regard": (lambda model: ours(model, compiled=False), "random"),
    "regard compiled": (lambda model: ours(model, compiled=True), "random"),
    "regard, grouped": (lambda model: ours(model, compiled=False), "grouped"),
    "regard compiled, grouped": (lambda model: ours(model, compiled=True), "grouped"),
    "transformers": (lambda model: theirs(model, compiled=False), "random"),
    "transformers compiled": (lambda model: theirs(model, compiled=True), "random"),
}
COMPILED = tuple(name for name in CONTENDERS if "compiled" in name)
PACKAGES = {name: ("transformers",) for name in CONTENDERS if name.startswith("transformers")}


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    plan = PLANS["tiny" if tiny else device.type]
    names, notes = which_can_run(CONTENDERS, PACKAGES, skip)
    names = [name for name in names if device.type == "cuda" or name not in COMPILED]
    few = make_batches(plan, "random")[:1]
    notes.append(same_work(lambda name: make(plan, name, device), [n for n in names if n not in COMPILED], few))
    report = Report("finetuning", "tok/s", describe(plan, device), notes=notes)
    work = {order: make_batches(plan, order) for order in ("random", "grouped")}
    runs = {name: a_round(make(plan, name, device), work[CONTENDERS[name][1]]) for name in names}
    for name, warm_up in runs.items():
        say(f"warming up: {name}")
        for _ in range(2):  # then all is compiled and recorded
            warm_up()
    taken = take_turns(runs, rounds or plan.rounds, device)
    case = f"random batches, {padding(work['random']):.0%} padding"
    for name in names:
        n_tokens = sum(batch.n_tokens for batch in work[CONTENDERS[name][1]])
        report.rows.append(Row(case=case, contender=name, figures=taken[name].rates(n_tokens)))
    return report


def describe(plan: Plan, device: torch.device) -> str:
    c = plan.shape
    return (
        f"BERT, {c.n_layers} layers of {c.d_model}, sentences of SST-2's lengths, about {plan.budget:,} real tokens a "
        f"step, {'bfloat16' if device.type == 'cuda' else 'float32'}"
    )


def make(plan: Plan, name: str, device: torch.device) -> Trainer:
    """A contender, ready to train; all begin with the same weights."""
    torch.manual_seed(0)
    model = Classifier(Stack(plan.shape), 2, "first", plan.shape.dropout, "tanh")
    return CONTENDERS[name][0](model.to(device))


def a_round(trainer: Trainer, batches: list[DocumentBatch]) -> Callable[[], None]:
    prepared = trainer.prepared(batches)  # type: ignore[arg-type]
    return lambda: trainer.train(prepared)


def padding(batches: list[DocumentBatch]) -> float:
    """The share of padding, once all are padded to the longest."""
    layouts: list[Ragged] = [batch.layout for batch in batches]
    return 1 - sum(x.n_rows for x in layouts) / sum(x.n_sequences * x.longest for x in layouts)
