"""Tokenizers without a tokenizer.json, against the tools that made them: sentencepiece and transformers."""

import io
import json
import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from test_imported import FAMILIES

from regard.errors import DataError
from regard.interop.certifying.samples import strings
from regard.text import Tokenizer
from regard.text.sentencepieces import SentencePieces, as_tokenizer
from tests.drawn import some_fast

sentencepiece = pytest.importorskip("sentencepiece")
transformers = pytest.importorskip("transformers")

LINES = [text.replace("\n", " ") for text in strings(3000, seed=1)]
STRINGS = strings(3000, seed=2)
AS_IS = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
MODELS: dict[str, dict[str, Any]] = {
    "unigram": {},
    "unigram as it is": AS_IS,
    "unigram with bytes": {"byte_fallback": True},
    "unigram without a first space": {"add_dummy_prefix": False},
    "unigram with own symbols": {"user_defined_symbols": ["<sep>", "."]},
    "unigram across words": {"split_by_whitespace": False},
    "bpe": {"model_type": "bpe"},
    "bpe as it is": {"model_type": "bpe", **AS_IS},
    "bpe with bytes": {"model_type": "bpe", "byte_fallback": True},
    "bpe as it is with bytes": {"model_type": "bpe", "byte_fallback": True, **AS_IS},
}


@cache
def trained(name: str) -> bytes:
    return train(LINES, **MODELS[name])


def train(lines: list[str], **settings: Any) -> bytes:
    written = io.BytesIO()
    settings = {"vocab_size": 800, "character_coverage": 0.98, "minloglevel": 3, "hard_vocab_limit": False} | settings
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=written, **settings)
    return written.getvalue()


def unigram() -> bytes:
    return trained("unigram")


@cache
def of_t5() -> bytes:
    return train(LINES, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)


def load(folder: Path, **files: str | bytes | dict[str, Any]) -> Tokenizer:
    """From a folder with these files; "_" in their names stands for "."."""
    for name, content in files.items():
        path = folder / name.replace("_", ".")
        text = json.dumps(content) if isinstance(content, dict) else content
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Tokenizer.load(folder)


def has_marks(text: str) -> bool:
    """Accents apart from their letter, or letters joined by a sign of width 0."""
    return any(unicodedata.combining(character) or character == "\N{ZERO WIDTH JOINER}" for character in text)


@pytest.mark.sampled("the cases differ in their corpus alone")
@pytest.mark.parametrize("name", MODELS)  # a second each
def test_the_same_pieces_as_sentencepiece(name: str, tmp_path: Path) -> None:
    """All of them, but where accents are piled up, which the `tokenizers` library normalises in its own way, and where
    two ways to cut are equally good: we see fewer than 1 in 1,000."""
    theirs = sentencepiece.SentencePieceProcessor(model_proto=trained(name))
    ours = load(tmp_path, tokenizer_model=trained(name))
    pairs = list(zip(STRINGS, theirs.encode(STRINGS), ours.encode_batch(STRINGS), strict=True))
    differ = [text for text, expected, found in pairs if expected != found]
    n_plain = sum(not has_marks(text) for text in differ)
    assert n_plain <= 3, differ
    assert len(differ) - n_plain < 0.25 * sum(map(has_marks, STRINGS))
    same = [expected for text, expected, found in pairs if expected == found and theirs.unk_id() not in expected]
    assert ours.decode_batch(same) == theirs.decode(same)


@pytest.mark.parametrize("name", some_fast(MODELS, every=3))
def test_what_is_read_of_the_file(name: str) -> None:
    proto = pytest.importorskip("sentencepiece.sentencepiece_model_pb2").ModelProto()
    proto.ParseFromString(trained(name))
    found = SentencePieces.read(trained(name))
    assert found.pieces == [(piece.piece, piece.score, piece.type) for piece in proto.pieces]
    assert (found.model, found.byte_fallback) == (proto.trainer_spec.model_type, proto.trainer_spec.byte_fallback)
    spec = proto.normalizer_spec
    assert (found.normalization, found.charsmap) == (spec.name, spec.precompiled_charsmap)
    assert found.add_dummy_prefix == spec.add_dummy_prefix
    assert found.remove_extra_whitespaces == spec.remove_extra_whitespaces


def test_typed_special_tokens_stay_text(tmp_path: Path) -> None:
    theirs = sentencepiece.SentencePieceProcessor(model_proto=trained("unigram"))
    ours = load(tmp_path, tokenizer_model=trained("unigram"))
    for text in ("</s>", "a<s>b", "<unk> </s>"):
        assert ours.encode(text) == theirs.encode(text)
        assert not {ours.start_id, ours.end_id} & set(ours.encode(text))
    assert (ours.unknown_id, ours.start_id, ours.end_id) == (0, 1, 2)


def test_t5(tmp_path: Path) -> None:
    """Our ids are those of sentencepiece; transformers' differ from both where it forgets accents."""
    model = of_t5()
    config = {"tokenizer_class": "T5Tokenizer", "extra_ids": 20}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    ours = load(tmp_path, spiece_model=model, config_json={"model_type": "t5"})
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    plain = [text for text in STRINGS if not has_marks(text)]
    assert ours.encode_batch(plain) == theirs(plain, add_special_tokens=False)["input_ids"]
    for name in ("<extra_id_0>", "<extra_id_19>", "<pad>", "</s>", "<unk>"):
        assert ours.special_id(name) == theirs.convert_tokens_to_ids(name)
    assert ours.special_id("<extra_7>") == theirs.convert_tokens_to_ids("<extra_id_7>")


