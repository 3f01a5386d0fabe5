"""The limits that the other tests here call within."""

from bounded import NO_ANSWER, End, bounded


def test_a_child_that_cannot_answer_ends() -> None:
    """It would otherwise come back from the fork and go on with all the other tests, which fork again."""
    assert bounded(lambda: lambda: None) == End("died", NO_ANSWER)
    assert bounded(lambda: 1) == End("returned", 1)
