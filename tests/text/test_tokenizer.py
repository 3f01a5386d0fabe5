"""The tokenizers: what goes in comes out, special tokens cannot be typed, losses are reported."""

import copy
import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import ConfigError, DataError, RunError
from regard.text import Tokenizer, TokenizerConfig
from regard.text.learned import KINDS
from regard.text.unicode import visible, well_formed
from regard.text.words import SPECIAL, split

LINES = [
    "The animal didn't cross the street because it was too tired.",
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    "</s> <pad> <s> <unk> </s> <pad> <s> <unk>",
    "1234  §§ \t \n — 日本語 👩‍👩‍👧",
    "<mask> <to-fr> <extra_0> <mask> <to-fr> <extra_0>",
]
EXTRA = ("<mask>", "<to-fr>", "<extra_0>")
TYPED = [*SPECIAL, *EXTRA, "a</s>b", " <pad> ", "</s></s>", "<s>The</s>", "<unk><unk>", "a <mask><mask>b", "‹mask›"]


@pytest.fixture(scope="module", params=[(kind, extra) for kind in KINDS for extra in ((), EXTRA)], ids=str)
def config(request: pytest.FixtureRequest) -> TokenizerConfig:
    kind, extra = request.param
    return TokenizerConfig(kind=kind, vocab_size=400, extra=extra)


@pytest.fixture(scope="module")
def tokenizer(config: TokenizerConfig) -> Tokenizer:
    return Tokenizer.train(LINES * 3, config)


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return Tokenizer.train(LINES * 3, TokenizerConfig(vocab_size=400))


@given(text=st.text())
@settings(max_examples=1000, deadline=None)
def test_bpe_gives_back_any_text(bpe: Tokenizer, text: str) -> None:
    assert bpe.decode(bpe.encode(text)) == text


@pytest.mark.slow  # ten times as many
@given(text=st.text())
@settings(max_examples=10_000, deadline=None)
def test_bpe_gives_back_any_of_many_texts(bpe: Tokenizer, text: str) -> None:
    assert bpe.decode(bpe.encode(text)) == text


@given(text=st.text(st.characters() | st.characters(categories=["Cs"])))
@settings(max_examples=500, deadline=None)
def test_bpe_gives_back_any_string_as_well_formed_text(bpe: Tokenizer, text: str) -> None:
    assert bpe.decode(bpe.encode(text)) == well_formed(text)
    assert bpe.encode_batch([text]) == [bpe.encode(text)]
    assert (bpe.losses(text) == []) == ("\ufffd" not in well_formed(text) or "\ufffd" in text)


def test_surrogates_are_joined_or_replaced(tokenizer: Tokenizer) -> None:
    assert well_formed("\ud83d\ude00") == "😀"
    assert well_formed("a\ud800b\udc00\ud83d") == "a\ufffdb\ufffd\ufffd"
    assert tokenizer.losses("\ud800")[-1] == "\\ud800"
    Tokenizer.train(["a\ud800"], TokenizerConfig(kind=tokenizer.kind, vocab_size=400))


@pytest.mark.sampled("hundreds of drawn texts for every kind", cases=2)
@given(text=st.text(st.sampled_from("The animal\n§日xЖ'</s>1")))
@settings(max_examples=300, deadline=None)
def test_what_is_not_lost_comes_back(tokenizer: Tokenizer, text: str) -> None:
    losses = tokenizer.losses(text)
    assert (tokenizer.decode(tokenizer.encode(text)) == text) == (losses == [])
    assert all(piece in text for piece in losses)


def test_losses_name_the_pieces() -> None:
    words = Tokenizer.train(["the cat sat", "the dog sat"], TokenizerConfig(kind="words"))
    assert words.losses("the cow sat") == [" cow"]
    assert words.decode(words.encode("the cow sat")) == "the \ufffd sat"
    characters = Tokenizer.train(["the cat sat"], TokenizerConfig(kind="characters"))
    assert characters.losses("the cows") == ["o", "w"]
    assert characters.decode(characters.encode("the cows")) == "the c\ufffd\ufffds"


