"""The inputs of a certificate: random tokens, sentences, and strings that are hard for a tokenizer."""

import random
import string
from collections.abc import Collection

from regard.data.corpora.grammar import combinations

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


def random_tokens(n: int, longest: int, vocab_size: int, without: Collection[int], seed: int = 0) -> list[list[int]]:
    """Sequences of 1 to `longest` tokens, the first of one, the second of the longest length."""
    chance = random.Random(seed)
    tokens = [token for token in range(vocab_size) if token not in without]
    lengths = [1, longest, *(chance.randint(1, longest) for _ in range(n - 2))][:n]
    return [chance.choices(tokens, k=length) for length in lengths]


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
