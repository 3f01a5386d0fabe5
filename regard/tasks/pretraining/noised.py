"""Running text that chance changes before it is learned from: what denoising and permutation have in common."""

from abc import abstractmethod

import numpy as np

from regard.data.batching.noise import Draws
from regard.data.batching.streams import Stream
from regard.evaluation.metric import perplexity
from regard.tasks.language.running_text import StreamTask, all_batches
from regard.tasks.learnable import B
from regard.tasks.task import M


class NoisedTask(StreamTask[M, B]):
    """What is made of a window depends on (seed, epoch, window) alone."""

    @abstractmethod
    def draw(self, texts: list[np.ndarray], lines: list[str], draws: list[Draws]) -> B:
        """A batch of these windows' tokens, each changed by its own draws."""

    def collate(self, part: Stream, chosen: np.ndarray, epoch: int | None = None) -> B:
        """Validation draws the same every time."""
        texts = [part.tokens[start + 1 : stop + 1] for start, stop in chosen]
        lines = [part.where(int(start) + 1) for start in chosen[:, 0]]
        number = 0 if epoch is None else epoch + 1
        return self.draw(texts, lines, [Draws(self.setup.seed, number, int(start)) for start in chosen[:, 0]])

    def figures(self, model: M, part: Stream) -> dict[str, float]:
        """Nats for each target, and their exponential."""
        loss = self.mean_loss(model, part, all_batches(part, self.config.window, self.batch_tokens))
        return {"loss": loss, "perplexity": perplexity(loss)}
