"""Captions: prompts that are images, of several sizes, come and go in the engine as texts do."""

import random

import pytest
import torch
from test_engine import END, MANNERS, START, run_in_company

from regard.decoding.engine import Engine
from regard.decoding.search import plan
from regard.models.image_seq2seq import ImageSeq2Seq, ImageSeq2SeqConfig
from regard.models.image_transformer import ImageTransformer, ImageTransformerConfig
from regard.nn.grid import ImagePrompt

IMAGES = {"vocab_size": 11, "patch": 4, "side": 3, "dropout": 0.0, "max_length": 32}
CAPTIONERS = {
    "image-seq2seq": lambda: ImageSeq2Seq(
        ImageSeq2SeqConfig(**IMAGES, d_model=8, d_hidden=8, d_image=32, n_blocks=1)  # type: ignore[arg-type]
    ),
    "image-transformer": lambda: ImageTransformer(
        ImageTransformerConfig(**IMAGES, d_model=16, n_heads=2, n_layers=1, d_ff=32)  # type: ignore[arg-type]
    ),
}


@pytest.mark.parametrize("name", CAPTIONERS)
def test_a_caption_is_the_same_alone_and_in_any_company(name: str) -> None:
    torch.manual_seed(0)
    model, chance = CAPTIONERS[name]().eval(), random.Random(0)
    images = [
        ImagePrompt(torch.randint(0, 256, (height * width, 48)).byte(), (height, width))
        for height, width in [(2, 2), (3, 1), (3, 3), (2, 2)]
    ]
    manners = [config for config in MANNERS.values() if config.counted != "prompt"]  # an image has no tokens to count
    searches = [plan([image], manner, START, END)[0] for image in images for manner in manners]
    for ticket in run_in_company(Engine(model), searches, chance):
        alone = Engine(model).answer([ticket.search])[0]
        for one, other in zip(ticket.answer(), alone, strict=True):
            if one.near_ties == other.near_ties == 0:
                assert one.tokens == other.tokens
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)
