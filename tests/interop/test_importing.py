"""From a folder of transformers, tokenizer and all, to a run that is used, looked into and trained on, and back."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from typer.testing import CliRunner

from regard.__main__ import app
from regard.decoding.config import DecodingConfig
from regard.errors import RunError
from regard.interop.exporting import export_folder
from regard.interop.importing import import_source, open_source
from regard.runs.recipe import Recipe
from regard.runs.run import load
from regard.tasks.language.use import Continuations
from regard.text.tokenizer import Tokenizer
from regard.training.prepare import prepare
from tests.interop import tiny
from tests.text.test_imported import FAMILIES as TOKENIZERS

SIZES = {"max_position_embeddings": 40}
FOLDERS: dict[str, tuple[str, Callable[[int], Any]]] = {
    "gpt2": ("gpt2", lambda n: tiny.gpt2(vocab_size=n, n_positions=40)),
    "llama": ("llama", lambda n: tiny.llama(vocab_size=n + 11, **SIZES)),
    "qwen2": (
        "qwen2",
        lambda n: tiny.qwen2(vocab_size=n + 3, tie_word_embeddings=True, num_key_value_heads=1, **SIZES),
    ),
    "bert": ("bert-uncased", lambda n: tiny.bert(vocab_size=n, **SIZES)),
    "bert without a head": ("bert-cased", lambda n: tiny.bert("BertModel", vocab_size=n + 2, **SIZES)),
    "roberta": ("roberta", lambda n: tiny.roberta(vocab_size=n, type_vocab_size=1, **SIZES)),
    "distilbert": ("distilbert", lambda n: tiny.distilbert(vocab_size=n, **SIZES)),
    "electra": ("electra", lambda n: tiny.electra(vocab_size=n, **SIZES)),
    "bert that classifies": (
        "bert-uncased",
        lambda n: tiny.bert("BertForSequenceClassification", vocab_size=n, id2label={0: "bad", 1: "good"}, **SIZES),
    ),
    "distilbert that classifies": (
        "distilbert",
        lambda n: tiny.distilbert("DistilBertForSequenceClassification", vocab_size=n, num_labels=3, **SIZES),
    ),
}


def make_folder(name: str, folder: Path) -> Path:
    """Model and tokenizer, as `save_pretrained` leaves them; the table may have more rows than there are tokens."""
    tokenizer, model = FOLDERS[name]
    words = TOKENIZERS[tokenizer]()
    words.save_pretrained(folder)
    torch.manual_seed(0)
    net = model(len(words))
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    net.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = make_folder(name, tmp_path_factory.mktemp("hf"))
        return made[name]

    return get


def brought_in(folder: Path, run: Path) -> Any:
    source = open_source(folder)
    import_source(source, Tokenizer.load(source.path), run)
    return load(run, "cpu")


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("name", FOLDERS)  # two seconds each; test_families.py has all, in a moment
def test_in_and_out_with_certificates(name: str, folders: Callable[[str], Path], tmp_path: Path) -> None:
    """Both commands compare the two sides themselves, and fail where they differ."""
    run, out = tmp_path / "run", tmp_path / "hf"
    result = CliRunner().invoke(app, ["import", str(folders(name)), "--run", str(run), "--strings", "300"])
    assert result.exit_code == 0, result.output
    certificate = json.loads((run / "certificate.json").read_text())
    assert certificate["holds"] and certificate["family"] == name.split()[0]
    assert sum("token sequences" in finding["what"] for finding in certificate["findings"]) == 1
    assert not [note for note in certificate["notes"] if "tokenizer" in note]
    for file in ("recipe.toml", "tokenizer.json", "tokenizer_config.json", "model.safetensors", "README.md"):
        assert (run / file).is_file()

    result = CliRunner().invoke(app, ["export", str(run), str(out), "--to", "hf"])
    assert result.exit_code == 0, result.output
    again = json.loads((out / "certificate.json").read_text())
    assert again["holds"] and again["family"] == certificate["family"]


def test_an_imported_gpt_writes(folders: Callable[[str], Path], tmp_path: Path) -> None:
    run = brought_in(folders("gpt2"), tmp_path / "run")
    written = run.generate(["The dog"], length=5)[0][0]
    assert written.whole.startswith("The dog")
    assert len(run.score_texts(["The dog crossed."])[0]) > 3
    assert run.look("The dog crossed the street.").maps


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen2"])
@pytest.mark.parametrize("starts", [False, True])
def test_a_prompt_is_read_as_transformers_reads_it(
    name: str, starts: bool, folders: Callable[[str], Path], tmp_path: Path
) -> None:
    """With a start token where the tokenizer puts one, and without where it does not."""
    folder = shutil.copytree(folders(name), tmp_path / "hf")
    words = transformers.AutoTokenizer.from_pretrained(folder)
    first = words.bos_token or words.eos_token
    if starts:
        template = tokenizers.processors.TemplateProcessing(
            single=f"{first} $A", special_tokens=[(first, words.convert_tokens_to_ids(first))]
        )
        words.backend_tokenizer.post_processor = template
        words.backend_tokenizer.save(str(folder / "tokenizer.json"))
        words = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        settings.pop("add_bos_token", None)
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    run, model = brought_in(folder, tmp_path / "run"), transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    read = words("The dog", return_tensors="pt")["input_ids"]
    assert bool(read[0, 0] == run.tokenizer.start_id) == starts == run.tokenizer.adds_start
    written = model.generate(
        read, attention_mask=torch.ones_like(read), do_sample=False, max_new_tokens=6, pad_token_id=0
    )
    wanted = [n for n in written[0, read.shape[1] :].tolist() if n != run.tokenizer.end_id]
    (found,) = run.generate(["The dog"], 6, DecodingConfig())[0]
    assert found.whole == run.tokenizer.decode([*run.tokenizer.encode("The dog"), *wanted])
    assert "The dog" + found.text == found.whole
    assert found.whole == "The dog" + "".join(run.stream("The dog", 6, DecodingConfig()))
    assert len(run.generate([""], 3, DecodingConfig())) == 1
    of_lines = Continuations(run.tokenizer, "lines")  # as a tuning on lines teaches it
    assert of_lines.begin("The dog")[0] == [run.tokenizer.start_id]


def test_a_qwen_that_nobody_knows_by_its_certificate_stays_one(folders: Callable[[str], Path], tmp_path: Path) -> None:
    """As after a tuning: what it was imported from is told by its tokenizer."""
    run = brought_in(folders("qwen2"), tmp_path / "run")
    assert not (tmp_path / "run" / "certificate.json").exists()
    assert export_folder(run, tmp_path / "hf").family == "qwen2"


def test_an_imported_bert_fills_and_embeds_as_transformers(folders: Callable[[str], Path], tmp_path: Path) -> None:
    run = brought_in(folders("bert"), tmp_path / "run")
    theirs = transformers.pipeline("fill-mask", model=str(folders("bert")), top_k=1)
    text = "the dog [MASK] the street ."
    (word, probability), best = run.fill([text])[0].words[0][0], theirs(text)[0]
    assert word.strip() == best["token_str"].removeprefix("##")
    assert probability == pytest.approx(best["score"], rel=1e-4)
    model = transformers.AutoModel.from_pretrained(folders("bert")).eval()
    words = transformers.AutoTokenizer.from_pretrained(folders("bert"))
    with torch.no_grad():
        rows = model(**words("the dog crossed", return_tensors="pt")).last_hidden_state[0]
    np.testing.assert_allclose(run.embed(["the dog crossed"])[0], rows.mean(0), atol=1e-5)
    np.testing.assert_allclose(run.embed(["the dog crossed"], pooling="first")[0], rows[0], atol=1e-5)


def test_an_imported_reader_embeds(folders: Callable[[str], Path], tmp_path: Path) -> None:
    run = brought_in(folders("bert without a head"), tmp_path / "run")
    model = transformers.AutoModel.from_pretrained(folders("bert without a head")).eval()
    words = transformers.AutoTokenizer.from_pretrained(folders("bert without a head"))
    texts = ["The dog crossed the street.", "", "Tired?"]
    batch = words(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        rows = model(**batch).last_hidden_state
    seen = batch["attention_mask"][..., None]
    np.testing.assert_allclose(run.embed(texts), (rows * seen).sum(1) / seen.sum(1), atol=1e-5)


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("name", ["bert that classifies", "distilbert that classifies"])
def test_an_imported_classifier_tells_what_transformers_tells(name: str, folders: Any, tmp_path: Path) -> None:
    run = brought_in(folders(name), tmp_path / "run")
    theirs = transformers.pipeline("text-classification", model=str(folders(name)))
    texts = ["the dog crossed the street .", "tired ?", "no"]
    for answer, expected in zip(run.classify(texts), theirs(texts), strict=True):
        assert answer.label == expected["label"]
        assert max(answer.probabilities.values()) == pytest.approx(expected["score"], abs=1e-5)
    (tmp_path / "lines.txt").write_text("\n".join(texts))
    result = CliRunner().invoke(app, ["classify", str(run.folder), str(tmp_path / "lines.txt")])
    assert result.output.split("\n")[:3] == [answer.label for answer in run.classify(texts)]


def test_others_begin_with_imported_weights(folders: Callable[[str], Path], tmp_path: Path) -> None:
    """Also where the table has more rows than there are tokens, and where another token ends a segment."""
    run = brought_in(folders("bert without a head"), tmp_path / "run")
    (tmp_path / "train.tsv").write_text("text\tlabel\nThe dog is tired.\tsad\nThe cat is happy.\tglad\n" * 4)
    data = dataclasses.replace(
        run.recipe.data, root=str(tmp_path), train=("train.tsv",), columns=("text", "label"), max_length=30
    )
    wanted = Recipe.read("sst2-transformer")
    model = dataclasses.replace(run.recipe.model, vocab_size=wanted.model.vocab_size, separator=2)
    recipe = dataclasses.replace(
        wanted, data=data, model=model, task=dataclasses.replace(wanted.task, labels=(), names=())
    )
    prepared = prepare(recipe, tmp_path / "tuned", weights_from=tmp_path / "run")
    assert prepared.recipe.model == run.recipe.model
    assert prepared.recipe.tokenizer.kind == "imported"
    for name, tensor in run.model.reader.state_dict().items():
        assert torch.equal(prepared.model.reader.state_dict()[name], tensor)
    assert Recipe.read(str(tmp_path / "tuned")).model == run.recipe.model


def test_a_tokenizer_of_another_model_is_refused(folders: Callable[[str], Path], tmp_path: Path) -> None:
    source = open_source(make_folder("bert", tmp_path / "hf"))
    with pytest.raises(RunError, match="tokenizer and model do not belong together"):
        import_source(source, Tokenizer.load(folders("gpt2")), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_written_over(folders: Callable[[str], Path], tmp_path: Path) -> None:
    brought_in(folders("gpt2"), tmp_path / "run")
    with pytest.raises(RunError):
        brought_in(folders("gpt2"), tmp_path / "run")


def test_a_reader_alone_cannot_be_trained(folders: Callable[[str], Path], tmp_path: Path) -> None:
    run = brought_in(folders("bert without a head"), tmp_path / "run")
    result = CliRunner().invoke(app, ["evaluate", str(run.folder)])
    assert "a reader without a head has nothing to learn or to measure" in str(result.exception)
