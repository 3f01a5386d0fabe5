"""The architectures, oldest first.  One file each: its settings, then its forward pass."""

from typing import NamedTuple

from regard.models.attentive import Attentive, AttentiveConfig
from regard.models.bag import BagConfig, BagOfWords
from regard.models.channel_series import ITransformer, ITransformerConfig
from regard.models.compressive import CompressiveConfig, CompressiveTransformer
from regard.models.config import ModelConfig
from regard.models.convolutional import Convolutional, ConvolutionalConfig
from regard.models.elmo import BiLM, BiLMConfig, Elmo, ElmoConfig
from regard.models.image_seq2seq import ImageSeq2Seq, ImageSeq2SeqConfig
from regard.models.image_transformer import ImageTransformer, ImageTransformerConfig
from regard.models.interface import Model
from regard.models.linear_series import DLinear, DLinearConfig, NLinear, NLinearConfig
from regard.models.markov import Markov, MarkovConfig
from regard.models.patch_series import PatchTST, PatchTSTConfig
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.recurrent_series import RecurrentSeries, RecurrentSeriesConfig
from regard.models.residual import ResidualNetwork, ResidualNetworkConfig
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.stack import Stack, StackConfig
from regard.models.step_series import TransformerSeries, TransformerSeriesConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.transformer_xl import TransformerXL, TransformerXLConfig
from regard.models.vit import ViT, ViTConfig
from regard.models.xlnet import XLNet, XLNetConfig


class Architecture(NamedTuple):
    config: type[ModelConfig]
    module: type[Model]


ARCHITECTURES = {
    "bag": Architecture(BagConfig, BagOfWords),
    "markov": Architecture(MarkovConfig, Markov),
    "recurrent": Architecture(RecurrentConfig, Recurrent),
    "convolutional": Architecture(ConvolutionalConfig, Convolutional),
    "attentive": Architecture(AttentiveConfig, Attentive),
    "seq2seq": Architecture(Seq2SeqConfig, Seq2Seq),
    "transformer": Architecture(TransformerConfig, Transformer),
    "bilm": Architecture(BiLMConfig, BiLM),
    "elmo": Architecture(ElmoConfig, Elmo),
    "stack": Architecture(StackConfig, Stack),
    "transformer-xl": Architecture(TransformerXLConfig, TransformerXL),
    "compressive": Architecture(CompressiveConfig, CompressiveTransformer),
    "xlnet": Architecture(XLNetConfig, XLNet),
    "residual": Architecture(ResidualNetworkConfig, ResidualNetwork),
    "vit": Architecture(ViTConfig, ViT),
    "image-seq2seq": Architecture(ImageSeq2SeqConfig, ImageSeq2Seq),
    "image-transformer": Architecture(ImageTransformerConfig, ImageTransformer),
    "recurrent-series": Architecture(RecurrentSeriesConfig, RecurrentSeries),
    "transformer-series": Architecture(TransformerSeriesConfig, TransformerSeries),
    "nlinear": Architecture(NLinearConfig, NLinear),
    "dlinear": Architecture(DLinearConfig, DLinear),
    "patchtst": Architecture(PatchTSTConfig, PatchTST),
    "itransformer": Architecture(ITransformerConfig, ITransformer),
}
