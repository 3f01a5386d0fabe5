"""Runs for CTranslate2 and back: the same probabilities, the same greedy tokens; damaged files are errors."""

import dataclasses
import json
import math
import random
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.commands.exchange import export
from regard.decoding.config import DecodingConfig
from regard.errors import RegardError, RunError
from regard.interop.certifying import samples
from regard.interop.certifying.certificate import compare_rows
from regard.interop.certifying.in_ctranslate2 import (
    CTranslate2Translator,
    CTranslate2Writer,
    beside_rounding,
    certify_ctranslate2,
)
from regard.interop.certifying.samples import random_tokens, sentences, strings
from regard.interop.certifying.sides import Ours, OurScorer
from regard.interop.families.ctranslate2 import CTRANSLATE2
from regard.interop.formats.from_ctranslate2 import NEVER, CTranslate2File, CTranslate2Folder
from regard.interop.formats.to_ctranslate2 import write_folder
from regard.interop.importing import OpenedModel, recipe_of
from regard.models.stack import StackConfig
from regard.runs.run import Run
from regard.runs.weights import set_weights, weights_of
from regard.tasks.chat.task import ChatConfig
from regard.text.tokenizer import TokenizerConfig
from tests.interop.small_runs import save, save_translator, save_writer

ctranslate2 = pytest.importorskip("ctranslate2")

T5 = {
    "position": "buckets",
    "norm": "rms",
    "bias": "none",
    "pre_norm": True,
    "score": "dot",
    "feed_forward": "geglu",
    "d_head": 10,
    "scale_embedding": False,
    "norm_eps": 1e-6,
}
LLAMA = {
    "position": "rotary",
    "norm": "rms",
    "bias": "none",
    "feed_forward": "swiglu",
    "n_key_heads": 1,
    "tied": False,
    "scale_embedding": False,
}
TRANSLATORS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "Marian": {"position": "sinusoidal_halves", "feed_forward": "swish", "output_bias": True},
    "BART": {"position": "learned", "embedding_norm": True, "feed_forward": "gelu", "scale_embedding": False},
    "T5": T5,
    "untied, grouped": {"tied": False, "n_key_heads": 1, "pre_norm": True, "bias": "inputs", "position": "none"},
}
WRITERS: dict[str, dict[str, Any]] = {
    "GPT-1": {"pre_norm": False, "feed_forward": "gelu_tanh"},
    "GPT-2": {"scale_embedding": False},
    "Llama": LLAMA,
    "Qwen3": LLAMA | {"norm_heads": True, "d_head": 10, "rotary_base": 1e6},
    "sines": {"position": "sinusoidal", "feed_forward": "relu"},
}


def inputs(run: Run) -> list[list[int]]:
    return random_tokens(8, 20, run.recipe.model.vocab_size, without={0, 1, 2, 3})


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("name", TRANSLATORS)
def test_translators_say_the_same(name: str, tmp_path: Path) -> None:
    run = save_translator(tmp_path / "run", **TRANSLATORS[name])
    ours = OurScorer(run)
    theirs = CTranslate2Translator(tmp_path / "out", run, write_folder(run, tmp_path / "out"))
    found = compare_rows("log-probabilities", ours.rows(inputs(run)), theirs.rows(inputs(run)), "")
    assert found.holds, found
    assert ours.greedy(inputs(run), 12) == theirs.greedy(inputs(run), 12)


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("name", WRITERS)
def test_writers_say_the_same(name: str, tmp_path: Path) -> None:
    run = save_writer(tmp_path / "run", **WRITERS[name])
    ours = Ours(run)
    theirs = CTranslate2Writer(tmp_path / "out", run, write_folder(run, tmp_path / "out"))
    found = compare_rows("logits", ours.rows(inputs(run)), theirs.rows(inputs(run)), "")
    assert found.holds, found
    assert ours.greedy(inputs(run), 12) == theirs.greedy(inputs(run), 12)


def test_a_run_that_chats_is_a_writer(tmp_path: Path) -> None:
    speakers = ("<system>", "<user>", "<assistant>")
    run = save(tmp_path / "run", "chat", "stack", ChatConfig(), StackConfig, {}, extra=speakers)
    names = write_folder(run, tmp_path / "out")
    assert certify_ctranslate2(run, tmp_path / "out", names).holds


