"""What other tools call a task: transformers' class for it, and what a model must say alike here and there."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.nn.layout import Layout
from regard.nn.linear import logits


@dataclass(frozen=True, kw_only=True)
class Exchange:
    head: str  # how transformers names its classes for it; "" is a model without a head
    loaded_by: str  # the class of transformers that loads it, of any family
    pipeline: str = ""  # of transformers, from text to answer; "": it has none
    compared: str = "logits"  # the numbers in which both must agree ...
    # ... ours, of one sequence (`Any`: the model that the task builds) ...
    rows: Callable[[Any, Tensor, Layout], Tensor] = lambda model, *read: model(*read)
    answer: str = "logits"  # ... and where transformers' answer has them
    is_of_sequences: bool = False  # there is one row for each sequence, not for each token
    likeliest: str = ""  # what the largest number of a row tells; "": nothing to compare
    writes: bool = False  # a text, token by token
    translates: bool = False  # a source into a target
    predicts_words: bool = True
    is_framed: bool = False  # a text is read between a start and an end token, as BERT reads it
    has_references: bool = False  # the data are pairs: a source, and what should be written
    reads_images: bool = False


CAUSAL = Exchange(
    head="ForCausalLM",
    loaded_by="AutoModelForCausalLM",
    pipeline="text-generation",
    rows=lambda model, tokens, layout: logits(model(tokens, layout), model.output_table),
    writes=True,
)
MASKED = Exchange(
    head="ForMaskedLM",
    loaded_by="AutoModelForMaskedLM",
    pipeline="fill-mask",
    rows=lambda model, tokens, layout: model.word_logits(model(tokens, layout)),
    likeliest="likeliest words",
    is_framed=True,
)
PERMUTED = Exchange(  # read from left to right: the order in which words are predicted is the task's, not the model's
    head="LMHeadModel",
    loaded_by="XLNetLMHeadModel",
    rows=lambda model, tokens, layout: logits(model.reader(tokens, layout), model.output_table, model.output_bias),
)
ROWS = Exchange(
    head="",
    loaded_by="AutoModel",
    pipeline="feature-extraction",
    compared="hidden rows",
    answer="last_hidden_state",
    predicts_words=False,
    is_framed=True,
)
LABELS = Exchange(
    head="ForSequenceClassification",
    loaded_by="AutoModelForSequenceClassification",
    pipeline="text-classification",
    compared="logits of labels",
    is_of_sequences=True,
    likeliest="likeliest labels",
    predicts_words=False,
    is_framed=True,
)
IMAGE_LABELS = Exchange(
    head="ForImageClassification",
    loaded_by="AutoModelForImageClassification",
    pipeline="image-classification",
    compared="logits of labels",
    is_of_sequences=True,
    likeliest="likeliest labels",
    predicts_words=False,
    reads_images=True,
)
TAGS = Exchange(
    head="ForTokenClassification",
    loaded_by="AutoModelForTokenClassification",
    compared="logits of tags",
    predicts_words=False,
)
SOURCE_TO_TARGET = Exchange(head="ForConditionalGeneration", loaded_by="AutoModelForSeq2SeqLM", translates=True)
