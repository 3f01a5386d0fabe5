"""The [training] table of a recipe."""

from dataclasses import dataclass

from regard.checks import at_least, at_most, not_negative, positive, share
from regard.choose import choose
from regard.errors import ConfigError
from regard.learning.device import COMPILING, PRECISIONS
from regard.learning.optimizers import OPTIMIZERS
from regard.learning.schedules import SCHEDULES


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The defaults are the paper's base model (section 5), except where a line says otherwise."""

    steps: int = 100_000  # updates of the weights; one update takes `accumulate` batches
    seed: int = 0  # of the weights, the order of the data and dropout
    # `adam`, `adamw`, `sgd` (plain steps against the gradient) or `muon` (orthogonal updates of the matrices inside
    # layers, of such a size that AdamW's learning rate and decay can be kept; AdamW for all other weights)
    optimizer: str = "adam"
    learning_rate: float = 1.0  # with "noam" a factor (the paper: 1), otherwise the highest rate
    betas: tuple[float, float] = (0.9, 0.98)  # of Adam
    epsilon: float = 1e-9  # of Adam
    momentum: float = 0.95  # of Muon
    weight_decay: float = 0.0  # of the matrices; biases and norms do not decay
    schedule: str = "noam"  # `noam` (the paper), `cosine`, `linear` or `constant`, each with a linear warm-up
    warmup: int = 4_000  # steps in which the rate rises
    clip: float = 1.0  # the largest gradient norm; 0: never clip, as in the paper
    accumulate: int = 1  # batches per update; the gradient is exactly that of all their tokens together
    # `auto` (bfloat16 products on CUDA, float32 elsewhere), `float32` or `bfloat16`; the weights are always float32
    precision: str = "auto"
    compile: str = "auto"  # `auto` (on CUDA), `on` or `off`; without a working compiler it runs eagerly and says so
    # layers keep only their inputs and compute the rest again in the backward pass, for long windows: less memory, and
    # a third more FLOPs
    checkpointing: bool = False
    validate_every: int = 1_000  # steps between validations; 0: never
    save_every: int = 1_000  # steps between checkpoints
    keep: int = 5  # how many of the last checkpoints stay; the best one stays anyway
    average: int = 0  # how many of the last checkpoints are averaged, if that validates better (the paper: 5); 0: none
    # each step, how much of a running average of weights stays (say 0.999); the average is validated and kept; 0: none
    ema: float = 0.0
    # once so many validations in a row have brought no new best, the mean of the weights after every step from there on
    # is validated and kept (NT-ASGD: 5, with `sgd` at a constant rate); 0: never
    average_after: int = 0
    # each batch is read twice, with other dropout; this times the mean KL divergence between what the two readings
    # predict is added to the loss of both (R-Drop: 5 for translation, 0.5 to 1 for classification); 0: read once
    r_drop: float = 0.0
    patience: int = 0  # stop after this many validations without a new best; 0: never
    log_every: int = 10  # steps between printed figures; on CUDA, also how often the device is asked for losses
    tensorboard: bool = False  # also write TensorBoard events
    # Fine-tuning: `regard train RECIPE --from RUN`.
    from_run: bool = False  # the recipe has no [model] and no [tokenizer]: they are those of RUN
    # parts that stay as RUN has them, by the beginning of their names, such as `["embedding", "blocks.0"]` or
    # `["encoder"]`; `regard show` lists the names. What RUN does not have, such as a new classifier, learns anyway
    frozen: tuple[str, ...] = ()
    last_layers: int = 0  # so many layers learn, the last, with what comes after them; the rest is frozen; 0: all learn
    # the learning rate of a layer is that of the layer above it times this; what comes after the last layer has the
    # full rate, the embeddings the lowest (ULMFiT, ELECTRA); 1: all have the same
    layer_decay: float = 1.0

    def __post_init__(self) -> None:
        choose(OPTIMIZERS, self.optimizer, "optimizer")
        choose(SCHEDULES, self.schedule, "schedule")
        choose(PRECISIONS, self.precision, "precision")
        choose(COMPILING, self.compile, "compile")
        at_least(self, 1, "steps", "accumulate", "save_every", "keep", "log_every")
        at_most(self, 100_000, "accumulate")  # all batches of an update are held at once
        not_negative(self, "seed", "warmup", "validate_every", "average", "patience", "weight_decay", "clip")
        positive(self, "learning_rate", "epsilon")
        share(self, "ema", "momentum")
        not_negative(self, "last_layers", "average_after", "r_drop")
        if not 0 < self.layer_decay <= 1:
            raise ConfigError(f"layer_decay must be above 0 and at most 1, got {self.layer_decay}")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(f"betas must be two numbers, each at least 0 and below 1, got {self.betas}")
        if self.average > self.keep:
            raise ConfigError(f"average = {self.average} needs keep to be at least that, got keep = {self.keep}")
        if sum(map(bool, (self.average, self.ema, self.average_after))) > 1:
            raise ConfigError("average, ema and average_after all average weights; set one of them and the others to 0")
        if (self.patience or self.average_after) and not self.validate_every:
            raise ConfigError("patience and average_after count validations, so validate_every must not be 0")
        if self.patience and self.average_after >= self.patience:
            raise ConfigError(f"the training ends before weights are averaged: set patience above {self.average_after}")
