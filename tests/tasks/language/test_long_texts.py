"""Where states are carried, long texts are read in more columns than short ones."""

from pathlib import Path

import pytest
import torch
from small_language import make

from regard.decoding.engine import Engine
from regard.models.heads import LanguageModel
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.tasks.language.batches import carried_nats
from regard.tasks.setup import Use


def test_a_long_carried_text_is_read_in_more_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = make(tmp_path, unit="text", carry=True)
    torch.manual_seed(0)
    reader = Recurrent(RecurrentConfig(vocab_size=task.tokenizer.vocab_size, d_model=8, d_hidden=8))
    model, n = LanguageModel(reader).eval(), len(task.valid)

    def losses() -> list[float]:
        use = Use(model, Engine(model), task.setup.decoding)
        return [task.figures(model, task.valid)["loss"], task.test_figures(use, task.valid)["loss"]]

    in_columns = {k: carried_nats(model, task.valid, task.config.window, k) / n for k in (1, 2, 10, -(-n // (n // 12)))}
    assert losses() == [in_columns[10], in_columns[1]] and len(set(in_columns.values())) == 4
    monkeypatch.setattr("regard.tasks.language.task.VALIDATION_COLUMN", n // 12)
    monkeypatch.setattr("regard.tasks.language.task.TEST_COLUMN", n // 2 + 1)
    assert losses() == [in_columns[-(-n // (n // 12))], in_columns[2]]
