"""A tiny corpus, two runs trained on it for a few steps, and the command line."""

import shutil
from pathlib import Path

import pytest
from calling import Call, call

from regard.data.corpora.grammar import generate

RECIPE = """
[data]
root = "{root}"
train = ["train.en", "train.fr"]
valid = ["valid.en", "valid.fr"]
test = ["held-out.en", "held-out.fr"]
max_length = 48
batch_tokens = 600

[tokenizer]
vocab_size = 400

[model]
d_model = 32
n_heads = 2
n_layers = 2
d_ff = 64
max_length = 128

[training]
steps = 20
warmup = 20
validate_every = 10
save_every = 10

[task]
validation_lines = 4

[decoding]
length_ratio = 0.0
extra_length = 12
"""


@pytest.fixture
def regard(tmp_path: Path) -> Call:
    """Call the command line in an empty folder."""
    return lambda *arguments, stdin=b"": call(tmp_path, *arguments, stdin=stdin)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data/, tiny.toml and two trained runs, one/ and other/, that differ in their seed alone."""
    place = tmp_path_factory.mktemp("lab")
    generate(2000).write(place / "data")
    for name, n_lines in (("train", 600), ("held-out", 12), ("valid", 12)):  # enough to see what the commands do
        for language in ("en", "fr"):
            path = place / "data" / f"{name}.{language}"
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            path.write_text("".join(lines[:n_lines]), encoding="utf-8")
    (place / "tiny.toml").write_text(RECIPE.format(root=place / "data"), encoding="utf-8")
    for run, seed in (("one", 0), ("other", 1)):
        trained = call(place, "train", "tiny.toml", "--run", run, "--set", f"training.seed={seed}", "--device", "cpu")
        assert trained.code == 0, trained.err
    return place


@pytest.fixture
def run(lab: Path, tmp_path: Path) -> Path:
    """A finished run beside its data, to be spoilt."""
    shutil.copytree(lab / "data", tmp_path / "data")
    return Path(shutil.copytree(lab / "one", tmp_path / "one"))
