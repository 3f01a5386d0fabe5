"""The tasks, by the names that recipes use."""

from typing import Any

from regard.tasks.answering.task import Answers, AnswersConfig
from regard.tasks.chat.preference import Preference, PreferenceConfig
from regard.tasks.chat.task import Chat, ChatConfig
from regard.tasks.classification.label_words import LabelWords, LabelWordsConfig
from regard.tasks.classification.task import Classification, ClassificationConfig
from regard.tasks.features.task import Features, FeaturesConfig
from regard.tasks.language.label_to_text import LabelToText, LabelToTextConfig
from regard.tasks.language.task import Language, LanguageConfig
from regard.tasks.pretraining.bidirectional import Bidirectional, BidirectionalConfig
from regard.tasks.pretraining.denoising import Denoising, DenoisingConfig
from regard.tasks.pretraining.masked import MaskedConfig, MaskedLanguage
from regard.tasks.pretraining.permutation import Permutation, PermutationConfig
from regard.tasks.pretraining.replaced import ReplacedConfig, ReplacedLanguage
from regard.tasks.tagging.restoration import Restoration, RestorationConfig
from regard.tasks.tagging.task import Tagging, TaggingConfig
from regard.tasks.translation.prompted import Prompted, PromptedConfig
from regard.tasks.translation.task import Translation, TranslationConfig

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
    "reading": (FeaturesConfig, Features),
    "label-to-text": (LabelToTextConfig, LabelToText),
    "tagging": (TaggingConfig, Tagging),
    "restoration": (RestorationConfig, Restoration),
    "answers": (AnswersConfig, Answers),
    "translation": (TranslationConfig, Translation),
    "prompted": (PromptedConfig, Prompted),
}
