"""Two runs that answer the same prompts: whose answers are the chosen ones, and what was lost on the way there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.data.files.conversations import Dialogues
from regard.decoding.config import DecodingConfig
from regard.evaluation.language import perplexity
from regard.tasks.chat.batches import Turns
from regard.tasks.chat.preference import share_equal
from regard.tasks.chat.task import mean_nats
from regard.tasks.chat.use import reply
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class ChatSide:
    """What one of them says to prompts that have a chosen and a rejected answer, and thinks of other conversations."""

    answers: list[str]
    chosen: float  # per cent of the answers that are the chosen one ...
    rejected: float  # ... and the rejected one
    n_characters: float  # of an answer
    perplexity: float  # of a token of the other conversations' answers


def side(
    model: Any,
    tokenizer: Tokenizer,
    pairs: Dialogues,
    others: Dialogues,
    length: int,
    decoding: DecodingConfig,
    batch_tokens: int,
) -> ChatSide:
    texts = [answer.text for answer in reply(model, tokenizer, pairs.prompts, length, decoding)]
    loss, _ = mean_nats(model, Turns(others, tokenizer, model.config.max_length, last_only=False), batch_tokens)
    return ChatSide(
        answers=texts,
        chosen=share_equal(texts, [chosen for chosen, _ in pairs.answers]),
        rejected=share_equal(texts, [rejected for _, rejected in pairs.answers]),
        n_characters=sum(map(len, texts)) / len(texts),
        perplexity=perplexity(loss),
    )


def wins(ours: Sequence[str], theirs: Sequence[str], chosen: Sequence[str]) -> tuple[float, float, float]:
    """Wins, ties and losses, in per cent: an answer wins where it is the chosen one and the other's is not."""
    wanted = [text.strip() for text in chosen]
    n_wins = sum(a == want != b for a, b, want in zip(ours, theirs, wanted, strict=True))
    n_losses = sum(b == want != a for a, b, want in zip(ours, theirs, wanted, strict=True))
    share = 100 / len(wanted)
    return n_wins * share, (len(wanted) - n_wins - n_losses) * share, n_losses * share
