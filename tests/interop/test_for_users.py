"""What a user of another tool gets of an exported run, by that tool's own way from text to text, is what we give."""

import dataclasses
import json
from pathlib import Path

import pytest
import tokenizers
import transformers
from typer.testing import CliRunner

from regard.__main__ import app
from regard.interop.certifying.certificate import Certificate, Finding
from regard.interop.certifying.in_pipelines import certify_export
from regard.interop.certifying.samples import sentences
from regard.interop.exporting import export_folder
from regard.interop.importing import import_source, open_source
from regard.models.stack import StackConfig
from regard.runs.run import Run, load
from regard.tasks.chat.task import ChatConfig
from regard.tasks.classification.task import ClassificationConfig
from regard.tasks.language.task import LanguageConfig
from regard.tasks.language.use import usual_length
from regard.tasks.pretraining.task import MaskedConfig
from regard.tasks.translation.task import PromptedConfig
from regard.text.tokenizer import Tokenizer
from tests.drawn import some_fast
from tests.interop.small_runs import save, save_translator, save_writer

GPT = {"scale_embedding": False, "feed_forward": "gelu_tanh"}
BERT = {"causal": False, "pre_norm": False, "scale_embedding": False, "embedding_norm": True, "n_segments": 2}
PROMPTS = ["the animal", "it was too", "the street <s> was", "</s> l'animal", "tired</s>the <pad><unk> street"]
SPEAKERS = ("<system>", "<user>", "<assistant>")


def writer(folder: Path, unit: str) -> Run:
    return save(folder, "language", "stack", LanguageConfig(window=16, unit=unit), StackConfig, GPT)


def certified(run: Run, folder: Path) -> Certificate:
    """As `regard export --to hf` does it, with fewer strings."""
    exported = export_folder(run, folder)
    certificate = certify_export(run, folder, exported.family, exported.notes, n_strings=100)
    assert certificate.holds, certificate.text()
    return certificate


def exported_by_command(run: Run, folder: Path, to: str) -> Certificate:
    told = CliRunner().invoke(app, ["export", str(run.folder), str(folder), "--to", to])
    assert told.exit_code == 0, told.output
    content = json.loads((folder / "certificate.json").read_text())
    content["findings"] = tuple(Finding(**finding) for finding in content["findings"])
    assert content.pop("holds")
    return Certificate(**content)


def findings(certificate: Certificate) -> dict[str, float]:
    return {finding.what: finding.value for finding in certificate.findings}


@pytest.mark.parametrize("unit", some_fast(["stream", "lines", "text"], every=3))
def test_a_pipeline_writes_what_regard_writes(unit: str, tmp_path: Path) -> None:
    """The model is random, so one token more or less before a prompt gives another text."""
    run = writer(tmp_path / "run", unit)
    export_folder(run, tmp_path / "hf")
    pipeline = transformers.pipeline("text-generation", model=str(tmp_path / "hf"))
    there = [answer[0]["generated_text"] for answer in pipeline(PROMPTS)]
    here = [answers[0].whole for answers in run.generate(PROMPTS)]
    assert there == here
    assert len(set(here)) == len(PROMPTS)


@pytest.mark.parametrize("unit", some_fast(["lines", "stream"], every=2))
def test_a_gpt_that_comes_back_writes_the_same(unit: str, tmp_path: Path) -> None:
    run = writer(tmp_path / "run", unit)
    export_folder(run, tmp_path / "hf")
    import_source(open_source(tmp_path / "hf"), Tokenizer.load(tmp_path / "hf"), tmp_path / "again")
    again = load(tmp_path / "again", "cpu")
    assert [answers[0].whole for answers in again.generate(PROMPTS)] == [
        answers[0].whole for answers in run.generate(PROMPTS)
    ]


