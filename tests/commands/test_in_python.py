"""Python as people write it: a recipe as a dict, generators, and objects that say what they are."""

import tomllib
from pathlib import Path

import pytest

import regard
from regard.errors import ConfigError, RegardError, RunError
from regard.tasks.request import AT_A_TIME


@pytest.fixture(scope="module")
def trained(lab: Path, tmp_path_factory: pytest.TempPathFactory) -> "regard.runs.run.Run":  # type: ignore[name-defined]
    recipe = tomllib.loads((lab / "tiny.toml").read_text(encoding="utf-8"))
    recipe["data"]["root"] = lab / "data"  # a path is as good as its name
    folder = tmp_path_factory.mktemp("python") / "run"
    run = regard.train(recipe, folder, settings={"training.steps": 3, "task.metric": "loss"}, device="cpu", quiet=True)
    assert recipe["training"]["steps"] == 20, "the caller's dict is left as it was"
    return run


def test_a_recipe_as_a_dict_is_trained(trained, capsys: pytest.CaptureFixture[str]) -> None:
    assert trained.recipe.training.steps == 3
    assert len(trained.history.steps) == 3 and len(trained.history.validations) == 1
    assert capsys.readouterr().out == ""
    assert regard.load(trained.folder).translate("The dog.").text == trained.translate("The dog.").text


def test_a_run_says_what_it_is(trained) -> None:
    assert repr(trained).startswith(f"<Run {trained.folder}: a transformer of ")
    assert "it can translate" in repr(trained) and "\n" not in repr(trained)
    assert repr(trained.history).startswith("<History of 3 steps and 1 validations, last loss ")


def test_the_history_escapes_what_it_shows(trained) -> None:
    history = trained.history
    history.validations[-1]["samples"] = [["<script>", "a", "b"]]
    shown = history._repr_html_()
    assert shown.startswith('<img src="data:image/png;base64,') and "<td" in shown
    assert "&lt;script&gt;" in shown and "<script>" not in shown


def test_a_generator_is_answered_while_it_is_read(trained) -> None:
    taken = []

    def lines():
        for number in range(2 * AT_A_TIME):
            taken.append(number)
            yield f"The dog {number}."

    answers = trained.embed(lines())
    assert taken == []
    first = next(iter(answers))
    assert len(taken) == AT_A_TIME and first.shape == trained.embed("The dog 0.").shape
    assert len([first, *answers]) == 2 * AT_A_TIME == len(taken)


def test_iterators_that_belong_together_are_read_together(trained) -> None:
    sources, targets = ["The dog.", "The cat."], ["Le chien.", "Le chat."]
    assert list(trained.score(iter(sources), targets)) == trained.score(sources, targets)
    with pytest.raises(RegardError, match="expected as many texts in each list, got 2 sources, 1 targets"):
        list(trained.score(iter(sources), iter(targets[:1])))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"recipe": {}}, ConfigError, "a recipe given as a dict has no name: say where its run goes"),
        ({"recipe": 3, "run": "x"}, ConfigError, "a recipe is a name, a file or a dict of its tables, not int"),
        ({"recipe": "demo", "settings": {"steps": 3}}, ConfigError, "named as table.name, .*got 'steps'"),
        ({"recipe": {"training": {"stepz": 3}}, "run": "x"}, ConfigError, "did you mean 'steps'"),
        ({"recipe": {"training": 3}, "run": "x"}, ConfigError, "training is a table"),
        ({"recipe": "demo", "run": "x", "resume": True}, RunError, "there is no run to resume in x"),
    ],
)
def test_mistakes_in_python(
    arguments: dict[str, object], error: type, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        regard.train(**arguments)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_what_a_run_writes_in_bytes_that_are_no_text_can_be_looked_at(trained, monkeypatch: pytest.MonkeyPatch) -> None:
    """As text it may have more tokens than the model has places."""
    monkeypatch.setattr(type(trained.task), "own_target", lambda task, use, source: "\ufffd" * 200)
    capture = trained.look("The dog.")
    assert len(capture.pick("decoder").queries) == trained.model.max_length
    with pytest.raises(RegardError, match="do not fit the model's"):
        trained.look("The dog.", "\ufffd" * 200)
