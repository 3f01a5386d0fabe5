"""Pairs for a language model: source, a token that names the task, and answer in one sequence."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from regard.errors import ConfigError
from regard.models.heads import LanguageModel
from regard.tasks.chat.batches import AnswerBatch, Script, answer_nats, make_batch
from regard.tasks.exchange import CAUSAL
from regard.tasks.framing import Frame
from regard.tasks.translation.batches import PairSet
from regard.tasks.translation.task import PairsConfig, PairTask
from regard.text.tokenizer import Tokenizer
from regard.viewer.capture import Capture
from regard.viewer.looking import Asked, look_at_text


@dataclass(frozen=True, kw_only=True)
class PromptedConfig(PairsConfig):
    token: str = "<answer>"  # stands between source and answer; one of tokenizer.extra, such as <to-fr>

    def frame(self, tokenizer: Tokenizer) -> Frame:
        start, end, after = tokenizer.start_id, tokenizer.end_id, tokenizer.special_id(self.token)
        return Frame(start, end, (start,), after, cut=self.long == "cut")


class Prompted(PairTask[LanguageModel, AnswerBatch]):
    """<s> source <task> answer </s>, of which the answer and its end are learned (Radford et al. 2018, section 3.3)."""

    settings = PromptedConfig
    exchange = CAUSAL
    weigh = np.add  # one sequence

    @classmethod
    def build(cls, config: PromptedConfig, model: Any) -> LanguageModel:
        return LanguageModel(model)

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

    def look_at_pair(self, model: LanguageModel, source: str, target: str, asked: Asked) -> Capture:
        ids = [*self.encode(source), *self.tokenizer.encode(target)]
        return look_at_text(model, self.tokenizer, ids, f"{source} → {target}", asked)