def test_a_pipeline_fills_what_regard_fills(tmp_path: Path) -> None:
    run = save(tmp_path / "run", "masked", "stack", MaskedConfig(window=16), StackConfig, BERT, extra=("<mask>",))
    certificate = certified(run, tmp_path / "hf")
    assert findings(certificate)["share of identical words of pipeline('fill-mask')"] == 1
    assert any("since <mask> is" in note for note in certificate.notes)
    fill = transformers.pipeline("fill-mask", model=str(tmp_path / "hf"))
    for text in ("the <mask> was wide", "<mask> animal", "too  <mask>", "it<mask>"):
        (answer,) = run.fill([text])
        there = fill(text)
        assert [share for _, share in answer.words[0]] == pytest.approx([o["score"] for o in there], abs=1e-5)
        assert [word for word, _ in answer.words[0]] == [run.tokenizer.token(o["token"]) for o in there]


@pytest.mark.slow  # a whole training, export and pipeline
def test_special_tokens_that_are_typed_stay_text(tmp_path: Path) -> None:
    """As the tokenizer reads a text by default: nobody tells it to."""
    run = writer(tmp_path / "run", "stream")
    certificate = certified(run, tmp_path / "hf")
    assert certificate.notes == ()
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    names = list(run.tokenizer.special)
    texts = [text.replace(" ", names[i % len(names)], 1 + i % 3) for i, text in enumerate(sentences(200))]
    assert theirs(texts)["input_ids"] == [run.task.encode(text) for text in texts]
    written = [run.tokenizer.end_id, *run.tokenizer.encode("it was"), run.tokenizer.end_id]
    assert theirs.decode(written, skip_special_tokens=True) == "it was"
    assert (theirs.bos_token_id, theirs.eos_token_id) == (run.tokenizer.end_id, run.tokenizer.end_id)


def test_a_classifier_reads_typed_special_tokens_as_text(tmp_path: Path) -> None:
    task = ClassificationConfig(labels=("bad", "good"), framed=True, pooling="first", pooler="tanh")
    run = save(tmp_path / "run", "classification", "stack", task, StackConfig, BERT)
    assert findings(certified(run, tmp_path / "hf"))["share of identical texts as they are read"] == 1
    pipeline = transformers.pipeline("text-classification", model=str(tmp_path / "hf"))
    here = run.classify(PROMPTS)
    for answer, there in zip(here, pipeline(PROMPTS), strict=True):
        assert there["label"] == answer.label
        assert there["score"] == pytest.approx(answer.probabilities[answer.label], abs=1e-5)


@pytest.mark.slow  # a whole training, export and pipeline
def test_a_chat_is_a_chat_there(tmp_path: Path) -> None:
    run = save(tmp_path / "run", "chat", "stack", ChatConfig(), StackConfig, GPT, extra=SPEAKERS)
    certificate = certified(run, tmp_path / "hf")
    assert any("chat template types them" in note for note in certificate.notes)
    pipeline = transformers.pipeline("text-generation", model=str(tmp_path / "hf"))
    talks = [
        [{"role": "user", "content": "it was"}],
        [{"role": "system", "content": "too wide"}, {"role": "user", "content": " the street "}],
        [
            {"role": "user", "content": "the"},
            {"role": "assistant", "content": "animal"},
            {"role": "user", "content": "was tired"},
        ],
    ]
    for talk in talks:
        there = pipeline(talk)[0]["generated_text"][-1]
        assert there["role"] == "assistant"
        assert there["content"].strip() == run.chat(talk, usual_length(run.model.max_length)).text


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("to", ["hf", "ctranslate2", pytest.param("onnx", marks=pytest.mark.slow)])
def test_a_translator_from_text_to_text(to: str, tmp_path: Path) -> None:
    pytest.importorskip({"hf": "transformers", "ctranslate2": "ctranslate2", "onnx": "onnxscript"}[to])
    run = save_translator(tmp_path / "run", n_layers=1)
    certificate = exported_by_command(run, tmp_path / "out", to)
    assert findings(certificate)["share of identical answers, from text to text"] == 1
    assert findings(certificate)["share of identical texts as they are read"] == 1
    assert any("encode_special_tokens" in note for note in certificate.notes) == (to != "hf")


