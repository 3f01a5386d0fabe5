"""GPT-2 for two servers, ours and transformers' `serve`: one set of random weights, as a run and as their folder.

transformers' server needs an environment of its own: `make peers` makes `.venv-transformers`.
"""

import random
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import torch

import regard
from bench.clients import last_words, running
from regard.interop.exporting import export_folder
from regard.runs.recipe import Recipe
from regard.runs.weights import save_weights, weights_of
from regard.text.tokenizer import Tokenizer

PEER = "transformers serve"
ENVIRONMENT = Path(__file__).parents[1] / ".venv-transformers"
TINY = (
    *("model.d_model=16", "model.n_heads=2", "model.n_layers=2", "model.d_ff=32"),
    "tokenizer.vocab_size=2000",
    *("model.max_length=64", "task.window=64", "data.max_length=63"),
)
N_WORDS = (8, 32)  # of a prompt, the shortest and the longest
PATIENCE = 120  # seconds until their server is there


def make_gpt2(folder: Path, exported: Path, n_prompts: int, tiny: bool) -> list[str]:
    """GPT-2's smallest with random weights and a tokenizer of made-up words; prompts of these words."""
    recipe = Recipe.read("gpt2", TINY if tiny else ())
    chance = random.Random(0)
    n_words = 1_500 if tiny else 80_000  # enough for all of GPT-2's 50,257 tokens: a random model writes any of them
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 7))) for _ in range(n_words)]
    lines = [" ".join(words[i : i + 200]) for i in range(0, n_words, 200)]
    tokenizer = Tokenizer.train(lines * 2, recipe.tokenizer)
    recipe = recipe.with_vocabulary(tokenizer.vocab_size)
    torch.manual_seed(0)
    folder.mkdir()
    recipe.write(folder / "recipe.toml")
    tokenizer.save(folder / "tokenizer.json")
    save_weights(weights_of(recipe.build_model()), folder / "model.safetensors")
    export_folder(regard.load(folder, "cpu"), exported, "gpt2")
    shortest, longest = N_WORDS
    return [
        " ".join(chance.choices(words, k=chance.randint(shortest, longest) // (4 if tiny else 1)))
        for _ in range(n_prompts)
    ]


@contextmanager
def their_server(folder: Path, device: torch.device) -> Iterator[str]:
    command = ENVIRONMENT / "bin" / "transformers"
    if not command.exists():
        raise FileNotFoundError(f"{ENVIRONMENT.name} is not there: make peers")
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    options = ["--host", "127.0.0.1", "--port", str(port), "--device", device.type, "--dtype", "float32"]
    with running([str(command), "serve", str(folder), *options]) as (child, log):
        url, opener = f"http://127.0.0.1:{port}", build_opener(ProxyHandler({}))
        for _ in range(10 * PATIENCE):
            if child.poll() is not None:
                break
            try:
                opener.open(f"{url}/health", timeout=5).close()
            except (URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)
            else:
                yield url
                return
        raise RuntimeError(f"their server did not start: {last_words(log)}")
