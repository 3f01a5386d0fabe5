"""Requests of every kind, each with what the run says to it alone."""

import base64
import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from tiny_data import picture

from regard.runs.run import Run
from regard.serving.limits import Limits
from regard.serving.schema import Asking, form_of
from regard.tasks.verbs import VERBS

WORDS = ["the", "cat", "says", "meow", "in", "the", "house", "and", "the", "dog", "says", "woof", "again"]


def text(i: int) -> str:
    """Of 1 to 12 words, no two of the first 144 alike."""
    return " ".join(WORDS[(i // 12 + k) % 12] for k in range(1 + i % 12))


def image(i: int) -> str:
    file = io.BytesIO()
    picture(i).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def history(i: int) -> dict[str, list[Any]]:
    days = range(1, 9)
    return {"date": [f"2024-02-{day:02}" for day in days], "load": [(i + d) % 5 for d in days], "wind": [i] * 8}


# For each verb: the task whose run is asked, and the i-th request.
REQUESTS: dict[str, tuple[str, Callable[[int], dict[str, Any]]]] = {
    "translate": ("translation", lambda i: {"lines": [text(i)], "decoding": {"beam": 1 + i % 4}}),
    "score": ("translation", lambda i: {"sources": [text(i)], "targets": [text(i + 1)]}),
    "classify": ("classification", lambda i: {"lines": [text(i), text(i + 5)]}),
    "embed": ("language", lambda i: {"lines": [text(i)]}),
    "search": ("language", lambda i: {"queries": [text(i)], "corpus": [text(i + 1), text(i + 2)], "n": 1 + i % 3}),
    "generate": ("language", lambda i: {"prompts": [text(i)], "length": 1 + i % 12}),
    "score_texts": ("language", lambda i: {"texts": [text(i)]}),
    "chat": ("chat", lambda i: {"messages": [{"role": "user", "content": text(i)}], "length": 1 + i % 9}),
    "fill": ("masked", lambda i: {"texts": [f"{text(i)} [MASK]"], "top": 1 + i % 5}),
    "answer": ("answers", lambda i: {"questions": [WORDS[i % 12]], "contexts": [text(i + 7)]}),
    "caption": ("captions", lambda i: {"images": [image(i % 12)]}),
    "forecast": ("forecasting", lambda i: {"history": [history(i)]}),
    "play": ("decisions", lambda i: {"seed": i}),
}


class Request(NamedTuple):
    path: str
    body: dict[str, Any]
    expected: dict[str, Any]


def request(verb: str, i: int, runs: dict[str, Run]) -> Request:
    """With the answer of the run alone, through the same form and record."""
    task, body_of = REQUESTS[verb]
    run, body = runs[task], body_of(i)
    form = form_of(VERBS[verb], {task: run})
    asked, shown = Asking(run, Limits()).request(VERBS[verb], form.model_validate(body))
    answers = run.task.verbs[verb](run.use(), asked)
    expected = {"model": task, "verb": verb, "answers": asked.records(shown, answers)}
    return Request(f"/v1/{verb}", {"model": task, **body}, expected)


def mixed(runs: dict[str, Run], n_each: int) -> list[Request]:
    """All verbs of these runs in turn; expected answers as JSON has them."""
    verbs = [verb for verb, (task, _) in REQUESTS.items() if task in runs]
    asked = [request(verb, i, runs) for i in range(n_each) for verb in verbs]
    return [each._replace(expected=json.loads(json.dumps(each.expected))) for each in asked]
