"""Two runs that answer the same prompts: whose answers are the chosen ones, and what was lost on the way there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.data.files.conversations import Dialogues, read_dialogues
from regard.errors import ConfigError
from regard.evaluation.measured import Versus
from regard.evaluation.metric import perplexity
from regard.tasks.chat.batches import Turns, mean_nats
from regard.tasks.chat.use import reply, usual_length
from regard.tasks.setup import Use
from regard.tasks.task import Task

Talker = tuple[Task[Dialogues, Turns, Any, Any], Use]
PAIR, SINGLE = ("chosen", "rejected"), ("answer",)  # what follows a prompt in data of preferences, and of conversations


@dataclass(frozen=True)
class ChatSide:
    """What a run answers to prompts with a chosen and a rejected answer, and its perplexity on other conversations."""

    answers: list[str]
    chosen: float  # percent of the answers that are the chosen one ...
    rejected: float  # ... and the rejected one
    n_characters: float  # of an answer
    perplexity: float  # of a token of the other conversations' answers


def compare_talkers(ours: Talker, theirs: Talker, files: Sequence[str]) -> Versus:
    """`files`: prompts with a chosen and a rejected answer, then conversations; by default the test data of the run
    that was trained on preferences, and those of the run that was trained to answer."""
    given = [*files, "", ""]
    of_pairs, pairs = test_of(PAIR, "preference", (ours, theirs), given[0])
    of_talk, talk = test_of(SINGLE, "chat", (ours, theirs), given[1])
    sides = [side(talker, pairs, talk) for talker in (ours, theirs)]
    won, tied, lost = wins(sides[0].answers, sides[1].answers, [chosen for chosen, _ in pairs.answers])
    ratio = sides[0].perplexity / sides[1].perplexity
    record: dict[str, object] = {"pairs": of_pairs, "conversations": of_talk}
    records: list[dict[str, object]] = [
        {
            "chosen_percent": s.chosen,
            "rejected_percent": s.rejected,
            "characters": s.n_characters,
            "perplexity": s.perplexity,
        }
        for s in sides
    ]
    record |= {"wins_percent": won, "ties_percent": tied, "losses_percent": lost, "perplexity_ratio": ratio}
    rows = [
        ("what", "first", "second"),
        ("answers as the chosen one", *(f"{s.chosen:.1f} %" for s in sides)),
        ("answers as the rejected one", *(f"{s.rejected:.1f} %" for s in sides)),
        ("characters of an answer", *(f"{s.n_characters:.1f}" for s in sides)),
        ("wins: the chosen one, the other's not", f"{won:.1f} %", f"{lost:.1f} %"),
        ("neither wins", f"{tied:.1f} %", ""),
        (f"perplexity of {of_talk}", *(f"{s.perplexity:.4f}" for s in sides)),
    ]
    title = f"{of_pairs} ({len(pairs):,} prompts)"
    return Versus(record, records, [(title, rows)], footing=[f"perplexity ratio: {ratio:.4f}"])


def test_of(names: tuple[str, ...], kind: str, talkers: Sequence[Talker], file: str) -> tuple[str, Dialogues]:
    """A test with these answers: the given file, or that of the run that was trained on such data."""
    owner = next((task for task, _ in talkers if task.answer_names == names), None)
    if owner is not None:
        return owner.test([file] if file else [])
    if file:
        return file, read_dialogues((file,), talkers[0][0].setup.data.columns, ".", names)
    raise ConfigError(f"neither run was trained for {kind}; give two files: pairs of answers, then conversations")


def side(talker: Talker, pairs: Dialogues, others: Dialogues) -> ChatSide:
    task, use = talker
    length = usual_length(use.model, task.config.sample_length)
    texts = [answer.text for answer in reply(use.generator, task.tokenizer, pairs.prompts, length, use.decoding)]
    turns = Turns(others, task.tokenizer, use.model.max_length, last_only=False)
    loss = mean_nats(use.model, turns, task.batch_tokens)
    return ChatSide(
        answers=texts,
        chosen=share_equal(texts, [chosen for chosen, _ in pairs.answers]),
        rejected=share_equal(texts, [rejected for _, rejected in pairs.answers]),
        n_characters=sum(map(len, texts)) / len(texts),
        perplexity=perplexity(loss),
    )


def share_equal(texts: Sequence[str], wanted: Sequence[str]) -> float:
    return 100 * sum(text == want.strip() for text, want in zip(texts, wanted, strict=True)) / len(texts)


def wins(ours: Sequence[str], theirs: Sequence[str], chosen: Sequence[str]) -> tuple[float, float, float]:
    """Wins, ties and losses, in percent: an answer wins where it is the chosen one and the other's is not."""
    wanted = [text.strip() for text in chosen]
    n_wins = sum(a == want != b for a, b, want in zip(ours, theirs, wanted, strict=True))
    n_losses = sum(b == want != a for a, b, want in zip(ours, theirs, wanted, strict=True))
    share = 100 / len(wanted)
    return n_wins * share, (len(wanted) - n_wins - n_losses) * share, n_losses * share
