"""A recipe for conversations of one's own: a model that writes the assistant's words."""

from collections.abc import Callable

from regard.data.config import DataConfig
from regard.data.files.conversations import Dialogues, as_one_text
from regard.data.files.splits import Parts
from regard.tasks.sizing import (
    Brief,
    Draft,
    Plan,
    RecipeTables,
    TextSizes,
    dropout_for,
    n_transformers,
    schedule,
    transformer,
)

ROLES = ["<system>", "<user>", "<assistant>"]


def draft_for(parts: Callable[[DataConfig], Parts[Dialogues]], brief: Brief) -> Draft:
    train = parts(brief.data).train
    wholes = [as_one_text(p) + "\n" + max(a, key=len) for p, a in zip(train.prompts, train.answers, strict=True)]
    sizes = TextSizes.of(wholes)
    longest = sizes.longest(tokens_per_word=2.0, least=64, most=1024)

    def tables(plan: Plan) -> RecipeTables:
        return {
            "data": {"max_length": longest, "batch_tokens": plan.batch_tokens, "order": "grouped"},
            "tokenizer": {"vocab_size": sizes.vocabulary(words_per_token=30), "extra": ROLES},
            "model": {
                "architecture": "stack",
                **transformer(plan.size),
                "dropout": dropout_for(plan),
                "max_length": longest + 128,
                "position": "rotary",
                "norm": "rms",
            },
            "training": schedule(plan, 0.002, averaged=False, betas=[0.9, 0.95]),
        }

    return Draft(
        tables=tables,
        n_sizes=n_transformers(sizes.n_characters),
        batch_tokens=(1024, 8192),
        least_epochs=3,
        most_epochs=3 if brief.is_tuned else 15,
        remarks={"data.max_length": "tokens of a conversation"},
    )
