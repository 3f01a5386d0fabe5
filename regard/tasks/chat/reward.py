"""A reward model: of two answers to a prompt, the one that was chosen gets the higher number."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.checks import one_of, share
from regard.data.batching.batch import SequenceBatch, flat, read_each
from regard.data.batching.template import template_of
from regard.data.files.conversations import ASSISTANT, USER, Message
from regard.models.heads import Classifier
from regard.models.interface import AnyReader
from regard.processes import spread
from regard.tasks.chat.batches import Turns
from regard.tasks.chat.task import PAIR, DialogueTask
from regard.tasks.chat.verbs import Judge, Judged
from regard.tasks.setup import TaskConfig, Use, Verbs


@dataclass(frozen=True, kw_only=True)
class RewardConfig(TaskConfig):
    dropout: float = 0.0  # on the row that the reward is read off

    def __post_init__(self) -> None:
        one_of(self, ("loss", "accuracy"), "metric")
        share(self, "dropout")

    def build(self, reader: AnyReader) -> Classifier:
        return Classifier(reader, n_labels=1, pooling="last", dropout=self.dropout)


@dataclass(frozen=True)
class RivalBatch(SequenceBatch):
    """B prompts with the chosen answer, then the same with the rejected one, each to its end."""

    @property
    def n_targets(self) -> int:
        return self.layout.n_sequences // 2


class Reward(DialogueTask[Classifier, RivalBatch]):
    """-log sigmoid(r(x, y_w) - r(x, y_l)); r is a number read off the last row  (Ouyang et al. 2022, eq. 1)"""

    settings = RewardConfig
    purpose = "was trained to give answers a reward"
    commands = ("regard judge RUN < answers.jsonl", "regard evaluate RUN")
    answer_names = PAIR
    config: RewardConfig

    def collate(self, part: Turns, chosen: np.ndarray, epoch: int | None = None) -> RivalBatch:
        places = part.kept[chosen]
        tokens, layout = flat([of_answer[i][0] for of_answer in part.scripts for i in places])
        return RivalBatch([part.dialogues.places[i] for i in places], tokens, layout)

    def nats(self, model: Classifier, batch: RivalBatch, smoothing: float) -> Tensor:
        return -F.logsigmoid(margins(model, batch)).sum()

    @torch.no_grad()
    def figures(self, model: Classifier, part: Turns) -> dict[str, float]:
        """The loss; how often the chosen answer gets the higher reward, and by how much."""

        def gains(chosen: np.ndarray) -> Tensor:
            return margins(model, self.collate(part, chosen).to(model.device))

        gained = torch.cat(spread(list(part.in_order(self.batch_tokens)), gains))
        return {
            "loss": float(-F.logsigmoid(gained).mean()),
            "accuracy": 100 * float((gained > 0).float().mean()),
            "margin": float(gained.mean()),
        }

    def signature(self, part: Turns) -> str:
        return f"pairs:{len(part)}|tok:{self.tokenizer.kind}"

    # Use.

    @property
    def verbs(self) -> Verbs:
        return {"judge": self.judge, **super().verbs}

    def judge(self, use: Use[Classifier], ask: Judge) -> list[Judged]:
        """What is longer than the model can read is read from its end."""
        template, most = template_of(self.tokenizer), use.model.max_length
        talks = [
            (Message(USER, prompt), Message(ASSISTANT, answer))
            for prompt, answer in zip(ask.prompts, ask.answers, strict=True)
        ]
        scripts = [ids for ids, _ in template.read(talks)]
        rewards = read_each(use.model, [ids[-most:] for ids in scripts], self.batch_tokens, use.model.device)
        return [
            Judged(float(reward), [f"only its last {most:,} of {len(ids):,} tokens were read"] * (len(ids) > most))
            for reward, ids in zip(rewards.flatten(), scripts, strict=True)
        ]


def margins(model: Classifier, batch: RivalBatch) -> Tensor:
    """How much higher the reward of the chosen answer is (B)."""
    chosen, rejected = model(batch.tokens, batch.layout)[:, 0].float().view(2, -1)
    return chosen - rejected
