"""Questions that a small stack learns in seconds: which word stands behind the one that is asked for?"""

import json
import random
from pathlib import Path

from tiny_reviews import train_reviews as train

__all__ = ["CONTEXT", "ask", "train", "write_questions"]

PLACES = ("in", "on", "at")
THINGS = ("fig", "bee", "owl", "cup", "sea", "hat")

RECIPE = """
[task]
kind = "answers"
dropout = 0.0
stride = 8
max_question = 4
max_answer = 4
{task}

[data]
root = "{root}"
train = ["train.jsonl"]
valid = ["valid.jsonl"]
test = ["test.json"]
max_length = 20
batch_tokens = 1200

[tokenizer]
kind = "spaces"
vocab_size = 40

[model]
architecture = "stack"
causal = false
d_model = 32
n_heads = 2
n_layers = 2
d_ff = 64
max_length = 32
position = "rotary"
n_segments = 2
dropout = 0.0

[training]
steps = 120
schedule = "linear"
learning_rate = 0.01
warmup = 10
validate_every = 60
save_every = 60
"""
CONTEXT = "in fig on bee at owl"


def ask(draw: random.Random) -> dict[str, object]:
    """The asked place is in the context once, or not at all: then it cannot be answered."""
    asked, *others = draw.sample(PLACES, len(PLACES))
    pairs = [f"{draw.choice(others)} {draw.choice(THINGS)}" for _ in range(draw.randrange(1, 7))]
    answers = []
    if draw.random() < 0.6:
        thing, place = draw.choice(THINGS), draw.randrange(len(pairs))
        pairs[place] = f"{asked} {thing}"
        start = len(" ".join(pairs[: place + 1])) - len(thing)
        answers = [{"text": thing, "answer_start": start}]
    return {"question": asked, "context": " ".join(pairs), "answers": answers}


def write_questions(root: Path, task: str = "") -> Path:
    """Three files and a recipe, whose path is given.  The test is in SQuAD's form, and every question has an answer."""
    draw = random.Random(0)
    for name, n in (("train", 3000), ("valid", 60)):
        (root / f"{name}.jsonl").write_text("".join(json.dumps(ask(draw)) + "\n" for _ in range(n)), encoding="utf-8")
    asked = [record for record in (ask(draw) for _ in range(60)) if record["answers"]]
    paragraphs = [
        {"context": record["context"], "qas": [{name: record[name] for name in ("question", "answers")}]}
        for record in asked
    ]
    (root / "test.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}), encoding="utf-8")
    path = root / "answers.toml"
    path.write_text(RECIPE.format(root=root, task=task), encoding="utf-8")
    return path
