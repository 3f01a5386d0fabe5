"""Direct preference optimization: of two answers to a prompt, the chosen one becomes more probable than the other."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.checks import one_of, positive
from regard.data.batching.batch import Batch
from regard.data.files.conversations import Dialogues, dialogue_parts
from regard.data.files.recognizing import conversations
from regard.data.files.splits import Parts
from regard.models.heads import LanguageModel
from regard.processes import spread
from regard.tasks.chat.batches import AnswerBatch, Turns, answer_log_probs
from regard.tasks.chat.sizing import draft_for
from regard.tasks.chat.task import PAIR, Talk, TalkConfig, replies, share_equal
from regard.tasks.setup import B, Use


def dpo_loss(log_probs: Tensor, reference: Tensor, beta: float) -> Tensor:
    """-log sigmoid(beta (log pi(y_w|x) / pi_ref(y_w|x) - log pi(y_l|x) / pi_ref(y_l|x)))  (Rafailov et al. 2023, eq. 7)

    log P of the chosen (y_w) and of the rejected (y_l) answers, (2, B) -> (B).
    """
    return -F.logsigmoid(beta * margins(log_probs, reference))


def margins(log_probs: Tensor, reference: Tensor) -> Tensor:
    """How much more the chosen answer has gained than the rejected one, in nats (B)."""
    chosen, rejected = log_probs - reference
    return chosen - rejected


@dataclass(frozen=True, kw_only=True)
class PreferenceConfig(TalkConfig):
    beta: float = 0.1  # how much it costs to leave the reference: the larger, the smaller the change

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "beta")
        one_of(self, ("loss", "accuracy"), "metric")


@dataclass(frozen=True)
class PreferenceBatch(Batch):
    """B prompts with the chosen answer, then the same with the rejected one."""

    both: AnswerBatch
    reference: Tensor  # (2, B), log P by the model that training began with

    @property
    def n_targets(self) -> int:
        return self.reference.shape[1]

    @property
    def n_tokens(self) -> int:
        return self.both.n_tokens


class Preference(Talk[PreferenceBatch]):
    """The reference model never changes, so its answers to all pairs are computed once, before the first step; a
    checkpoint holds them."""

    settings = PreferenceConfig
    purpose = "was trained to prefer one of two answers"
    recognize = staticmethod(partial(conversations, answers=PAIR))
    draft = staticmethod(partial(draft_for, partial(dialogue_parts, names=PAIR)))
    needs_weights = "chooses between the answers of a model that can answer: give its run, --from RUN"
    answer_names = PAIR
    config: PreferenceConfig

    def read(self, parts: Parts[Dialogues]) -> None:
        super().read(parts)
        n_train, n_valid = len(self.train), 0 if self.valid is None else len(self.valid)
        self.references = {"reference": torch.zeros(2, n_train), "valid_reference": torch.zeros(2, n_valid)}

    def reference_of(self, part: Turns) -> Tensor:
        return self.references["reference" if part is self.train else "valid_reference"]

    def collate(self, part: Turns, chosen: np.ndarray, epoch: int | None = None) -> PreferenceBatch:
        both = part.batch(chosen)
        return PreferenceBatch(both.lines, both, self.reference_of(part)[:, torch.from_numpy(chosen)])

    def nats(self, model: LanguageModel, batch: PreferenceBatch, smoothing: float) -> Tensor:
        log_probs = answer_log_probs(model, batch.both).view(2, -1)
        return dpo_loss(log_probs, batch.reference, self.config.beta).sum()

    def tensors(self) -> dict[str, Tensor]:
        return {**self.references}

    def restore(self, tensors: dict[str, Tensor], model: LanguageModel) -> None:
        """{} at the beginning: the model as it is then becomes the reference."""
        self.references |= {name: tensor.cpu() for name, tensor in tensors.items()}
        if not tensors:
            self.references["reference"] = all_log_probs(model, self.train, self.batch_tokens)
        if not tensors and self.valid is not None:
            self.references["valid_reference"] = all_log_probs(model, self.valid, self.batch_tokens)

    def figures(self, model: LanguageModel, part: Turns) -> dict[str, float]:
        """The loss; how often the chosen answer gained more than the other, and by how many nats."""
        log_probs = all_log_probs(model, part, self.batch_tokens)
        reference = self.reference_of(part)
        gained = margins(log_probs, reference)
        return {
            "loss": float(dpo_loss(log_probs, reference, self.config.beta).mean()),
            "accuracy": 100 * float((gained > 0).float().mean()),
            "margin": float(gained.mean()),
        }

    def test_figures(self, use: Use[LanguageModel], part: Turns) -> dict[str, float]:
        return pair_figures(self, use, part)

    def signature(self, part: Turns) -> str:
        return f"pairs:{len(part)}|tok:{self.tokenizer.kind}|beta:{self.config.beta:g}"


@torch.no_grad()
def all_log_probs(model: LanguageModel, turns: Turns, budget: int) -> Tensor:
    """log P of both answers to every prompt (2, prompts), on the host."""

    def log_probs(indices: np.ndarray) -> Tensor:
        return answer_log_probs(model, turns.batch(indices).to(model.device)).view(2, -1)

    return torch.cat(spread(list(turns.in_order(budget)), log_probs), 1)


def pair_figures(task: Talk[B], use: Use[LanguageModel], part: Turns) -> dict[str, float]:
    """Which of two answers is more probable, and what the model answers itself."""
    chosen, rejected = all_log_probs(use.model, part, task.batch_tokens)
    asked = part.dialogues.take(part.kept)
    texts = replies(task, use, asked.prompts)
    return {
        "the chosen answer is more probable, %": 100 * float((chosen > rejected).float().mean()),
        "answers as the chosen one, %": share_equal(texts, [best for best, _ in asked.answers]),
        "answers as the rejected one, %": share_equal(texts, [other for _, other in asked.answers]),
        "characters of an answer": math.fsum(map(len, texts)) / len(texts),
    }
