"""A recipe for tagged words of one's own: a recurrent network that reads in both directions."""

from regard.data.files.labelled import tagged_parts
from regard.tasks.sizing import Brief, Draft, Plan, RecipeTables, TextSizes, dropout_for, schedule

LSTMS = ((64, 64, 1), (128, 128, 1), (128, 256, 2))  # d_model, d_hidden, n_layers
ENOUGH = (0, 20_000, 200_000)  # words, for each of them


def draft(brief: Brief) -> Draft:
    sizes = TextSizes.of(tagged_parts(brief.data).train.keys())

    def tables(plan: Plan) -> RecipeTables:
        d_model, d_hidden, n_layers = LSTMS[plan.size]
        return {
            "data": {"max_length": sizes.longest(), "batch_tokens": plan.batch_tokens, "order": "grouped"},
            "tokenizer": {"vocab_size": sizes.vocabulary(words_per_token=30)},
            "model": {
                "architecture": "recurrent",
                "cell": "lstm",
                "bidirectional": True,
                "d_model": d_model,
                "d_hidden": d_hidden,
                "n_layers": n_layers,
                "dropout": max(0.1, dropout_for(plan)),
                "embedding_range": 1.0,
            },
            "training": schedule(plan, 0.003),
        }

    return Draft(
        tables=tables,
        n_sizes=sum(sizes.n_words >= least for least in ENOUGH),
        batch_tokens=(512, 4096),
        least_epochs=4,
        most_epochs=15,
    )
