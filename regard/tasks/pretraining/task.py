"""Masked words: documents in, and out what was masked and whether a text follows another (BERT), or which words are a
generator's (ELECTRA)."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.checks import at_least, not_negative, one_of, positive, positive_share, proper_share
from regard.choose import choose
from regard.data.batching.computed_order import PooledEpochs
from regard.data.batching.large_passages import LargePassages
from regard.data.batching.packing import Packing
from regard.data.batching.passages import DOCUMENTS, Passages
from regard.data.config import DataConfig
from regard.data.files.plain import PlainText, text_parts
from regard.data.files.splits import Parts
from regard.data.report import Row
from regard.errors import ConfigError
from regard.models.interface import AnyReader
from regard.models.masked import MaskedWords, ReplacedWords, draw, rows_at
from regard.processes import spread
from regard.tasks.exchange import MASKED
from regard.tasks.language.running_text import check_window, inspect_texts
from regard.tasks.pretraining.batches import N_FIXED, MaskedBatch, MaskedPassages
from regard.tasks.pretraining.use import fill, follow
from regard.tasks.pretraining.verbs import Fill, Filled, Follow, Followed
from regard.tasks.setup import M, Sample, TaskConfig, Use, Verbs
from regard.tasks.task import Task
from regard.text.tokenizer import Tokenizer

SHOWN_TOKENS = 40  # of a validation passage
# How often masks are drawn before they come again: BERT's data held ten copies of each text (section A.2), RoBERTa's
# texts are never masked in the same way twice (Liu et al. 2019, section 4.1).
MASKS: dict[str, int | None] = {"static": 10, "dynamic": None}


@dataclass(frozen=True, kw_only=True)
class MaskingConfig(TaskConfig):
    """What every task on masked words may set."""

    documents: str = "lines"  # what a document is: `lines`, each line one; `blocks`, the lines up to an empty one
    window: int = 128  # the most tokens of a passage, with <s> and </s>; a longer document is cut into about equal ones
    # of the tokens of a passage that are masked, at least one: 80 % become <mask>, 10 % any word, 10 % stay as they
    # are; in `replaced`, this is what the generator reads, and its words then replace them
    share: float = 0.15
    masks: str = "dynamic"  # `dynamic`: drawn anew each epoch (RoBERTa); `static`: ten draws, again and again (BERT)

    def __post_init__(self) -> None:
        choose(DOCUMENTS, self.documents, "kind of documents")
        choose(MASKS, self.masks, "kind of masks")
        at_least(self, N_FIXED[self.nsp] + 2, "window")
        proper_share(self, "share")
        one_of(self, ("loss", "accuracy"), "metric")

    @property
    def nsp(self) -> bool:
        """Whether passages have two parts, of which the second may not follow the first."""
        return False


class MaskingTask(Task[PlainText, MaskedPassages, M, MaskedBatch]):
    """Which words are masked is a function of (seed, epoch, passage).  Figures are of every passage once, with the same
    words masked, and any other chance the same, each time."""

    cut_once, reads_marks = "a text with masked words", True
    config: MaskingConfig

    @classmethod
    def read_parts(cls, config: TaskConfig, data: DataConfig) -> Parts[PlainText]:
        return text_parts(data, "lines")

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        return text_parts(data, "lines").train.lines

    def part(self, raw: PlainText, to_learn: bool) -> MaskedPassages:
        c = self.config
        width = c.window - N_FIXED[c.nsp]
        data, arguments = self.setup.data, (raw, c.documents, width, self.tokenizer, self.setup.cache)
        is_large = to_learn and data.are_many(len(raw.lines), raw.digest)
        corpus = LargePassages(*arguments, data.n_processes) if is_large else Passages(*arguments)
        return MaskedPassages(corpus, self.tokenizer, c.share, c.nsp)

    def packing(self, part: MaskedPassages, budget: int, order: str, seed: int) -> Packing | PooledEpochs:
        return part.packing(budget, order, seed)

    def collate(self, part: MaskedPassages, chosen: np.ndarray, epoch: int | None = None) -> MaskedBatch:
        if epoch is None:
            return part.batch(chosen, seed=0, draw=0)
        n_draws = MASKS[self.config.masks]
        return part.batch(chosen, self.setup.seed, epoch if n_draws is None else epoch % n_draws)

    def small_batch(self, n_tokens: int) -> MaskedBatch:
        return next(self.train.all_batches(n_tokens))

    def signature(self, part: MaskedPassages) -> str:
        c = self.config
        return f"documents:{c.documents}|window:{c.window}|share:{c.share:g}|passages:{len(part.corpus)}"

    def inspect(self) -> list[Row]:
        return inspect_texts({name: part.corpus.for_report() for name, part in self.parts().items()}, self.tokenizer)


@dataclass(frozen=True, kw_only=True)
class MaskedConfig(MaskingConfig):
    # next-sentence prediction: `<s> a </s> b </s>`, and whether b follows a or is from another document, half and half
    nsp: bool = True
    shown: int = 2  # passages shown at each validation, with the masked words and the model's predictions

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self, "shown")

    def refuse_teacher(self, theirs: Self) -> None:
        if self.nsp:
            raise ConfigError("distillation has no next-sentence prediction: set nsp = false")

    def refuse_r_drop(self) -> None:
        if self.nsp:
            raise ConfigError("training.r_drop has no next-sentence prediction: set task.nsp = false, or r_drop = 0")

    def build(self, reader: AnyReader) -> MaskedWords:
        check_window(self.window, reader)
        return MaskedWords(reader, self.nsp)


class MaskedLanguage(MaskingTask[MaskedWords]):
    """BERT's: the masked words and, if asked, whether one text follows another."""

    settings = MaskedConfig
    exchange = MASKED
    commands = (
        'regard fill RUN "Paris is the [MASK] of France."',
        "regard train sst2-bert --from RUN",
        "regard embed RUN FILE",
    )
    config: MaskedConfig

    # Loss.

    def nats(self, model: MaskedWords, batch: MaskedBatch, smoothing: float) -> Tensor:
        """The mean over the masked words and the mean over the passages are added, as in the paper; the loop divides by
        the number of words."""
        words, follows = both_nats(model, model(batch.tokens, batch.layout), batch)
        return words + follows * batch.words_each

    def predictions(self, model: MaskedWords, batch: MaskedBatch) -> tuple[Tensor, Tensor, Tensor]:
        rows = model(batch.tokens, batch.layout)
        return model.word_logits(rows_at(rows, batch.places)), batch.labels, rows

    # Validation.

    @torch.no_grad()
    def figures(self, model: MaskedWords, part: MaskedPassages) -> dict[str, float]:
        """Nats and percent of the masked words, percent of what follows."""

        def counts(batch: MaskedBatch) -> Tensor:
            batch = batch.to(model.device)
            rows = model(batch.tokens, batch.layout)
            right = (model.guesses(rows_at(rows, batch.places)) == batch.labels).sum()
            right_next = torch.zeros_like(right)
            if batch.follows is not None:
                right_next = (model.next_logits(rows, batch.layout).argmax(-1) == batch.follows).sum()
            figures = (*both_nats(model, rows, batch), right, right_next, batch.n_targets, batch.layout.n_sequences)
            return torch.tensor([float(figure) for figure in figures], dtype=torch.float64)

        rows = [row.tolist() for row in spread(list(part.all_batches(self.batch_tokens)), counts)]
        of_words, of_next, right, right_next, n_words, n_passages = map(sum, zip(*rows, strict=True))
        values = {"loss": of_words / n_words + of_next / n_passages, "accuracy": 100 * right / n_words}
        if part.nsp:
            values |= {"word_loss": of_words / n_words, "next_accuracy": 100 * right_next / n_passages}
        return values

    @torch.no_grad()
    def first_samples(self, model: MaskedWords, valid: MaskedPassages) -> list[Sample]:
        """The beginning of some validation passages, the words masked there, and what the model takes them for."""
        few = np.arange(min(self.config.shown, len(valid.corpus)))
        samples = []
        for i in few:
            batch = self.collate(valid, few[i : i + 1]).to(model.device)
            guesses = model.guesses(rows_at(model(batch.tokens, batch.layout), batch.places))
            is_shown = batch.places < SHOWN_TOKENS
            shown = with_marks(batch.tokens[:SHOWN_TOKENS].tolist(), self.tokenizer)
            truth, guess = ("|".join(self.tokenizer.tokens(ids[is_shown].tolist())) for ids in (batch.labels, guesses))
            samples.append((shown, truth, guess))
        return samples

    # For people, and use.

    @property
    def purpose(self) -> str:
        return "was trained to predict masked words" + (" and what follows a text" if self.config.nsp else "")

    @property
    def verbs(self) -> Verbs:
        return {"fill": self.fill, **({"follow": self.follow} if self.config.nsp else {}), **super().verbs}

    def fill(self, use: Use[MaskedWords], ask: Fill) -> list[Filled]:
        documents = [np.array(self.encode(text), np.int64) for text in ask.texts]
        return fill(use.model, self.tokenizer, documents, ask.top, self.batch_tokens)

    def follow(self, use: Use[MaskedWords], ask: Follow) -> list[Followed]:
        return follow(use.model, self.tokenizer, ask, self.batch_tokens)


