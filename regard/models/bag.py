"""Bag of words: a document is the set of its n-grams, whatever their order, and each n-gram votes for the labels."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.checks import at_least, at_most
from regard.choose import choose
from regard.errors import ConfigError, DataError
from regard.models.config import ModelConfig
from regard.models.cost import Cost
from regard.models.interface import Model
from regard.nn.layout import Layout

ABSENT = 2**63 - 1  # the key of a feature that no n-gram has taken; larger than any n-gram's own


class Bag(NamedTuple):
    """The distinct n-grams of every document of a batch; the three are of equal length."""

    document: Tensor
    ngram: Tensor  # its key (see `ngram_keys`) or its feature, by who asks
    times: Tensor  # that the document has it


def plain(documents: Tensor, n_documents: Tensor) -> Tensor:
    """1 for every n-gram."""
    return torch.ones_like(documents[:, :1])


def inverse_document_frequency(documents: Tensor, n_documents: Tensor) -> Tensor:
    """idf = ln((1 + n) / (1 + df)) + 1: the rarer, the more (Spärck Jones 1972, smoothed as scikit-learn does)."""
    return torch.log((1 + n_documents.sum()) / (1 + documents.sum(1, keepdim=True))) + 1


def log_count_ratio(documents: Tensor, n_documents: Tensor) -> Tensor:
    """r = ln((p / |p|) / (q / |q|)) with p = 1 + df in the label, q = 1 + df outside it (Wang and Manning 2012)."""
    inside = 1 + documents
    outside = 1 + documents.sum(1, keepdim=True) - documents
    return torch.log(inside / inside.sum(0)) - torch.log(outside / outside.sum(0))


@dataclass(frozen=True)
class Features:
    """What an n-gram is worth to a document that has it: its count there (or 1) times its scale."""

    scale: Callable[[Tensor, Tensor], Tensor]  # (n-grams, L) documents with it, (L,) documents -> (n-grams, 1 or L)
    counted: bool = False  # otherwise being there is all that counts
    unit_length: bool = False  # every document is divided by its Euclidean length
    by_label: bool = False  # the scale differs from label to label


FEATURES = {
    "binary": Features(plain),
    "counts": Features(plain, counted=True),
    "tfidf": Features(inverse_document_frequency, counted=True, unit_length=True),
    "nb": Features(log_count_ratio, by_label=True),
}


@dataclass(frozen=True, kw_only=True)
class BagConfig(ModelConfig):
    n_labels: int = 2  # how many labels there are
    # what an n-gram of a document is worth: `binary` 1, `counts` how often it occurs, `tfidf` that times
    # ln((1 + n) / (1 + df)) + 1, scaled to length 1, `nb` its log-count ratio of naive Bayes (Wang and Manning 2012)
    features: str = "binary"
    ngrams: int = 2  # the longest n-gram: 1 words, 2 also pairs of neighbors, 3 also triples
    # the most n-grams kept: those that the most training texts have; among equals, the shorter, then lower token ids
    n_features: int = 200_000

    def __post_init__(self) -> None:
        at_least(self, 1, "vocab_size", "ngrams", "n_features")
        at_least(self, 2, "n_labels")
        at_most(self, 63, "ngrams")  # each takes a bit or more of a number
        if (self.vocab_size + 1) ** self.ngrams >= ABSENT:
            raise ConfigError(
                f"n-grams of {self.ngrams} words out of {self.vocab_size} have no number below 2^63; lower ngrams"
            )
        choose(FEATURES, self.features, "kind of features")

    def with_labels(self, n_labels: int) -> Self:
        return replace(self, n_labels=n_labels)


class BagOfWords(Model):
    """logits = Σ_f x_f ⊙ w_f + b over the n-grams f of the document; multinomial logistic regression.

    x_f is 1 (binary), the count, tf · idf over the document's length, or the log-count ratio of naive Bayes (NB-SVM of
    Wang and Manning 2012, here with a logistic loss).  `fit` chooses the n-grams and their scales before training.
    """

    role = "classifier"
    is_fitted = True
    config: BagConfig
    word: Tensor
    keys: Tensor
    scale: Tensor

    def __init__(self, config: BagConfig):
        super().__init__()
        self.config = c = config
        self.kind = FEATURES[c.features]
        self.weight = nn.Parameter(torch.zeros(c.n_features, c.n_labels))
        self.bias = nn.Parameter(torch.zeros(c.n_labels))
        self.register_buffer("word", torch.arange(c.vocab_size))  # of each token
        self.register_buffer("keys", torch.full((c.n_features,), ABSENT))  # of the features, ascending
        self.register_buffer("scale", torch.ones(c.n_features, c.n_labels if self.kind.by_label else 1))

    @torch.no_grad()
    def fit(self, tokens: Sequence[str], batches: Iterable[tuple[Tensor, Layout, Tensor]]) -> None:
        """Learn which tokens are the same word, then the n-grams and their scales from all training documents.

        `tokens` is the vocabulary; a batch is token ids (N,), their layout and a label for each document (B,).
        """
        n_labels = self.config.n_labels
        self.word.copy_(same_words(tokens))
        keys, labels = [], []
        n_documents = torch.zeros(n_labels, dtype=torch.long)
        for ids, layout, label in batches:
            bag = self.count(ids, layout)
            keys.append(bag.ngram.cpu())
            labels.append(label[bag.document].cpu())
            n_documents += torch.bincount(label.cpu(), minlength=n_labels)
        if not any(len(part) for part in keys):
            raise DataError("a bag of words is learned from documents with words, and there are none")
        ngrams, which = torch.cat(keys).unique(return_inverse=True)
        by_label = torch.bincount(which * n_labels + torch.cat(labels), minlength=len(ngrams) * n_labels)
        documents = by_label.view(-1, n_labels)
        # A stable sort of ascending keys: of n-grams equally frequent, the one with the lower key comes first.
        chosen = documents.sum(1).sort(descending=True, stable=True).indices[: self.config.n_features].sort().values
        self.keys.fill_(ABSENT)
        self.scale.fill_(1.0)
        self.keys[: len(chosen)] = ngrams[chosen].to(self.keys)
        self.scale[: len(chosen)] = self.kind.scale(documents[chosen].double(), n_documents.double()).to(self.scale)

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Token ids (N) -> logits (B, L)."""
        bag, votes = self.votes(tokens, layout)
        n_labels = self.config.n_labels
        return self.bias + votes.new_zeros(layout.n_sequences, n_labels).index_add(0, bag.document, votes)

    def votes(self, tokens: Tensor, layout: Layout) -> tuple[Bag, Tensor]:
        """The known n-grams, by their feature, and what each adds to the logits of its document: (n-grams, L)."""
        assert self.keys[0] != ABSENT, "fit comes before forward"
        bag = document, feature, times = self.known(self.count(tokens, layout))
        x = F.embedding(feature, self.scale)
        if self.kind.counted:
            x = x * times[:, None]
        if self.kind.unit_length:
            squares = x.new_zeros(layout.n_sequences, x.shape[1]).index_add(0, document, x * x)
            x = x * squares.rsqrt()[document]
        return bag, x * F.embedding(feature, self.weight)

    def ngram(self, feature: int) -> list[int]:
        """The words of a feature, from first to last: the inverse of `ngram_keys`."""
        key, words = int(self.keys[feature]), []
        while key >= 0:
            before, word = divmod(key, self.config.vocab_size)
            words.append(word)
            key = before - 1
        return words[::-1]

    def cost(self, length: int) -> Cost:
        """Every n-gram that ends at a token votes once for each label."""
        n = self.config.ngrams
        return Cost(2 * n * self.config.n_labels, f"2 per n-gram and label; {n} n-grams end at a token")

    def count(self, tokens: Tensor, layout: Layout) -> Bag:
        """Every n-gram of every document, by its key."""
        words = layout.pad(self.word[tokens])
        documents, keys = ngram_keys(words, layout.lengths, self.config.vocab_size, self.config.ngrams)
        # Number the n-grams, then sort (document, number) as one number: to sort pairs takes many times longer.
        distinct, which = keys.unique(return_inverse=True)
        n = max(len(distinct), 1)
        pairs, times = (documents * n + which).unique(return_counts=True)
        return Bag(pairs // n, distinct[pairs % n], times)

    def known(self, bag: Bag) -> Bag:
        """The n-grams that are features, by their feature."""
        feature = torch.searchsorted(self.keys, bag.ngram).clamp_(max=self.config.n_features - 1)
        is_known = self.keys[feature] == bag.ngram
        return Bag(bag.document[is_known], feature[is_known], bag.times[is_known])


def same_words(tokens: Sequence[str]) -> Tensor:
    """For each token the first one that is the same word: case does not count, nor does the space before a word."""
    first: dict[str, int] = {}
    return torch.tensor([first.setdefault(token.strip().casefold(), i) for i, token in enumerate(tokens)])


def ngram_keys(tokens: Tensor, lengths: Tensor, vocab_size: int, longest: int) -> tuple[Tensor, Tensor]:
    """Tokens (B, T) -> the document and the key of each n-gram; no two n-grams share a key.

    A word's key is its id; key(t₁ … tₙ) = (key(t₁ … tₙ₋₁) + 1) · V + tₙ.
    """
    places = torch.arange(tokens.shape[1], device=tokens.device)
    documents, all_keys = [], []
    keys = tokens
    for n in range(1, longest + 1):
        if n > 1:
            keys = (keys[:, :-1] + 1) * vocab_size + tokens[:, n - 1 :]
        inside = places[n - 1 :] < lengths[:, None]  # its last word is the document's
        documents.append(inside.nonzero()[:, 0])
        all_keys.append(keys[inside])
    return torch.cat(documents), torch.cat(all_keys)
