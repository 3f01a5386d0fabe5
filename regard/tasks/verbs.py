"""All verbs by name.  This imports no PyTorch, so that the command line can show its help quickly."""

from regard.tasks.answering.verbs import AnswerQuestions
from regard.tasks.captions.verbs import Caption
from regard.tasks.chat.verbs import Chat, ChatStream
from regard.tasks.classification.verbs import Classify
from regard.tasks.language.verbs import Generate, GenerateAs, Reach, ScoreTexts, StreamText
from regard.tasks.pretraining.verbs import Fill
from regard.tasks.request import AnyLineRequest, AnyRequest, Embed
from regard.tasks.tagging.verbs import Tag
from regard.tasks.translation.verbs import Align, ScorePairs, Summarize, Translate

MADE: tuple[type[AnyLineRequest], ...] = (Translate, Summarize, Tag, Classify, Caption, Fill, AnswerQuestions)
BY_HAND: tuple[type[AnyRequest], ...] = (
    Generate,  # one command with `stream` and `generate_as`: which is asked, options and the run say
    Chat,  # a message is asked about together with the answers before it
    Embed,  # answers are rows of an array, for a NumPy file, and have no notes of their own
    ScorePairs,  # one command with `score_texts`: the run says which, and so how many files are read side by side
    ScoreTexts,
    Reach,  # several runs, in one table or picture
)
IN_PYTHON: tuple[type[AnyRequest], ...] = (StreamText, GenerateAs, ChatStream, Align)

LINE_VERBS = {verb.name: verb for verb in MADE}  # whose commands are made from their fields
VERBS = {verb.name: verb for verb in (*MADE, *BY_HAND, *IN_PYTHON)}
