"""A language model that writes from a vector: that of a label."""

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.models.heads import LanguageModel
from regard.models.interface import Reader
from regard.nn.state import S


class Conditioned(LanguageModel[S]):
    """P(y_1 .. y_T | c) = prod_t P(y_t | c, y_<t)   (vec2seq)

    The vector e(c) of label c is what a causal reader reads first, where another text has <s>.  Of a recurrent net
    that makes the state from which it writes, h_0 = cell(e(c), 0); others look back at it from every place.  The
    vectors are rows of the embeddings after those of the tokens, as the control codes of Keskar et al. (2019) are,
    but no label is ever written: the output table ends before them.
    """

    def __init__(self, reader: Reader[S], n_labels: int):
        super().__init__(reader)
        self.n_labels = n_labels
        self.vocab_size, d_model = reader.word_table.shape
        of_words = reader.word_table.detach()
        of_labels = nn.init.normal_(of_words.new_empty(n_labels, d_model), std=d_model**-0.5)
        reader.embedding.replace_vectors(nn.Parameter(torch.cat([of_words, of_labels])))

    @property
    def output_table(self) -> Tensor:
        return super().output_table[: self.vocab_size]

    def first(self, label: int) -> int:
        """The id that a text with this label begins with."""
        if not 0 <= label < self.n_labels:
            raise RegardError(f"there is no label {label}; the model has {self.n_labels}, counted from 0")
        return self.vocab_size + label
