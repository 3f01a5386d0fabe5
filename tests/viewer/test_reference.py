"""Which head looks at what "it" is: the places of the words, and the scores against a count made pair by pair."""

from dataclasses import replace

import pytest
import torch

from regard.data.corpora.grammar import TIRED, WIDE, Sentence, generate, make_pair
from regard.errors import RegardError
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.layout import Ragged
from regard.nn.watch import watch
from regard.tasks.translation.reference import (
    BothReadings,
    HeadScore,
    best_head,
    find_places,
    only_meaning_tells,
    right_pronouns,
    score_heads,
    score_readings,
)
from regard.text.tokenizer import Tokenizer, TokenizerConfig

PAIRS = generate(2000).train
LINES = [line for pair in PAIRS for line in (pair.source, pair.target)]
TOKENIZERS = {
    "words": Tokenizer.train(LINES, TokenizerConfig(kind="words")),
    "bpe": Tokenizer.train(LINES, TokenizerConfig(kind="bpe", vocab_size=400)),  # most nouns are several tokens
    "characters": Tokenizer.train(LINES, TokenizerConfig(kind="characters")),
}


def score(head: int, *of_readings: tuple[int, float, float]) -> BothReadings:
    """Right pairs of ten, and the mean weights of the right and the wrong noun, for both readings."""
    subject, thing = (
        HeadScore(kind="cross", layer=0, head=head, n_pairs=10, n_right=n_right, right=right, wrong=wrong)
        for n_right, right, wrong in of_readings
    )
    return BothReadings(subject, thing)


