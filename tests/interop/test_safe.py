"""Strange folders: what is refused, and why; ten thousand damaged files, each an error and nothing worse."""

import json
import random
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from regard import memory
from regard.errors import ConfigError, RegardError, RunError
from regard.interop.formats.safe import LONGEST_JSON, SafeFolder
from regard.interop.importing import import_weights, open_source, recipe_of
from regard.memory import TooLarge
from regard.text.tokenizer import TokenizerConfig
from tests.interop.test_translators import MODELS as TRANSLATORS
from tests.interop.test_translators import make as make_translator
from tests.interop.tiny import make

FAMILIES = (
    "gpt2", "llama, tied, grouped heads", "qwen2", "qwen3", "bert", "roberta", "distilbert that classifies", "electra",
    "xlnet", "bart", "marian", "pegasus", "t5 v1.0", "t5 v1.1",
)  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for name in FAMILIES:
        found[name] = tmp_path_factory.mktemp("hf")
        make_translator(name, found[name]) if name in TRANSLATORS else make(name, found[name])
    return found


@pytest.fixture
def gpt2(folders: dict[str, Path], tmp_path: Path) -> Path:
    shutil.copytree(folders["gpt2"], tmp_path / "gpt2")
    return tmp_path / "gpt2"


def read(folder: Path) -> Any:
    source = open_source(folder)
    return import_weights(source, recipe_of(source, TokenizerConfig(kind="words", vocab_size=53), 2))


def change_config(folder: Path, **changes: Any) -> None:
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | changes))


def change_tensors(folder: Path, **changes: torch.Tensor | None) -> None:
    """None removes one."""
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load(path.read_bytes()) | {key.replace("__", "."): t for key, t in changes.items()}
    path.write_bytes(safetensors.torch.save({name: tensor for name, tensor in tensors.items() if tensor is not None}))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.ckpt"])
def test_a_pickle_is_refused_with_the_reason_and_the_way_out(name: str, gpt2: Path) -> None:
    (gpt2 / "model.safetensors").rename(gpt2 / name)
    for path in (gpt2, gpt2 / name):
        with pytest.raises(RunError, match=r"is a pickle: to load it is to run whatever .*\.save_pretrained"):
            SafeFolder(path)


def test_a_pickle_beside_safetensors_is_not_read(gpt2: Path) -> None:
    (gpt2 / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    assert read(gpt2)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", "{", "is not usable JSON"),
        ("config.json", "[]", "must hold a JSON object"),
        ("config.json", "[" * 100_000, "is not usable JSON"),
        ("config.json", '{"model_type": "gpt2", "n_embd": ' + "9" * 5000 + "}", "is not usable JSON"),
        ("config.json", "\ud800", "is not usable JSON"),
        ("config.json", "{}", "names no model_type"),
        ("config.json", '{"model_type": "gpt9"}', "unknown family of models"),
        ("config.json", '{"model_type": ["gpt2"]}', "names no model_type"),
        ("model.safetensors", "", "not a usable safetensors file"),
        ("model.safetensors", "x" * 100, "not a usable safetensors file"),
    ],
)
def test_damaged_files_are_named(file: str, content: str, message: str, gpt2: Path) -> None:
    (gpt2 / file).write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(RegardError, match=message):
        read(gpt2)


def test_settings_longer_than_settings_are_refused_unread(gpt2: Path) -> None:
    settings = (gpt2 / "config.json").read_text()
    (gpt2 / "config.json").write_text(settings + " " * LONGEST_JSON)  # still JSON
    with pytest.raises(RunError, match="more than settings need"):
        read(gpt2)


