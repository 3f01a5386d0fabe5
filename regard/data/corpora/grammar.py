"""The demo corpus: English-French pairs in which "it" can be translated only by whoever knows what it refers to.

The animal didn't cross the street because it was too tired.   ... parce qu'il était trop fatigué.
The animal didn't cross the street because it was too wide.    ... parce qu'elle était trop large.

The words are in lexicon.toml in their base forms; number and gender are made by rules, which begin with the few
exceptions.
"""

import argparse
import random
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from regard.choose import choose
from regard.errors import ConfigError

N_VALID, N_HELD_OUT = 200, 1000
FEWEST, MOST = 2000, 50_000  # fewer do not show every word, more do not fit comfortably beside what is held out


class Noun(NamedTuple):
    french: str
    gender: str  # "m" or "f"


class FrenchVerb(NamedTuple):
    past: str
    participle: str  # of the French passé composé with avoir, so it agrees with nothing


class Scene(NamedTuple):
    """What can be done to what, and the adjectives that fit only what it is done to."""

    verbs: dict[str, FrenchVerb]
    objects: dict[str, Noun]
    adjectives: dict[str, str]


def nouns(by_gender: dict[str, dict[str, str]]) -> dict[str, Noun]:
    return {english: Noun(french, gender) for gender, words in by_gender.items() for english, french in words.items()}


TABLES = tomllib.loads((Path(__file__).parent / "lexicon.toml").read_text(encoding="utf-8"))
SUBJECTS = nouns(TABLES["subjects"])
FITS_SUBJECT: dict[str, str] = TABLES["fits_subject"]
SCENES = [
    Scene(
        {verb: FrenchVerb(*forms) for verb, forms in words["verbs"].items()},
        nouns(words["objects"]),
        words["adjectives"],
    )
    for words in TABLES["scenes"]
]
SCENE_OF = {verb: scene for scene in SCENES for verb in scene.verbs}
VOWELS = "aâeéèêiîoôœuûy"


@cache
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


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """What is said, named by the English words: swap a word with `dataclasses.replace`."""

    subject: str
    verb: str
    object: str
    adjective: str
    negative: bool = False  # "didn't ... because it was too ...", otherwise "... even though it was very ..."
    question: bool = False
    plural_subject: bool = False
    plural_object: bool = False

    def __post_init__(self) -> None:
        choose(SUBJECTS, self.subject, "subject")
        scene = choose(SCENE_OF, self.verb, "verb")
        choose(scene.objects, self.object, f"object of {self.verb!r}")
        choose(FITS_SUBJECT | scene.adjectives, self.adjective, f"adjective with {self.verb!r}")

    @property
    def combination(self) -> tuple[str, str, str, str]:
        return self.subject, self.verb, self.object, self.adjective

    @property
    def nouns(self) -> tuple[Noun, Noun]:
        return SUBJECTS[self.subject], SCENE_OF[self.verb].objects[self.object]

    @property
    def about_subject(self) -> bool:
        """Whether "it" is the subject: the adjective fits nothing else."""
        return self.adjective in FITS_SUBJECT

    @property
    def gender_tells(self) -> bool:
        """Whether subject and object differ in gender, so that the French pronoun shows what "it" is."""
        return self.nouns[0].gender != self.nouns[1].gender

    @property
    def pronoun_is_plural(self) -> bool:
        return self.plural_subject if self.about_subject else self.plural_object

    @property
    def english_nouns(self) -> tuple[str, str]:
        nouns = ((self.subject, self.plural_subject), (self.object, self.plural_object))
        subject, thing = (inflect(noun, "english_plural") if plural else noun for noun, plural in nouns)
        return subject, thing

    def english(self) -> str:
        subject, thing = self.english_nouns
        it_was = "they were" if self.pronoun_is_plural else "it was"
        reason = f"because {it_was} too" if self.negative else f"even though {it_was} very"
        if self.question:
            did = "Didn't" if self.negative else "Did"
            return f"{did} the {subject} {self.verb} the {thing} {reason} {self.adjective}?"
        past = SCENE_OF[self.verb].verbs[self.verb].past
        did = f"didn't {self.verb}" if self.negative else past
        return f"The {subject} {did} the {thing} {reason} {self.adjective}."

    def gender(self) -> str:
        """Of the noun that "it" refers to, in French."""
        subject, thing = self.nouns
        return subject.gender if self.about_subject else thing.gender

    def french_pronoun(self) -> str:
        return ("elle" if self.gender() == "f" else "il") + ("s" if self.pronoun_is_plural else "")

    def french(self) -> str:
        scene = SCENE_OF[self.verb]
        subject, thing = self.nouns
        has = "ont" if self.plural_subject else "a"
        done = scene.verbs[self.verb].participle
        did = f"n'{has} pas {done}" if self.negative else f"{has} {done}"
        it = self.french_pronoun()
        if_it = f"si {it}" if self.gender() == "f" else f"s'{it}"  # si elides before il and ils only
        was = "étaient" if self.pronoun_is_plural else "était"
        masculine = (FITS_SUBJECT | scene.adjectives)[self.adjective]
        adjective = agree(masculine, self.gender(), self.pronoun_is_plural)
        reason = f"parce qu'{it} {was} trop" if self.negative else f"même {if_it} {was} très"

        clause = f"{with_article(subject, self.plural_subject)} {did} {with_article(thing, self.plural_object)}"
        if self.question:
            return f"Est-ce que {clause} {reason} {adjective} ?"
        return f"{clause[0].upper()}{clause[1:]} {reason} {adjective}."


