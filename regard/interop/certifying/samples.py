"""The inputs of a certificate: random tokens, sentences, a dev set, and strings that are hard for a tokenizer."""

import random
import string
from collections.abc import Collection, Sequence
from typing import NamedTuple

from regard.data.corpora.grammar import combinations
from regard.data.files.reading import read_examples
from regard.errors import RegardError
from regard.interop.families.settings import exchange_of
from regard.runs.run import Run

N_STRINGS = 10_000
N_LINES = 200  # of a dev set

# Characters that tokenizers treat in ways of their own: accents (also as marks of their own), other scripts, signs of
# width 0, spaces of all kinds, quotes, digits of all kinds, emoji that are made of several.
ALPHABETS = (
    string.ascii_lowercase,
    string.ascii_letters + string.digits,
    string.punctuation + " ",
    "àâäéèêëîïôöùûüçñßøåæœÀÉÎÖÜẞ",
    "e\u0301a\u0308n\u0303c\u0327o\u0302",
    "абвгдежзийклмнопрстуфхцчшщъыьэюя",
    "αβγδεζηθικλμνξοπρστυφχψω",
    "中文字符測試的一是不了人我在有他这为之大来以个",
    "日本語のテキストカタカナ한국어글자",
    "العربيةنصהעבריתहिन्दी",
    " \t\n\u00a0\u2009\u3000",
    "“”‘’«»—–…•·",
    "½²³①٣৪",
    "😀👩\u200d🔬🇫🇷👍🏽\u200b\ufeff\u00ad",
)


def random_tokens(
    n: int, longest: int, vocab_size: int, without: Collection[int], seed: int = 0, first: Sequence[int] = (1,)
) -> list[list[int]]:
    """Sequences of up to `longest` tokens, the `first` of these lengths, the next of the longest."""
    chance = random.Random(seed)
    tokens = [token for token in range(vocab_size) if token not in without]
    n_others = n - len(first) - 1
    lengths = [*first, longest, *(chance.randint(min(1, longest), longest) for _ in range(n_others))][:n]
    return [chance.choices(tokens, k=length) for length in lengths]


def special(run: Run) -> set[int]:
    tokenizer = run.tokenizer
    return {tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id, tokenizer.unknown_id}


def sentences(n: int, seed: int = 0) -> list[str]:
    """English and French, by turns."""
    chance = random.Random(seed)
    chosen = chance.choices(combinations(), k=n)
    return [sentence.english() if i % 2 == 0 else sentence.french() for i, sentence in enumerate(chosen)]


def strings(n: int, seed: int = 0) -> list[str]:
    """Half of them sentences, half made of all kinds of characters; the first are empty and of a space."""
    chance = random.Random(seed)
    odd = ["", " ", "\n", "  two  spaces  "]
    while len(odd) < n - n // 2:
        words = (chance.choice(ALPHABETS) for _ in range(chance.randint(1, 6)))
        made = ("".join(chance.choices(letters, k=chance.randint(1, 9))) for letters in words)
        odd.append(chance.choice(("", " ")).join(made))
    return [*odd, *sentences(n // 2, seed)][:n]


class DevSet(NamedTuple):
    """`references` are empty where there is no dev set and sentences stand in for it."""

    sources: list[str]
    references: list[str]
    name: str


def dev_set(run: Run) -> DevSet:
    """The first lines of the recipe's validation data, or test data, if they are here."""
    data = run.recipe.data
    for files in (data.valid, data.test) if exchange_of(run.recipe).has_references else ():
        try:
            columns = read_examples(files, data.columns, data.root).columns
        except RegardError:
            continue
        pairs = [pair for pair in zip(columns[0], columns[1], strict=True) if all(side.strip() for side in pair)]
        if pairs:
            sources, references = zip(*pairs[:N_LINES], strict=True)
            return DevSet(list(sources), list(references), ", ".join(files))
    return DevSet(sentences(N_LINES), [], "sentences of the demo's grammar, because the recipe's dev set is not here")