def test_memory_is_counted_in_float32(gpt2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_weights = safetensors.torch.load((gpt2 / "model.safetensors").read_bytes())
    n_numbers = sum(tensor.numel() for tensor in with_weights.values())
    monkeypatch.setattr(memory, "free_memory", lambda: 4 * n_numbers)
    SafeFolder(gpt2)
    monkeypatch.setattr(memory, "free_memory", lambda: 4 * n_numbers - 1)
    with pytest.raises(TooLarge, match=r"gpt2 in float32 needs about .* GiB, and .* GiB are free here"):
        SafeFolder(gpt2)


def test_missing_files_are_named(gpt2: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a folder"):
        SafeFolder(tmp_path / "nowhere")
    (gpt2 / "model.safetensors").rename(gpt2 / "other.txt")
    with pytest.raises(RunError, match=r"has no model\.safetensors"):
        SafeFolder(gpt2)
    (gpt2 / "config.json").unlink()
    with pytest.raises(RunError, match=r"config\.json is missing"):
        SafeFolder(gpt2)


def test_shards_are_read_as_one(gpt2: Path) -> None:
    whole = read(gpt2)
    tensors = safetensors.torch.load((gpt2 / "model.safetensors").read_bytes())
    names = sorted(tensors)
    (gpt2 / "model.safetensors").unlink()
    parts = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, part in parts.items():
        (gpt2 / file).write_bytes(safetensors.torch.save({name: tensors[name] for name in part}))
    index = {"weight_map": {name: file for file, part in parts.items() for name in part}}
    (gpt2 / "model.safetensors.index.json").write_text(json.dumps(index))
    again = read(gpt2)
    assert all(torch.equal(whole.tensors[name], again.tensors[name]) for name in whole.tensors)


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "weights.bin", "absent.safetensors", 7])
def test_an_index_cannot_point_elsewhere(name: Any, gpt2: Path) -> None:
    (gpt2.parent / "secret.safetensors").write_bytes((gpt2 / "model.safetensors").read_bytes())
    (gpt2 / "model.safetensors").unlink()
    (gpt2 / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"wte.weight": name}}))
    with pytest.raises(RunError, match=r"not a safetensors file of this folder|is missing|no weight_map"):
        SafeFolder(gpt2)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_numbers_that_are_not_finite_are_refused(value: float, gpt2: Path) -> None:
    bias = torch.zeros(12)
    bias[7] = value
    change_tensors(gpt2, transformer__ln_f__bias=bias)
    with pytest.raises(RunError, match=r"transformer\.ln_f\.bias contains NaN or infinity"):
        read(gpt2)


def test_numbers_too_large_for_us_are_refused(gpt2: Path) -> None:
    change_tensors(gpt2, transformer__ln_f__bias=torch.full((12,), 1e300, dtype=torch.float64))
    with pytest.raises(RunError, match="contains NaN or infinity"):
        read(gpt2)


def test_names_and_shapes_must_fit(gpt2: Path) -> None:
    change_tensors(gpt2, transformer__ln_f__bias=torch.zeros(13))
    with pytest.raises(RunError, match=r"ln_f\.bias is \(13,\).* asks for \[\(12,\)\]"):
        read(gpt2)
    change_tensors(gpt2, transformer__ln_f__bias=None)
    with pytest.raises(RunError, match=r"lacks 1 tensors .* transformer\.ln_f\.bias"):
        read(gpt2)
    change_tensors(gpt2, transformer__ln_f__bias=torch.zeros(12), transformer__h__0__attn__gate=torch.zeros(3))
    with pytest.raises(RunError, match=r"no place in regard's model, such as transformer\.h\.0\.attn\.gate"):
        read(gpt2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_layer", 10**9),
        ("n_embd", 10**12),
        ("n_embd", -12),
        ("n_embd", 12.0),
        ("n_embd", True),
        ("vocab_size", 10**30),
        ("n_positions", "21"),
        ("layer_norm_epsilon", float("inf")),
        ("activation_function", "mish"),
        ("activation_function", None),
        ("scale_attn_by_inverse_layer_idx", True),
        ("tie_word_embeddings", "yes"),
    ],
)
def test_settings_are_checked(name: str, value: Any, gpt2: Path) -> None:
    change_config(gpt2, **{name: value})
    with pytest.raises(ConfigError, match=name):
        read(gpt2)


