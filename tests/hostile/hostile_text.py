"""Hostile lines, and a command that meets them: it answers or says what is wrong, within limits."""

from pathlib import Path

from bounded import BUG, bounded
from calling import Outcome, call

LINES = {
    "empty": "",
    "white space": " \t\u00a0\u3000",
    "separators": "two\u2028lines\u2029or\u0085one\x0bor\x0cnone",
    "special tokens": "<s> </s> <pad> <unk> <mask> <answer> <user> <assistant> <system>",
    "controls": "\x00\x01\x1b[31m\x7f\x9b",
    "carriage return": "a\rb",
    "byte order mark": "\ufeffx",
    "direction": "\u202eevil\u202d \u200f",
    "combining": "e" + "\u0301" * 500,
    "beyond the plane": "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0010ffff \U000e0041",
    "no characters": "\ufffe\uffff\ufdd0",
    "markup": "</script><!--<script>&lt;{{data}}",
    "format": "%s %n {0} {} \\n \\x00 $(id) `id`",
    "json": '{"text": null, "context": [1, 2], "question": {}}',
    "number": "-1e400",
    "one word": "a" * 20_000,
    "many words": "the cat says meow " * 2_000,
    "brackets": "[" * 5_000,
    "other scripts": "नमस्ते 你好 こんにちは مرحبا ΑΒΓ",
}
NOT_TEXT = {"latin-1": b"caf\xe9", "half": b"\xe2\x82", "surrogate": b"\xed\xa0\x80", "overlong": b"\xc0\xaf"}


def within_limits(place: Path, *calls: tuple[list[str | Path], bytes]) -> list[Outcome]:
    """How each call of the command line ended, of these words and this input; all of them in one process."""
    end = bounded(lambda: [tuple(vars(call(place, *words, stdin=stdin)).values()) for words, stdin in calls])
    assert end.how == "returned", str(end)
    outcomes = [Outcome(*values) for values in end.value]
    for outcome in outcomes:
        assert BUG not in outcome.err, outcome.err + (place / "error.log").read_text()[-1500:]
        assert outcome.code in (0, 1, 2)
        assert outcome.code == 0 or outcome.err.strip(), "an error says something"
    return outcomes


def filled(form: str, **meanings: str | Path | list[str]) -> list[str | Path]:
    """The words of a command, those in capitals replaced by what they mean."""
    given = [meanings.get(word, word) for word in form.split()]
    return [part for word in given for part in (word if isinstance(word, list) else [word])]
