"""The architectures, oldest first.  One file each: its settings, then its forward pass."""

from typing import Any, NamedTuple

from regard.models.attentive import Attentive, AttentiveConfig
from regard.models.bag import BagConfig, BagOfWords
from regard.models.convolutional import Convolutional, ConvolutionalConfig
from regard.models.elmo import BiLM, BiLMConfig, Elmo, ElmoConfig
from regard.models.markov import Markov, MarkovConfig
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.stack import Stack, StackConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.xlnet import XLNet, XLNetConfig


class Architecture(NamedTuple):
    config: type[Any]
    module: type[Any]
    role: str  # "reader": a task reads off its rows; otherwise what it is by itself
    is_counted: bool = False  # trained by counting, without gradients


ARCHITECTURES = {
    "bag": Architecture(BagConfig, BagOfWords, "classifier"),
    "markov": Architecture(MarkovConfig, Markov, "language", is_counted=True),
    "recurrent": Architecture(RecurrentConfig, Recurrent, "reader"),
    "convolutional": Architecture(ConvolutionalConfig, Convolutional, "reader"),
    "attentive": Architecture(AttentiveConfig, Attentive, "reader"),
    "seq2seq": Architecture(Seq2SeqConfig, Seq2Seq, "translator"),
    "transformer": Architecture(TransformerConfig, Transformer, "translator"),
    "bilm": Architecture(BiLMConfig, BiLM, "bidirectional"),
    "elmo": Architecture(ElmoConfig, Elmo, "reader"),
    "stack": Architecture(StackConfig, Stack, "reader"),
    "xlnet": Architecture(XLNetConfig, XLNet, "reader"),
}
