"""Bag of words on a real data set, from its file to the figures."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.files.labelled import label_set, read_labelled
from regard.data.files.splits import by_hash
from regard.evaluation.classification import classification
from regard.models.bag import BagConfig, BagOfWords
from regard.nn.layout import Ragged
from regard.text import Tokenizer, TokenizerConfig

SMS = Path(__file__).parents[2].parent / "shared" / "data" / "sms-spam"


@pytest.mark.slow  # real data, five seconds
@pytest.mark.skipif(not SMS.is_dir(), reason="the SMS Spam Collection is not here")
def test_spam_is_told_from_ham() -> None:
    messages = read_labelled(("SMSSpamCollection.tsv.xz",), ("2", "1"), SMS)
    train, held_out = by_hash(messages.texts, 0.2)
    names = label_set(messages, ("ham", "spam"))
    labels = messages.ids(names)
    tokenizer = Tokenizer.train([messages.texts[i] for i in train], TokenizerConfig(kind="words", vocab_size=20_000))
    ids = tokenizer.encode_batch(messages.texts)

    def batches(order: np.ndarray) -> Iterator[tuple]:
        for start in range(0, len(order), 32):
            few = order[start : start + 32]
            tokens = torch.tensor([t for i in few for t in ids[i]])
            yield tokens, Ragged([len(ids[i]) for i in few]), torch.from_numpy(labels[few])

    model = BagOfWords(BagConfig(vocab_size=tokenizer.vocab_size, features="nb", n_features=50_000))
    model.fit(tokenizer.tokens(range(tokenizer.vocab_size)), batches(train))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    source = np.random.default_rng(0)
    for _ in range(2):
        for tokens, layout, label in batches(source.permutation(train)):
            loss = torch.nn.functional.cross_entropy(model(tokens, layout), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        best = torch.cat([model(tokens, layout).argmax(1) for tokens, layout, _ in batches(held_out)])
    result = classification([names[i] for i in best], [messages.labels[i] for i in held_out], names)
    assert result.accuracy.value >= 98
    assert result.labels[1].label == "spam" and result.labels[1].f1 >= 93
