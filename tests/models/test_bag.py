from collections.abc import Iterator

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from torch import Tensor

from regard.errors import ConfigError, DataError
from regard.models.bag import ABSENT, FEATURES, BagConfig, BagOfWords, ngram_keys, same_words
from regard.nn.layout import Ragged, Rectangle

WORDS = ["<pad>", "<unk>", " the", "the", " The", " film", " was", " good", " bad", " not", ".", " very"]
DOCUMENTS = [
    "the film was good .",
    "the film was not bad , the film was good .",
    "the film was bad .",
    "bad bad film .",
    "not good .",
]
LABELS = [1, 1, 0, 0, 0]
IDS = {word.strip(): i for i, word in reversed(list(enumerate(WORDS)))}


def encode(texts: list[str]) -> tuple[Tensor, Ragged]:
    ids = [[IDS.get(word, 1) for word in text.split()] for text in texts]
    return torch.tensor([i for row in ids for i in row], dtype=torch.long), Ragged([len(row) for row in ids])


def batches(texts: list[str] = DOCUMENTS, labels: list[int] = LABELS, size: int = 2) -> Iterator[tuple]:
    for i in range(0, len(texts), size):
        yield *encode(texts[i : i + size]), torch.tensor(labels[i : i + size])


def fitted(features: str = "binary", n_features: int = 64, **settings: int) -> BagOfWords:
    model = BagOfWords(BagConfig(vocab_size=len(WORDS), features=features, n_features=n_features, **settings))
    model.fit(WORDS, batches())
    return model


def matrix(model: BagOfWords, texts: list[str]) -> np.ndarray:
    """x of every document and feature, read off the gradient of the second label's logits."""
    found = np.zeros((len(texts), model.config.n_features))
    for i, text in enumerate(texts):
        model.zero_grad()
        model(*encode([text]))[0, 1].backward()
        assert model.weight.grad is not None
        found[i] = model.weight.grad[:, 1]
    return found[:, model.keys.numpy() < ABSENT]


def oracle(texts: list[str], ngrams: int, binary: bool) -> tuple[CountVectorizer, np.ndarray]:
    """scikit-learn's counts, its columns in the order of our keys."""
    ids = [" ".join(str(int(i)) for i in encode([text])[0]) for text in DOCUMENTS]
    vectorizer = CountVectorizer(token_pattern=r"\d+", ngram_range=(1, ngrams), binary=binary)
    vectorizer.fit(ids)
    counts = vectorizer.transform([" ".join(str(int(i)) for i in encode([text])[0]) for text in texts]).toarray()
    names = vectorizer.get_feature_names_out()
    keys = []
    for name in names:
        first, *rest = (int(i) for i in name.split())
        key = first
        for i in rest:
            key = (key + 1) * len(WORDS) + i
        keys.append(key)
    return vectorizer, counts[:, np.argsort(keys)]


UNSEEN = ["good good film", "the very bad the good", "very"]


@pytest.mark.parametrize("ngrams", [1, 2, 3])
@pytest.mark.parametrize("features", ["binary", "counts"])
def test_counts_are_those_of_scikit_learn(features: str, ngrams: int) -> None:
    model = fitted(features, ngrams=ngrams)
    for texts in (DOCUMENTS, UNSEEN):
        _, expected = oracle(texts, ngrams, binary=features == "binary")
        np.testing.assert_array_equal(matrix(model, texts), expected)


def test_tfidf_is_that_of_scikit_learn() -> None:
    model = fitted("tfidf")
    transformer = TfidfTransformer().fit(oracle(DOCUMENTS, 2, binary=False)[1])
    for texts in (DOCUMENTS, UNSEEN):
        expected = transformer.transform(oracle(texts, 2, binary=False)[1]).toarray()
        np.testing.assert_allclose(matrix(model, texts), expected, atol=1e-6)


def test_the_log_count_ratio_is_that_of_naive_bayes() -> None:
    """With w = 1 the two logits differ by twice the ratio that a Bernoulli count gives."""
    model = fitted("nb", ngrams=1)
    with_it = oracle(DOCUMENTS, 1, binary=True)[1]
    labels = np.array(LABELS)
    p, q = (1 + with_it[labels == label].sum(0) for label in (1, 0))
    ratio = np.log((p / p.sum()) / (q / q.sum()))
    n = len(ratio)
    np.testing.assert_allclose(model.scale[:n, 1], ratio, rtol=1e-5)
    np.testing.assert_allclose(model.scale[:n, 0], -ratio, rtol=1e-5)
    torch.nn.init.ones_(model.weight)
    logits = model(*encode(DOCUMENTS)).detach().numpy()
    np.testing.assert_allclose(logits[:, 1] - logits[:, 0], 2 * with_it @ ratio, rtol=1e-5)


