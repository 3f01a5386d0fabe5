"""Language modeling in both directions: running text in, the next and the previous token of every place out."""

import numpy as np
from torch import Tensor

from regard.data.batching.streams import Stream
from regard.evaluation.metric import perplexities
from regard.models.elmo import BiLM
from regard.tasks.language.batches import TextBatch, accuracy, make_batch, total_nats
from regard.tasks.language.running_text import StreamTask
from regard.tasks.pretraining.settings import BidirectionalConfig


class Bidirectional(StreamTask[BiLM, TextBatch]):
    """ELMo's: of z_0 .. z_n the forward net reads z_0 .. z_{n-1} and writes z_1 .. z_n, the backward net reads
    z_n .. z_1 and writes z_{n-1} .. z_0."""

    settings = BidirectionalConfig
    roles = ("bidirectional",)
    commands = (
        "regard train sst2-elmo --from RUN",
        "regard embed RUN FILE",
        "regard evaluate RUN",
    )
    config: BidirectionalConfig

    def collate(self, part: Stream, chosen: np.ndarray, epoch: int | None = None) -> TextBatch:
        return make_batch(part, chosen)

    def loss(self, model: BiLM, batch: TextBatch) -> Tensor:
        return model.nats(batch.tokens, batch.labels, batch.layout)

    def figures(self, model: BiLM, part: Stream) -> dict[str, float]:
        """Nats a token, the mean of both directions, and what they mean; how often the next token is the likeliest."""
        window = self.config.window
        nats = total_nats(model, part, window, self.batch_tokens)
        values = perplexities(nats, len(part), part.text.n_words, part.text.n_bytes)
        return {**values, "accuracy": accuracy(model, part, window, self.batch_tokens)}

    def purpose(self) -> str:
        return "was trained to predict the next and the previous token of a text"
