"""What stands in front of a model: words, and anything else that becomes rows."""

import pytest
import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.inputs import InputTable, Words
from regard.models.attentive import Attentive, AttentiveConfig
from regard.models.convolutional import Convolutional, ConvolutionalConfig
from regard.models.heads import Classifier, LanguageModel
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.stack import Stack, StackConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.layout import Layout, Ragged

D_IN, D = 3, 8
BLOCKS = {"vocab_size": 11, "d_model": D, "n_heads": 2, "n_layers": 2, "d_ff": 16, "dropout": 0.0, "max_length": 16}


class Measurements(InputTable):
    """Vectors of D_IN measured numbers, by a product."""

    def __init__(self, d_out: int = D):
        super().__init__()
        self.product = nn.Linear(D_IN, d_out)

    @property
    def d_out(self) -> int:
        return self.product.out_features

    def forward(self, inputs: Tensor, layout: Layout) -> Tensor:
        return self.product(inputs)


READERS = {
    "stack": lambda inputs: Stack(StackConfig(**BLOCKS), inputs),
    "recurrent": lambda inputs: Recurrent(RecurrentConfig(vocab_size=11, d_model=D, d_hidden=D, dropout=0.0), inputs),
    "convolutional": lambda inputs: Convolutional(
        ConvolutionalConfig(vocab_size=11, d_model=D, n_layers=2, dropout=0.0), inputs
    ),
    "attentive": lambda inputs: Attentive(AttentiveConfig(vocab_size=11, d_model=D, d_hidden=D, dropout=0.0), inputs),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_the_same_layers_read_other_inputs_than_words(reader):
    torch.manual_seed(0)
    model, inputs = reader(Measurements()).eval(), torch.randn(7, D_IN)
    rows = model(inputs, Ragged([4, 3]))
    assert rows.shape == (7, model.d_out) and model.word_vectors is None
    alone = torch.cat([model(part, Ragged([len(part)])) for part in inputs.split([4, 3])])
    torch.testing.assert_close(rows, alone)
    with torch.no_grad():
        state = model.start(1, 4)
        stepped = torch.cat([model.step(column[None, None], state)[0] for column in inputs[:4]])
    torch.testing.assert_close(stepped, rows[:4])
    logits = Classifier(model, 2, "last", 0.0)(inputs, Ragged([4, 3]))
    logits.sum().backward()
    assert logits.shape == (2, 2) and model.embedding.product.weight.grad.any()


def test_a_translator_reads_another_source_and_writes_words():
    model = Transformer(TransformerConfig(**BLOCKS), Measurements()).eval()
    hidden = model(torch.randn(5, D_IN), Ragged([5]), torch.tensor([1, 4]), Ragged([2]))
    assert hidden.shape == (2, D) and model.output_table.shape == (11, D)


def test_inputs_must_be_as_wide_as_the_model():
    with pytest.raises(ConfigError, match="rows of 5 numbers, and the model reads rows of 8"):
        Stack(StackConfig(**BLOCKS), Measurements(5))


def test_without_words_there_are_no_words_to_predict_and_no_segments():
    with pytest.raises(ConfigError, match="needs a model that reads words"):
        LanguageModel(Stack(StackConfig(**BLOCKS), Measurements()))
    with pytest.raises(ConfigError, match="n_segments must be 0"):
        Stack(StackConfig(**BLOCKS, n_segments=2), Measurements())
    with pytest.raises(ConfigError, match="have no vectors"):
        Measurements().replace_vectors(nn.Parameter(torch.zeros(2, D)))


def test_words_are_rows_of_a_table_scaled():
    words, tokens = Words(11, D, scale=3.0), torch.tensor([4, 1, 4])
    torch.testing.assert_close(words(tokens, Ragged([3])), 3 * words.weight[tokens])
    assert words.d_out == D and len(words.vectors) == 11 and list(words.state_dict()) == ["weight"]
