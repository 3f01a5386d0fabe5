"""Markov models on real text, and on much text."""

import lzma
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.models.markov import Markov, MarkovConfig
from regard.nn.layout import Ragged

PENN = Path(__file__).parents[2].parent / "shared" / "data" / "ptb"
MODELS = {
    "first order": {"order": 1},
    "second order": {"order": 2},
    "fourth order": {"order": 4},
    "skips": {"kind": "skips"},
    "masked": {"kind": "masked"},
}


def read(name, ids):
    sentences = lzma.decompress((PENN / f"ptb.{name}.txt.xz").read_bytes()).decode().splitlines()
    rows = [[0, *(ids.setdefault(word, len(ids)) for word in sentence.split()), 1] for sentence in sentences]
    return np.array([t for row in rows for t in row]), np.array([len(row) for row in rows])


@pytest.mark.slow
@pytest.mark.skipif(not PENN.is_dir(), reason="needs the Penn Treebank")
def test_perplexity_on_the_penn_treebank():
    """SRILM's modified Kneser-Ney 5-gram has 141.2 on test (Mikolov et al. 2011, "Empirical Evaluation and Combination
    of Advanced Language Modeling Techniques")."""
    ids = {"<s>": 0, "</s>": 1}
    train, (tokens, lengths) = read("train", ids), read("test", ids)
    is_last = np.zeros(len(tokens), bool)
    is_last[np.cumsum(lengths) - 1] = True
    read_tokens, labels = torch.from_numpy(tokens[~is_last]), torch.from_numpy(tokens[~np.roll(is_last, 1)])
    perplexity = {}
    for name, settings in MODELS.items():
        model = Markov(MarkovConfig(vocab_size=len(ids), **settings))
        model.count([train])
        begin = time.perf_counter()
        log_probs = model.log_probs(read_tokens, labels, Ragged((lengths - 1).tolist()))
        assert time.perf_counter() - begin < 20
        perplexity[name] = math.exp(-log_probs.mean())
    assert perplexity["fourth order"] == pytest.approx(141.2, rel=0.01)
    order = ["fourth order", "second order", "masked", "skips", "first order"]
    assert sorted(perplexity, key=perplexity.__getitem__) == order, perplexity


COUNT = """
import numpy as np
import torch
from regard.models.markov import Markov, MarkovConfig
from regard.training.environment import peak_memory
shares = 1 / np.arange(1, 50_001)
tokens = np.random.default_rng(0).choice(50_000, 10_000_000, p=shares / shares.sum())
model = Markov(MarkovConfig(vocab_size=50_000, {settings}))
report = model.count([(tokens, np.full(400_000, 25))])
print(report)
assert report.seconds < 300 and peak_memory(torch.device("cpu")) < 8 * 2**30
"""


@pytest.mark.slow
@pytest.mark.parametrize("settings", ["order=3", "kind='skips', reach=8", "kind='masked', reach=16"])
def test_ten_million_tokens_take_less_than_five_minutes_and_eight_gib(settings):
    done = subprocess.run([sys.executable, "-c", COUNT.format(settings=settings)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
