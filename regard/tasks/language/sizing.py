"""A recipe for a plain text of one's own: characters and an LSTM for a short one, then a GPT, then a GPT on pieces of
words."""

from collections.abc import Sequence

from regard.data.files.plain import text_parts
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

SHORT, LONG = 600_000, 5_000_000  # characters: up to here an LSTM, from here on pieces of words
LSTMS = ((32, 128, 1), (64, 256, 1), (64, 256, 2), (128, 512, 2))  # d_model, d_hidden, n_layers
ENOUGH = (0, 20_000, 60_000, 200_000)  # characters, for each of them


def draft(brief: Brief) -> Draft:
    train = text_parts(brief.data, "text").train
    if brief.is_tuned or train.n_characters >= SHORT:
        return of_gpt(brief, train.lines)
    n_characters = len(set().union(*train.lines)) + 1  # and the end of a line

    def tables(plan: Plan) -> RecipeTables:
        d_model, d_hidden, n_layers = LSTMS[plan.size]
        return {
            "task": {"unit": "text", "window": 64, "carry": True},
            "data": {"batch_tokens": plan.batch_tokens},
            "tokenizer": {"kind": "characters", "vocab_size": n_characters + 100},
            "model": {
                "architecture": "recurrent",
                "cell": "lstm",
                "d_model": d_model,
                "d_hidden": d_hidden,
                "n_layers": n_layers,
                "dropout": dropout_for(plan),
                "embedding_range": 1.0,
            },
            "training": schedule(plan, 0.004, averaged=False),
            "decoding": {"sample": True, "temperature": 0.8},
        }

    return Draft(
        tables=tables,
        n_sizes=sum(train.n_characters >= least for least in ENOUGH),
        batch_tokens=(1024, 4096),
        least_epochs=5,
        held_out="the end of the text",
        most_epochs=30,
        remarks={
            "model.architecture": f"a recurrent network: {train.n_characters:,} characters are few",
            "task.window": "characters that are learned at once; the state goes on to the next window",
        },
    )


def of_gpt(brief: Brief, lines: Sequence[str]) -> Draft:
    sizes = TextSizes.of(lines)
    has_pieces = brief.is_tuned or sizes.n_characters >= LONG
    tokens = {"vocab_size": sizes.vocabulary()} if has_pieces else {"kind": "characters", "vocab_size": 1000}

    def tables(plan: Plan) -> RecipeTables:
        return {
            "task": {"unit": "text", "window": 256},
            "data": {"max_length": 255, "batch_tokens": plan.batch_tokens},
            "tokenizer": dict(tokens),
            "model": {
                "architecture": "stack",
                **transformer(plan.size),
                "dropout": dropout_for(plan),
                "max_length": 256,
                "position": "rotary",
                "bias": "none",
                "scale_embedding": False,
            },
            "training": schedule(plan, 0.003, averaged=False, optimizer="adamw", betas=[0.9, 0.99], weight_decay=0.1),
            "decoding": {"sample": True, "temperature": 0.8},
        }

    return Draft(
        tables=tables,
        n_sizes=n_transformers(sizes.n_characters),
        batch_tokens=(2048, 16_384),
        least_epochs=2,
        held_out="the end of the text",
        most_epochs=20,
        remarks={"tokenizer.vocab_size": "at most: the text may have fewer"},
    )