@pytest.mark.parametrize("to", ["ctranslate2", pytest.param("onnx", marks=pytest.mark.slow)])
def test_a_gpt_by_its_tokenizer_json(to: str, tmp_path: Path) -> None:
    """The way that docs/exchange.md shows: tokenizer.json, the model, tokenizer.json."""
    library = pytest.importorskip({"ctranslate2": "ctranslate2", "onnx": "onnxruntime"}[to])
    pytest.importorskip("onnxscript")
    run = save_writer(tmp_path / "run", n_layers=1)
    assert (
        findings(exported_by_command(run, tmp_path / "out", to))["share of identical answers, from text to text"] == 1
    )
    words = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    assert words.encode("it was").ids == run.task.encode("it was")
    assert words.encode("it </s>").ids != run.task.encode("it </s>")  # which the note is about
    words.encode_special_tokens = True
    assert words.encode("it </s>").ids == run.task.encode("it </s>")
    if to == "ctranslate2":
        model = library.Generator(str(tmp_path / "out"))
        (result,) = model.generate_batch(
            [words.encode(PROMPTS[0]).tokens], max_length=9, include_prompt_in_result=False
        )
        assert words.decode(result.sequences_ids[0]) == run.generate(PROMPTS[:1], 9)[0][0].text


@pytest.mark.slow  # a whole training, export and pipeline
def test_the_certificate_notices_what_a_user_would(tmp_path: Path) -> None:
    """Logits and tokens are as before; only what stands before a text is not."""
    run = writer(tmp_path / "run", "stream")
    export_folder(run, tmp_path / "hf")
    file = tmp_path / "hf" / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"post_processor": None}))
    failing = [
        finding.what
        for finding in certify_export(run, tmp_path / "hf", "gpt2", n_strings=50).findings
        if not finding.holds
    ]
    assert failing == [
        "share of identical texts as they are read",
        "share of identical texts of pipeline('text-generation')",
    ]


@pytest.mark.slow  # a whole training, export and pipeline
def test_settings_of_decoding_go_along(tmp_path: Path) -> None:
    run = writer(tmp_path / "run", "stream")
    changed = dataclasses.replace(
        run.recipe.decoding, repetition_penalty=1.3, block_ngrams=2, counted="prompt", never=(7, 8), min_length=3
    )
    object.__setattr__(run.recipe, "decoding", changed)
    assert export_folder(run, tmp_path / "hf").notes == ()
    pipeline = transformers.pipeline("text-generation", model=str(tmp_path / "hf"))
    there = [answer[0]["generated_text"] for answer in pipeline(PROMPTS)]
    assert there == [answers[0].whole for answers in run.generate(PROMPTS)]
    object.__setattr__(run.recipe, "decoding", dataclasses.replace(changed, counted="written", beam=4))
    notes = export_folder(run, tmp_path / "beams").notes
    assert len(notes) == 2 and "also counts the prompt" in notes[1] and notes[0].startswith("beams: ")


def test_settings_that_a_folder_cannot_hold_are_named(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    run = save_translator(tmp_path / "run", n_layers=1)
    recipe = (run.folder / "recipe.toml").read_text()
    (run.folder / "recipe.toml").write_text(recipe.replace("repetition_penalty = 1.0", "repetition_penalty = 1.5"))
    notes = exported_by_command(run, tmp_path / "out", "ctranslate2").notes
    assert "such a folder holds no settings of decoding; this run's are: repetition_penalty = 1.5" in notes


@pytest.mark.slow  # a whole training, export and pipeline
def test_prompts_of_a_task_in_one_sequence(tmp_path: Path) -> None:
    """<s> source <answer>: the tokenizer there puts both around a source."""
    model = GPT | {"max_length": 400, "n_layers": 1}
    run = save(tmp_path / "run", "prompted", "stack", PromptedConfig(), StackConfig, model, extra=("<answer>",))
    assert certified(run, tmp_path / "hf").notes == ()
    pipeline = transformers.pipeline("text-generation", model=str(tmp_path / "hf"))
    (there,) = pipeline("it was", return_full_text=False)
    decoding = dataclasses.replace(
        run.recipe.decoding, length_ratio=0.0, extra_length=usual_length(run.model.max_length)
    )
    assert there["generated_text"] == run.translate(["it was"], decoding)[0].text
