"""All verbs by name.  This imports no PyTorch, so that the command line can show its help quickly."""

from typing import Any

from regard.tasks.answering.verbs import Answer
from regard.tasks.chat.verbs import Chat, ChatStream
from regard.tasks.classification.verbs import Classify
from regard.tasks.features.verbs import Embed
from regard.tasks.language.verbs import Generate, GenerateAs, Reach, ScoreTexts, Stream
from regard.tasks.pretraining.verbs import Fill
from regard.tasks.tagging.verbs import Tag
from regard.tasks.translation.verbs import Align, Score, Summarize, Translate
from regard.tasks.verb import LineVerb, Verb

MADE: tuple[type[LineVerb[Any]], ...] = (Translate, Summarize, Tag, Classify, Fill)
BY_HAND: tuple[type[Verb[Any]], ...] = (Generate, Chat, Answer, Embed, Score, ScoreTexts, Reach)
IN_PYTHON: tuple[type[Verb[Any]], ...] = (Stream, GenerateAs, ChatStream, Align)

LINE_VERBS = {verb.name: verb for verb in MADE}  # whose commands are made from their fields
VERBS = {verb.name: verb for verb in (*MADE, *BY_HAND, *IN_PYTHON)}
