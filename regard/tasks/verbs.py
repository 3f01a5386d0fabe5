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
from regard.tasks.verb import Verb

VERBS: dict[str, type[Verb[Any]]] = {
    verb.name: verb
    for verb in (
        Translate,
        Summarize,
        Generate,
        Stream,
        GenerateAs,
        Chat,
        ChatStream,
        Tag,
        Classify,
        Fill,
        Answer,
        Embed,
        Score,
        ScoreTexts,
        Align,
        Reach,
    )
}
