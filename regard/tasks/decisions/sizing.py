"""A recipe for episodes of one's own: a Decision Transformer."""

from regard.data.episodes.files import episode_parts
from regard.tasks.sizing import Brief, Draft, Plan, RecipeTables, schedule, transformer

STEPS = 100  # that a decision looks back at, at most
ROWS = 3  # of a step: the return to go, the state and the action


def draft(brief: Brief) -> Draft:
    train = episode_parts(brief.data).train
    context = int(min(STEPS, train.lengths.max()))
    n_windows = 64 * ROWS * context

    def tables(plan: Plan) -> RecipeTables:
        return {
            "task": {"context": context, "even": True},
            "data": {"batch_tokens": plan.batch_tokens},
            "tokenizer": {"vocab_size": 300},
            "model": {
                "architecture": "stack",
                **transformer(plan.size),
                "position": "none",
                "dropout": 0.1,
                "max_length": max(288, ROWS * context),
            },
            "training": schedule(plan, 0.001, averaged=False, optimizer="adamw", betas=[0.9, 0.99], weight_decay=0.01),
        }

    return Draft(
        tables=tables,
        n_sizes=2 if train.lengths.sum() < 100_000 else 3,
        batch_tokens=(n_windows // 4, n_windows),
        least_epochs=10,
        held_out="by a hash of the episodes",
        most_epochs=100,
        remarks={
            "task.context": "steps that a decision looks back at",
            "task.even": "all returns are drawn equally often",
            "model.position": "a row has the vector of its time step",
        },
    )
