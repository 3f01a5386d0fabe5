"""How well a text was foreseen: perplexity of tokens and of words, bits for each byte."""

import math

MOST = 700.0  # nats whose exponential is still a number


def perplexities(nats: float, n_tokens: int, n_words: int, n_bytes: int) -> dict[str, float]:
    """Of a whole text with -log P = nats.  Only the last two can be compared between tokenizers.

    loss = nats / tokens; perplexity = e^loss; word perplexity = e^(nats / words); bits per byte = nats / (ln 2 · bytes)
    """
    return {
        "loss": nats / n_tokens,
        "perplexity": perplexity(nats / n_tokens),
        "word_perplexity": perplexity(nats / n_words),
        "bits_per_byte": nats / math.log(2) / n_bytes,
    }


def perplexity(loss: float) -> float:
    """e^loss, of nats a token"""
    return math.exp(min(loss, MOST))
