"""Long texts that are carried are read in columns beside each other."""

import pytest
from small_language import make
from test_language import lstm

from regard.decoding.engine import Engine
from regard.tasks.language.batches import carried_nats
from regard.tasks.setup import Use


def test_a_long_carried_text_is_read_in_more_columns(tmp_path, monkeypatch):
    task = make(tmp_path, unit="text", carry=True)
    model, n = lstm(task.tokenizer.vocab_size), len(task.valid)

    def in_columns(n_columns):
        return pytest.approx(carried_nats(model, task.valid, task.config.window, n_columns) / n, rel=1e-6)

    use = Use(model, Engine(model), task.setup.decoding)
    validated, tested = task.figures(model, task.valid)["loss"], task.test_figures(use, task.valid)["loss"]
    assert validated == in_columns(10) and tested == in_columns(1) and tested != in_columns(10)
    monkeypatch.setattr("regard.tasks.language.task.VALIDATION_COLUMN", n // 12)
    monkeypatch.setattr("regard.tasks.language.task.TEST_COLUMN", n // 2 + 1)
    validated, tested = task.figures(model, task.valid)["loss"], task.test_figures(use, task.valid)["loss"]
    assert validated == in_columns(-(-n // (n // 12))) and validated != in_columns(10)
    assert tested == in_columns(2)
