"""Policy optimization: a model writes answers, another one rewards them, and what is rewarded becomes more probable."""

import copy
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regard.checks import at_least, expect, not_negative, one_of
from regard.data.batching.batch import Batch, flat
from regard.data.batching.noise import keys
from regard.data.batching.template import template_of
from regard.data.files.conversations import Dialogues
from regard.data.files.splits import Parts
from regard.decoding.config import DecodingConfig
from regard.errors import ConfigError
from regard.models.heads import Classifier, LanguageModel
from regard.models.interface import Model
from regard.tasks.chat.batches import AnswerBatch, Turns, answer_log_probs, make_batch
from regard.tasks.chat.preference import pair_figures
from regard.tasks.chat.reward import RewardConfig
from regard.tasks.chat.task import PAIR, Talk, TalkConfig
from regard.tasks.chat.use import write_answers
from regard.tasks.setup import TaskConfig, Use


@dataclass(frozen=True, kw_only=True)
class PolicyConfig(TalkConfig):
    judge: str = ""  # the run of a reward model (kind = "reward"), which says how good an answer is
    beta: float = 0.1  # the price of drifting, in reward a nat: log P(answer) - log P(answer) at the beginning
    copies: int = 4  # answers written to each prompt, which are compared with each other

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self, "beta")
        at_least(self, 2, "copies")
        one_of(self, ("loss", "reward"), "metric")

    @property
    def judging_run(self) -> str:
        return self.judge

    @property
    def drawn(self) -> tuple[str, ...]:
        """Not the loss, which means something else in a step than in a validation, but the reward and its price."""
        return "reward", "drift"


@dataclass(frozen=True)
class PromptBatch(Batch):
    """Prompts to be answered; what is drawn depends on the seed alone."""

    prompts: list[list[int]]
    seed: int
    copies: int

    @property
    def n_targets(self) -> int:
        return self.copies * len(self.prompts)

    @property
    def n_tokens(self) -> int:
        return sum(map(len, self.prompts))


@dataclass(frozen=True)
class RewardedAnswers:
    """Answers that a model gave, prompt after prompt, and what each is worth."""

    batch: AnswerBatch
    rewards: Tensor  # r(x, y)
    reference: Tensor  # log P by the model that training began with

    def drift(self, log_probs: Tensor) -> Tensor:
        return log_probs.detach() - self.reference


def advantages(values: Tensor) -> Tensor:
    """What an answer is worth more than the mean of the other answers to its prompt: (prompts, copies) -> the same."""
    n_copies = values.shape[1]
    return (values - values.mean(1, keepdim=True)) * n_copies / (n_copies - 1)


class Policy(Talk[PromptBatch]):
    """-Σ A log P(y | x);  A compares R(x, y) = r(x, y) - beta log(P(y | x) / P_reference(y | x)) with that of the other
    answers to x, which were drawn as y was  (REINFORCE, leave one out: Ahmadian et al. 2024, section 3)

    With one step for each batch of answers, PPO's ratio is 1 and clips nothing.
    """

    settings = PolicyConfig
    purpose = "was trained to write answers that are rewarded"
    needs_weights = "improves the answers of a model that can answer: give its run, --from RUN"
    answer_names = PAIR
    config: PolicyConfig
    judge: Classifier
    reference: LanguageModel

    def read(self, parts: Parts[Dialogues]) -> None:
        if not self.config.judge:
            raise ConfigError('task.judge must name the run of a reward model: train one with kind = "reward"')
        super().read(parts)

    def consult(self, judge: Model, config: TaskConfig) -> None:
        if not isinstance(config, RewardConfig):
            raise ConfigError(f'task.judge = {self.config.judge!r} is not a run of kind = "reward"')
        self.judge = expect(judge, Classifier)

    def collate(self, part: Turns, chosen: np.ndarray, epoch: int | None = None) -> PromptBatch:
        asked = part.dialogues.take(part.kept[chosen])
        seed = int(keys(self.setup.seed, epoch or 0, chosen[:1])[0] >> np.uint64(1))
        return PromptBatch(asked.places, template_of(self.tokenizer).prompts(asked.prompts), seed, self.config.copies)

    def nats(self, model: LanguageModel, batch: PromptBatch, smoothing: float) -> Tensor:
        """Not a number of nats: only its gradient means something."""
        written = self.write(model, batch)
        log_probs = answer_log_probs(model, written.batch)
        values = written.rewards - self.config.beta * written.drift(log_probs)
        return -(advantages(values.view(-1, batch.copies)).flatten() * log_probs).sum()

    @torch.no_grad()
    def write(self, model: LanguageModel, batch: PromptBatch) -> RewardedAnswers:
        """Answers by chance, and what is thought of them."""
        was_training, device = model.training, model.device
        drawn = DecodingConfig(sample=True, n_best=batch.copies, seed=batch.seed)
        scripts = write_answers(model.eval(), self.tokenizer, batch.prompts, self.config.sample_length, drawn)
        model.train(was_training)
        answered = make_batch(scripts, []).to(device)
        tokens, layout = flat([ids for ids, _ in scripts])
        rewards = self.judge.to(device)(tokens.to(device), layout.to(device))[:, 0].float()
        return RewardedAnswers(answered, rewards, answer_log_probs(self.reference, answered))

    def tensors(self) -> dict[str, Tensor]:
        return dict(self.reference.named_parameters())  # each once, also what has two names

    def restore(self, tensors: dict[str, Tensor], model: LanguageModel) -> None:
        """{} at the beginning: the model as it is then becomes the reference."""
        self.reference = copy.deepcopy(model).eval().requires_grad_(False)
        if tensors:
            self.reference.load_state_dict(tensors, strict=False)  # all else is the model's, and does not learn

    @torch.no_grad()
    def figures(self, model: LanguageModel, part: Turns) -> dict[str, float]:
        """Of one answer to each prompt, drawn by chance: its reward, its drift, and what is brought down."""
        batch = replace(self.collate(part, np.arange(len(part))), copies=1)
        written = self.write(model, batch)
        drift = float(written.drift(answer_log_probs(model, written.batch)).mean())
        reward = float(written.rewards.mean())
        return {"loss": self.config.beta * drift - reward, "reward": reward, "drift": drift}

    def test_figures(self, use: Use[LanguageModel], part: Turns) -> dict[str, float]:
        return pair_figures(self, use, part)

    def signature(self, part: Turns) -> str:
        return f"prompts:{len(part)}|tok:{self.tokenizer.kind}|beta:{self.config.beta:g}|copies:{self.config.copies}"