def test_typed_special_tokens_stay_text(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    again = [Tokenizer.load(tmp_path), pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer)]
    for each in [tokenizer, *again]:
        for text in TYPED:
            ids = each.encode(text)
            assert not {each.special_id(name) for name in each.special if name != "<unk>"} & set(ids)
            assert (each.losses(text) != []) == (each.decode(ids) != text)
            assert (each.unknown_id in ids) == (each.losses(text) != []) or each.kind == "spaces"  # which loses space
            assert each.encode_batch([text]) == [ids]
            if each.kind == "bpe":
                assert min(each.sample(text, 5, 0.5)) >= len(each.special)


@pytest.mark.sampled("a large batch for every kind", cases=2)
def test_a_large_batch_is_its_texts_in_order(tokenizer: Tokenizer) -> None:
    texts = [f"{LINES[n % len(LINES)]} {n}" for n in range(1_500)]
    texts[len(texts) // 2] = "\ud800"
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch(iter([])) == []
    assert [tokenizer.encode_batch([text]) for text in ("", "a")] == [[[]], [tokenizer.encode("a")]]


def test_special_tokens_have_the_first_ids_and_no_text(tokenizer: Tokenizer, config: TokenizerConfig) -> None:
    roles = [tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id, tokenizer.unknown_id]
    assert roles == [0, 1, 2, 3] and tokenizer.tokens(roles) == list(SPECIAL)
    assert [tokenizer.special_id(name) for name in (*SPECIAL, *config.extra)] == list(range(4 + len(config.extra)))
    assert tokenizer.tokens(range(4, 4 + len(config.extra))) == list(config.extra)
    ids = tokenizer.encode("animal")
    silent = [tokenizer.special_id(name) for name in tokenizer.special if name != "<unk>"]
    assert tokenizer.decode([*silent, *ids, *silent]) == tokenizer.decode(ids)


def test_a_special_token_that_is_not_there(tokenizer: Tokenizer) -> None:
    for name in ("<sep>", "animal"):
        with pytest.raises(ConfigError, match=f"no special token '{name}', only <pad>, <s>, </s>, <unk>"):
            tokenizer.special_id(name)


def test_saving_keeps_everything(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(str(tmp_path / "tokenizer.json"))
    assert (loaded.kind, loaded.special, loaded.vocab_size, loaded.to_json()) == (
        tokenizer.kind,
        tokenizer.special,
        tokenizer.vocab_size,
        tokenizer.to_json(),
    )
    assert loaded.encode_batch(LINES) == tokenizer.encode_batch(LINES)
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]


def test_the_file_decodes_the_same_in_the_library(tokenizer: Tokenizer) -> None:
    import tokenizers

    library = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    for ids in tokenizer.encode_batch(LINES):
        assert library.decode(ids) == tokenizer.decode(ids)


def test_training_is_reproducible(tokenizer: Tokenizer, config: TokenizerConfig) -> None:
    assert Tokenizer.train(reversed(LINES * 3), config).to_json() == tokenizer.to_json()


def test_vocab_size_counts_everything() -> None:
    for kind, vocab_size in (("bpe", 300), ("words", 12), ("characters", 20)):
        assert Tokenizer.train(LINES, TokenizerConfig(kind=kind, vocab_size=vocab_size)).vocab_size == vocab_size


def test_min_count_leaves_out_the_rare() -> None:
    words = Tokenizer.train(["a a a b"], TokenizerConfig(kind="words", min_count=2))
    assert words.losses("a a b") == ["a", " b"]  # "a" occurs once, " a" twice


def test_tokens_read_as_text(bpe: Tokenizer) -> None:
    assert "".join(bpe.tokens(bpe.encode(LINES[0]))) == LINES[0]
    assert bpe.tokens(bpe.encode("Ж")) == ["\\xd0", "\\x96"]
    assert visible(" a\n\\") == "␣a\\n\\"


def test_lookup_finds_a_word_with_and_without_its_space(tokenizer: Tokenizer) -> None:
    for n in range(tokenizer.vocab_size):
        assert n in tokenizer.lookup(tokenizer.token(n))
        assert n in tokenizer.lookup(tokenizer.token(n).removeprefix(" "))
    assert tokenizer.lookup("no such token") == []


def test_spaces_are_all_that_separates_words() -> None:
    """A text that was cut into words already, such as the Penn Treebank with its "<unk>", keeps these words."""
    spaces = Tokenizer.train(["the <unk> isn't N $ u.s. <unk>"], TokenizerConfig(kind="spaces"))
    ids = spaces.encode("the <unk> isn't")
    assert spaces.tokens(ids) == ["the", "<unk>", "isn't"] and spaces.unknown_id not in ids
    assert spaces.decode(ids) == "the <unk> isn't"
    assert spaces.lookup("<unk>") == [spaces.unknown_id, ids[1]]
    assert spaces.unknown(" the cow isn't  here ") == ["cow", "here"]
    assert spaces.losses(" the  cow isn't") == ["cow", " ", "  "]
    assert spaces.decode(spaces.encode(" the\tcow \n isn't")) == "the \ufffd isn't"


def test_words_joined_are_the_text() -> None:
    assert split("It didn't  cross.") == ["It", " didn", "'t", " ", " cross", "."]


@given(st.text())
def test_any_words_joined_are_the_text(text: str) -> None:
    assert "".join(split(text)) == text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "wordpiece"}, "choose one of: bpe, characters, imported, spaces, words"),
        ({"vocab_size": 259}, r"at least 260 \(4 special tokens and 256 bytes\), got 259"),
        ({"kind": "words", "vocab_size": 4}, "at least 5"),
        ({"dropout": 1.0}, "below 1, got 1.0"),
        ({"kind": "words", "dropout": 0.1}, "only kind 'bpe'"),
        ({"min_count": 0}, "at least 1"),
        ({"extra": ("mask",)}, 'written like "<mask>" or "<to-fr>", got \'mask\''),
        ({"extra": ("<a b>",)}, "written like"),
        ({"extra": ("<!>",)}, "written like"),
        ({"extra": ("<a>", "<a>")}, "'<a>' is named twice"),
        ({"extra": ("<pad>",)}, "'<pad>' is named twice"),
        ({"vocab_size": 260, "extra": ("<a>",)}, r"at least 261 \(5 special tokens and 256 bytes\)"),
    ],
)
def test_wrong_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TokenizerConfig(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lines", [[], ["", ""]])
def test_empty_text(kind: str, lines: list[str]) -> None:
    with pytest.raises(DataError, match=f"these {len(lines)} lines are empty"):
        Tokenizer.train(lines, TokenizerConfig(kind=kind))


def test_min_count_above_everything() -> None:
    with pytest.raises(ConfigError, match="lower min_count"):
        Tokenizer.train(["a b c"], TokenizerConfig(kind="words", min_count=2))


def test_missing_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing", tmp_path / "tokenizer.json"):
        with pytest.raises(RunError, match="no tokenizer at"):
            Tokenizer.load(path)


def broken(tokenizer: Tokenizer) -> dict[str, bytes]:
    text = tokenizer.to_json()
    whole = json.loads(text)
    shifted = {token: n + (n > 9) for token, n in whole["model"]["vocab"].items()}
    return {
        "empty": b"",
        "half": text.encode()[: len(text) // 2],
        "not UTF-8": b"\xff" + text.encode(),
        "not a tokenizer": b'{"a": 1}',
        "a gap in the ids": json.dumps(whole | {"model": whole["model"] | {"vocab": shifted}}).encode(),
        "other special tokens": text.replace("</s>", "[SEP]").encode(),
        "other cut": json.dumps(whole | {"pre_tokenizer": {"type": "Whitespace"}}).encode(),
        "cuts texts short": json.dumps(
            whole | {"truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}}
        ).encode(),
    }


@pytest.mark.parametrize("how", broken(Tokenizer.train(["a"], TokenizerConfig())))
def test_broken_file(tokenizer: Tokenizer, tmp_path: Path, how: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(broken(tokenizer)[how])
    with pytest.raises(DataError) as error:
        Tokenizer.load(path)
    assert str(path) in str(error.value)


def test_a_file_without_all_bytes(tmp_path: Path, bpe: Tokenizer) -> None:
    with pytest.raises(DataError, match="256 bytes"):
        Tokenizer.from_json(bpe.to_json().replace('"Ħ"', '"Ж"'))


def test_an_id_that_does_not_exist(tokenizer: Tokenizer) -> None:
    for n in (-1, tokenizer.vocab_size):
        with pytest.raises(DataError, match=f"{n} is not an id"):
            tokenizer.decode([n])
