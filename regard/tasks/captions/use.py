"""Images in, captions out; and a model watched while it reads one and writes the other."""

from collections.abc import Callable

import numpy as np
import torch

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.decoding.outputs import Hypothesis
from regard.errors import ConfigError
from regard.models.interface import AnyTranslator
from regard.nn.grid import GridForm, ImagePrompt
from regard.nn.watch import watch
from regard.tasks.captions.verbs import Captioned
from regard.tasks.framing import Frame
from regard.tasks.images.batches import ImageArrays, read_patches
from regard.tasks.translation.batches import framed
from regard.text.tokenizer import Tokenizer
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus, capture, check_length, pictured

AT_A_TIME = 1000  # images whose patches are held


def write_captions(
    engine: Engine,
    tokenizer: Tokenizer,
    images: ImageArrays,
    grid: GridForm,
    frame: Frame,
    config: DecodingConfig,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Captioned]:
    if config.counted == "prompt":
        raise ConfigError('an image has no tokens to count: set decoding.counted to "written" or "start"')
    answers: list[Captioned] = []
    for first in range(0, len(images), AT_A_TIME):
        prompts = [prompt_of(image, grid) for image in images[first : first + AT_A_TIME]]

        def say(n_done: int, n: int, before: int = first) -> None:
            if on_progress is not None:
                on_progress(before + n_done, len(images))

        of_images = engine.generate(prompts, config, frame.start, frame.end, on_progress=say)
        answers += [captioned(hypotheses, tokenizer) for hypotheses in of_images]
    return answers


def prompt_of(image: np.ndarray, grid: GridForm) -> ImagePrompt:
    patches, _ = read_patches([image], grid)
    return ImagePrompt(patches, grid.shape_of(*image.shape[:2]))


def captioned(hypotheses: list[Hypothesis], tokenizer: Tokenizer) -> Captioned:
    texts = [tokenizer.decode(hypothesis.tokens) for hypothesis in hypotheses]
    n_best = [(text, hypothesis.score) for text, hypothesis in zip(texts, hypotheses, strict=True)]
    return Captioned(texts[0], hypotheses[0], n_best, [] if hypotheses[0].finished else ["hit the length limit"])


@torch.no_grad()
def look_at_caption(
    model: AnyTranslator,
    tokenizer: Tokenizer,
    image: np.ndarray,
    grid: GridForm,
    frame: Frame,
    title: str,
    text: str,
    focus: Focus,
) -> Capture:
    """Every attention layer while a model reads an image and writes a text, whose words look at patches."""
    focus.check(model)
    ids = tokenizer.encode(text)
    check_length(model, ids, len(ids) + 1)
    source, layout = model.inputs.join([prompt_of(image, grid)], model.device)
    target, _, target_layout = framed([np.array(ids, np.int64)], frame)
    with watch(model, focus.layers, focus.heads, focus.vectors) as seen:
        model(source, layout, target.to(model.device), target_layout.to(model.device))
    read, written = pictured(*read_patches([image], grid)), tokenizer.tokens(ids)
    start, end = tokenizer.tokens([frame.start, frame.end])
    names = {  # across, a query is named by the token that it writes
        "encoder": (read.names, read.names),
        "decoder": ([start, *written], [start, *written]),
        "cross": ([*written, end], read.names),
    }
    return capture(f"{title} → {text}", seen, names, read)
