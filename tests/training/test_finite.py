import dataclasses
import json
from pathlib import Path

import pytest
import torch
from tiny_training import CONFIG, DEVICES, TinyModel, TinyTask, run_tiny
from torch import Tensor, nn

from regard.runs.checkpoints import Checkpoints
from regard.training.finite import NonFinite
from regard.training.learner import Learner


def assert_same(one: Tensor, other: Tensor, device: torch.device) -> None:
    """Bit for bit on CPU; on a GPU closer than any update (of at least 0.0025) would leave them."""
    torch.testing.assert_close(one, other, rtol=0, atol=0 if device.type == "cpu" else 1e-4)


class BadModel(TinyModel):
    """Divides by zero in its middle once it has answered n times."""

    def __init__(self, after: int) -> None:
        super().__init__(dropout=0.0)
        self.after = after
        self.fragile = nn.Identity()
        self.fragile.register_forward_pre_hook(lambda module, inputs: (self.spoil(inputs[0]),))

    def spoil(self, x: Tensor) -> Tensor:
        return x / 0.0 if self.training and self.after < 0 else x

    def forward(self, words: Tensor) -> Tensor:
        self.after -= 1
        return self.out(self.fragile(self.hidden(self.embed(words)).tanh()))


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_a_bad_loss_stops_before_the_update_and_names_its_lines(tmp_path: Path, device: torch.device) -> None:
    batches = [TinyTask().batch(0, index).lines for index in range(6)]
    bad_line = int(batches[5][2].removeprefix("tiny.txt:"))
    model = TinyModel()
    with pytest.raises(NonFinite) as caught:
        run_tiny(tmp_path, task=TinyTask(bad_line), model=model, device=device)
    assert caught.value.exit_code == 3
    said = str(caught.value)
    assert "step 6: the loss is nan" in said
    assert "the loss itself" in said
    assert ", ".join(batches[5]) in said
    assert f"{tmp_path}/checkpoints/step-5" in said
    assert f"regard train {tmp_path} --resume --set training.learning_rate=0.005" in said
    assert json.loads((tmp_path / "non_finite.json").read_text())["lines"] == batches[5]

    good = tmp_path / "good"
    run_tiny(good, dataclasses.replace(CONFIG, steps=5), device=device)
    for name, weight in Checkpoints(good, 1, 1, print).load(5).tensors["model"].items():
        assert_same(weight, model.state_dict()[name].cpu(), device)
    checkpoints = Checkpoints(tmp_path, 1, 1, print)
    assert checkpoints.steps()[-1] == 5
    checkpoints.load(5)  # checks its sums


def test_the_first_bad_layer_is_named(tmp_path: Path) -> None:
    with pytest.raises(NonFinite, match=r"First bad: the layer fragile \(Identity\)"):
        run_tiny(tmp_path, model=BadModel(after=3))


def test_a_bad_gradient_of_a_good_loss_is_named(tmp_path: Path) -> None:
    class Steep(TinyTask):
        def loss(self, model: nn.Module, batch: object) -> Tensor:
            return model.hidden.bias.sub(model.hidden.bias.detach()).abs().add(0.0).sqrt().sum() + 1.0

    with pytest.raises(NonFinite, match=r"the loss is \d.*\n.*the gradient of hidden.bias \(the loss is finite\)"):
        run_tiny(tmp_path, task=Steep())


def test_in_accumulation_only_the_bad_batch_is_named(tmp_path: Path) -> None:
    bad = TinyTask().batch(0, 4).lines
    with pytest.raises(NonFinite) as caught:
        run_tiny(
            tmp_path,
            dataclasses.replace(CONFIG, accumulate=3),
            task=TinyTask(bad_line=int(bad[0].removeprefix("tiny.txt:"))),
        )
    assert caught.value.lines == bad
    assert "step 2" in str(caught.value)


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_read_late_as_on_a_gpu_no_update_happens_from_the_bad_step_on(device: torch.device) -> None:
    task = TinyTask(bad_line=int(TinyTask().batch(0, 2).lines[0].removeprefix("tiny.txt:")))
    model, stopped_in_time = TinyModel().to(device), TinyModel().to(device)
    learner = Learner(model, task, CONFIG, device, d_model=8)
    torch.manual_seed(0)
    for step in range(5):  # the third is bad, and nothing is read until all five are done
        learner.update(step + 1, [task.batch(0, step).to(device)], [(0, step)])
    twin = Learner(stopped_in_time, task, CONFIG, device, d_model=8)
    torch.manual_seed(0)
    for step in range(2):
        twin.update(step + 1, [task.batch(0, step).to(device)], [(0, step)])
    with pytest.raises(NonFinite, match="step 3: ") as caught:
        learner.read()
    assert caught.value.lines == task.batch(0, 2).lines
    for one, other in zip(model.parameters(), stopped_in_time.parameters(), strict=True):
        assert_same(one, other, device)
    assert len(twin.read()) == 2
