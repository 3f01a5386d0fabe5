"""Scheduled sampling: in training, a model reads some words that it wrote itself in place of the true ones."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.checks import at_least, share
from regard.decoding.interface import Prompts
from regard.models.heads import LanguageModel
from regard.models.interface import AnyTranslator
from regard.nn.layout import Layout, Ragged
from regard.tasks.setup import TaskConfig

PURPOSE = 4  # sets these draws apart from those that shuffle or blank


@dataclass(frozen=True, kw_only=True)
class OwnWordsConfig(TaskConfig):
    # scheduled sampling, for recurrent models: the chance that a token read in training is one that the model wrote
    # itself, so that it learns to go on after its own mistakes; 0: it always reads the true text
    own_words: float = 0.0
    own_words_steps: int = 1000  # over which that chance grows, evenly, from 0

    def check_own_words(self) -> None:
        share(self, "own_words")
        at_least(self, 1, "own_words_steps")

    def chance(self, step: int) -> float:
        """That a token is the model's own: 1 - ε_i of the paper, with linear decay of ε."""
        return self.own_words * min(1.0, step / self.own_words_steps)

    def text_read(self, model: LanguageModel, tokens: Tensor, layout: Ragged, seed: int, step: int) -> Tensor:
        """What a language model reads at a step of training: the tokens (N), or some of its own among them."""
        if not self.own_words:
            return tokens
        begun = tokens[layout.offsets[:-1].long()][:, None].tolist()
        return with_own_words(model, begun, tokens, layout, self.chance(step), [seed, PURPOSE, step])


@torch.no_grad()
def with_own_words(
    model: LanguageModel | AnyTranslator,
    prompts: Prompts,
    read: Tensor,
    layout: Layout,
    chance: float,
    draws: list[int],
) -> Tensor:
    """What is read (N), each token but the first of its text with this chance one that the model wrote after what
    stands before it, which may be its own as well  (Bengio et al. 2015, section 2.4, a coin for every token)

    All chance is a function of `draws`.  The loss sees the result as any text: no gradient goes through the choice.
    """
    rows, n_words = layout.pad(read), len(model.output_table)
    coins, places = torch.from_numpy(np.random.default_rng(draws).random((2, *rows.shape))).to(rows.device)
    columns, was_training = [rows[:, :1]], model.training
    model.eval()
    try:
        state, logits = model.start(prompts, int(rows[0, 0]), 1, layout.longest)
        for t in range(1, layout.longest):
            if t > 1:
                logits = model.step(columns[-1] % (n_words + 1), state)[:, -1]
            total = logits.double().softmax(-1).cumsum(-1)
            own = (total < places[:, t : t + 1]).sum(-1, keepdim=True).clamp(max=n_words - 1)
            beside = rows[:, t : t + 1] // (n_words + 1) * (n_words + 1)  # the label packed into an id (`paired`)
            columns.append(torch.where(coins[:, t : t + 1] < chance, own + beside, rows[:, t : t + 1]))
    finally:
        model.train(was_training)
    return layout.flatten(torch.cat(columns, 1))
