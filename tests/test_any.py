"""`Any` stands only where a type cannot be said, and each place has its reason."""

import ast

from tests.trees import nodes, trees

UNTYPED = "objects of a library without types"
WEB = "values of JSON, and answers as FastAPI takes them"
AUTOGRAD = "PyTorch's context of autograd"

ANY = {
    "__main__.py": "click's classes, which typer has as a part of its own",
    "checks.py": "a setting of any type",
    "commands/verbs.py": "arguments and answers of a verb that only the running program knows",
    "config.py": "values of TOML and JSON, which whoever reads them checks",
    "data/batching/batch.py": "the fields of a batch, each of its own type",
    "decoding/interface.py": "a generator with any state",
    "decoding/pool.py": "a generator with any state, and PyTorch's handle of a graph's memory",
    "errors.py": "a module of a library that may be missing",
    "evaluation/translation.py": UNTYPED,
    "games/table.py": "states: each game has its own kind",
    "interop/certifying/image_tools.py": UNTYPED,
    "interop/certifying/in_onnx.py": UNTYPED,
    "interop/certifying/in_pipelines.py": UNTYPED,
    "interop/certifying/in_transformers.py": UNTYPED,
    "interop/families/preprocessing.py": "values of JSON, checked on the next lines",
    "interop/families/settings.py": "a default of the type that its check gives",
    "interop/formats/to_ctranslate2.py": UNTYPED,
    "learning/muon.py": "groups of PyTorch's optimizers",
    "models/interface.py": "a reader or a translator with any state",
    "nn/kernels.py": AUTOGRAD,
    "nn/layout.py": AUTOGRAD,
    "nn/loss.py": AUTOGRAD,
    "nn/paths.py": "PyTorch's flex attention, imported when it is used",
    "nn/reversible.py": AUTOGRAD,
    "nn/scores.py": AUTOGRAD,
    "runs/run.py": "a verb that only the running program knows",
    "data/files/arrow.py": UNTYPED,
    "decoding/engine.py": "the state of a model, whatever its kind",
    "nn/packed.py": "a copy of a kernel's own type",
    "serving/admission.py": "a future, whatever it gives",
    "serving/app.py": WEB,
    "serving/attention.py": WEB,
    "serving/bodies.py": WEB,
    "serving/faults.py": WEB,
    "serving/host.py": "a verb that only the running program knows",
    "serving/libretranslate.py": WEB,
    "serving/openai_forms.py": "settings of OpenAI's that are refused, whatever they are",
    "serving/openai_routes.py": WEB,
    "serving/protocol.py": "uvicorn's transport",
    "serving/refusal.py": "values of JSON",
    "serving/schema.py": "types that are made of a request's fields, and values of JSON",
    "serving/service.py": "a verb that only the running program knows",
    "tasks/exchange.py": "the model that the task builds",
    "tasks/request.py": "a request with any answer, and texts or images",
    "tasks/setup.py": "a verb's request and its answer, which go together",
    "tasks/task.py": "a task with any data, model and batches",
    "tasks/plain.py": "values of JSON",
    "tasks/wire.py": "values of JSON, texts or images",
    "text/sentencepieces.py": "an int or bytes: the number of the field says which",
    "training/call.py": "a setting of any type",
    "training/environment.py": "a module of PyTorch that has no type",
    "training/estimator.py": "scikit-learn, which has no types",
    "training/metrics.py": "TensorBoard's writer, imported only on request",
    "training/recording.py": "PyTorch's handle of a pool of memory",
    "training/recomputing.py": "what a layer takes",
    "training/together.py": "a batch of any task",
}


def uses_any(tree: ast.AST) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "Any" for node in nodes(tree))


def test_every_any_has_its_reason() -> None:
    assert {name for name, tree in trees().items() if uses_any(tree)} == set(ANY)


def test_any_is_seen_in_annotations() -> None:
    assert uses_any(ast.parse("def answer(request: dict[str, Any]) -> None: ..."))
    assert not uses_any(ast.parse("def answer(request: dict[str, object]) -> None: ..."))
