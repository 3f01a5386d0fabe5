"""Text to ids and back: byte-level BPE, words, characters; one tokenizer.json.

special.py         the four special tokens, and the names of further ones
unicode.py         text that has a UTF-8 form, and text that can be seen
words.py           where a text is cut into words; no merge crosses a cut
bpe.py             byte-pair encoding, written to be read
dropout.py         the same word cut differently each time, for training
kinds.py           the table of tokenizers
vocabulary.py      what a tokenizer is made of
learnt.py          a vocabulary that was learnt here
imported.py        the tokenizer.json of another tool
sentencepieces.py  SentencePiece models
foreign.py         what other tools have instead of a tokenizer.json
gguf_file.py       the tokenizer inside a GGUF file
tokenizer.py       the one class the rest of the library uses
"""

from regard.text.tokenizer import Tokenizer, TokenizerConfig

__all__ = ["Tokenizer", "TokenizerConfig"]
