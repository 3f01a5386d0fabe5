"""A recipe for pairs of one's own: an encoder-decoder, as large as there is text and time for."""

from regard.data.files.pairs import pair_parts
from regard.data.files.recognizing import MUCH_LONGER
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

RATE = 0.002  # at a width of 256: the highest rate of the shipped recipes


def draft(brief: Brief) -> Draft:
    columns = pair_parts(brief.data).train.columns
    source, target = map(TextSizes.of, columns)
    both = TextSizes.of([*columns[0], *columns[1]])
    is_summary = source.n_characters > MUCH_LONGER * target.n_characters
    longest = max(source.longest(), target.longest())

    def tables(plan: Plan) -> RecipeTables:
        model = transformer(plan.size)
        rate = round(RATE * (256 / model["d_model"]) ** 0.5, 5)
        return {
            "task": {
                "metric": "rouge" if is_summary else "bleu",
                "validation_lines": min(200, len(columns[0]) // 10 + 1),
            },
            "data": {"max_length": longest, "batch_tokens": plan.batch_tokens},
            "tokenizer": {"vocab_size": both.vocabulary(), "dropout": 0.1 if plan.epochs >= 8 else 0.0},
            "model": {
                "architecture": "transformer",
                **model,
                "dropout": dropout_for(plan),
                "max_length": 2 * longest,
                "pre_norm": True,
            },
            "training": schedule(plan, rate),
            "decoding": {"beam": 5},
        }

    return Draft(
        tables=tables,
        n_sizes=n_transformers(both.n_characters),
        batch_tokens=(512, 4096 if len(columns[0]) < 100_000 else 8192),
        least_epochs=6,
        most_epochs=60,
        remarks={
            "data.max_length": "tokens; longer pairs are left out of training, and long lines are split in use",
            "tokenizer.vocab_size": f"one token for about 90 of the {both.n_words:,} words",
            "tokenizer.dropout": "words are cut in another way each time (BPE-dropout)",
        },
    )