@pytest.mark.parametrize("n", [3_000_000, -1, "many", None, 1.5])
def test_no_file_asks_for_any_number_of_sentinels(n: object, tmp_path: Path) -> None:
    model = of_t5()
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"extra_ids": n}))
    with pytest.raises(DataError, match="extra_ids must be a whole number from 0 to 10,000"):
        load(tmp_path, spiece_model=model, config_json={"model_type": "t5"})


def test_xlnet(tmp_path: Path) -> None:
    """Its tokenizer takes the accents off before sentencepiece; Korean letters, which transformers leaves taken apart,
    are put together again by sentencepiece's own normalisation."""
    symbols = ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]
    model = train(LINES, user_defined_symbols=symbols)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "XLNetTokenizer"}))
    ours = load(tmp_path, spiece_model=model, config_json={"model_type": "xlnet"})
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    latin = [text for text in STRINGS if all(ord(character) < 0x600 for character in text)]
    assert len(latin) > 1500
    assert ours.encode_batch(latin) == theirs(latin, add_special_tokens=False)["input_ids"]
    assert ours.special_id("<mask>") == theirs.mask_token_id
    assert not {ours.special_id(name) for name in symbols} & set(ours.encode(" ".join(symbols)))


@pytest.mark.slow  # a library of others learns its vocabulary
def test_vocab_json_and_merges(tmp_path: Path) -> None:
    for family in ("gpt2", "roberta", "qwen2"):
        whole = tmp_path / family / "whole"
        FAMILIES[family]().save_pretrained(whole)
        model = json.loads((whole / "tokenizer.json").read_text())["model"]
        apart = tmp_path / family / "apart"
        apart.mkdir()
        merges = "#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in model["merges"])
        added = {"<|endoftext|>": len(model["vocab"])} if family == "qwen2" else {}
        ours = load(apart, vocab_json=model["vocab"] | added, merges_txt=merges, config_json={"model_type": family})
        assert ours.encode_batch(STRINGS) == Tokenizer.load(whole).encode_batch(STRINGS)
        assert ours.decode_batch(ours.encode_batch(STRINGS[:500])) == [
            unicodedata.normalize("NFC", text) if family == "qwen2" else text for text in STRINGS[:500]
        ]


def test_vocab_txt(tmp_path: Path) -> None:
    for family, lowercase in (("bert-uncased", True), ("bert-cased", False)):
        whole = tmp_path / family
        FAMILIES[family]().save_pretrained(whole)
        expected = Tokenizer.load(whole)
        vocab = json.loads((whole / "tokenizer.json").read_text())["model"]["vocab"]
        (whole / "tokenizer.json").unlink()
        (whole / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lowercase}))
        ours = load(whole, vocab_txt="\n".join(sorted(vocab, key=vocab.__getitem__)) + "\n")
        assert ours.encode_batch(STRINGS) == expected.encode_batch(STRINGS)
        assert (ours.start_id, ours.end_id, ours.pad_id) == (expected.start_id, expected.end_id, expected.pad_id)
        assert ours.special_id("<mask>") == expected.special_id("<mask>")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"spiece_model": b""}, "spiece.model: .* no unknown piece"),
        ({"spiece_model": lambda: unigram()[:2000]}, "spiece.model: this is not a whole SentencePiece model"),
        ({"spiece_model": b"\xff" * 50}, "not a whole SentencePiece model .a number that does not end"),
        ({"spiece_model": lambda: train(LINES, model_type="char")}, "type 4 is neither unigram"),
        ({"vocab_json": b"{", "merges_txt": b""}, "vocab.json is not JSON"),
        ({"vocab_json": b"[1]", "merges_txt": b""}, "must hold an object, got list"),
        ({"vocab_json": b'{"a": 0}', "merges_txt": b"a b c"}, "not a whole tokenizer.json"),
        ({"vocab_txt": b"\xff\n"}, "vocab.txt: .*codec can't decode"),
        ({"source_spm": unigram, "target_spm": b"", "vocab_json": b'{"a": 1}'}, "0, 1, 2, … without a gap"),
        ({"source_spm": unigram, "target_spm": b"", "vocab_json": b'{"a": 0}'}, "has no <unk> or no </s>"),
    ],
)
def test_broken_files(tmp_path: Path, files: dict[str, bytes | Callable[[], bytes]], message: str) -> None:
    made = {name: content if isinstance(content, bytes) else content() for name, content in files.items()}
    with pytest.raises(DataError, match=message):
        load(tmp_path, **made)


def test_the_file_is_standard() -> None:
    """Another tool reads the same from what we write, special tokens included."""
    settings = as_tokenizer(SentencePieces.read(trained("unigram")), ["<extra_id_0>"])
    library = tokenizers.Tokenizer.from_str(json.dumps(settings))
    theirs = sentencepiece.SentencePieceProcessor(model_proto=trained("unigram"))
    assert library.encode("the animal was tired</s>").ids == [*theirs.encode("the animal was tired"), 2]
    assert library.token_to_id("<extra_id_0>") == len(theirs)
