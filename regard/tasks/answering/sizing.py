"""A recipe for questions of one's own about texts: a Transformer that finds the span which answers."""

from regard.data.files.questions import question_parts
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


def draft(brief: Brief) -> Draft:
    train = question_parts(brief.data).train
    texts = list(dict.fromkeys(question.context for question in train.all))
    sizes = TextSizes.of([*texts, *(question.text for question in train.all)])
    longest = TextSizes.of(texts).longest(least=128) - 1

    def tables(plan: Plan) -> RecipeTables:
        return {
            "task": {"max_question": min(64, longest // 3), "stride": min(128, longest // 3)},
            "data": {"max_length": longest, "batch_tokens": plan.batch_tokens, "order": "grouped"},
            "tokenizer": {"vocab_size": sizes.vocabulary(words_per_token=30)},
            "model": {
                "architecture": "stack",
                "causal": False,
                **transformer(plan.size),
                "dropout": max(0.1, dropout_for(plan)),
                "max_length": longest + 1,
                "position": "rotary",
                "n_segments": 2,
            },
            "training": schedule(plan, 0.0005, optimizer="adamw", weight_decay=0.01),
        }

    return Draft(
        tables=tables,
        n_sizes=n_transformers(sizes.n_characters),
        batch_tokens=(2048, 16_384),
        least_epochs=2,
        most_epochs=4 if brief.is_tuned else 10,
        remarks={"data.max_length": "tokens read at once; longer texts are read in several windows"},
    )