def test_the_command_certifies_what_it_writes(tmp_path: Path) -> None:
    """On sentences; the folder serves those who have CTranslate2 and its tokenizer.json alone."""
    run = save_translator(tmp_path / "run")
    export(run.folder, tmp_path / "out", to="ctranslate2")
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert certificate["holds"]
    assert certificate["findings"][1]["value"] == 1 and certificate["findings"][1]["of"].startswith(
        f"{samples.N_LINES} lines"
    )
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    translator = ctranslate2.Translator(str(tmp_path / "out"))
    line = "the animal was tired"
    said = translator.translate_batch([tokenizer.encode(line).tokens], beam_size=1, max_decoding_length=10)
    ids = [tokenizer.token_to_id(token) for token in said[0].hypotheses[0]]
    (answer,) = run.translate([line], DecodingConfig(length_ratio=0.0, extra_length=10))
    assert ids == answer.parts[0][1].tokens


def test_what_ctranslate2_has_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="this model has 'additive'"):
        write_folder(save_translator(tmp_path / "a", score="additive"), tmp_path / "out")
    with pytest.raises(RegardError, match="this one has 'alibi'"):
        write_folder(save_writer(tmp_path / "b", position="alibi"), tmp_path / "out")
    with pytest.raises(RegardError, match="this run has norm_heads"):
        write_folder(save_translator(tmp_path / "c", norm_heads=True), tmp_path / "out")
    scaled = {"position": "rotary", "rotary_scaling": "linear", "rotary_factor": 2.0}
    with pytest.raises(RegardError, match="this run has rotary_scaling 'linear'"):
        write_folder(save_writer(tmp_path / "d", **scaled), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("quantization", ["float32", "int8", "int16", "float16", "bfloat16"])
@pytest.mark.parametrize("settings", [{"pre_norm": True}, {"scale_embedding": False, "embedding_norm": True}], ids=str)
def test_its_files_come_back_as_ours(quantization: str, settings: dict[str, Any], tmp_path: Path) -> None:
    """Also those in which a row of whole numbers has a scale: as CTranslate2 reads them in float32."""
    run = save_translator(tmp_path / "run", output_bias=True, **settings)
    names = write_folder(run, tmp_path / "out")
    if quantization != "float32":
        smaller(tmp_path / "out", run, quantization)
    file = CTranslate2Folder(tmp_path / "out")
    source = OpenedModel(tmp_path / "out", "ctranslate2", CTRANSLATE2, file.config, file, {})
    recipe = recipe_of(source, TokenizerConfig(vocab_size=len(names)), separator=2)
    model = recipe.build_model().eval()
    set_weights(model, CTRANSLATE2.take(file, recipe, weights_of(model), "").tensors, "")
    back = Run(tmp_path, recipe, run.tokenizer, model, "")
    ours = OurScorer(back)
    theirs = CTranslate2Translator(tmp_path / "out", back, names)
    found = compare_rows("log-probabilities", ours.rows(inputs(run)), theirs.rows(inputs(run)), "")
    assert found.holds, found
    assert ours.greedy(inputs(run), 12) == theirs.greedy(inputs(run), 12)


def smaller(folder: Path, run: Run, quantization: str) -> None:
    """The same weights in a smaller type, by CTranslate2's own means."""
    from regard.interop.formats.to_ctranslate2 import token_names, translator

    spec = translator(run, token_names(run))
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("settings", [{"output_bias": True}, {}, {"tied": False}], ids=str)
def test_a_start_from_nothing_is_one_more_word_that_is_never_said(settings: dict[str, Any], tmp_path: Path) -> None:
    """As Marian's models have it: the embedding of the start is zeros."""
    from regard.interop.formats.to_ctranslate2 import token_names, translator

    run = save_translator(tmp_path / "run", **settings)
    spec = translator(run, names := token_names(run))
    spec.decoder.start_from_zero_embedding = True
    spec.validate()
    spec.optimize(quantization="float32")
    (tmp_path / "out").mkdir()
    spec.save(str(tmp_path / "out"))
    file = CTranslate2Folder(tmp_path / "out")
    source = OpenedModel(tmp_path / "out", "ctranslate2", CTRANSLATE2, file.config, file, {})
    recipe = recipe_of(source, TokenizerConfig(vocab_size=len(names) + 1), separator=2)
    model = recipe.build_model().eval()
    set_weights(model, CTRANSLATE2.take(file, recipe, weights_of(model), "").tensors, "")
    last = len(names)
    assert recipe.task.target_start == last and model.output_bias[last] == NEVER
    back = Run(tmp_path, recipe, run.tokenizer, model, "")
    ours, theirs = OurScorer(back), CTranslate2Translator(tmp_path / "out", back, names)
    found = compare_rows("log-probabilities", ours.rows(inputs(run)), theirs.rows(inputs(run)), "")
    assert found.holds, found
    assert ours.greedy(inputs(run), 12) == theirs.greedy(inputs(run), 12)


def test_damaged_files_are_errors_and_take_no_memory(tmp_path: Path) -> None:
    whole = bytearray(small_file())
    path = tmp_path / "model.bin"
    path.write_bytes(whole)
    assert CTranslate2File(path).shapes == {"a/weight": (2, 3), "b/weight": (2, 3), "c": (4,)}
    chance = random.Random(0)
    n_errors = 0
    for _ in range(500):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            content[chance.randrange(len(content))] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
        if chance.random() < 0.3:
            content = content[: chance.randrange(len(content))]
        path.write_bytes(content)
        try:
            file = CTranslate2File(path)
            for name in file.shapes:
                assert file.read(name).numel() <= len(whole)
        except RunError:
            n_errors += 1
    assert n_errors > 150


def small_file() -> bytes:
    def name(text: str) -> bytes:
        return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

    def variable(text: str, shape: tuple[int, ...], kind: int, content: bytes) -> bytes:
        head = name(text) + struct.pack("<B", len(shape)) + struct.pack(f"<{len(shape)}I", *shape)
        return head + struct.pack("<BI", kind, len(content)) + content

    return b"".join(
        [
            struct.pack("<I", 6),
            name("TransformerSpec"),
            struct.pack("<II", 7, 4),
            variable("a/weight", (2, 3), 1, bytes([1, 2, 3, 4, 5, 255])),
            variable("a/weight_scale", (2,), 0, struct.pack("<2f", 2.0, 4.0)),
            variable("c", (4,), 0, struct.pack("<4f", 1.0, 2.0, 3.0, 4.0)),
            variable("d", (), 2, struct.pack("<h", -7)),
            struct.pack("<I", 1),
            name("b/weight"),
            name("a/weight"),
        ]
    )


def test_whole_numbers_are_divided_by_the_scale_of_their_row(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(small_file())
    file = CTranslate2File(tmp_path / "model.bin")
    assert file.settings == {"d": -7}
    for name in ("a/weight", "b/weight"):
        assert file.read(name).tolist() == [[0.5, 1.0, 1.5], [1.0, 1.25, -0.25]]


def test_tokens_that_are_never_written_are_not_written_there(tmp_path: Path) -> None:
    run = save_translator(tmp_path / "run")
    likely = tuple({ids[0] for ids in OurScorer(run).greedy(inputs(run), 1) if ids})
    assert likely
    changed = dataclasses.replace(run.recipe, decoding=DecodingConfig(never=likely))
    run = Run(run.folder, changed, run.tokenizer, run.model, "")
    theirs = CTranslate2Translator(tmp_path / "out", run, write_folder(run, tmp_path / "out"))
    written = theirs.greedy(inputs(run), 12)
    assert written == OurScorer(run).greedy(inputs(run), 12)
    assert not {token for ids in written for token in ids} & set(likely)


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_a_certificate_compares_as_many_strings_as_it_says(n: int) -> None:
    made = strings(n)
    assert len(made) == n
    assert n < 8 or made[n - n // 2 :] == sentences(n // 2)


ROUNDED = [(4e-5, 1.5e-4, True), (4e-5, 1.7e-4, False), (2e-3, 2e-3, False), (4e-5, math.nan, False)]


@pytest.mark.parametrize(("ours", "theirs", "holds"), ROUNDED)
def test_what_rounding_explains_is_no_difference(ours: float, theirs: float, holds: bool) -> None:
    """By how much our float32 and theirs are away from our float64."""
    exact = [torch.zeros(3, dtype=torch.float64)]
    sides = [[torch.tensor([0.0, apart, 0.0])] for apart in (ours, -theirs)]
    finding = compare_rows("logits", *sides, "a sequence")
    assert not finding.holds
    found = beside_rounding(finding, *sides, exact)
    assert found.holds == holds and found.wanted != finding.wanted
    assert "or 4 times what rounding does" in found.wanted and f"{theirs:.3g}" in found.of
