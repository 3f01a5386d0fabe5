import numpy as np

from regard.data.batching.packing import select
from regard.data.files.reading import Examples


def test_what_is_dropped_is_counted_with_its_first_place() -> None:
    english = ["a b", "", "", "c", "d d d d", "e", "f", " "]
    french = ["a", "", "x", " ", "d", "e e e e", "f", "y"]
    examples = Examples(("en", "fr"), [english, french], np.arange(1, 9), ["t.en", "t.fr"], [0])
    lengths = [np.array([len(text.split()) for text in column]) for column in examples.columns]
    lengths[1][6] = 0  # a tokenizer may find nothing in a text
    kept, notes = select(examples, lengths, max_length=3)
    assert kept.tolist() == [0]
    assert notes.rows() == [
        "dropped: empty on every side: 1 (first at t.en:2)",
        "dropped: en is empty: 2 (first at t.en:3)",
        "dropped: fr is empty: 1 (first at t.fr:4)",
        "dropped: en is longer than 3 tokens: 1 (first at t.en:5)",
        "dropped: fr has no tokens: 1 (first at t.fr:7)",
        "dropped: fr is longer than 3 tokens: 1 (first at t.fr:6)",
    ]
    assert len(kept) + sum(notes.counts.values()) == len(examples)
