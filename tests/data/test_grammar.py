from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.corpora.grammar import (
    FITS_SUBJECT,
    SCENES,
    SUBJECTS,
    TIRED,
    WIDE,
    PairCorpus,
    Sentence,
    agree,
    combinations,
    generate,
    inflect,
    make_pair,
    with_article,
)
from regard.data.files.reading import read_examples
from regard.errors import ConfigError

COMBINATIONS = combinations()
SENTENCES = st.builds(
    lambda sentence, form: replace(sentence, **form),
    st.sampled_from(COMBINATIONS),
    st.fixed_dictionaries(
        {name: st.booleans() for name in ("negative", "question", "plural_subject", "plural_object")}
    ),
)


@pytest.fixture(scope="module")
def corpus() -> PairCorpus:
    return generate(12_000, seed=0)


TRANSLATIONS = [
    (TIRED, "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."),
    (WIDE, "L'animal n'a pas traversé la rue parce qu'elle était trop large."),
    (
        replace(TIRED, subject="turtle"),
        "La tortue n'a pas traversé la rue parce qu'elle était trop fatiguée.",
    ),
    (replace(WIDE, subject="turtle"), "La tortue n'a pas traversé la rue parce qu'elle était trop large."),
    (
        replace(TIRED, plural_subject=True),
        "Les animaux n'ont pas traversé la rue parce qu'ils étaient trop fatigués.",
    ),
    (
        replace(WIDE, plural_object=True),
        "L'animal n'a pas traversé les rues parce qu'elles étaient trop larges.",
    ),
    (
        replace(WIDE, negative=False, question=True, plural_object=True, plural_subject=True),
        "Est-ce que les animaux ont traversé les rues même si elles étaient très larges ?",
    ),
    (
        Sentence(subject="horse", verb="eat", object="onion", adjective="bitter", plural_object=True),
        "Le cheval a mangé les oignons même s'ils étaient très amers.",
    ),
    (
        Sentence(subject="bee", verb="open", object="window", adjective="worried", negative=True, question=True),
        "Est-ce que l'abeille n'a pas ouvert la fenêtre parce qu'elle était trop inquiète ?",
    ),
    (
        Sentence(subject="mouse", verb="follow", object="avenue", adjective="winding", plural_subject=True),
        "Les souris ont suivi l'avenue même si elle était très sinueuse.",
    ),
]


@pytest.mark.parametrize(("sentence", "french"), TRANSLATIONS)
def test_french(sentence: Sentence, french: str) -> None:
    assert sentence.french() == french


def test_english() -> None:
    assert TIRED.english() == "The animal didn't cross the street because it was too tired."
    assert WIDE.english() == "The animal didn't cross the street because it was too wide."
    many = replace(TIRED, subject="mouse", negative=False, plural_subject=True, plural_object=True)
    assert many.english() == "The mice crossed the streets even though they were very tired."
    assert replace(many, question=True).english() == "Did the mice cross the streets even though they were very tired?"
    assert replace(TIRED, question=True).english() == "Didn't the animal cross the street because it was too tired?"


def test_plurals() -> None:
    english = ["animal", "box", "cherry", "donkey", "alley", "mouse", "wolf", "path", "volcano", "roof"]
    assert [inflect(noun, "english_plural") for noun in english] == (
        ["animals", "boxes", "cherries", "donkeys", "alleys", "mice", "wolves", "paths", "volcanoes", "roofs"]
    )
    french = ["animal", "cheval", "ours", "souris", "gâteau", "tonneau", "portail"]
    assert [inflect(noun, "french_plural") for noun in french] == (
        ["animaux", "chevaux", "ours", "souris", "gâteaux", "tonneaux", "portails"]
    )


@pytest.mark.parametrize(
    "forms",
    [
        "fatigué fatiguée fatigués fatiguées",
        "large large larges larges",
        "nerveux nerveuse nerveux nerveuses",
        "long longue longs longues",
        "amer amère amers amères",
        "inquiet inquiète inquiets inquiètes",
        "plein pleine pleins pleines",
        "haut haute hauts hautes",
        "moisi moisie moisis moisies",
        "grinçant grinçante grinçants grinçantes",
    ],
)
def test_agreement(forms: str) -> None:
    base = forms.split()[0]
    assert [agree(base, gender, plural) for plural in (False, True) for gender in "mf"] == forms.split()


def test_every_noun_has_an_article_that_shows_or_hides_its_gender() -> None:
    nouns = [*SUBJECTS.values(), *(noun for scene in SCENES for noun in scene.objects.values())]
    elided = {with_article(noun, plural=False) for noun in nouns if "'" in with_article(noun, plural=False)}
    assert elided == set(["l'animal", "l'ours", "l'âne", "l'éléphant", "l'abeille", "l'avenue", "l'oignon", "l'orange"])
    assert all(not noun.french.startswith("h") for noun in nouns), "a silent h would need a table"
    counts = Counter(noun.gender for noun in nouns)
    assert counts["m"] == counts["f"]


