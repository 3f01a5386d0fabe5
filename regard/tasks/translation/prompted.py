"""Tasks of a language model: source, a token that names the task, and answer in one sequence."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from regard.errors import ConfigError
from regard.models.heads import LanguageModel
from regard.tasks.chat.batches import AnswerBatch, Script, answer_nats, make_batch
from regard.tasks.translation.batches import Frame, PairSet
from regard.tasks.translation.task import PairsConfig, Translation
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class PromptedConfig(PairsConfig):
    token: str = "<answer>"  # stands between source and answer; one of tokenizer.extra, such as <to-fr>

    def frame(self, tokenizer: Tokenizer) -> Frame:
        start, end, after = tokenizer.start_id, tokenizer.end_id, tokenizer.special_id(self.token)
        return Frame(start, end, (start,), after, cut=self.long == "cut")

    @staticmethod
    def room(longest_source: int, max_length: int) -> int:
        """Tokens of an answer: what a source with its <s> and its task leaves, and the answer's last is not read."""
        room = max_length - longest_source - 1
        if room < 1:
            raise ConfigError(
                f"a source of data.max_length = {longest_source} tokens leaves no room for an answer in "
                f"model.max_length = {max_length}; lower the one or raise the other"
            )
        return room


class Prompted(Translation):
    """<s> source <task> answer </s>, of which the answer and its end are learnt (Radford et al. 2018, section 3.3)."""

    roles = ("reader",)
    weigh = np.add  # one sequence

    @staticmethod
    def build(config: PromptedConfig, reader: Any) -> LanguageModel:
        return LanguageModel(reader)

    def made_of(self, pairs: PairSet, indices: np.ndarray, dropout: float = 0.0, draw: int = 0) -> AnswerBatch:
        sources, targets = pairs.columns(indices, dropout, draw)
        scripts = [self.script(source, target) for source, target in zip(sources, targets, strict=True)]
        return make_batch(scripts, pairs.lines(indices))

    def script(self, source: np.ndarray, target: np.ndarray) -> Script:
        """The sequence, and which of its tokens are learnt."""
        ids = np.array([*self.frame.source(source.tolist()), *target, self.frame.end], np.int64)
        return ids, np.arange(len(ids)) > len(ids) - len(target) - 2

    def nats(self, model: Any, batch: AnswerBatch, smoothing: float) -> Tensor:
        if batch.layout.longest > model.config.max_length:
            raise ConfigError(
                f"a source and its answer have {batch.layout.longest} tokens together, model.max_length is "
                f"{model.config.max_length}; lower data.max_length or raise model.max_length"
            )
        return answer_nats(model, batch, smoothing)

    @staticmethod
    def generator(model: Any) -> Any:
        return model

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (f"regard {self.verb} {folder} < lines.txt", f"regard evaluate {folder}")
