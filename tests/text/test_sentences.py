"""Texts that are too long are split, at sentences if they can be; every part fits, and no word is lost."""

from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.sentences import texts_that_fit
from regard.text.tokenizer import Tokenizer, TokenizerConfig

TEXTS = ["The dog crossed the street. It was tired!", "An apple, a pear; what else?"] * 20
TOKENIZERS = {
    kind: Tokenizer.train(TEXTS, TokenizerConfig(kind=kind, vocab_size=300)) for kind in ("bpe", "words", "characters")
}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(TOKENIZERS)),
    st.lists(st.sampled_from(["dog", "street.", "It", "wxyz" * 9, "an apple?", "\n", "  "]), max_size=30),
    st.integers(3, 40),
)
def test_every_part_fits_and_no_letter_is_lost(kind: str, words: list[str], most: int) -> None:
    tokenizer, text = TOKENIZERS[kind], " ".join(words)

    def encode(text: str) -> list[int]:
        return [tokenizer.start_id, *tokenizer.encode(text)]

    parts = texts_that_fit(text, tokenizer, encode, most)
    if len(encode(text)) <= most or not text.strip():
        assert parts == [text]
        return
    assert all(len(encode(part)) <= most for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_sentences_stay_together() -> None:
    tokenizer = TOKENIZERS["words"]
    text = "The dog crossed. The street was tired. It was a dog."
    parts = texts_that_fit(text, tokenizer, tokenizer.encode, 11)
    assert parts == ["The dog crossed. The street was tired.", "It was a dog."]
