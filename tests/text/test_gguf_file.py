"""The tokenizer inside a GGUF file is the one that was put there."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_foreign import STRINGS, trained
from test_imported import END_OF_TEXT, byte_pairs

from regard.errors import ConfigError, DataError
from regard.text import Tokenizer
from regard.text.foreign import GGUF_PREFIX, gguf_tokenizer, read_foreign
from regard.text.sentencepieces import SentencePieces

gguf = pytest.importorskip("gguf")
sentencepiece = pytest.importorskip("sentencepiece")

CONTROL, NORMAL = 3, 1


def merged(pre: str) -> dict[str, Any]:
    model = byte_pairs([END_OF_TEXT, "<|im_start|>"])
    names = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": names,
        "tokenizer.ggml.token_type": [CONTROL if n < 2 else NORMAL for n in range(len(names))],
        "tokenizer.ggml.merges": [f"{left} {right}" for left, right in model["merges"]],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 0,
    }


def scored(name: str, kind: str) -> dict[str, Any]:
    pieces = SentencePieces.read(trained(name))
    names, scores, types = zip(*pieces.pieces, strict=True)
    return {
        "tokenizer.ggml.model": kind,
        "tokenizer.ggml.tokens": list(names),
        "tokenizer.ggml.scores": list(scores),
        "tokenizer.ggml.token_type": list(types),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


def test_a_file(tmp_path: Path) -> None:
    said = merged("gpt-2")
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(said[f"{GGUF_PREFIX}tokens"])
    writer.add_token_types(said[f"{GGUF_PREFIX}token_type"])
    writer.add_token_merges(said[f"{GGUF_PREFIX}merges"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    writer.add_chat_template("{{ messages }}")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    ours = Tokenizer.load(tmp_path / "model.gguf")
    assert ours.encode_batch(STRINGS) == Tokenizer.from_files(gguf_tokenizer(said)).encode_batch(STRINGS)
    assert (ours.start_id, ours.end_id, ours.special_id("<|im_start|>")) == (1, 0, 1)
    assert not {0, 1} & set(ours.encode(f"{END_OF_TEXT}<|im_start|>"))
    ours.save(tmp_path / "tokenizer.json")
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["chat_template"] == "{{ messages }}"
    whole = (tmp_path / "model.gguf").read_bytes()
    for n in (10, 100, len(whole) // 2):
        (tmp_path / "model.gguf").write_bytes(whole[:n])
        with pytest.raises(DataError, match=r"not a whole GGUF file|no tokenizer"):
            Tokenizer.load(tmp_path / "model.gguf")


@pytest.mark.sampled("the cases differ in their corpus alone")
@pytest.mark.parametrize(("pre", "model_type"), [("gpt-2", "gpt2"), ("qwen2", "qwen2")])
def test_merges(pre: str, model_type: str, tmp_path: Path) -> None:
    model = byte_pairs([END_OF_TEXT, "<|im_start|>"])
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    (tmp_path / "merges.txt").write_text("\n".join(f"{left} {right}" for left, right in model["merges"]))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    expected = Tokenizer.from_files(read_foreign(tmp_path) or {})
    assert Tokenizer.from_files(gguf_tokenizer(merged(pre))).encode_batch(STRINGS) == expected.encode_batch(STRINGS)


def test_digits_stand_alone_in_smollm() -> None:
    ours = Tokenizer.from_files(gguf_tokenizer(merged("smollm")))
    for text in ("1234567", "it was 1984.", " 10 20", "x1y2"):
        pieces = ours.tokens(ours.encode(text))
        assert "".join(pieces) == text
        assert [piece for piece in pieces if any(map(str.isdigit, piece))] == [c for c in text if c.isdigit()]


@pytest.mark.sampled("the cases differ in their corpus alone")
@pytest.mark.parametrize(
    ("name", "kind"),
    [("bpe as it is", "llama"), ("bpe as it is with bytes", "llama"), ("unigram as it is", "t5")],
)
def test_scores(name: str, kind: str) -> None:
    ours = Tokenizer.from_files(gguf_tokenizer(scored(name, kind)))
    theirs = sentencepiece.SentencePieceProcessor(model_proto=trained(name))
    expected, found = theirs.encode(STRINGS), ours.encode_batch(STRINGS)
    assert sum(a != b for a, b in zip(found, expected, strict=True)) <= 3  # equally good ways to cut
    assert (ours.start_id, ours.end_id, ours.unknown_id) == (1, 2, 0)


@pytest.mark.sampled("the cases differ in their corpus alone")
@pytest.mark.parametrize(
    ("said", "expected"), [({}, None), ({"add_bos_token": True}, True), ({"add_bos_token": False}, False)]
)
def test_a_start_token_is_put_first_where_the_file_says_so(said: dict[str, bool], expected: bool | None) -> None:
    """And where it says nothing, as llama.cpp does: by SentencePiece, not by merges."""
    more = {f"{GGUF_PREFIX}{name}": value for name, value in said.items()}
    for settings, usual in ((merged("gpt-2"), False), (scored("bpe as it is", "llama"), True)):
        files = gguf_tokenizer(settings | more)
        assert Tokenizer.from_files(files).adds_start is (usual if expected is None else expected)


@pytest.mark.sampled("the cases differ in their corpus alone")
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"tokenizer.ggml.model": "rwkv"}, ConfigError, "choose one of: gpt2, llama, t5"),
        ({"tokenizer.ggml.pre": "falcon"}, ConfigError, "choose one of: gpt-2, llama-bpe, llama3, qwen2, smollm"),
        ({"tokenizer.ggml.token_type": [1]}, DataError, "not each one with one type"),
        ({"tokenizer.ggml.model": "llama"}, DataError, "tokens and 0 scores"),
        ({"tokenizer.ggml.merges": ["a b c"]}, DataError, "not a whole tokenizer.json"),
        ({"tokenizer.ggml.eos_token_id": 10**9}, DataError, "which of its tokens is <pad>"),
    ],
)
def test_wrong_settings(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Tokenizer.from_files(gguf_tokenizer(merged("gpt-2") | change))


def test_missing_settings() -> None:
    with pytest.raises(DataError, match=r"has no tokenizer.ggml.model, so no tokenizer"):
        gguf_tokenizer({})
