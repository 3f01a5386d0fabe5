import pytest

from regard import config
from regard.errors import ConfigError
from regard.learning.config import TrainingConfig


def test_a_recipe_table_and_back() -> None:
    settings = {"steps": 10, "betas": [0.9, 0.99], "schedule": "cosine", "learning_rate": 1}
    built = config.build(TrainingConfig, settings, "training")
    assert built.betas == (0.9, 0.99)
    assert config.build(TrainingConfig, config.as_settings(built), "training") == built


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"schedule": "noan"}, "unknown schedule 'noan'; choose one of: constant, cosine, linear, noam"),
        ({"optimizer": "sdg"}, "unknown optimizer 'sdg'; choose one of: adam, adamw, muon, sgd"),
        ({"precision": "half"}, "unknown precision 'half'"),
        ({"compile": "yes"}, "unknown compile 'yes'"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number, got nan"),
        ({"accumulate": 999_999_999_999}, "accumulate must be at most 100,000"),
        ({"clip": -1.0}, "clip must not be negative"),
        ({"betas": [0.9]}, "betas must be two numbers"),
        ({"ema": 1.0}, "ema must be"),
        ({"average": 6}, "average = 6 needs keep to be at least that"),
        ({"average": 2, "ema": 0.9}, "all average weights"),
        ({"ema": 0.9, "average_after": 5}, "all average weights"),
        ({"average_after": 5, "validate_every": 0}, "validate_every must not be 0"),
        ({"average_after": 5, "patience": 5}, "the training ends before weights are averaged: set patience above 5"),
        ({"r_drop": -1.0}, "r_drop must not be negative"),
        ({"patience": 3, "validate_every": 0}, "validate_every must not be 0"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=r"\[training\]") as caught:
        config.build(TrainingConfig, settings, "training")
    assert said in str(caught.value)
