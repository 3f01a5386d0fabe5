"""The tasks, by the names that recipes use."""

from regard.tasks.answering.task import Answers
from regard.tasks.chat.preference import Preference
from regard.tasks.chat.task import Chat
from regard.tasks.classification.label_words import LabelWords
from regard.tasks.classification.task import Classification
from regard.tasks.features.task import Features
from regard.tasks.language.label_to_text import LabelToText
from regard.tasks.language.task import Language
from regard.tasks.pretraining.bidirectional import Bidirectional
from regard.tasks.pretraining.denoising import Denoising
from regard.tasks.pretraining.masked import MaskedLanguage
from regard.tasks.pretraining.permutation import Permutation
from regard.tasks.pretraining.replaced import ReplacedLanguage
from regard.tasks.tagging.restoration import Restoration
from regard.tasks.tagging.task import Tagging
from regard.tasks.task import AnyTask
from regard.tasks.translation.prompted import Prompted
from regard.tasks.translation.task import Translation

TASKS: dict[str, type[AnyTask]] = {
    "classification": Classification,
    "language": Language,
    "bidirectional": Bidirectional,
    "masked": MaskedLanguage,
    "replaced": ReplacedLanguage,
    "label-words": LabelWords,
    "denoising": Denoising,
    "permutation": Permutation,
    "chat": Chat,
    "preference": Preference,
    "reading": Features,
    "label-to-text": LabelToText,
    "tagging": Tagging,
    "restoration": Restoration,
    "answers": Answers,
    "translation": Translation,
    "prompted": Prompted,
}