@pytest.fixture(scope="module")
def model() -> Transformer:
    """Random weights, large enough for heads that look at something."""
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=600, d_model=32, n_heads=4, n_layers=2, d_ff=32, max_length=128)
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_places_hold_the_words(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    for pair in PAIRS[:300]:
        places = find_places(pair, tokenizer)
        words = pair.source.split()
        assert tokenizer.decode(places.source) == pair.source and tokenizer.decode(places.target) == pair.target
        for tokens, word in ((places.right, pair.right), (places.wrong, pair.wrong)):
            assert tokenizer.decode([places.source[i] for i in tokens]).strip() == words[word].rstrip(".?")
        assert tokenizer.decode(places.source[: places.it + 1]).split() == words[: pair.it + 1]


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("negative", [True, False])
def test_the_choice_is_where_the_other_gender_would_differ(kind: str, negative: bool) -> None:
    """il or elle, and in "même s'il" or "même si elle" already s' or si."""
    tokenizer = TOKENIZERS[kind]
    sentence = Sentence(subject="animal", verb="cross", object="street", adjective="tired", negative=negative)
    pair = make_pair(sentence)
    written = {
        "words": {True: "il", False: " s"},
        "bpe": {True: "il", False: " s"},
        "characters": {True: "i", False: "s"},
    }
    places = find_places(pair, tokenizer)
    assert tokenizer.token(places.target[places.choice]) == written[kind][negative]
    before = "L'animal n'a pas traversé la rue parce qu'" if negative else "L'animal a traversé la rue même"
    assert tokenizer.decode(places.target[: places.choice]).rstrip() == before


def test_pairs_in_which_only_meaning_tells() -> None:
    assert only_meaning_tells(make_pair(TIRED))  # l'animal, la rue
    assert not only_meaning_tells(make_pair(replace(TIRED, subject="turtle")))  # la tortue, la rue
    assert not only_meaning_tells(
        make_pair(replace(TIRED, plural_object=True))
    )  # "it" is singular, the streets are not
    assert only_meaning_tells(make_pair(replace(WIDE, plural_object=True, plural_subject=True)))


@pytest.mark.slow  # counts every pair of a corpus
@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_scores_equal_a_count_pair_by_pair(kind: str, model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.tasks.translation.reference.BATCH", 40)
    tokenizer, pairs = TOKENIZERS[kind], PAIRS[:60]  # a batch and a half
    found = {score.place: score for score in score_heads(model, tokenizer, pairs)}
    assert set(found) == {(kind, layer, head) for kind in ("encoder", "cross") for layer in (0, 1) for head in range(4)}
    n_right = dict.fromkeys(found, 0)
    total = dict.fromkeys(found, 0.0)
    for pair in pairs:
        places = find_places(pair, tokenizer)
        source = [*places.source, tokenizer.end_id]
        target = [tokenizer.start_id, *places.target]
        written = [*places.target, tokenizer.end_id]
        assert written[places.choice] == places.target[places.choice]
        with torch.no_grad(), watch(model) as seen:
            model(torch.tensor(source), Ragged([len(source)]), torch.tensor(target), Ragged([len(target)]))
        for kind_, layer, head in found:
            row = places.it if kind_ == "encoder" else written.index(places.target[places.choice], places.choice)
            looks = seen.of(kind_, layer).head(head)[0, row]
            right, wrong = (float(sum(looks[i] for i in noun)) for noun in (places.right, places.wrong))
            n_right[kind_, layer, head] += right > wrong
            total[kind_, layer, head] += right
    for place, score in found.items():
        assert score.n_pairs == len(pairs)
        assert abs(score.n_right - n_right[place]) <= 1, place  # a tie may fall either way
        assert score.right == pytest.approx(total[place] / len(pairs), abs=1e-4)
        assert score.share == score.n_right / len(pairs)
    assert len({score.n_right for score in found.values()}) > 3  # the heads differ, so the comparison says something


def test_the_best_head_is_the_one_whose_worse_reading_is_clearest() -> None:
    one_sided = score(0, (10, 0.97, 0.0), (10, 0.024, 0.003))  # right in every pair, and yet looks at one noun only
    both_nouns = score(1, (5, 0.5, 0.5), (5, 0.5, 0.5))  # much of its attention, and it tells nothing
    modest = score(2, (8, 0.4, 0.1), (9, 0.5, 0.1))
    assert best_head([one_sided, both_nouns, modest]) is modest
    assert best_head([one_sided, both_nouns]) is one_sided
    assert modest.worse is modest.subject and one_sided.worse is one_sided.object
    assert (modest.n_right, modest.n_pairs, modest.share, modest.place) == (17, 20, 0.85, ("cross", 0, 2))


def test_the_readings_are_scored_apart(model: Transformer) -> None:
    tokenizer, pairs = TOKENIZERS["words"], PAIRS[:60]
    about = {True: [], False: []}  # type: ignore[var-annotated]
    for pair in pairs:
        about[pair.sentence.about_subject].append(pair)
    found = score_readings(model, tokenizer, pairs)
    assert [both.subject for both in found] == score_heads(model, tokenizer, about[True])
    assert [both.object for both in found] == score_heads(model, tokenizer, about[False])
    with pytest.raises(RegardError, match="without pairs"):  # of one reading there are none
        score_readings(model, tokenizer, about[True])


@pytest.mark.parametrize(
    ("output", "is_right"),
    [
        ("L'animal n'a pas traversé la rue parce qu'il était trop fatigué.", True),
        ("L'animal n'a pas traversé la rue parce qu'il avait faim.", True),  # the pronoun alone counts
        ("L'animal n'a pas traversé la rue parce qu'elle était trop fatiguée.", False),
        ("L'animal n'a pas traversé la rue parce qu'ils étaient trop fatigués.", False),
        ("L'animal n'a pas traversé la rue.", False),
        ("", False),
        ("Il n'a pas traversé la rue parce qu'il était trop fatigué.", False),  # one pronoun too many
    ],
)
def test_a_pronoun_is_right(output: str, is_right: bool) -> None:
    assert right_pronouns([output], [make_pair(TIRED)]) == int(is_right)


def test_every_reference_has_its_pronoun() -> None:
    assert right_pronouns([pair.target for pair in PAIRS], PAIRS) == len(PAIRS)


def test_no_pairs_no_score(model: Transformer) -> None:
    with pytest.raises(RegardError, match="without pairs"):
        score_heads(model, TOKENIZERS["words"], [])
