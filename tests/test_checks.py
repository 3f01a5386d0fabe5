"""The checks of settings: what passes, what does not, and what the error says."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from regard import checks
from regard.errors import ConfigError

NAN = float("nan")


@dataclass
class Setting:
    value: object


@pytest.mark.parametrize(
    ("check", "right", "wrong", "rule"),
    [
        (lambda config, name: checks.at_least(config, 2, name), (2, 2.5), (1, NAN), "be at least 2"),
        (lambda config, name: checks.above(config, 1, name), (1.1,), (1, NAN), "be above 1"),
        (checks.positive, (1e-9,), (0, -1, NAN), "be above 0"),
        (checks.not_negative, (0, 3), (-1, NAN), "not be negative"),
        (checks.share, (0, 0.99), (-0.1, 1, NAN), "be at least 0 and below 1"),
        (checks.proper_share, (0.5,), (0, 1, NAN), "be above 0 and below 1"),
        (checks.positive_share, (0.5, 1), (0, 1.1, NAN), "be above 0 and at most 1"),
        (lambda config, name: checks.one_of(config, ("a", "b"), name), ("a",), ("c",), "be one of a, b"),
        (lambda config, name: checks.one_of(config, ("a",), name), ("a",), ("b",), "be a"),
        (checks.distinct, ((), ("a", "b")), (("a", "a"),), "not list anything twice"),
        (
            checks.sorted_classes,
            ((), ("a", "b")),
            (("a",), ("b", "a"), ("a", "a")),
            "be at least two, sorted, each once",
        ),
    ],
)
def test_a_rule_and_its_message(
    check: Callable[[object, str], None], right: tuple[object, ...], wrong: tuple[object, ...], rule: str
) -> None:
    for value in right:
        check(Setting(value), "value")
    for value in wrong:
        with pytest.raises(ConfigError) as raised:
            check(Setting(value), "value")
        shown = list(value) if isinstance(value, tuple) else value
        assert str(raised.value) == f"value must {rule}, got {shown!r}"
