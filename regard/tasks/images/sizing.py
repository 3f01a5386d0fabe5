"""A recipe for labeled images of one's own: a residual network, as large as there is time for."""

from regard.config import Settings
from regard.data.images.appearance import Looks, look_over
from regard.data.images.files import labelled_images
from regard.tasks.sizing import Brief, Draft, Plan, RecipeTables, schedule

NETWORKS = ((32, 1), (64, 1), (64, 2), (128, 2), (256, 3))  # d_model at a patch of 4, n_blocks
ENOUGH = (0, 0, 1000, 10_000, 30_000)  # images, for each of them
LARGEST = 96  # pixels of a side: larger images are made smaller


def draft(brief: Brief) -> Draft:
    train = labelled_images(brief.data).train
    looks = look_over(train.images)
    size, patch, side = grid_of(looks)

    def tables(plan: Plan) -> RecipeTables:
        d_model, n_blocks = NETWORKS[plan.size]
        return {
            "task": {"metric": "accuracy", "smoothing": 0.1, **resizing(looks, size), **changes(looks, size, plan)},
            "data": {"batch_tokens": plan.batch_tokens},
            "model": {
                "architecture": "residual",
                **reading(looks, patch, side),
                "d_model": d_model * patch // 4,
                "n_blocks": n_blocks,
            },
            "training": schedule(plan, 0.003, optimizer="adamw", betas=[0.9, 0.99], weight_decay=0.05),
        }

    return Draft(
        tables=tables,
        n_sizes=sum(len(train) >= least for least in ENOUGH),
        batch_tokens=(32 * side**2, 256 * side**2),
        least_epochs=2,
        held_out="by a hash of the images: none is in two parts",
        most_epochs=30,
        remarks={
            "data.batch_tokens": f"patches: {side} x {side} of an image",
            "model.mean": "of the pixels of the training images",
            **REMARKS,
        },
    )


REMARKS = {
    "task.size": "pixels of a side, to which images are brought",
    "task.flip": "mirrored, as photographs may be; 0 where left and right matter, as in writing",
}


def grid_of(looks: Looks) -> tuple[int, int, int]:
    """Pixels of a side, pixels of a patch, and patches of a side."""
    size = looks.size if looks.is_even and looks.size <= LARGEST else min(LARGEST, max(32, looks.size))
    patch = 4 if size <= 32 else 8 if size <= 64 else 16
    return size, patch, -(-size // patch)


def resizing(looks: Looks, size: int) -> Settings:
    return {} if looks.is_even and looks.size <= LARGEST else {"size": size, "resize": "stretch"}


def reading(looks: Looks, patch: int, side: int) -> Settings:
    """How a model reads images that look so."""
    return {
        "patch": patch,
        "side": side,
        "channels": looks.channels,
        "mean": list(looks.mean),
        "deviation": list(looks.deviation),
    }


def changes(looks: Looks, size: int, plan: Plan) -> Settings:
    """How images change in training: the more, the more often they are read."""
    if plan.epochs < 3:
        return {}
    flip = {"flip": 0.5} if looks.channels == 3 else {}
    return {"shift": max(1, size // 14), "zoom": 0.2, **flip, **({"erase": 0.2} if plan.epochs >= 8 else {})}