def test_positions_that_no_file_holds_cannot_take_memory(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["llama, tied, grouped heads"], tmp_path / "llama")
    change_config(tmp_path / "llama", max_position_embeddings=(1 << 24) - 1)
    with pytest.raises(ConfigError, match="too large to be true"):
        read(tmp_path / "llama")


@pytest.mark.parametrize(("kind", "factor"), [("dynamic", 1e300), ("dynamic", 1e6), ("linear", 1e400)])
def test_scaled_positions_cannot_take_memory_either(
    kind: str, factor: float, folders: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(folders["llama, tied, grouped heads"], tmp_path / "llama")
    change_config(tmp_path / "llama", rope_parameters={"rope_type": kind, "factor": factor})
    with pytest.raises(ConfigError, match=r"factor must (make texts of at most 16,777,216 tokens|be a number)"):
        read(tmp_path / "llama")


# Files damaged by chance.

ODD = [None, True, -1, 0, 1, 3, 1 << 31, 1 << 63, 10**30, 0.5, -1e308, "", "x", [], [0], {}, {"a": 1}, [[]], 1e400]


def mutate_json(content: Any, chance: random.Random) -> Any:
    """The same object with one thing in it changed, removed or added."""
    content = json.loads(json.dumps(content))
    place = content
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = chance.choice(list(keys)) if keys else None
        inner = place[key] if key is not None else None
        if not isinstance(inner, dict | list) or not inner or chance.random() < 0.2:
            break
        place = inner
    kind = chance.random()
    if key is None or (kind < 0.1 and isinstance(place, dict)):
        if isinstance(place, dict):
            place[chance.choice(["new", "weight", "n_head", ""])] = chance.choice(ODD)
    elif kind < 0.25:
        del place[key]
    elif kind < 0.5 and type(inner) is int:
        place[key] = chance.choice([inner + 1, inner - 1, inner * 2, -inner, inner << 40])
    else:
        place[key] = chance.choice(ODD)
    return content


def mutate_bytes(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(changed))
        kind = chance.random()
        if kind < 0.6:
            changed[place] = chance.randrange(256)
        elif kind < 0.8:
            del changed[place : place + chance.randint(1, 9)]
        else:
            changed[place:place] = chance.randbytes(chance.randint(1, 9))
    return bytes(changed)


def damaged(folder: Path, chance: random.Random, n: int) -> Iterator[dict[str, bytes]]:
    """Files to be written over the good ones: the header as bytes, as JSON with its true length, or the settings."""
    config = json.loads((folder / "config.json").read_text())
    weights = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(weights[:8], "little")
    header = json.loads(weights[8 : 8 + size])
    for i in range(n):
        if i % 4 == 0:
            yield {"model.safetensors": mutate_bytes(weights[: 8 + size], chance) + weights[8 + size :]}
        elif i % 4 == 1:
            new = json.dumps(mutate_json(header, chance)).encode()
            yield {"model.safetensors": len(new).to_bytes(8, "little") + new + weights[8 + size :]}
        elif i % 4 == 2:
            yield {"config.json": json.dumps(mutate_json(config, chance)).encode()}
        else:
            yield {"config.json": mutate_bytes((folder / "config.json").read_bytes(), chance)}


@pytest.mark.parametrize("n", [150, pytest.param(10_000, marks=pytest.mark.slow)])
def test_damaged_files_are_errors_and_nothing_worse(n: int, folders: dict[str, Path], tmp_path: Path) -> None:
    """Some changes harm nothing (a dropout, a name that nobody reads); all others must be a RegardError."""
    chance, n_read, n_refused = random.Random(n), 0, 0
    read(folders["bert"])  # what this needs by itself
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, folder in folders.items():
        place = tmp_path / name.split(",")[0]
        shutil.copytree(folder, place)
        good = {file: (place / file).read_bytes() for file in ("config.json", "model.safetensors")}
        for files in damaged(folder, chance, -(-n // len(folders))):
            for file, content in (good | files).items():
                (place / file).write_bytes(content)
            n_read += 1
            try:
                read(place)
            except RegardError as error:
                assert str(error)
                n_refused += 1
    assert n_read >= n
    assert n_refused > n // 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 200_000  # kB
