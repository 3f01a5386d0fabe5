"""The words of the demo corpus, English → French (lexicon.toml), and how they are inflected.

The tables hold base forms; number and gender are made by rules, which begin with the few exceptions.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple


class Noun(NamedTuple):
    french: str
    gender: str  # "m" or "f"


class Verb(NamedTuple):
    past: str
    participle: str  # of the French passé composé with avoir, so it agrees with nothing


class Scene(NamedTuple):
    """What can be done to what, and the adjectives that fit only what it is done to."""

    verbs: dict[str, Verb]
    objects: dict[str, Noun]
    adjectives: dict[str, str]


def nouns(by_gender: dict[str, dict[str, str]]) -> dict[str, Noun]:
    return {english: Noun(french, gender) for gender, words in by_gender.items() for english, french in words.items()}


def scene(words: dict[str, dict[str, Any]]) -> Scene:
    verbs = {verb: Verb(*forms) for verb, forms in words["verbs"].items()}
    return Scene(verbs, nouns(words["objects"]), words["adjectives"])


TABLES = tomllib.loads((Path(__file__).parent / "lexicon.toml").read_text(encoding="utf-8"))
SUBJECTS = nouns(TABLES["subjects"])
FITS_SUBJECT: dict[str, str] = TABLES["fits_subject"]
SCENES = [scene(words) for words in TABLES["scenes"]]
SCENE_OF = {verb: place for place in SCENES for verb in place.verbs}
VOWELS = "aâeéèêiîoôœuûy"


def inflect(word: str, form: str) -> str:
    """By the first rule for this form whose pattern is in the word."""
    rules: dict[str, str] = TABLES[form]
    pattern = next(pattern for pattern in rules if re.search(pattern, word))
    return re.sub(pattern, rules[pattern], word, count=1)


def agree(adjective: str, gender: str, plural: bool) -> str:
    """fatigué, fatiguée, fatigués, fatiguées"""
    form = inflect(adjective, "feminine") if gender == "f" else adjective
    return inflect(form, "french_plural") if plural else form


def with_article(noun: Noun, plural: bool) -> str:
    """le chien, la rue, l'animal, les rues"""
    if plural:
        return f"les {inflect(noun.french, 'french_plural')}"
    if noun.french[0] in VOWELS:
        return f"l'{noun.french}"
    return f"{'la' if noun.gender == 'f' else 'le'} {noun.french}"
