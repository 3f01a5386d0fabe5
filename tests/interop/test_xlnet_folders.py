"""XLNet in and out: also its second stream, and a run of ours that tells no segments apart."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from typer.testing import CliRunner

from regard.__main__ import app
from regard.interop.families.xlnet import XLNET
from regard.models.xlnet import XLNetConfig
from regard.nn.layout import Ragged
from regard.nn.linear import logits
from regard.runs.weights import weights_of
from regard.tasks.pretraining.orders import PermutationConfig
from tests.interop.small_runs import save
from tests.interop.test_families import imported
from tests.interop.tiny import make, xlnet
from tests.text.test_imported import FAMILIES


def test_the_stream_of_queries_is_the_same(tmp_path: Path) -> None:
    """What is known of each word before its turn, by transformers' masks of who comes before whom."""
    theirs = make("xlnet", tmp_path)
    _, ours, _ = imported(tmp_path)
    tokens = torch.tensor([5, 9, 12, 7, 30, 41])
    ranks = torch.tensor([[3, 1, 5, 2, 0, 4]])
    hidden_from = (ranks[:, None, :] >= ranks[:, :, None]).float()  # query, key
    with torch.no_grad():
        expected = theirs(
            tokens[None],
            perm_mask=hidden_from,
            target_mapping=torch.eye(6)[None],
            token_type_ids=torch.zeros(1, 6, dtype=torch.long),
        ).logits[0]
        hidden = ours(tokens, Ragged([6]), ranks, torch.arange(6), Ragged([6]))
        found = logits(hidden, ours.output_table, ours.output_bias)
    later = ranks[0] > 0  # the first sees nothing, and there transformers looks at all alike
    torch.testing.assert_close(found[later], expected[later], atol=1e-4, rtol=0.0)


def test_a_run_without_segments_goes_out(tmp_path: Path) -> None:
    """Their part of the score for segments is then zero, whatever the segments are."""
    sizes: dict[str, Any] = {"n_segments": 0}
    run = save(tmp_path / "run", "permutation", "xlnet", PermutationConfig(window=16), XLNetConfig, sizes)
    out = tmp_path / "out"
    out.mkdir()
    save_file(XLNET.give(weights_of(run.model), run.recipe), out / "model.safetensors", {"format": "pt"})
    (out / "config.json").write_text(json.dumps(XLNET.write_config(run.recipe)))
    theirs = transformers.XLNetLMHeadModel.from_pretrained(out).eval()
    tokens = torch.tensor([5, 9, 2, 7, 30, 41])
    with torch.no_grad():
        expected = theirs(tokens[None], token_type_ids=torch.tensor([[0, 0, 0, 1, 1, 2]])).logits[0]
        found = logits(run.model.reader(tokens, Ragged([6])), run.model.output_table, run.model.output_bias)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0.0)


def test_in_by_the_command(tmp_path: Path) -> None:
    """With a tokenizer and a certificate, and a card that says what it is for."""
    words = FAMILIES["xlnet"]()
    words.save_pretrained(tmp_path / "hf")
    torch.manual_seed(0)
    xlnet(vocab_size=len(words), pad_token_id=words.pad_token_id).save_pretrained(tmp_path / "hf")
    arguments = ["import", str(tmp_path / "hf"), "--run", str(tmp_path / "run"), "--strings", "100"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "regard embed" in (tmp_path / "run" / "README.md").read_text()
