"""All verbs by name.  This imports no PyTorch, so that the command line can show its help quickly."""

from regard.tasks.answering.verbs import AnswerQuestions
from regard.tasks.chat.verbs import Chat, ChatStream
from regard.tasks.classification.verbs import Classify
from regard.tasks.language.verbs import Generate, GenerateAs, Reach, ScoreTexts, StreamText
from regard.tasks.pretraining.verbs import Fill
from regard.tasks.request import AnyLineRequest, AnyRequest, Embed
from regard.tasks.tagging.verbs import Tag
from regard.tasks.translation.verbs import Align, ScorePairs, Summarize, Translate

MADE: tuple[type[AnyLineRequest], ...] = (Translate, Summarize, Tag, Classify, Fill)
BY_HAND: tuple[type[AnyRequest], ...] = (Generate, Chat, AnswerQuestions, Embed, ScorePairs, ScoreTexts, Reach)
IN_PYTHON: tuple[type[AnyRequest], ...] = (StreamText, GenerateAs, ChatStream, Align)

LINE_VERBS = {verb.name: verb for verb in MADE}  # whose commands are made from their fields
VERBS = {verb.name: verb for verb in (*MADE, *BY_HAND, *IN_PYTHON)}
