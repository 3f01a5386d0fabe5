"""Which head looks at what "it" is?

    The animal didn't cross the street because it was too tired.    it = the animal
    The animal didn't cross the street because it was too wide.     it = the street

A head that tells them apart gives the right noun more of its attention than the other noun, in both readings: an
encoder head while it reads "it", or a cross-attention head while the French pronoun is chosen.  Looking at random is
right in half of the pairs.  What the translator makes of it is another question: `switched_off` (nn/watch.py) answers.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.corpora.grammar import Pair
from regard.errors import RegardError
from regard.models.interface import AnyTranslator
from regard.nn.watch import watch
from regard.tasks.framing import Frame
from regard.tasks.translation.batches import make_batch
from regard.text.tokenizer import Tokenizer
from regard.viewer.kinds import KINDS

PRONOUN = re.compile(r"\b(?:ils?|elles?)\b", re.IGNORECASE)
BATCH = 250  # pairs watched together
WHEN = {"encoder": 'reading "it"', "cross": "choosing the French pronoun"}  # the kinds that can look at both nouns


@dataclass(frozen=True, kw_only=True)
class HeadScore:
    """How one head looked at some pairs."""

    kind: str
    layer: int
    head: int
    n_pairs: int
    n_right: int  # pairs in which the right noun got more weight than the wrong one
    right: float  # mean weight of the right noun ...
    wrong: float  # ... and of the wrong one

    @property
    def share(self) -> float:
        return self.n_right / self.n_pairs

    @property
    def margin(self) -> float:
        """How much more of its attention the right noun gets: a head that looks at both nouns has none."""
        return self.right - self.wrong

    @property
    def place(self) -> tuple[str, int, int]:
        return self.kind, self.layer, self.head

    @property
    def name(self) -> str:
        return f"{KINDS[self.kind].title}, layer {self.layer}, head {self.head}"


@dataclass(frozen=True)
class BothReadings:
    """One head on pairs in which "it" is the subject, and on pairs in which it is the object."""

    subject: HeadScore
    object: HeadScore

    @property
    def worse(self) -> HeadScore:
        return min(self.subject, self.object, key=lambda score: score.margin)

    @property
    def n_pairs(self) -> int:
        return self.subject.n_pairs + self.object.n_pairs

    @property
    def n_right(self) -> int:
        return self.subject.n_right + self.object.n_right

    @property
    def share(self) -> float:
        return self.n_right / self.n_pairs

    @property
    def place(self) -> tuple[str, int, int]:
        return self.subject.place

    @property
    def name(self) -> str:
        return self.subject.name


@dataclass(frozen=True)
class NounPlaces:
    """The tokens of a pair, and where among them the words are that matter."""

    source: list[int]
    target: list[int]
    it: int  # its last token
    right: list[int]  # all tokens of the noun
    wrong: list[int]
    choice: int  # the target token by which the pronoun's gender is chosen; the row that writes it has its number


def only_meaning_tells(pair: Pair) -> bool:
    """The nouns differ in gender, so the French pronoun depends on what "it" is; and they do not differ in number,
    so that neither "it" nor "they" gives it away."""
    sentence = pair.sentence
    return sentence.gender_tells and sentence.plural_subject == sentence.plural_object


def best_head(scores: Sequence[BothReadings]) -> BothReadings:
    """The one that tells the nouns apart most clearly in its worse reading: always looking at one noun, or at both, is
    no merit."""
    return max(scores, key=lambda score: score.worse.margin)


def score_readings(model: AnyTranslator, tokenizer: Tokenizer, pairs: Sequence[Pair]) -> list[BothReadings]:
    """Every head that can look at both nouns, on pairs of both readings."""
    subject, thing = (
        score_heads(model, tokenizer, [pair for pair in pairs if pair.sentence.about_subject == about_subject])
        for about_subject in (True, False)
    )
    return [BothReadings(*both) for both in zip(subject, thing, strict=True)]


def right_pronouns(outputs: Sequence[str], pairs: Sequence[Pair]) -> int:
    """How many translations have the reference's pronoun, whatever else is in them."""
    return sum(
        PRONOUN.findall(output) == PRONOUN.findall(pair.target) for output, pair in zip(outputs, pairs, strict=True)
    )


