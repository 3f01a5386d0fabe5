"""What a language model writes after a prompt, and the probability of given texts."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from regard.data.batching.streams import UNITS
from regard.decoding.config import DecodingConfig
from regard.decoding.forced import likeliest, score
from regard.decoding.interface import Generator, S
from regard.decoding.outputs import Place
from regard.decoding.search import generate, stream
from regard.decoding.stopping import Stops, TextPieces
from regard.errors import RegardError
from regard.tasks.language.verbs import Written
from regard.text.tokenizer import Tokenizer

USUAL_LENGTH = 100  # tokens of a text whose length nobody asked for


def write(
    model: Generator[S],
    tokenizer: Tokenizer,
    prompts: list[str],
    unit: str,
    length: int | None,
    config: DecodingConfig,
    stop: Sequence[str] = (),
    n_likeliest: int = 0,
    label: int | None = None,
) -> list[list[Written]]:
    """For each prompt the n best texts that go on from it, by at most `length` tokens (None: the usual number).

    Of a prompt that is too long for the model the end is read.  A line ends by itself; a text has no end of its own.
    Either ends before the first stop string.  With `n_likeliest` each token says what else might have stood there.
    A `label` is read before every prompt, in place of what stands before a text.
    """
    most, config = limited(model, unit, length, config)
    if label is None:
        begun = [begin(prompt, tokenizer, unit) for prompt in prompts]
        read = [[*start, *ids][-most:] for start, ids in begun]
    else:
        most -= 1
        begun = [([], ids) for ids in tokenizer.encode_batch(prompts)]
        read = [[label, *ids[max(0, len(ids) - most) :]] for _, ids in begun]
    stops = Stops(stop, tokenizer.decode)
    start_id, end_id = tokenizer.start_id, tokenizer.end_id
    groups = generate(model, read, config, start_id, end_id, stops=stops if stop else None)
    places: list[list[Place]] = [[] for group in groups for _ in group]
    if n_likeliest:
        owners = [ids for ids, group in zip(read, groups, strict=True) for _ in group]
        outputs = [best.tokens for group in groups for best in group]
        places = likeliest(model, owners, outputs, n_likeliest, start_id, end_id)
    places_of_outputs = iter(places)
    written = []
    for prompt, (start, ids), group in zip(prompts, begun, groups, strict=True):
        notes = notes_on(prompt, start, ids, most, tokenizer)
        texts = []
        for best in group:
            text, whole = following(ids, best.tokens, tokenizer), tokenizer.decode(ids + best.tokens)
            kept = stops.cut(text)
            whole = whole[: len(whole) - (len(text) - len(kept))]  # a stop string of the prompt's own ends nothing
            texts.append(Written(kept, whole, best.log_prob, best.finished, notes, tuple(next(places_of_outputs))))
        written.append(texts)
    return written


def write_stream(
    model: Generator[S],
    tokenizer: Tokenizer,
    prompt: str,
    unit: str,
    length: int | None,
    config: DecodingConfig,
    stop: Sequence[str] = (),
) -> TextPieces:
    """What `write` gives after the prompt, in pieces as it is written; none ends within a character."""
    most, config = limited(model, unit, length, config)
    start, ids = begin(prompt, tokenizer, unit)
    stops = Stops(stop, tokenizer.decode)
    tokens = stream(model, [*start, *ids][-most:], config, tokenizer.start_id, tokenizer.end_id, stops)
    shown = Stops(stop, lambda tokens: following(ids, tokens, tokenizer))
    return TextPieces(tokens, shown, notes_on(prompt, start, ids, most, tokenizer))


def following(ids: Sequence[int], tokens: Iterable[int], tokenizer: Tokenizer) -> str:
    """The text of tokens that follow those of a prompt, with the space between them."""
    return tokenizer.decode([*ids, *tokens])[len(tokenizer.decode(ids)) :]


def usual_length(max_length: int) -> int:
    """The tokens of a text whose length nobody asked for: a small model has to read the prompt, too."""
    return max(1, min(USUAL_LENGTH, max_length // 2))


def limited(model: Generator[S], unit: str, length: int | None, config: DecodingConfig) -> tuple[int, DecodingConfig]:
    """How many tokens of a prompt can be read, and the settings for `length` tokens more."""
    length = usual_length(model.max_length) if length is None else length
    if length < 1:
        raise RegardError(f"the length must be at least 1 token, got {length}")
    most = model.max_length - length + 1  # tokens of a prompt: the last one written is not read
    if most < 1:
        raise RegardError(f"{length} tokens do not fit the model's {model.max_length}; ask for fewer")
    least = length if unit == "text" else config.min_length
    return most, replace(config, length_ratio=0.0, extra_length=length, min_length=least)


def begin(prompt: str, tokenizer: Tokenizer, unit: str) -> tuple[list[int], list[int]]:
    """The tokens that a model has read before it writes: what stands before every text, and the prompt."""
    ids = tokenizer.encode(prompt)
    return start_of(ids, tokenizer, unit), ids


def start_of(ids: list[int], tokenizer: Tokenizer, unit: str) -> list[int]:
    """What stands before a text: what our models learned to see there, or what another tool's tokenizer puts there
    (GPT-2's nothing), unless lines were learned since.  Something has to be read: before no token, the start token."""
    if tokenizer.adds_start is None or unit != "stream":
        return [UNITS[unit](tokenizer)]
    return [tokenizer.start_id] if tokenizer.adds_start or not ids else []


def notes_on(prompt: str, start: list[int], ids: list[int], most: int, tokenizer: Tokenizer) -> tuple[str, ...]:
    notes = unknown_words(prompt, tokenizer)
    if len(start) + len(ids) > most:
        notes.append(f"too long: only its last {most:,} of {len(ids):,} tokens were read")
    return tuple(notes)


def unknown_words(text: str, tokenizer: Tokenizer) -> list[str]:
    """A note on what the tokenizer does not know of a text, each once; none if it knows all."""
    unknown = dict.fromkeys(tokenizer.unknown(text))
    return [f"unknown: {' '.join(map(repr, unknown))}"] if unknown else []


def score_texts(model: Generator[S], tokenizer: Tokenizer, texts: list[str], unit: str) -> list[list[float]]:
    """log P of each token of the texts; of lines also, last, of their end.

    A text that is too long for the model is read in pieces, each knowing only the last token of the one before.
    """
    most = max(model.max_length - 1, 1)
    start_id, end_id = tokenizer.start_id, tokenizer.end_id
    end = [] if unit == "text" else [end_id]
    owners, prompts, targets, n_wanted = [], [], [], []
    for i, text in enumerate(texts):
        before, ids = begin(text, tokenizer, unit)
        tokens = [*(before or [start_id]), *ids, *end]  # the first token of a text follows something, too
        for start in range(0, len(tokens) - 1, most):
            piece = tokens[start + 1 : start + most + 1]
            owners.append(i)
            prompts.append([tokens[start]])
            targets.append(piece[:-1] if piece[-1] == end_id else piece)  # the search adds an end to each
            n_wanted.append(len(piece))
    scores: list[list[float]] = [[] for _ in texts]
    for i, row, n in zip(owners, score(model, prompts, targets, start_id, end_id), n_wanted, strict=True):
        scores[i] += row[:n]
    return scores