def with_marks(ids: list[int], tokenizer: Tokenizer) -> str:
    """The text of some tokens, the special ones by their names."""
    marks = {tokenizer.special_id(name) for name in tokenizer.special}
    parts = [(is_mark, list(part)) for is_mark, part in groupby(ids, marks.__contains__)]
    return " ".join(" ".join(tokenizer.tokens(p)) if is_mark else tokenizer.decode(p).strip() for is_mark, p in parts)


def both_nats(model: MaskedWords, rows: Tensor, batch: MaskedBatch) -> tuple[Tensor, Tensor]:
    """-log P of all masked words, and of all answers to what follows (0 where it is not asked), of the hidden rows."""
    words = model.word_nats(rows_at(rows, batch.places), batch.labels)
    if batch.follows is None:
        return words, words.new_zeros(())
    logits = model.next_logits(rows, batch.layout).float()
    return words, F.cross_entropy(logits, batch.follows, reduction="sum")


@dataclass(frozen=True, kw_only=True)
class ReplacedConfig(MaskingConfig):
    generator: float = 0.25  # the generator's width, as a share of the model's: fewer heads, a narrower network
    weight: float = 50.0  # of the model's loss, relative to the generator's

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_share(self, "generator")
        positive(self, "weight")

    def build(self, reader: AnyReader) -> ReplacedWords:
        check_window(self.window, reader)
        return ReplacedWords(reader, self.generator)