@dataclass(frozen=True)
class Pair:
    """A sentence in both languages, and the places of the words that matter, counted in words between spaces."""

    sentence: Sentence
    source: str
    target: str
    it: int  # in the source: "it" or "they" ...
    right: int  # ... the noun that it refers to ...
    wrong: int  # ... and the other one
    pronoun: int  # in the target: the word that holds il, elle, ils or elles


def make_pair(sentence: Sentence) -> Pair:
    source, target = sentence.english(), sentence.french()
    words = source.split()
    subject, thing = (words.index(noun) for noun in sentence.english_nouns)
    right, wrong = (subject, thing) if sentence.about_subject else (thing, subject)
    it = words.index("they" if sentence.pronoun_is_plural else "it")
    last_parts = [word.rpartition("'")[2] for word in target.split()]  # il, of qu'il
    return Pair(sentence, source, target, it, right, wrong, last_parts.index(sentence.french_pronoun()))


TIRED = Sentence(subject="animal", verb="cross", object="street", adjective="tired", negative=True)
WIDE = replace(TIRED, adjective="wide")


@dataclass(frozen=True)
class PairCorpus:
    """No (subject, verb, object, adjective) is in two of the three parts, in whatever form; every word is in `train`.

    `held_out` begins with the pair TIRED, WIDE; with any other subject these two are not in `train` either.
    """

    train: list[Pair]
    valid: list[Pair]
    held_out: list[Pair]

    def write(self, folder: Path | str) -> None:
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.files():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")

    def files(self) -> Iterator[tuple[str, str]]:
        """Names and contents of parallel files: train.en, train.fr, valid.en, valid.fr, held-out.en, held-out.fr."""
        for name, pairs in (("train", self.train), ("valid", self.valid), ("held-out", self.held_out)):
            yield f"{name}.en", "".join(pair.source + "\n" for pair in pairs)
            yield f"{name}.fr", "".join(pair.target + "\n" for pair in pairs)


@cache
def combinations() -> tuple[Sentence, ...]:
    """Every meaningful (subject, verb, object, adjective), as its plainest sentence."""
    return tuple(
        Sentence(subject=subject, verb=verb, object=thing, adjective=adjective)
        for subject in SUBJECTS
        for verb, scene in SCENE_OF.items()
        for thing in scene.objects
        for adjective in FITS_SUBJECT | scene.adjectives
    )


def generate(n: int = 12_000, seed: int = 0) -> PairCorpus:
    """n distinct training pairs, and pairs of held-out combinations; in half of each, "it" is the subject."""
    if not FEWEST <= n <= MOST:
        raise ConfigError(f"the grammar makes {FEWEST:,} to {MOST:,} training pairs, got {n:,}")
    draw = random.Random(seed)

    def in_some_form(sentence: Sentence) -> Sentence:
        return replace(
            sentence,
            negative=draw.random() < 0.5,
            question=draw.random() < 0.25,
            plural_subject=draw.random() < 0.25,
            plural_object=draw.random() < 0.25,
        )

    reserved = {(TIRED.verb, TIRED.object, adjective) for adjective in (TIRED.adjective, WIDE.adjective)}
    free = [sentence for sentence in combinations() if sentence.combination[1:] not in reserved]
    draw.shuffle(free)
    about_subject = [sentence for sentence in free if sentence.about_subject]
    about_object = [sentence for sentence in free if not sentence.about_subject]

    def take(n_pairs: int) -> list[Sentence]:
        """Combinations that no one else gets, in turn about the subject and about the object."""
        return [in_some_form((about_subject, about_object)[i % 2].pop()) for i in range(n_pairs)]

    held_out = [TIRED, WIDE, *take(N_HELD_OUT - 2)]
    valid = take(N_VALID)
    train: dict[Sentence, None] = {}  # ordered, each sentence once
    while len(train) < n:
        train[in_some_form(draw.choice((about_subject, about_object)[len(train) % 2]))] = None
    seen = {word for sentence in train for word in words(sentence)}

    def pairs(sentences: Iterable[Sentence]) -> list[Pair]:
        return [make_pair(sentence) for sentence in sentences if words(sentence) <= seen]

    return PairCorpus(pairs(train), pairs(valid), pairs(held_out))


def words(sentence: Sentence) -> set[str]:
    return set(sentence.english().split() + sentence.french().split())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m regard.data.corpora.grammar", description=__doc__.split("\n")[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    given = parser.parse_args()
    made = generate()
    made.write(given.folder)
    n_others = len(made.valid) + len(made.held_out)
    print(f"wrote {given.folder}: {len(made.train):,} pairs to learn from, {n_others:,} others")
