import dataclasses

import pytest
import torch
from tiny_training import CONFIG, N_EXAMPLES, TinyModel, TinyTask

from regard.learning.optimizers import OPTIMIZERS, make_optimizer, optimizer_tensors, restore_optimizer
from regard.training.learner import Learner

CPU = torch.device("cpu")


def make_learner(model: TinyModel, **settings: object) -> Learner:
    return Learner(model, TinyTask(), dataclasses.replace(CONFIG, **settings), CPU, d_model=8)


def test_four_ragged_batches_give_the_gradient_of_the_whole() -> None:
    task = TinyTask()
    parts = [list(range(0, 3)), [3], list(range(4, 15)), list(range(15, N_EXAMPLES))]
    counts = [task.gather(part).n_targets for part in parts]
    assert len(set(counts)) == 4, "the parts must differ in size, or a mean of means would pass too"
    whole, in_parts = TinyModel(dropout=0.0).double(), TinyModel(dropout=0.0).double()
    one, other = make_learner(whole), make_learner(in_parts)
    loss = one.divider([task.gather(list(range(N_EXAMPLES)))], one.learn, one.clear_gradients)
    loss_in_parts = other.divider([task.gather(part) for part in parts], other.learn, other.clear_gradients)
    torch.testing.assert_close(loss_in_parts, loss)
    for weight, same in zip(whole.parameters(), in_parts.parameters(), strict=True):
        torch.testing.assert_close(same.grad, weight.grad, rtol=1e-12, atol=1e-14)


def test_an_update_is_the_optimizer_on_the_mean_loss_with_clipping() -> None:
    task, ours, theirs = TinyTask(), TinyModel(dropout=0.0), TinyModel(dropout=0.0)
    learner = make_learner(ours, clip=0.1, weight_decay=0.0)
    optimizer = torch.optim.Adam(theirs.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, 6):
        batch = task.batch(0, step)
        learner.update(step, [batch], [(0, step)])
        optimizer.zero_grad()
        (task.loss(theirs, batch) / batch.n_targets).backward()
        norm = torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.1)
        optimizer.param_groups[0]["lr"] = 0.01 * min(1, step / 4)
        optimizer.step()
        (row,) = learner.read()
        assert (row.step, row.lr, row.n_tokens) == (step, 0.01 * min(1, step / 4), batch.n_tokens)
        assert row.grad_norm == pytest.approx(float(norm), rel=1e-5)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_vectors_do_not_decay() -> None:
    model = TinyModel()
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    optimizer = make_optimizer("adamw", model, (0.9, 0.98), 1e-9, weight_decay=0.5)
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    for name, weight in model.named_parameters():
        expected = before[name] * (0.95 if weight.ndim >= 2 else 1.0)
        torch.testing.assert_close(weight.detach(), expected, msg=name)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_state_of_every_optimizer_comes_back_bit_for_bit(name: str) -> None:
    model = TinyModel(dropout=0.0)
    learner = make_learner(model, optimizer=name)
    for step in range(1, 4):
        learner.update(step, [TinyTask().batch(0, step)], [(0, step)])
    other = make_optimizer(name, model, (0.9, 0.98), 1e-9, 0.0)
    saved = {key: tensor.clone() for key, tensor in optimizer_tensors(learner.optimizer, model).items()}
    restore_optimizer(other, model, saved)
    restored = optimizer_tensors(other, model)
    assert saved.keys() == restored.keys()
    assert bool(saved) == (name != "sgd")  # which remembers nothing
    for key, tensor in saved.items():
        assert torch.equal(tensor, restored[key]), key


def test_bfloat16_is_for_products_and_not_for_weights() -> None:
    model = TinyModel(dropout=0.0)
    seen = []
    model.hidden.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    learner = make_learner(model, precision="bfloat16")
    learner.update(1, [TinyTask().batch(0, 0)], [(0, 0)])
    assert seen == [torch.bfloat16]
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert learner.read()[0].loss > 0


def test_the_running_average_follows_its_formula_and_swaps_in_and_out() -> None:
    model = TinyModel()
    learner = make_learner(model, ema=0.5)
    expected = model.hidden.weight.detach().clone()
    for step in range(1, 8):
        learner.update(step, [TinyTask().batch(0, step % 6)], [(0, step % 6)])
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * model.hidden.weight.detach()
    latest = model.hidden.weight.detach().clone()
    with learner.smoothed():
        torch.testing.assert_close(model.hidden.weight.detach(), expected)
        assert model.out.weight is model.embed.weight
    assert torch.equal(model.hidden.weight, latest)
    assert not torch.equal(latest, expected)


def test_the_mean_of_all_weights_since_a_step() -> None:
    """Before that step, the average is the weights themselves."""
    model = TinyModel()
    learner = make_learner(model, optimizer="sgd", average_after=2)
    weights = []
    for step in range(1, 8):
        learner.averaged_since = 3 if step > 3 else None
        learner.update(step, [TinyTask().batch(0, step % 6)], [(0, step % 6)])
        weights.append(model.hidden.weight.detach().clone())
        with learner.smoothed():
            expected = torch.stack(weights[2:]).mean(0) if step > 3 else weights[-1]
            torch.testing.assert_close(model.hidden.weight.detach(), expected)


def test_sgd_is_a_step_against_the_gradient() -> None:
    task, ours, theirs = TinyTask(), TinyModel(dropout=0.0), TinyModel(dropout=0.0)
    learner = make_learner(ours, optimizer="sgd", clip=0.0, learning_rate=2.0, warmup=0)
    batch = task.batch(0, 0)
    learner.update(1, [batch], [(0, 0)])
    (task.loss(theirs, batch) / batch.n_targets).backward()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one.detach(), other.detach() - 2.0 * other.grad)


def test_validation_neither_learns_nor_draws_from_the_trainings_chance() -> None:
    model = TinyModel()
    learner = make_learner(model)
    before = torch.get_rng_state()
    with learner.resting():
        assert learner.task.validate(model)["mode"] == 0.0
        assert not torch.is_grad_enabled()
    assert model.training
    assert torch.equal(torch.get_rng_state(), before)
