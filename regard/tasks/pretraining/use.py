"""BERT's two questions: what may stand in place of each [MASK] of a text, and whether one text follows another."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import torch

from regard.data.batching.batch import read_together
from regard.data.batching.passages import within_text
from regard.models.masked import MaskedWords, rows_at
from regard.tasks.framing import SEPARATOR
from regard.tasks.pretraining.batches import FOLLOWS, N_FIXED
from regard.tasks.pretraining.verbs import Filled, Follow, Followed
from regard.text.tokenizer import Tokenizer


@torch.no_grad()
def fill(
    model: MaskedWords, tokenizer: Tokenizer, encoded: Sequence[np.ndarray], top: int, budget: int
) -> list[Filled]:
    """One answer per text, in order."""
    mask, limit = tokenizer.special_id("<mask>"), model.max_length
    documents = [ids if len(ids) <= limit else np.append(ids[: limit - 1], tokenizer.end_id) for ids in encoded]
    options: list[list[list[tuple[int, float]]]] = [[] for _ in documents]
    for group, tokens, layout in read_together(documents, budget, model.device):
        places = (tokens == mask).nonzero()[:, 0]
        rows = rows_at(model(tokens, layout), places)
        shares, words = model.word_logits(rows).float().softmax(-1).topk(min(top, tokenizer.vocab_size), -1)
        owners = np.repeat(group, [len(documents[i]) for i in group])[places.cpu().numpy()]
        for i, ids, row in zip(owners, words.tolist(), shares.tolist(), strict=True):
            options[i].append(list(zip(ids, row, strict=True)))
    answers = []
    for ids, document, likeliest in zip(encoded, documents, options, strict=True):
        notes = [] if likeliest else ["nothing is masked"]
        if len(ids) > limit:
            notes.append(f"cut to the first {limit:,} of {len(ids):,} tokens")
        filled = document.copy()
        filled[document == mask] = [best[0][0] for best in likeliest]
        words_of = [[(tokenizer.token(word), share) for word, share in place] for place in likeliest]
        answers.append(Filled(written(filled, tokenizer), words_of, notes))
    return answers


def written(ids: np.ndarray, tokenizer: Tokenizer) -> str:
    """The text of some tokens, its parts separated as in the question."""
    parts = [list(part) for is_end, part in groupby(ids.tolist(), lambda i: i == tokenizer.end_id) if not is_end]
    return f" {SEPARATOR[0]} ".join(tokenizer.decode(part).strip() for part in parts)


@torch.no_grad()
def follow(model: MaskedWords, tokenizer: Tokenizer, ask: Follow, budget: int) -> list[Followed]:
    """P(b follows a) of <s> a </s> b </s>, one for each pair, in order.  Of a pair that is too long, the end of a and
    the beginning of b are read."""
    room, documents, answers_notes = model.max_length - N_FIXED[True], [], []
    for first, second in zip(ask.texts, ask.nexts, strict=True):
        a, b = tokenizer.encode(first), within_text(tokenizer.encode(second.strip()), tokenizer)  # as in training
        n_first = min(len(a), max(room - len(b), room - room // 2))
        read_a, read_b = a[len(a) - n_first :], b[: room - n_first]
        ids = [tokenizer.start_id, *read_a, tokenizer.end_id, *read_b, tokenizer.end_id]
        notes = [
            f"the {name} text is empty" for name, text in (("first", first), ("second", second)) if not text.strip()
        ]
        if len(a) + len(b) > room:
            notes.append(f"cut to {room:,} of {len(a) + len(b):,} tokens, those around the place where they meet")
        documents.append(np.array(ids, np.int64))
        answers_notes.append(notes)
    shares = np.zeros(len(documents))
    for group, tokens, layout in read_together(documents, budget, model.device):
        logits = model.next_logits(model(tokens, layout), layout)
        shares[group] = logits.float().softmax(-1)[:, FOLLOWS].cpu().numpy()
    return [Followed(float(share), notes) for share, notes in zip(shares, answers_notes, strict=True)]
