"""Text to ids and back: byte-level BPE, words, characters; one tokenizer.json."""

from regard.text.tokenizer import Tokenizer, TokenizerConfig

__all__ = ["Tokenizer", "TokenizerConfig"]
