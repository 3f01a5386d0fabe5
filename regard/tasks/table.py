"""The tasks, by the names that recipes use, and which of them take given files for their own."""

from collections.abc import Sequence
from pathlib import Path

from regard.data.files.recognizing import Recognized
from regard.tasks.answering.task import Answering
from regard.tasks.captions.task import Captioning
from regard.tasks.chat.policy import Policy
from regard.tasks.chat.preference import Preference
from regard.tasks.chat.reward import Reward
from regard.tasks.chat.task import InstructionTuning
from regard.tasks.classification.label_words import LabelWords
from regard.tasks.classification.task import Classification
from regard.tasks.decisions.task import Decisions
from regard.tasks.forecasting.task import Forecasting
from regard.tasks.images.task import ImageClassification
from regard.tasks.language.label_to_text import LabelToText
from regard.tasks.language.task import Language
from regard.tasks.pretraining.denoising import Denoising
from regard.tasks.pretraining.orders import Bidirectional, Permutation
from regard.tasks.pretraining.task import MaskedLanguage, ReplacedLanguage
from regard.tasks.reading.task import Reading
from regard.tasks.similarity.task import Similarity
from regard.tasks.tagging.numbers import Numbers
from regard.tasks.tagging.task import Restoration, Tagging
from regard.tasks.task import AnyTask
from regard.tasks.translation.task import Prompted, Translation

TASKS: dict[str, type[AnyTask]] = {
    "classification": Classification,
    "images": ImageClassification,
    "captions": Captioning,
    "decisions": Decisions,
    "forecasting": Forecasting,
    "language": Language,
    "bidirectional": Bidirectional,
    "masked": MaskedLanguage,
    "replaced": ReplacedLanguage,
    "label-words": LabelWords,
    "denoising": Denoising,
    "permutation": Permutation,
    "chat": InstructionTuning,
    "preference": Preference,
    "reward": Reward,
    "policy": Policy,
    "reading": Reading,
    "label-to-text": LabelToText,
    "tagging": Tagging,
    "restoration": Restoration,
    "numbers": Numbers,
    "answers": Answering,
    "similarity": Similarity,
    "translation": Translation,
    "prompted": Prompted,
}


def recognize_all(files: Sequence[Path]) -> list[tuple[str, Recognized]]:
    """The tasks, by their names in recipes, that the files look like data of; the most certain first."""
    answers = {name: task.recognize(files) for name, task in TASKS.items()}
    recognized = [(name, answer) for name, answer in answers.items() if answer is not None]
    return sorted(recognized, key=lambda named: -named[1].certainty)