class JudgedWords(NamedTuple):
    """A batch, filled in by the generator and judged by the reader."""

    word_nats: Tensor  # of the masked words, all together
    tokens: Tensor  # N, with the generator's words
    is_replaced: Tensor  # N, where they differ from the text's; one that the generator guessed right is the text's own
    logits: Tensor  # N, above 0 where the reader takes a word for replaced

    @property
    def nats(self) -> Tensor:
        """Of all tokens together."""
        return F.binary_cross_entropy_with_logits(self.logits.float(), self.is_replaced.float(), reduction="sum")


class ReplacedLanguage(MaskingTask[ReplacedWords]):
    """ELECTRA's: which words of a text a generator has replaced."""

    settings = ReplacedConfig
    commands = ("regard train sst2-bert --from RUN", "regard embed RUN FILE", "regard evaluate RUN")
    purpose = "was trained to detect which words of a text were replaced"
    config: ReplacedConfig

    def nats(self, model: ReplacedWords, batch: MaskedBatch, smoothing: float) -> Tensor:
        """The mean over the masked words, and `weight` times the mean over all tokens (Clark et al. 2020, section 2);
        the loop divides by the number of words.  No gradient goes through the words that are drawn."""
        judged = judge(model, batch)
        return judged.word_nats + self.config.weight * judged.nats * (batch.n_targets / batch.n_tokens)

    @torch.no_grad()
    def figures(self, model: ReplacedWords, part: MaskedPassages) -> dict[str, float]:
        """The loss; of all tokens, how many percent are judged right; and how many of the replaced ones are found."""

        def counts(numbered: tuple[int, MaskedBatch]) -> Tensor:
            number, batch = numbered[0], numbered[1].to(model.device)
            judged = judge(model, batch, torch.Generator(model.device).manual_seed(number))
            verdict, is_replaced = judged.logits > 0, judged.is_replaced
            hits = (is_replaced.sum(), (verdict == is_replaced).sum(), (verdict & is_replaced).sum())
            figures = (batch.n_targets, batch.n_tokens, judged.word_nats, judged.nats, *hits)
            return torch.tensor([float(figure) for figure in figures], dtype=torch.float64)

        rows = spread(list(enumerate(part.all_batches(self.batch_tokens))), counts)
        n_words, n_tokens, word_nats, nats, n_replaced, right, seen = torch.stack(rows).sum(0).tolist()
        return {
            "loss": word_nats / n_words + self.config.weight * nats / n_tokens,
            "accuracy": 100 * right / n_tokens,
            "found": 100 * seen / max(n_replaced, 1),
            "word_loss": word_nats / n_words,
        }


def judge(model: ReplacedWords, batch: MaskedBatch, chance: torch.Generator | None = None) -> JudgedWords:
    words = rows_at(model.generator(batch.tokens, batch.layout), batch.places)
    word_nats = model.generator.word_nats(words, batch.labels)
    own = batch.tokens.scatter(0, batch.places, batch.labels)
    with torch.no_grad():
        drawn = draw(model.generator.word_logits(words), chance)
    tokens = own.scatter(0, batch.places, drawn)
    return JudgedWords(word_nats, tokens, tokens != own, model.replaced_logits(model(tokens, batch.layout)))
