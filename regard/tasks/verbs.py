"""All verbs by name.  This imports no PyTorch, so that the command line can show its help quickly."""

from regard.tasks.answering.verbs import AnswerQuestions
from regard.tasks.captions.verbs import Caption, Point
from regard.tasks.chat.verbs import Chat, ChatStream, Judge
from regard.tasks.classification.verbs import Classify
from regard.tasks.decisions.verbs import Play
from regard.tasks.forecasting.verbs import Forecast
from regard.tasks.language.verbs import Generate, GenerateAs, Reach, ScoreTexts, StreamText
from regard.tasks.pretraining.verbs import Fill, Follow
from regard.tasks.request import AnyLineRequest, AnyRequest, Embed, Neighbors
from regard.tasks.similarity.verbs import SearchTexts
from regard.tasks.tagging.verbs import Tag
from regard.tasks.translation.verbs import Align, ScorePairs, Summarize, Translate

MADE: tuple[type[AnyLineRequest], ...] = (
    Translate,
    Summarize,
    Tag,
    Classify,
    Caption,
    Fill,
    Follow,
    AnswerQuestions,
    Judge,
)
BY_HAND: tuple[type[AnyRequest], ...] = (
    Generate,  # one command with `stream` and `generate_as`: which is asked, options and the run say
    Chat,  # a message is asked about together with the answers before it
    Embed,  # answers are rows of an array, for a NumPy file, and have no notes of their own
    SearchTexts,  # a query is compared with the lines of another file
    Neighbors,  # in tables, and in a picture
    ScorePairs,  # one command with `score_texts`: the run says which, and so how many files are read side by side
    ScoreTexts,
    Play,  # no text is asked about, and the command shows a board
    Forecast,  # answers are tables, and pictures
    Reach,  # several runs, in one table or picture
    Point,  # answers with tables
)
IN_PYTHON: tuple[type[AnyRequest], ...] = (StreamText, GenerateAs, ChatStream, Align)

LINE_VERBS = {verb.name: verb for verb in MADE}  # whose commands are made from their fields
VERBS = {verb.name: verb for verb in (*MADE, *BY_HAND, *IN_PYTHON)}
