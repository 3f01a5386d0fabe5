"""What is learnt.  One file per task: its settings, its batches and loss, and what `predict` means for it."""

from regard.tasks.translation import Translation, TranslationConfig

TASKS = {
    "translation": (TranslationConfig, Translation),
}
