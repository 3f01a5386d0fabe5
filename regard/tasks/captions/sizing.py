"""A recipe for images with captions of one's own: a Transformer that reads patches and writes words."""

from regard.data.images.appearance import look_over
from regard.data.images.files import captioned_images
from regard.tasks.images.sizing import REMARKS, grid_of, reading, resizing
from regard.tasks.sizing import Brief, Draft, Plan, RecipeTables, TextSizes, dropout_for, schedule, transformer


def draft(brief: Brief) -> Draft:
    train = captioned_images(brief.data).train
    looks = look_over(train.images)
    captions = TextSizes.of([caption for captions in train.captions for caption in captions])
    size, patch, side = grid_of(looks)
    longest, n_rows = captions.longest(least=16, most=128), side**2 + captions.long

    def tables(plan: Plan) -> RecipeTables:
        return {
            "task": {"metric": "bleu", "validation_lines": 200, **resizing(looks, size)},
            "data": {"max_length": longest, "batch_tokens": plan.batch_tokens},
            "tokenizer": {"vocab_size": captions.vocabulary()},
            "model": {
                "architecture": "image-transformer",
                **reading(looks, patch, side),
                "convolutions": True,
                **transformer(plan.size),
                "dropout": dropout_for(plan),
                "max_length": 2 * longest,
                "pre_norm": True,
            },
            "training": schedule(plan, 0.001, optimizer="adamw", betas=[0.9, 0.99], weight_decay=0.1),
            "decoding": {"beam": 5},
        }

    return Draft(
        tables=tables,
        n_sizes=2 if len(train) < 1000 else 5,
        batch_tokens=(16 * n_rows, 128 * n_rows),
        least_epochs=3,
        held_out="by a hash of the images: none is in two parts",
        most_epochs=20,
        remarks=REMARKS
        | {"data.batch_tokens": f"of a caption, its tokens and the {side} x {side} patches of its image"},
    )
