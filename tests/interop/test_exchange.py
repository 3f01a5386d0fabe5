"""What other tools call our tasks: every class that is named exists in transformers, and what nobody has is refused."""

from dataclasses import replace
from pathlib import Path

import pytest
import transformers
from small_runs import save_translator

from regard.errors import ConfigError
from regard.interop.certifying.samples import dev_set
from regard.interop.exporting import export_folder, find_family
from regard.interop.formats.to_ctranslate2 import write_folder
from regard.interop.formats.to_onnx import write_graphs
from regard.tasks.exchange import CAUSAL, IMAGE_LABELS, LABELS, MASKED, PERMUTED, ROWS, SOURCE_TO_TARGET, TAGS, Exchange
from regard.tasks.table import TASKS
from tests.interop.small_runs import save_writer


@pytest.mark.parametrize("exchange", [CAUSAL, IMAGE_LABELS, LABELS, MASKED, PERMUTED, ROWS, SOURCE_TO_TARGET, TAGS])
def test_transformers_has_the_class_that_loads_a_task(exchange: Exchange) -> None:
    assert hasattr(transformers, exchange.loaded_by)


@pytest.mark.parametrize("kind", ["replaced", "restoration", "bidirectional", "answers", "label-to-text"])
def test_a_task_that_no_other_tool_has_is_refused(kind: str, tmp_path: Path) -> None:
    run = save_writer(tmp_path / "run")
    object.__setattr__(run.recipe, "kind", kind)
    for write in (write_graphs, write_folder):
        with pytest.raises(ConfigError, match="other tools have no model for the task of "):
            write(run, tmp_path / "out")
    with pytest.raises(ConfigError, match="other tools have no model for the task of "):
        find_family(run.recipe, None)
    assert not (tmp_path / "out").exists()


def test_a_family_of_another_architecture_is_refused(tmp_path: Path) -> None:
    run = save_writer(tmp_path / "run")
    with pytest.raises(ConfigError, match="xlnet has no place for a model of architecture 'stack'"):
        find_family(run.recipe, "xlnet")


def test_a_window_is_refused(tmp_path: Path) -> None:
    run = save_writer(tmp_path / "run")
    run.recipe = replace(run.recipe, model=replace(run.recipe.model, attention_window=4))
    for write in (write_graphs, write_folder, export_folder):
        with pytest.raises(ConfigError, match="reads long sequences in a way that other tools"):
            write(run, tmp_path / "out")


def test_a_translator_is_compared_on_its_dev_set(tmp_path: Path) -> None:
    """Of the tasks that turn a source into a target, translation alone has references."""
    assert [name for name, task in TASKS.items() if task.exchange and task.exchange.has_references] == ["translation"]
    run = save_translator(tmp_path / "run")
    for name in ("v.en", "v.fr"):
        (tmp_path / name).write_text("one\ntwo\n")
    run.recipe = replace(run.recipe, data=replace(run.recipe.data, root=str(tmp_path), valid=("v.en", "v.fr")))
    dev = dev_set(run)
    assert (dev.sources, dev.references) == (["one", "two"], ["one", "two"])
