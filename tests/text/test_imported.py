"""Tokenizers of other tools: the same ids as in transformers, the same interface as our own."""

import copy
import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import models, normalizers, pre_tokenizers, trainers

from regard.errors import ConfigError, DataError
from regard.interop.certifying.samples import strings
from regard.text import Tokenizer, TokenizerConfig

transformers = pytest.importorskip("transformers")

TRAINED_ON = strings(3000, seed=1)
STRINGS = strings(300)
END_OF_TEXT = "<|endoftext|>"


def byte_pairs(special: list[str]) -> dict[str, Any]:
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    library.train_from_iterator(TRAINED_ON, trainer)
    model = json.loads(library.to_str())["model"]
    return {"vocab": model["vocab"], "merges": [tuple(pair) for pair in model["merges"]]}


def word_pieces(lowercase: bool) -> dict[str, int]:
    library = Library(models.WordPiece(unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=500, special_tokens=special, limit_alphabet=120, show_progress=False)
    library.train_from_iterator(TRAINED_ON, trainer)
    return dict(library.get_vocab())


def unigrams(special: list[str]) -> list[tuple[str, float]]:
    library = Library(models.Unigram())
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=500, special_tokens=special, unk_token="<unk>", show_progress=False)
    library.train_from_iterator(TRAINED_ON[1500:], trainer)
    return [(piece, score) for piece, score in json.loads(library.to_str())["model"]["vocab"]]


def sentence_pairs() -> dict[str, Any]:
    """As Llama 2 has them: no cut at words, bytes for what has no token."""
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    library = Library(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    library.pre_tokenizer = pre_tokenizers.Metaspace(split=True)
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=special, limit_alphabet=60, show_progress=False)
    library.train_from_iterator(TRAINED_ON[1500:], trainer)
    model = json.loads(library.to_str())["model"]
    return {"vocab": model["vocab"], "merges": [tuple(pair) for pair in model["merges"]]}


SENTINELS = [f"<extra_id_{n}>" for n in range(9, -1, -1)]
FAMILIES: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: transformers.GPT2Tokenizer(**byte_pairs([END_OF_TEXT])),
    "roberta": lambda: transformers.RobertaTokenizer(**byte_pairs(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])),
    "bart": lambda: transformers.BartTokenizer(**byte_pairs(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])),
    "qwen2": lambda: transformers.Qwen2Tokenizer(
        **byte_pairs([]), additional_special_tokens=["<|im_start|>", "<|im_end|>"]
    ),
    "llama": lambda: transformers.LlamaTokenizer(**sentence_pairs()),
    "bert-uncased": lambda: transformers.BertTokenizer(word_pieces(True)),
    "bert-cased": lambda: transformers.BertTokenizer(word_pieces(False), do_lower_case=False),
    "electra": lambda: transformers.ElectraTokenizer(word_pieces(True)),
    "distilbert": lambda: transformers.DistilBertTokenizer(word_pieces(True)),
    "t5": lambda: transformers.T5Tokenizer(
        unigrams(["<pad>", "</s>", "<unk>"]) + [(s, 0.0) for s in SENTINELS], extra_ids=10
    ),
    "xlnet": lambda: transformers.XLNetTokenizer(
        unigrams(["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"])
    ),
}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(family)
    FAMILIES[family]().save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def ours(folder: Path) -> Tokenizer:
    return Tokenizer.load(folder)


