"""shortlist.safetensors of a run: which words its lines may be translated by, counted once in its training data."""

from pathlib import Path

import numpy as np

from regard.decoding.shortlist import AllowedWords, count_words
from regard.errors import RunError
from regard.runs.recipe import Recipe
from regard.runs.weights import read_tensors, save_weights
from regard.tasks.task import AnyTask
from regard.text.tokenizer import Tokenizer

FILE = "shortlist.safetensors"


def word_lists(folder: Path, recipe: Recipe, task: AnyTask, tokenizer: Tokenizer) -> AllowedWords:
    """From the run's folder; where they are not there yet, they are counted and written."""
    if "translate" not in task.verbs:
        raise RunError(f"{folder} {task.purpose}: shortlists are for runs that translate; set shortlist = 0")
    path, n_tokens = folder / FILE, recipe.model.vocab_size
    if not path.is_file():
        sources, targets = task.read_parts(recipe.task, recipe.data).train.columns
        sides = ((tokenizer, sources), (tokenizer.of_targets, targets))
        columns = (map(np.array, cutting.encode_batch(list(texts))) for cutting, texts in sides)
        ends = [tokenizer.start_id, tokenizer.end_id, *recipe.decoding.ends]
        lists = count_words(zip(*columns, strict=True), n_tokens, ends)
        save_weights({"frequent": lists.frequent, "companions": lists.companions}, path)
        return lists
    tensors = read_tensors(path)
    if tensors.keys() != {"frequent", "companions"} or not all(
        tensor.ndim == n and len(tensor) == n_tokens and -1 <= int(tensor.min()) <= int(tensor.max()) < n_tokens
        for tensor, n in ((tensors["frequent"], 1), (tensors["companions"], 2))
    ):
        raise RunError(f"{path} is corrupted or of another run; remove it, and it is made again")
    return AllowedWords(tensors["frequent"].long(), tensors["companions"].long())
