"""Words are those between white space of the line and of its translation, whatever the tokenizer makes of them."""

import pytest
import torch

from regard.decoding.alignment import NO_WORD
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.models.transformer import Transformer, TransformerConfig
from regard.tasks.framing import Frame
from regard.tasks.translation.use import alignments, source_words, target_words, translate
from regard.text.sentences import read
from regard.text.tokenizer import Tokenizer, TokenizerConfig

TEXT = ["The horse ate the oats because it was too hungry.", "L'animal n'a pas (trop) mangé."] * 3
KINDS = ["bpe", "words", "spaces", "characters"]


def trained(kind: str) -> Tokenizer:
    return Tokenizer.train(TEXT, TokenizerConfig(kind=kind, vocab_size=300))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "line", ["The horse ate the xyzzy because it was too hungry.", " L'xyzzy\u3000n'a (xyzzy) \u00a0 pas.", "xyzzy"]
)
def test_unknown_words_are_words(kind: str, line: str) -> None:
    tokens = read(line, trained(kind))
    so_far = {word: line[: token.end] for token, word in zip(tokens, source_words(line, tokens), strict=True)}
    so_far.pop(NO_WORD, None)  # white space before the first word
    assert {word: text.split()[-1] for word, text in so_far.items()} == dict(enumerate(line.split()))


def test_the_words_of_a_line_with_an_unknown_one() -> None:
    line, tokenizer = "The horse ate the xyzzy because it was too hungry.", trained("words")
    assert source_words(line, read(line, tokenizer)) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]


@pytest.mark.parametrize("kind", KINDS)
def test_the_words_of_a_translation_are_those_that_are_written(kind: str) -> None:
    tokenizer = trained(kind)
    ids = [*tokenizer.encode("L'animal"), tokenizer.unknown_id, *tokenizer.encode(" n'a é"), tokenizer.unknown_id]
    words = target_words(ids, tokenizer)
    said = tokenizer.decode(ids).split()
    assert words == sorted(words) and sorted(set(words)) == list(range(len(said)))
    assert target_words([], tokenizer) == []


@pytest.mark.sampled("every case draws or reads a page of its own")
@pytest.mark.parametrize("kind", ["bpe", "words", "characters"])
@pytest.mark.parametrize(
    "line", ["y" * 100 + " The horse was hungry.", "它累了。街很宽！" * 9, "The oats. " * 9, " It was xyzzy! " * 9]
)
def test_alignments_of_a_split_line_stay_within_its_words(kind: str, line: str) -> None:
    tokenizer = trained(kind)
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=tokenizer.vocab_size, d_model=16, n_heads=2, n_layers=2, d_ff=16)
    model, frame = Transformer(config).eval(), Frame(start=1, end=2)
    [answer] = translate(Engine(model), tokenizer, [line], DecodingConfig(extra_length=3), 12, frame)
    sources, targets = zip(*alignments(model, tokenizer, frame, answer, None), strict=True)
    assert list(targets) == list(range(len(answer.text.split())))
    assert min(sources) >= 0 and max(sources) < len(line.split())
    words = {word for part in answer.tokens for word in source_words(line, part)}
    assert words - {NO_WORD} == set(range(len(line.split())))


@pytest.mark.sampled("every case draws or reads a page of its own")
@pytest.mark.parametrize(("n_layers", "taken"), [(1, 0), (2, 0), (4, 2)])
def test_alignments_come_from_the_last_layer_but_one(n_layers: int, taken: int) -> None:
    tokenizer = trained("bpe")
    torch.manual_seed(3)
    config = TransformerConfig(vocab_size=tokenizer.vocab_size, d_model=16, n_heads=2, n_layers=n_layers, d_ff=16)
    model, frame = Transformer(config).eval(), Frame(start=1, end=2)
    [answer] = translate(Engine(model), tokenizer, [TEXT[0]], DecodingConfig(min_length=20), 60, frame)
    by_layer = [alignments(model, tokenizer, frame, answer, layer) for layer in range(n_layers)]
    assert alignments(model, tokenizer, frame, answer, None) == by_layer[taken]
    assert n_layers == 1 or by_layer[taken] != by_layer[-1]
