"""Translators with a SentencePiece model for each language and one list of pieces for both: Marian, Argos."""

import json
import pickle
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest
from test_foreign import LINES, STRINGS, has_marks, train, trained, unigram

from regard.errors import DataError
from regard.text import Tokenizer
from regard.text.sentencepieces import SentencePieces

sentencepiece = pytest.importorskip("sentencepiece")
transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some pieces of the source model are not in the vocabulary, others only there."""
    folder = tmp_path_factory.mktemp("marian")
    source, target = trained("unigram"), train(LINES[::-1][:1500], vocab_size=300)
    pieces = [SentencePieces.read(data).pieces[3:] for data in (source, target)]
    names = [name for n, (name, _, _) in enumerate(pieces[0]) if n % 20] + [name for name, _, _ in pieces[1]]
    vocabulary = ["</s>", "<unk>", *dict.fromkeys(names), "\N{SNOWMAN}", "<pad>"]
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    (folder / "vocab.json").write_text(json.dumps({name: n for n, name in enumerate(vocabulary)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer"}))
    return folder


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_marian(marian: Path, tmp_path: Path) -> None:
    ours, theirs = Tokenizer.load(marian), transformers.MarianTokenizer.from_pretrained(marian)
    plain = [text for text in STRINGS if not has_marks(text)] + ["a\N{SNOWMAN}", "a\N{SNOWMAN}\N{SNOWMAN}"]
    expected = theirs(plain, add_special_tokens=False)["input_ids"]
    found = ours.encode_batch(plain)
    assert sum(a != b for a, b in zip(found, expected, strict=True)) <= 3
    assert ours.decode_batch(expected) == theirs.batch_decode(expected, skip_special_tokens=True)
    assert ours.token(found[-2][-1]) == "\N{SNOWMAN}" and found[-1][-1] == ours.unknown_id
    assert (ours.vocab_size, ours.end_id, ours.unknown_id) == (len(theirs), theirs.eos_token_id, theirs.unk_token_id)
    assert ours.pad_id == theirs.pad_token_id
    assert ours.losses("a\N{SNOWMAN}\N{SNOWMAN}")[0] == "\N{SNOWMAN}\N{SNOWMAN}"
    ours.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path).encode_batch(plain) == found
    assert Tokenizer.load(tmp_path).decode_batch(expected) == ours.decode_batch(expected)


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_targets_of_marian(marian: Path, tmp_path: Path) -> None:
    """Cut by target.spm, into ids of the same list; a saved tokenizer keeps both ways."""
    ours, theirs = Tokenizer.load(marian), transformers.MarianTokenizer.from_pretrained(marian)
    plain = [text for text in STRINGS if not has_marks(text)]
    expected = theirs(text_target=plain, add_special_tokens=False)["input_ids"]
    found = ours.of_targets.encode_batch(plain)
    assert sum(a != b for a, b in zip(found, expected, strict=True)) <= 3
    assert found != ours.encode_batch(plain)
    assert ours.of_targets.decode_batch(found) == ours.decode_batch(found)
    ours.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path).of_targets.encode_batch(plain) == found
    assert pickle.loads(pickle.dumps(ours)).of_targets.encode_batch(plain) == found


def argos(folder: Path, model: bytes, vocabulary: list[str]) -> Tokenizer:
    """A folder as Argos packs it."""
    (folder / "sentencepiece.model").write_bytes(model)
    (folder / "shared_vocabulary.json").write_text(json.dumps(vocabulary))
    return Tokenizer.load(folder)


def test_targets_whose_model_is_missing(tmp_path: Path) -> None:
    """The list of pieces, from the most frequent on, cuts nearly as the missing model does."""
    shouted = [line.upper() for line in LINES]
    source, target = trained("unigram"), train(shouted)
    counts = Counter[str]()
    for model, lines in ((source, LINES), (target, shouted)):
        counts.update(chain(*sentencepiece.SentencePieceProcessor(model_proto=model).encode(lines, out_type=str)))
    vocabulary = ["</s>", "<unk>", *(name for name, _ in counts.most_common() if name != "<unk>")]
    ours = argos(tmp_path, source, vocabulary)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=target).encode(shouted, out_type=str)
    shares = []
    for tokenizer in (ours, ours.of_targets):
        cuts = [[ours.vocabulary.names[n] for n in ids] for ids in tokenizer.encode_batch(shouted)]
        shares.append(
            sum(len(set(a) & set(b)) for a, b in zip(cuts, theirs, strict=True)) / sum(map(len, map(set, theirs)))
        )
    assert shares[0] < 0.5 and shares[1] > 0.9


def test_one_model_for_both_languages(tmp_path: Path) -> None:
    names = [name for name, _, _ in SentencePieces.read(unigram()).pieces]
    ours = argos(tmp_path, unigram(), names)
    assert ours.of_targets is ours


def test_targets_with_other_tokens(marian: Path, tmp_path: Path) -> None:
    Tokenizer.load(marian).save(tmp_path / "tokenizer.json")
    file = tmp_path / "target_tokenizer.json"
    file.write_text(file.read_text(encoding="utf-8").replace("\N{SNOWMAN}", "\N{UMBRELLA}"), encoding="utf-8")
    with pytest.raises(
        DataError, match=r"target_tokenizer.json has other tokens than tokenizer.json; import the model"
    ):
        Tokenizer.load(tmp_path)


def test_every_piece_that_is_found_has_an_id_of_the_list(marian: Path) -> None:
    ours = Tokenizer.load(marian)
    assert max(n for ids in ours.encode_batch(LINES) for n in ids) < ours.vocab_size


def test_a_vocabulary_with_a_piece_twice(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="stands twice"):
        argos(tmp_path, trained("unigram"), ["</s>", "<unk>", "a", "a"])