def score_heads(model: AnyTranslator, tokenizer: Tokenizer, pairs: Sequence[Pair]) -> list[HeadScore]:
    """Every head that can look at both nouns, on all of the pairs, while the model reads and writes them."""
    if not pairs:
        raise RegardError("no head can be scored without pairs")
    weights_of_layers: dict[tuple[str, int], list[Tensor]] = {}
    for start in range(0, len(pairs), BATCH):
        places = [find_places(pair, tokenizer) for pair in pairs[start : start + BATCH]]
        for where, weights in noun_weights(model, tokenizer, places).items():
            weights_of_layers.setdefault(where, []).append(weights)
    scores = []
    for (kind, layer), parts in weights_of_layers.items():
        right, wrong = torch.cat(parts, dim=1).unbind()  # pairs, heads
        scores += [
            HeadScore(
                kind=kind,
                layer=layer,
                head=head,
                n_pairs=len(pairs),
                n_right=int((right[:, head] > wrong[:, head]).sum()),
                right=float(right[:, head].mean()),
                wrong=float(wrong[:, head].mean()),
            )
            for head in range(right.shape[1])
        ]
    return scores


@torch.no_grad()
def noun_weights(model: AnyTranslator, tokenizer: Tokenizer, places: list[NounPlaces]) -> dict[tuple[str, int], Tensor]:
    """By (kind, layer): the weights of the right and of the wrong noun, (2, pairs, heads)."""
    sources = [np.array(place.source) for place in places]
    targets = [np.array(place.target) for place in places]
    batch = make_batch(sources, targets, [""] * len(places), Frame(tokenizer.start_id, tokenizer.end_id))
    batch = batch.to(model.device)
    with watch(model) as seen:
        model(batch.source, batch.source_layout, batch.target, batch.target_layout)

    queries = {"encoder": [place.it for place in places], "cross": [place.choice for place in places]}
    nouns = torch.zeros(2, len(places), max(map(len, sources)) + 1)  # 1 at the tokens of the right, of the wrong noun
    for i, place in enumerate(places):
        nouns[0, i, place.right] = 1
        nouns[1, i, place.wrong] = 1
    all_pairs = torch.arange(len(places))
    return {
        (sighting.kind, sighting.layer): torch.einsum(
            "bhk,nbk->nbh", sighting.weights.cpu()[all_pairs, :, queries[sighting.kind]], nouns
        )
        for sighting in seen.sightings
        if sighting.kind in WHEN
    }


def find_places(pair: Pair, tokenizer: Tokenizer) -> NounPlaces:
    source, target = tokenizer.encode(pair.source), tokenizer.encode(pair.target)
    spans = [word_span(pair.source, word) for word in (pair.it, pair.right, pair.wrong)]
    it, right, wrong = (tokens_in(pair.source, source, span, tokenizer) for span in spans)
    choice = tokens_in(pair.target, target, choice_span(pair), tokenizer)
    return NounPlaces(source, target, it[-1], right, wrong, choice[0])


def choice_span(pair: Pair) -> tuple[int, int]:
    """The letters of the target by which the pronoun's gender is chosen: il, elle; or s', si before it, since
    "si" becomes "s'" before "il" and stays before "elle"."""
    _, end = word_span(pair.target, pair.pronoun)
    before = pair.target[:end].removesuffix(pair.sentence.french_pronoun())
    si = next((si for si in (" s'", " si ") if before.endswith(si)), "")
    return len(before) - len(si.lstrip()), end


def word_span(text: str, word: int) -> tuple[int, int]:
    """Where a word, counted between spaces, begins and ends."""
    words = text.split(" ")
    begin = len(" ".join([*words[:word], ""]))
    return begin, begin + len(words[word])


def tokens_in(text: str, ids: list[int], span: tuple[int, int], tokenizer: Tokenizer) -> list[int]:
    """The tokens that hold a letter of the span, or a byte of one; the space before a word does not count."""
    first, last = (len(text[:letter].encode()) for letter in span)
    places, end = [], 0
    for place, n in enumerate(ids):
        spelling = tokenizer.spelling[n]
        begin = end + len(spelling) - len(spelling.lstrip(b" "))
        end += len(spelling)
        if begin < last and end > first:
            places.append(place)
    return places