def test_an_adjective_fits_one_side_only() -> None:
    for scene in SCENES:
        assert not scene.adjectives.keys() & FITS_SUBJECT.keys()
        assert not scene.objects.keys() & SUBJECTS.keys()
    french: dict[str, str] = dict(FITS_SUBJECT)
    for scene in SCENES:
        for english, word in scene.adjectives.items():
            assert french.setdefault(english, word) == word


@given(sentence=SENTENCES)
def test_the_places_are_those_of_the_words(sentence: Sentence) -> None:
    pair = make_pair(sentence)
    words, french = pair.source.split(), pair.target.split()
    assert words[pair.it] in ("it", "they")
    subject, thing = sentence.english_nouns
    assert (words[pair.right], words[pair.wrong]) == ((subject, thing) if sentence.about_subject else (thing, subject))
    assert french[pair.pronoun].split("'")[-1] in ("il", "elle", "ils", "elles")
    assert words[pair.it + 1] in ("was", "were")
    assert french[pair.pronoun + 1] in ("était", "étaient")


@given(sentence=SENTENCES, subject=st.sampled_from(sorted(SUBJECTS)))
def test_swapping_the_subject_changes_the_pronoun_only_if_it_is_meant(sentence: Sentence, subject: str) -> None:
    swapped = replace(sentence, subject=subject)
    same_gender = SUBJECTS[subject].gender == SUBJECTS[sentence.subject].gender
    changes = sentence.french_pronoun() != swapped.french_pronoun()
    assert changes == (sentence.about_subject and not same_gender)
    if not changes:
        reason, other = ((s.french().split(s.french_pronoun())[-1]) for s in (sentence, swapped))
        assert reason == other


def test_one_english_sentence_has_one_translation() -> None:
    sources = [sentence.english() for sentence in COMBINATIONS]
    assert len(set(sources)) == len(sources)


@pytest.mark.slow  # writes the whole corpus
def test_combinations_are_held_out_and_words_are_not(corpus: PairCorpus) -> None:
    parts = [corpus.train, corpus.valid, corpus.held_out]
    assert [len(part) for part in parts] == [12_000, 200, 1000]
    assert len({pair.source for part in parts for pair in part}) == 13_200
    train, valid, held_out = ({pair.sentence.combination for pair in part} for part in parts)
    assert not train & valid and not train & held_out and not valid & held_out
    words = {word for pair in corpus.train for text in (pair.source, pair.target) for word in text.split()}
    for pair in corpus.valid + corpus.held_out:
        assert {*pair.source.split(), *pair.target.split()} <= words
    assert len(words) < 700


def test_the_documents_pair_is_held_out_with_every_subject(corpus: PairCorpus) -> None:
    assert [pair.sentence for pair in corpus.held_out[:2]] == [TIRED, WIDE]
    reserved = {("cross", "street", "tired"), ("cross", "street", "wide")}
    assert not reserved & {pair.sentence.combination[1:] for pair in corpus.train + corpus.valid}


def test_neither_noun_is_the_better_guess(corpus: PairCorpus) -> None:
    for pairs in (corpus.train, corpus.held_out):
        telling = [pair.sentence for pair in pairs if pair.sentence.gender_tells]
        assert 0.4 < len(telling) / len(pairs) < 0.6
        assert 0.45 < sum(sentence.about_subject for sentence in telling) / len(telling) < 0.55
        pronouns = Counter(sentence.french_pronoun() for sentence in telling if not sentence.pronoun_is_plural)
        assert 0.45 < pronouns["il"] / pronouns.total() < 0.55


@pytest.mark.slow  # writes the whole corpus
def test_the_seed_decides(corpus: PairCorpus) -> None:
    assert generate(12_000, seed=0) == corpus
    other = generate(12_000, seed=1)
    assert other != corpus and other.held_out[0] == corpus.held_out[0]


def test_written_files_are_read_back(corpus: PairCorpus, tmp_path: Path) -> None:
    corpus.write(tmp_path / "demo")
    examples = read_examples(("held-out.en", "held-out.fr"), ("en", "fr"), tmp_path / "demo")
    assert [examples[i] for i in range(len(examples))] == [(pair.source, pair.target) for pair in corpus.held_out]


def test_mistakes_list_the_choices() -> None:
    with pytest.raises(ConfigError, match="unknown object of 'cross' 'apple'; choose one of: alley, avenue"):
        replace(TIRED, object="apple")
    with pytest.raises(ConfigError, match="unknown adjective with 'cross' 'ripe'"):
        replace(TIRED, adjective="ripe")
    with pytest.raises(ConfigError, match="2,000 to 50,000 training pairs, got 10"):
        generate(10)
