"""Text to ids, beside the `tokenizers` library with the same tokenizer.json and all cores."""

import itertools
import random
from collections.abc import Callable
from typing import TypeVar

import tokenizers
import torch
from tokenizers import models, pre_tokenizers, trainers

from bench.report import Report, Row
from bench.timing import take_turns
from regard.data.batching.shards import CHUNK, tokenize
from regard.data.corpora.grammar import combinations
from regard.text import Tokenizer, TokenizerConfig
from regard.text.words import SPECIAL

ROUNDS = 3
N_BYTES = 100_000_000
N_LINES_TRAINED = 20_000
VOCAB_SIZE = 8000
N_MERGED = 16_000  # tokens that are learned from all of the text

T = TypeVar("T")


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    """On the CPU, whatever the device."""
    lines = text(100_000 if tiny else N_BYTES)
    n_bytes = sum(len(line.encode()) + 1 for line in lines)
    config = TokenizerConfig(vocab_size=400 if tiny else VOCAB_SIZE)
    tokenizer = Tokenizer.train(lines[:N_LINES_TRAINED], config)
    library = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    contenders: dict[str, Callable[[], int]] = {
        "regard": lambda: in_chunks(lines, tokenizer.encode_batch, len),
        "regard, as an array": lambda: len(tokenize(lines, tokenizer).ids),
        "tokenizers": lambda: in_chunks(lines, library.encode_batch, len),
        "tokenizers fast": lambda: in_chunks(lines, library.encode_batch_fast, len),
        "tokenizers, ids as lists": lambda: in_chunks(lines, library.encode_batch, lambda encoding: len(encoding.ids)),
        "tokenizers fast, ids as lists": lambda: in_chunks(
            lines, library.encode_batch_fast, lambda encoding: len(encoding.ids)
        ),
    }
    contenders = {name: go for name, go in contenders.items() if name not in skip}
    report = Report("tokenising", "MB/s", f"byte-level BPE of {n_bytes / 1e6:,.1f} MB, {CHUNK:,} lines at a time")
    few = lines[:CHUNK]
    assert tokenizer.encode_batch(few) == [encoding.ids for encoding in library.encode_batch(few)]
    n_tokens = {name: go() for name, go in contenders.items()}  # warms up, too
    assert len(set(n_tokens.values())) <= 1, f"they find different numbers of tokens: {n_tokens}"
    for name, seconds in take_turns(contenders, rounds or ROUNDS, torch.device("cpu")).items():
        report.rows.append(Row(case="English and French", contender=name, figures=seconds.rates(n_bytes / 1e6)))
    merges = 400 if tiny else N_MERGED
    learners: dict[str, Callable[[], object]] = {
        "regard": lambda: Tokenizer.train(lines, TokenizerConfig(vocab_size=merges)),
        "tokenizers": lambda: learn(lines, merges),
    }
    learners = {name: go for name, go in learners.items() if f"learning {name}" not in skip}
    for name, seconds in take_turns(learners, 1, torch.device("cpu")).items():
        figures = seconds.rates(n_bytes / 1e6)
        report.rows.append(Row(case=f"learning {merges:,} tokens", contender=name, figures=figures))
    report.notes.append("all find the same tokens; each uses all cores, or as many as RAYON_NUM_THREADS says")
    return report


def learn(lines: list[str], vocab_size: int) -> tokenizers.Tokenizer:
    """As the library's own documentation does it."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, show_progress=False, special_tokens=list(SPECIAL), initial_alphabet=letters
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def text(n_bytes: int) -> list[str]:
    """Sentences of the grammar with names and numbers between them, again and again in another order."""
    chance = random.Random(0)
    sentences = [sentence.english() if n % 2 else sentence.french() for n, sentence in enumerate(combinations())]
    letters = "etaoinshrdlucmfwypvbgkéàüß"
    lines: list[str] = []
    size = 0
    while size < n_bytes:
        chance.shuffle(sentences)
        for sentence in itertools.islice(sentences, 10_000):
            name = "".join(chance.choices(letters, k=chance.randint(3, 9))).title()
            line = f"{sentence} {name}, {chance.randint(1, 99_999)}."
            lines.append(line)
            size += len(line.encode()) + 1
            if size >= n_bytes:
                break
    return lines


def in_chunks(lines: list[str], encode: Callable[[list[str]], list[T]], count: Callable[[T], int]) -> int:
    """How many tokens there are.  Chunk after chunk: all at once would fill the memory."""
    encodings = (encoding for start in range(0, len(lines), CHUNK) for encoding in encode(lines[start : start + CHUNK]))
    return sum(map(count, encodings))
