"""Pairs of texts: for a translator; for a language model, source, a token that names the task, and answer in one
sequence."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from torch import Tensor
from torch.nn import functional as F

from regard.data.files.recognizing import pairs
from regard.errors import ConfigError
from regard.models.heads import LanguageModel
from regard.models.interface import AnyReader, Translator
from regard.nn.linear import as_computed
from regard.tasks.chat.batches import AnswerBatch, Script, answer_nats, make_batch
from regard.tasks.exchange import CAUSAL, SOURCE_TO_TARGET
from regard.tasks.framing import Frame
from regard.tasks.own_words import PURPOSE, OwnWordsConfig, with_own_words
from regard.tasks.pretraining.repair import can_repair, repair, writes_gaps_alone
from regard.tasks.setup import Use, Verbs
from regard.tasks.translation.batches import PairBatch, PairSet
from regard.tasks.translation.framed import SourceTargetConfig, pair_loss
from regard.tasks.translation.pairs import PairsConfig, PairTask
from regard.tasks.translation.sizing import draft
from regard.tasks.translation.use import alignments
from regard.tasks.translation.verbs import Align
from regard.text.tokenizer import Tokenizer
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus, look_at_text


@dataclass(frozen=True, kw_only=True)
class TranslationConfig(PairsConfig, SourceTargetConfig, OwnWordsConfig):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_own_words()

    def refuse_r_drop(self) -> None:
        if self.own_words:
            raise ConfigError("training.r_drop compares readings of given words: set own_words = 0, or r_drop = 0")

    def frame(self, tokenizer: Tokenizer) -> Frame:
        return replace(super().frame(tokenizer), cut=self.long == "cut")


class Translation(PairTask[Translator, PairBatch]):
    """By an encoder-decoder."""

    settings = TranslationConfig
    config: TranslationConfig
    roles = ("translator",)
    exchange = replace(SOURCE_TO_TARGET, has_references=True)
    recognize = staticmethod(pairs)
    draft = staticmethod(draft)

    def collate(self, part: PairSet, chosen: np.ndarray, epoch: int | None = None) -> PairBatch:
        return part.batch(chosen, epoch)

    nats = staticmethod(pair_loss)

    def predictions(self, model: Translator, batch: PairBatch) -> tuple[Tensor, Tensor, Tensor]:
        rows = model(batch.source, batch.source_layout, batch.target, batch.target_layout)
        return F.linear(as_computed(rows), as_computed(model.output_table), model.output_bias), batch.labels, rows

    def loss(self, model: Translator, batch: PairBatch) -> Tensor:
        if self.config.own_words:
            sources = [ids.tolist() for ids in batch.source.split(batch.source_layout.lengths.tolist())]
            draws, chance = [self.setup.seed, PURPOSE, self.step], self.config.chance(self.step)
            read = with_own_words(model, sources, batch.target, batch.target_layout, chance, draws)
            batch = replace(batch, target=read)
        return super().loss(model, batch)

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (*super().usage(folder), f'regard look {folder} "a sentence"')

    @property
    def verbs(self) -> Verbs:
        """A model of another tool that was pre-trained with masks or sentinels has tokens for them, and can fill."""
        fill = partial(repair, self.tokenizer, self.frame, writes_gaps_alone(self.tokenizer))
        of_gaps = {"fill": fill} if can_repair(self.tokenizer) else {}
        return {**super().verbs, **of_gaps, "alignments": self.align}

    def align(self, use: Use[Translator], ask: Align) -> list[tuple[int, int]]:
        return alignments(use.model, self.tokenizer, self.frame, ask.translated, ask.layer)


@dataclass(frozen=True, kw_only=True)
class PromptedConfig(PairsConfig):
    token: str = "<answer>"  # between source and target: names the task, such as <to-fr>; one of tokenizer.extra

    def frame(self, tokenizer: Tokenizer) -> Frame:
        start, end, after = tokenizer.start_id, tokenizer.end_id, tokenizer.special_id(self.token)
        return Frame(start, end, (start,), after, cut=self.long == "cut")

    def build(self, reader: AnyReader) -> LanguageModel:
        return LanguageModel(reader)


class Prompted(PairTask[LanguageModel, AnswerBatch]):
    """<s> source <task> answer </s>, of which the answer and its end are learned (Radford et al. 2018, section 3.3)."""

    settings = PromptedConfig
    exchange = CAUSAL
    weigh = np.add  # one sequence

    def collate(self, part: PairSet, chosen: np.ndarray, epoch: int | None = None) -> AnswerBatch:
        sources, targets = part.columns(chosen, epoch)
        scripts = [self.script(source, target) for source, target in zip(sources, targets, strict=True)]
        return make_batch(scripts, part.lines(chosen))

    def script(self, source: np.ndarray, target: np.ndarray) -> Script:
        """The sequence, and which of its tokens are learned."""
        ids = np.array([*self.frame.source(source.tolist()), *target, self.frame.end], np.int64)
        return ids, np.arange(len(ids)) > len(ids) - len(target) - 2

    def nats(self, model: LanguageModel, batch: AnswerBatch, smoothing: float) -> Tensor:
        if batch.layout.longest > model.max_length:
            raise ConfigError(
                f"a source and its answer have {batch.layout.longest} tokens together, model.max_length is "
                f"{model.max_length}; lower data.max_length or raise model.max_length"
            )
        return answer_nats(model, batch, smoothing)

    def room(self, model: LanguageModel) -> int:
        """What a source with its <s> and its task leaves, and the answer's last token is not read."""
        room = model.max_length - self.max_length - 1
        if room < 1:
            raise ConfigError(
                f"a source of data.max_length = {self.max_length} tokens leaves no room for an answer in "
                f"model.max_length = {model.max_length}; lower the one or raise the other"
            )
        return room

    def room_beside(self, model: LanguageModel, source: str) -> int:
        return model.max_length - len(self.encode(source))

    def look_at_pair(
        self, model: LanguageModel, source: str, target_ids: list[int], title: str, focus: Focus
    ) -> Capture:
        return look_at_text(model, self.tokenizer, [*self.encode(source), *target_ids], title, focus)