@pytest.mark.sampled("the cases differ in their corpus alone")
@pytest.mark.parametrize("n", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_same_ids_and_texts_as_in_transformers(ours: Tokenizer, theirs: Any, n: int) -> None:
    texts = strings(n, seed=n)
    found = ours.encode_batch(texts)
    expected = theirs(texts, add_special_tokens=False)["input_ids"]
    assert [text for text, a, b in zip(texts, found, expected, strict=True) if a != b] == []
    assert ours.decode_batch(found) == theirs.batch_decode(expected, skip_special_tokens=True)
    assert [ours.encode(text) for text in texts[:50]] == found[:50]
    assert len({token for ids in found for token in ids}) > 150


@pytest.mark.sampled("the cases differ in their family alone", cases=3)
def test_what_begins_and_ends_a_text(family: str, ours: Tokenizer, theirs: Any) -> None:
    begins = theirs.bos_token_id if theirs.bos_token_id is not None else theirs.cls_token_id
    ends = theirs.eos_token_id if theirs.eos_token_id is not None else theirs.sep_token_id
    assert (ours.start_id, ours.end_id) == (ends if begins is None else begins, ends)
    assert ours.pad_id == (ends if theirs.pad_token_id is None else theirs.pad_token_id)
    if theirs.unk_token_id is not None:
        assert ours.unknown_id == theirs.unk_token_id
    if theirs.mask_token_id is not None:
        assert ours.special_id("<mask>") == ours.special_id(theirs.mask_token) == theirs.mask_token_id
    else:
        with pytest.raises(ConfigError, match="no special token '<mask>', only "):
            ours.special_id("<mask>")
    if family == "t5":
        assert [theirs.convert_ids_to_tokens(ours.special_id(f"<extra_{n}>")) for n in range(10)] == SENTINELS[::-1]
    assert ours.vocab_size == len(theirs)


@pytest.mark.sampled("the cases differ in their family alone", cases=3)
def test_typed_special_tokens_stay_text(ours: Tokenizer, theirs: Any, tmp_path: Path) -> None:
    ours.save(tmp_path / "tokenizer.json")
    again = [Tokenizer.load(tmp_path), pickle.loads(pickle.dumps(ours)), copy.deepcopy(ours)]
    special = {
        n for name in ours.special if (n := ours.special_id(name)) != ours.unknown_id or ours.unknown_id == ours.end_id
    }
    for each in [ours, *again]:
        for name in theirs.all_special_tokens:
            for text in (name, f"a{name}b", f" {name} {name}", f"the animal {name}."):
                assert not special & set(each.encode(text))
                assert each.encode_batch([text]) == [each.encode(text)] == [ours.encode(text)]
        ids = each.encode("the animal")
        assert each.decode([each.start_id, *ids, each.end_id, each.pad_id]) == each.decode(ids)
        assert each.tokens([each.start_id, each.end_id]) == theirs.convert_ids_to_tokens([each.start_id, each.end_id])


@pytest.mark.sampled("the cases differ in their family alone", cases=3)
def test_saving_keeps_everything(ours: Tokenizer, folder: Path, tmp_path: Path) -> None:
    ours.save(tmp_path / "tokenizer.json")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert (loaded.kind, loaded.special, loaded.vocab_size) == ("imported", ours.special, ours.vocab_size)
    assert loaded.encode_batch(STRINGS) == ours.encode_batch(STRINGS)


def test_tokens_read_as_text(family: str, ours: Tokenizer) -> None:
    text = "the animal was too tired"
    joined = "".join(ours.tokens(ours.encode(text)))
    assert joined.removeprefix(" ") == text
    assert b"".join(ours.spelling[n] for n in ours.encode(text)).decode().removeprefix(" ") == text
    for n in ours.encode(text):
        assert n in ours.lookup(ours.token(n)) and n in ours.lookup(ours.token(n).removeprefix(" "))


@pytest.mark.sampled("the cases differ in their family alone", cases=3)
def test_losses(family: str, ours: Tokenizer) -> None:
    assert ours.losses("the animal was too tired") == []
    if family == "bert-uncased":
        assert ours.losses("The animal") == ["The"]
    if family == "bert-cased":
        assert ours.losses("The \N{SNOWMAN}")[0] == "\N{SNOWMAN}"
    if family == "gpt2":
        assert ours.losses(" The \N{SNOWMAN}\n\n\ud800") == ["\\ud800"]
    for text in STRINGS:
        assert (ours.losses(text) == []) == (ours.decode(ours.encode(text)) == text)


def test_an_id_without_a_token(ours: Tokenizer) -> None:
    """A model's table may be larger than the vocabulary; what it writes there is no text."""
    ids = ours.encode("the animal")
    assert ours.decode([*ids, ours.vocab_size + 5]) == ours.decode(ids)
    assert ours.token(ours.vocab_size + 5) == f"<no token {ours.vocab_size + 5}>"
    with pytest.raises(DataError, match="-1 is not an id"):
        ours.decode([-1])


JUNK = [None, -1, 0, 2**31, 2**63, 1e400, "", "x", "<s>", [], {}, [[1]], True, {"type": "BPE"}]


def mutate(settings: Any, chance: random.Random, depth: int = 0) -> None:
    """Somewhere inside, something is taken away or replaced."""
    keys = list(settings)[:40] if isinstance(settings, dict) else range(len(settings))
    if not keys:
        return
    key, how = chance.choice(keys), chance.random()
    if how < 0.15:
        settings.pop(key)
    elif how < 0.4 or depth > 4 or not isinstance(settings[key], dict | list):
        settings[key] = chance.choice(JUNK)
    else:
        mutate(settings[key], chance, depth + 1)


@pytest.mark.sampled("the cases differ in their corpus alone")
@pytest.mark.parametrize("n", [20, pytest.param(3000, marks=pytest.mark.slow)])
def test_mutated_files_are_read_or_refused(folder: Path, n: int) -> None:
    whole = {name: (folder / name).read_text() for name in ("tokenizer.json", "tokenizer_config.json")}
    chance = random.Random(n)
    n_read = 0
    for _ in range(n):
        name = chance.choice(list(whole))
        settings = json.loads(whole[name])
        mutate(settings, chance)
        try:
            found = Tokenizer.from_files(whole | {name: json.dumps(settings)})
        except DataError:
            continue
        n_read += 1
        found.decode(found.encode("The animal [SEP] </s> \N{SNOWMAN} 12"))
        found.losses("A b"), found.tokens([0, 3, 10**6])
    assert 0 < n_read < n


def test_imported_is_not_learnt() -> None:
    with pytest.raises(ConfigError, match="train with --from"):
        Tokenizer.train(["a b"], TokenizerConfig(kind="imported"))


@pytest.fixture
def gpt2(tmp_path: Path) -> Path:
    FAMILIES["gpt2"]().save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.sampled("the cases differ in their corpus alone")
@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "its first tokens are not <pad>"),
        ("{}", "which of its tokens is <pad>; .*tokenizer_config.json should name one of: pad_token"),
        ('{"bos_token": "<nowhere>"}', "which of its tokens is <pad>"),
        ("[]", "tokenizer_config.json must hold an object, got list"),
        ('{"eos_token', "tokenizer_config.json is not JSON"),
        ("[" * 100_000, "tokenizer_config.json is not JSON"),
    ],
)
def test_a_folder_that_says_too_little(gpt2: Path, config: str | None, message: str) -> None:
    (gpt2 / "tokenizer_config.json").unlink()
    if config is not None:
        (gpt2 / "tokenizer_config.json").write_text(config)
    with pytest.raises(DataError, match=message):
        Tokenizer.load(gpt2)


