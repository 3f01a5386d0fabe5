"""A translator watched while it reads a source and writes a target."""

import numpy as np
import torch

from regard.models.interface import Translator
from regard.nn.watch import Seen, watch
from regard.tasks.framing import Frame
from regard.tasks.translation.batches import make_batch
from regard.text.tokenizer import Tokenizer
from regard.viewer.capture import Capture
from regard.viewer.looking import Asked, capture, check_length


def look_at_pair(
    model: Translator, tokenizer: Tokenizer, frame: Frame, source: str, target: str, asked: Asked
) -> Capture:
    source_ids, target_ids = tokenizer.encode(source), tokenizer.encode(target)
    seen = watch_pair(model, frame, source_ids, target_ids, asked)
    read, written = tokenizer.tokens(frame.source(source_ids)), tokenizer.tokens(target_ids)
    start, end = tokenizer.tokens([frame.start, frame.end])
    names = {  # across, a query is named by the token that it writes
        "encoder": (read, read),
        "decoder": ([start, *written], [start, *written]),
        "cross": ([*written, end], read),
    }
    return capture(f"{source} → {target}", seen, names)


@torch.no_grad()
def watch_pair(model: Translator, frame: Frame, source: list[int], target: list[int], asked: Asked) -> Seen:
    """Every attention layer while a translator reads the source and writes the target."""
    asked.check(model)
    check_length(model, source, max(len(frame.source(source)), len(target) + 1))
    batch = make_batch([np.array(source)], [np.array(target, np.int64)], [""], frame).to(model.device)
    with watch(model, asked.layers, asked.heads, asked.vectors) as seen:
        model(batch.source, batch.source_layout, batch.target, batch.target_layout)
    return seen