@pytest.mark.parametrize("features", FEATURES)
def test_a_document_gets_the_same_logits_alone_in_any_batch_and_padded(features: str) -> None:
    model = fitted(features)
    torch.nn.init.normal_(model.weight, generator=torch.Generator().manual_seed(0))
    together = model(*encode(DOCUMENTS))
    alone = torch.cat([model(*encode([text])) for text in DOCUMENTS])
    torch.testing.assert_close(together, alone)
    tokens, layout = encode(DOCUMENTS)
    padded = model(layout.pad(tokens), Rectangle(layout.lengths, layout.longest))
    torch.testing.assert_close(padded, together)


def test_words_in_another_order_are_the_same_bag_but_pairs_are_not() -> None:
    forth, back = "the film was not good", "good not was film the"
    for ngrams, equal in ((1, True), (2, False)):
        model = fitted(ngrams=ngrams)
        torch.nn.init.normal_(model.weight, generator=torch.Generator().manual_seed(0))
        assert torch.allclose(model(*encode([forth])), model(*encode([back]))) is equal


def test_case_and_the_space_before_a_word_do_not_count() -> None:
    assert same_words([" the", "film", " The", "the", " film"]).tolist() == [0, 1, 0, 0, 1]
    model = fitted()
    torch.nn.init.normal_(model.weight, generator=torch.Generator().manual_seed(0))
    first, second = (torch.tensor([i, IDS["film"]]) for i in (WORDS.index("the"), WORDS.index(" The")))
    torch.testing.assert_close(model(first, Ragged([2])), model(second, Ragged([2])))


def test_a_document_of_no_or_of_unknown_words_gets_the_bias() -> None:
    model = fitted("tfidf")
    torch.nn.init.ones_(model.weight)
    with torch.no_grad():
        model.bias[:] = torch.tensor([0.25, -0.5])
    empty = torch.empty(0, dtype=torch.long)
    assert model(empty, Ragged([0])).tolist() == [[0.25, -0.5]]
    assert model(*encode(["very", "", "very very"])).tolist() == [[0.25, -0.5]] * 3


def test_the_most_frequent_ngrams_are_kept() -> None:
    model = fitted(n_features=3, ngrams=1)
    assert [WORDS[key].strip() for key in model.keys.tolist()] == ["the", "film", "."]  # in 3, 4 and 5 documents
    roomy = fitted(n_features=500)
    assert (roomy.keys == ABSENT).sum() == 500 - oracle(DOCUMENTS, 2, binary=True)[1].shape[1]
    assert (roomy.keys.diff() >= 0).all()


def test_ngrams_stay_inside_their_document_and_have_their_own_keys() -> None:
    documents, keys = ngram_keys(torch.tensor([[1, 2, 3], [4, 0, 0]]), torch.tensor([3, 1]), vocab_size=5, longest=3)
    assert list(zip(documents.tolist(), keys.tolist(), strict=True)) == [
        (0, 1), (0, 2), (0, 3), (1, 4),
        (0, 2 * 5 + 2), (0, 3 * 5 + 3),
        (0, (2 * 5 + 2 + 1) * 5 + 3),
    ]  # fmt: skip
    every = torch.cartesian_prod(*[torch.arange(5)] * 3)
    assert len(ngram_keys(every, torch.full((125,), 3), 5, 3)[1].unique()) == 5 + 25 + 125


def test_it_learns_and_its_state_is_all_it_needs() -> None:
    model = fitted("nb")
    tokens, layout = encode(DOCUMENTS)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(30):
        loss = torch.nn.functional.cross_entropy(model(tokens, layout), torch.tensor(LABELS))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert model(tokens, layout).argmax(1).tolist() == LABELS
    other = BagOfWords(model.config)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(tokens, layout), model(tokens, layout))


def test_fitting_does_not_depend_on_the_batches() -> None:
    one, other = fitted("nb"), fitted("nb")
    other.fit(WORDS, batches(size=5))
    other.fit(WORDS, batches(DOCUMENTS[::-1], LABELS[::-1], size=1))
    assert all(torch.equal(a, b) for a, b in zip(one.buffers(), other.buffers(), strict=True))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": "tf"}, "unknown kind of features 'tf'; choose one of: binary, counts, nb, tfidf"),
        ({"ngrams": 0}, "ngrams must be at least 1, got 0"),
        ({"n_labels": 1}, "n_labels must be at least 2, got 1"),
        ({"ngrams": 9}, "n-grams of 9 words out of 1000 have no number"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BagConfig(**{"vocab_size": 1000, **settings})


@pytest.mark.parametrize("texts", [[], ["", ""]])
def test_no_words_are_refused(texts: list[str]) -> None:
    with pytest.raises(DataError, match="there are none"):
        BagOfWords(BagConfig(vocab_size=len(WORDS), n_features=8)).fit(WORDS, batches(texts, [0] * len(texts)))