def test_older_folders_name_the_roles_in_another_file(gpt2: Path) -> None:
    (gpt2 / "tokenizer_config.json").rename(gpt2 / "elsewhere")
    (gpt2 / "special_tokens_map.json").write_text(json.dumps({"eos_token": {"content": END_OF_TEXT, "special": True}}))
    assert Tokenizer.load(gpt2).end_id == 0


def test_gaps_between_ids(gpt2: Path) -> None:
    settings = json.loads((gpt2 / "tokenizer.json").read_text())
    moved = {name: n + 10 * (n > 300) for name, n in settings["model"]["vocab"].items()}
    settings["model"]["vocab"] = moved
    before = Tokenizer.load(gpt2).encode_batch(STRINGS)
    (gpt2 / "tokenizer.json").write_text(json.dumps(settings))
    gapped = Tokenizer.load(gpt2)
    assert gapped.vocab_size == max(moved.values()) + 1
    assert gapped.encode_batch(STRINGS) == [[n + 10 * (n > 300) for n in ids] for ids in before]


def test_a_prefix_that_would_end_the_process(gpt2: Path) -> None:
    settings = json.loads((gpt2 / "tokenizer.json").read_text())
    settings["model"]["continuing_subword_prefix"] = "##"
    (gpt2 / "tokenizer.json").write_text(json.dumps(settings))
    with pytest.raises(DataError, match="does not begin the right half of every merge"):
        Tokenizer.load(gpt2)


def test_texts_are_neither_cut_nor_padded(gpt2: Path) -> None:
    settings = json.loads((gpt2 / "tokenizer.json").read_text())
    settings["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    before = Tokenizer.load(gpt2).encode_batch(STRINGS)
    (gpt2 / "tokenizer.json").write_text(json.dumps(settings))
    assert Tokenizer.load(gpt2).encode_batch(STRINGS) == before
