"""BERT (Devlin et al. 2019) and its relatives RoBERTa, DistilBERT and ELECTRA: stacks that look both ways, whose parts
have other names in each of them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from regard.checks import expect
from regard.errors import ConfigError
from regard.interop.families.family import Family, Imported, Weight, product
from regard.interop.families.labels import label_names, name_settings, numbers
from regard.interop.families.settings import PLAIN, SettingsTable, SharedSetting, Theirs, WordSetting, exchange_of
from regard.interop.families.tensor_forms import AS_IS, Form, after_rows, first_rows, zeros
from regard.models.stack import StackConfig
from regard.runs.recipe import Recipe
from regard.tasks.classification.task import ClassificationConfig
from regard.tasks.exchange import LABELS, MASKED, ROWS
from regard.tasks.pretraining.task import MaskedConfig

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "relu": "relu", "silu": "swish"}
BLOCK = {  # their names in a block of BERT, RoBERTa and ELECTRA
    "attention.self.query": "attention.to_queries",
    "attention.self.key": "attention.to_keys",
    "attention.self.value": "attention.to_values",
    "attention.output.dense": "attention.to_output",
    "attention.output.LayerNorm": "attention_residual.norm",
    "intermediate.dense": "feed_forward.expand",
    "output.dense": "feed_forward.contract",
    "output.LayerNorm": "feed_forward_residual.norm",
}
TABLE: dict[str, SharedSetting | WordSetting] = {
    "d_model": SharedSetting("hidden_size"),
    "n_heads": SharedSetting("num_attention_heads"),
    "n_layers": SharedSetting("num_hidden_layers", Theirs.layers),
    "d_ff": SharedSetting("intermediate_size"),
    "dropout": SharedSetting("hidden_dropout_prob", Theirs.number, 0.1),
    "feed_forward": WordSetting("hidden_act", ACTIVATIONS, "gelu"),
    "norm_eps": SharedSetting("layer_norm_eps", Theirs.number, 1e-12),
    "vocab_size": SharedSetting("vocab_size"),
    "tied": SharedSetting("tie_word_embeddings", Theirs.flag, True),
}
SHAPE = PLAIN | {"causal": False, "pre_norm": False, "position": "learned", "norm": "layer", "embedding_norm": True}
HEADS = r"(cls|lm_head|vocab_\w+|\w*classifier|qa_outputs|\w+_predictions|\w+_lm_head)\..*"


@dataclass(frozen=True, kw_only=True)
class BertRelative:
    """One of the relatives: what it calls its parts, and what it has that the others have not."""

    model_type: str
    name: str  # as the classes of transformers begin
    blocks: str = "encoder.layer"  # where the blocks are
    block: dict[str, str] = field(default_factory=BLOCK.copy)
    table: dict[str, SharedSetting | WordSetting] = field(default_factory=TABLE.copy)
    shape: dict[str, object] = field(default_factory=SHAPE.copy)
    transform: str  # of the head that predicts masked words: its product, ...
    norm: str  # ... its norm, ...
    output: str  # ... and the table, if it is not the embeddings
    bias: str
    pooler: str  # of the head that classifies: the layer after the first row, ...
    activation: str  # ... what it does, ...
    labels: str  # ... and the product
    segments: int | None = None  # how many it distinguishes; None: as many as its settings say
    is_narrow: bool = False  # its embeddings may be narrower than its blocks
    first_place: int = 0  # rows of the table of places that no token uses
    pretrained_by: str = ""  # its class with the head of next sentences, if it has one

    @property
    def prefix(self) -> str:
        return f"{self.model_type}."

    @property
    def settings(self) -> SettingsTable:
        classes = {head: f"{self.name}{head or 'Model'}" for head in (MASKED.head, ROWS.head, LABELS.head)}
        return SettingsTable(model_type=self.model_type, classes=classes, shape=self.shape, table=self.table)

    def read_config(self, theirs: Theirs) -> Imported:
        theirs.expect(is_decoder=False, add_cross_attention=False, position_embedding_type="absolute")
        if self.first_place:  # places are counted from the one after that of padding
            theirs.expect(pad_token_id=self.first_place - 1)
        classes, model = self.settings.classes, self.settings.read(theirs)
        model["max_length"] = theirs.width("max_position_embeddings") - self.first_place
        model["n_segments"] = theirs.width("type_vocab_size", 2) if self.segments is None else self.segments
        d_embedding = theirs.width("embedding_size", model["d_model"]) if self.is_narrow else model["d_model"]
        model["d_embedding"] = 0 if d_embedding == model["d_model"] else d_embedding
        # A head that gives a number, or several labels at once, is skipped.
        is_single = theirs.settings.get("problem_type") in (None, "single_label_classification")
        if theirs.made_by == classes[LABELS.head] and len(names := label_names(theirs)) > 1 and is_single:
            return Imported(model, "classification", read_labels(theirs, names, self.activation))
        has_next = bool(self.pretrained_by) and theirs.made_by == self.pretrained_by
        if theirs.made_by != classes[MASKED.head] and not has_next:
            return Imported(model, "reading", {})
        if model["feed_forward"] != "gelu":
            raise ConfigError("a head that predicts masked words must use the activation 'gelu'; this model does not")
        return Imported(model, "masked", {"nsp": has_next, "window": min(128, model["max_length"])})

    def write_config(self, recipe: Recipe) -> dict[str, object]:
        c, head = expect(recipe.model, StackConfig), exchange_of(recipe).head
        n_segments = self.segments if self.segments and c.n_segments else c.n_segments
        d_embedding = c.d_embedding if self.is_narrow else 0
        settings = self.settings.write(recipe, n_segments=n_segments, d_embedding=d_embedding)
        settings["max_position_embeddings"] = c.max_length + self.first_place
        if self.segments != 0:
            settings["type_vocab_size"] = max(1, c.n_segments)
        if self.is_narrow:
            settings["embedding_size"] = c.embedding_width
        if self.first_place:
            settings["pad_token_id"] = self.first_place - 1
        if head == LABELS.head:
            settings |= write_labels(expect(recipe.task, ClassificationConfig), self.model_type, self.activation)
        if head == MASKED.head and expect(recipe.task, MaskedConfig).nsp:
            if not self.pretrained_by:
                raise ConfigError(f"{self.model_type} predicts no next sentences, and this run has task.nsp = true")
            settings["architectures"] = [self.pretrained_by]
        return settings

    def weights(self, recipe: Recipe) -> Iterator[Weight]:
        c, start, head = expect(recipe.model, StackConfig), self.prefix, exchange_of(recipe).head
        places: Form = after_rows(self.first_place) if self.first_place else AS_IS
        yield Weight(f"{start}embeddings.word_embeddings.weight", ("reader.embedding.weight",))
        yield Weight(f"{start}embeddings.position_embeddings.weight", ("reader.position.table",), places)
        if self.segments != 0:
            name = f"{start}embeddings.token_type_embeddings.weight"
            if c.n_segments:
                yield Weight(name, ("reader.segment.weight",), first_rows(c.n_segments))
            else:
                yield Weight(name, (), zeros((1, c.embedding_width)))
        yield from product(f"{start}embeddings.LayerNorm", "reader.embedding_norm")
        if c.d_embedding:
            yield from product(f"{start}embeddings_project", "reader.widen")
        for i in range(c.n_layers):
            for name, own in self.block.items():
                yield from product(f"{start}{self.blocks}.{i}.{name}", f"reader.blocks.{i}.{own}")
        if head == MASKED.head:
            yield from self.head_weights(recipe)
        if head == LABELS.head:
            yield from product(self.pooler, "pooler")
            yield from product(self.labels, "to_labels")

    def head_weights(self, recipe: Recipe) -> Iterator[Weight]:
        yield from product(self.transform, "transform")
        yield from product(self.norm, "norm")
        yield Weight(self.bias, ("output_bias",))
        if not recipe.model.tied:
            yield Weight(f"{self.output}.weight", ("own_table",))
            if self.bias != f"{self.output}.bias":  # in files that have both, this is the one that counts
                yield Weight(f"{self.output}.bias", ("output_bias",))
        if expect(recipe.task, MaskedConfig).nsp:
            yield from product(f"{self.prefix}pooler.dense", "pooler")
            yield from product("cls.seq_relationship", "to_next")

    def family(self) -> Family:
        return Family(
            read_config=self.read_config,
            write_config=self.write_config,
            weights=self.weights,
            prefix=self.prefix,
            spare=(r".*position_ids", rf"{re.escape(self.output)}\.bias", re.escape(self.bias)),
            copies=((f"{self.output}.weight", f"{self.prefix}embeddings.word_embeddings.weight"),),
            heads=(rf"({self.prefix})?pooler\..*", HEADS),
            old_endings=(
                ("LayerNorm.weight", "LayerNorm.gamma"),
                ("LayerNorm.bias", "LayerNorm.beta"),
                (f"{self.output}.bias", self.bias),
            ),
        )


def read_labels(theirs: Theirs, names: tuple[str, ...], activation: str) -> dict[str, object]:
    """The settings of our task: labels are numbers here too, with their names beside them."""
    return {
        "labels": numbers(len(names)),
        "names": names if len(set(names)) == len(names) else (),
        "framed": True,
        "pooling": "first",
        "pooler": activation,
        "dropout": theirs.number("classifier_dropout", 0.1),
    }


def write_labels(task: ClassificationConfig, family: str, activation: str) -> dict[str, object]:
    """The settings of their classifier, which reads the first row through one layer."""
    for name, wanted in {"framed": True, "pooling": "first", "pooler": activation}.items():
        if (got := getattr(task, name)) != wanted:
            raise ConfigError(f"{family} needs task.{name} = {wanted!r} to classify, and this run has {got!r}")
    return {**name_settings(task.shown_labels), "classifier_dropout": task.dropout}


BERT = BertRelative(
    model_type="bert",
    name="Bert",
    transform="cls.predictions.transform.dense",
    norm="cls.predictions.transform.LayerNorm",
    output="cls.predictions.decoder",
    bias="cls.predictions.bias",
    pooler="bert.pooler.dense",
    activation="tanh",
    labels="classifier",
    pretrained_by="BertForPreTraining",
).family()
ROBERTA = BertRelative(
    model_type="roberta",
    name="Roberta",
    transform="lm_head.dense",
    norm="lm_head.layer_norm",
    output="lm_head.decoder",
    bias="lm_head.bias",
    pooler="classifier.dense",
    activation="tanh",
    labels="classifier.out_proj",
    first_place=2,
    segments=1,
).family()
DISTILBERT = BertRelative(
    model_type="distilbert",
    name="DistilBert",
    blocks="transformer.layer",
    block={
        "attention.q_lin": "attention.to_queries",
        "attention.k_lin": "attention.to_keys",
        "attention.v_lin": "attention.to_values",
        "attention.out_lin": "attention.to_output",
        "sa_layer_norm": "attention_residual.norm",
        "ffn.lin1": "feed_forward.expand",
        "ffn.lin2": "feed_forward.contract",
        "output_layer_norm": "feed_forward_residual.norm",
    },
    table={
        "d_model": SharedSetting("dim"),
        "n_heads": SharedSetting("n_heads"),
        "n_layers": SharedSetting("n_layers", Theirs.layers),
        "d_ff": SharedSetting("hidden_dim"),
        "dropout": SharedSetting("dropout", Theirs.number, 0.1),
        "feed_forward": WordSetting("activation", ACTIVATIONS, "gelu"),
        "vocab_size": SharedSetting("vocab_size"),
        "tied": SharedSetting("tie_word_embeddings", Theirs.flag, True),
    },
    shape=SHAPE | {"norm_eps": 1e-12},
    transform="vocab_transform",
    norm="vocab_layer_norm",
    output="vocab_projector",
    bias="vocab_projector.bias",
    pooler="pre_classifier",
    activation="relu",
    labels="classifier",
    segments=0,
).family()
ELECTRA = BertRelative(
    model_type="electra",
    name="Electra",
    transform="generator_predictions.dense",
    norm="generator_predictions.LayerNorm",
    output="generator_lm_head",
    bias="generator_lm_head.bias",
    pooler="classifier.dense",
    activation="gelu",
    labels="classifier.out_proj",
    is_narrow=True,
).family()
