"""What is learnt.  One file per task: its settings, its batches and loss, and how it is validated and measured."""

from typing import Any

from regard.tasks.answers import Answers, AnswersConfig
from regard.tasks.bidirectional import Bidirectional, BidirectionalConfig
from regard.tasks.chat import Chat, ChatConfig
from regard.tasks.classification import Classification, ClassificationConfig
from regard.tasks.denoising import Denoising, DenoisingConfig
from regard.tasks.label_to_text import LabelToText, LabelToTextConfig
from regard.tasks.label_words import LabelWords, LabelWordsConfig
from regard.tasks.language import Language, LanguageConfig
from regard.tasks.masked import MaskedConfig, MaskedLanguage
from regard.tasks.permutation import Permutation, PermutationConfig
from regard.tasks.preference import Preference, PreferenceConfig
from regard.tasks.prompted import Prompted, PromptedConfig
from regard.tasks.reading import Reading, ReadingConfig
from regard.tasks.replaced import ReplacedConfig, ReplacedLanguage
from regard.tasks.restoration import Restoration, RestorationConfig
from regard.tasks.tagging import Tagging, TaggingConfig
from regard.tasks.translation import Translation, TranslationConfig

TASKS: dict[str, tuple[type[Any], type[Any]]] = {
    "classification": (ClassificationConfig, Classification),
    "language": (LanguageConfig, Language),
    "bidirectional": (BidirectionalConfig, Bidirectional),
    "masked": (MaskedConfig, MaskedLanguage),
    "replaced": (ReplacedConfig, ReplacedLanguage),
    "label-words": (LabelWordsConfig, LabelWords),
    "denoising": (DenoisingConfig, Denoising),
    "permutation": (PermutationConfig, Permutation),
    "chat": (ChatConfig, Chat),
    "preference": (PreferenceConfig, Preference),
    "reading": (ReadingConfig, Reading),
    "label-to-text": (LabelToTextConfig, LabelToText),
    "tagging": (TaggingConfig, Tagging),
    "restoration": (RestorationConfig, Restoration),
    "answers": (AnswersConfig, Answers),
    "translation": (TranslationConfig, Translation),
    "prompted": (PromptedConfig, Prompted),
}
