"""What `look --positions` draws is the run's own: tables as wide as the run's rows, angles, biases."""

from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from regard.errors import RegardError
from regard.models.heads import LanguageModel
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.stack import Stack, StackConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.xlnet import XLNet, XLNetConfig
from regard.nn.layout import Ragged
from regard.nn.positions import POSITIONS
from regard.runs.recipe import Recipe
from regard.viewer import picture
from regard.viewer.encodings import PositionTable, lecture_table, position_tables

SMALL = {"vocab_size": 11, "d_model": 48, "n_heads": 4, "n_layers": 1, "d_ff": 8, "max_length": 40}


def translator(position: str, **settings: object) -> Transformer:
    torch.manual_seed(0)
    return Transformer(TransformerConfig(**SMALL | {"position": position} | settings))  # type: ignore[arg-type]


def writer(position: str, **settings: object) -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(Stack(StackConfig(**SMALL | {"position": position} | settings)))  # type: ignore[arg-type]


@pytest.mark.parametrize("d_model", [16, 48])
def test_sinusoids_are_those_of_the_runs_width(d_model: int) -> None:
    [table] = position_tables(translator("sinusoidal", d_model=d_model), 60)  # the same for source and target
    assert table.values.shape == (40, d_model)  # as many places as the model has
    places, channels = np.arange(40)[:, None], np.arange(0, d_model, 2)
    angles = places / 10000 ** (channels / d_model)
    np.testing.assert_allclose(table.values[:, 0::2], np.sin(angles), atol=1e-5)
    np.testing.assert_allclose(table.values[:, 1::2], np.cos(angles), atol=1e-5)


def test_the_table_of_the_lectures_is_none_of_a_run() -> None:
    lecture = lecture_table()
    assert lecture.values.shape == (60, 32)
    [of_run] = position_tables(translator("sinusoidal", max_length=60), 60)
    assert np.abs(of_run.values[:, :32] - lecture.values).max() > 0.5  # another width has other wavelengths


def test_learned_tables_are_the_weights_of_each_side() -> None:
    model = translator("learned")
    source, target = position_tables(model, 30)
    for table, position in ((source, model.source_position), (target, model.target_position)):
        np.testing.assert_array_equal(table.values, position.table[:30].detach().numpy())
    assert source.title.startswith("learned, source: added to the embeddings, 30 of 40 positions by 48 channels")
    assert target.title.startswith("learned, target: ")


def test_a_table_is_as_wide_as_the_embeddings() -> None:
    """Embeddings may be narrower than rows."""
    [table] = position_tables(writer("learned", d_embedding=12), 60)
    assert table.values.shape == (40, 12)


@pytest.mark.parametrize(
    ("position", "names"), [("learned", ["learned", "learned, generator"]), ("rotary", ["rotary"])]
)
def test_a_generator_has_its_own_table_where_it_differs(position: str, names: list[str]) -> None:
    small = ["model.d_model=32", "model.n_heads=2", "model.n_layers=1", "model.d_ff=16", "tokenizer.vocab_size=300"]
    model = Recipe.read("electra-small", [*small, f"model.position={position}"]).build_model()
    assert [table.title.partition(":")[0] for table in position_tables(model, 60)] == names


def test_rotary_angles_are_those_by_which_vectors_turn() -> None:
    model = writer("rotary", rotary_base=500.0)
    [table] = position_tables(model, 60)
    assert table.values.shape == (40, 6) and table.is_angle  # pairs of the 12 channels of a head
    vectors = torch.randn(40, 1, 6, dtype=torch.complex64)
    turned = model.reader.position.rotate(torch.view_as_real(vectors).flatten(-2), Ragged([40]))
    expected = vectors[:, 0].numpy() * np.exp(1j * table.values)
    np.testing.assert_allclose(torch.view_as_complex(turned.unflatten(-1, (6, 2)))[:, 0].numpy(), expected, atol=1e-4)
    np.testing.assert_allclose(table.values[:, 1], np.arange(40) / 500 ** (2 / 12) % (2 * np.pi), atol=1e-4)


@pytest.mark.parametrize("position", ["alibi", "buckets"])
def test_biases_are_those_of_the_scores_by_distance(position: str) -> None:
    model = translator(position)
    source, target = position_tables(model, 20)
    assert source.values.shape == (4, 39) and source.first_column == -19  # an encoder looks both ways,
    assert target.values.shape == (4, 20) and target.first_column == -19  # a decoder only back
    for table, encoding in ((source, model.source_position), (target, model.target_position)):
        bias = encoding.bias(torch.arange(20)[None], torch.arange(20))[0].detach().numpy()  # H Q K
        for query, key in ((0, 0), (19, 0), (7, 3), (3, 7)):
            column = key - query - table.first_column
            if column < table.values.shape[1]:
                np.testing.assert_allclose(table.values[:, column], bias[:, query, key], rtol=1e-6)
    if position == "alibi":
        assert source.values[0, 0] == pytest.approx(-0.25 * 19) and source.values[3, 20] == pytest.approx(-(2**-8))


def test_distances_of_xlnet() -> None:
    config = XLNetConfig(vocab_size=11, d_model=16, n_heads=2, n_layers=1, d_ff=8, max_length=40)
    [table] = position_tables(XLNet(config), 60)
    assert table.values.shape == (40, 16) and table.title.startswith("relative: sines, then cosines of the distance")
    np.testing.assert_allclose(table.values[:, 1], np.sin(np.arange(40) * 10000 ** (-2 / 16)), atol=1e-5)
    np.testing.assert_allclose(table.values[:, 9], np.cos(np.arange(40) * 10000 ** (-2 / 16)), atol=1e-5)


@pytest.mark.parametrize("position", [name for name in POSITIONS if name != "none"])
def test_every_encoding_has_a_table(position: str) -> None:
    tables = position_tables(writer(position), 60)
    assert len(tables) == 1 and tables[0].title.startswith(f"{position}: ")


@pytest.mark.slow  # drawn by Matplotlib
@pytest.mark.parametrize("position", [name for name in POSITIONS if name != "none"])
def test_every_encoding_is_drawn(position: str, tmp_path: Path) -> None:
    tables = position_tables(writer(position), 60)
    picture.positions(tables, tmp_path / "drawn.png")
    assert imread(tmp_path / "drawn.png")[..., :3].std() > 0.01


def test_a_model_without_positions_says_so() -> None:
    recurrent = Seq2Seq(Seq2SeqConfig(vocab_size=11, d_model=8, d_hidden=8, score="dot"))
    for model in (writer("none"), recurrent):
        with pytest.raises(RegardError, match="this model has no position encoding to draw"):
            position_tables(model, 60)


@pytest.mark.parametrize("shape", [(3,), (0, 4), (4, 0)])
def test_a_table_has_rows_and_columns(shape: tuple[int, ...]) -> None:
    with pytest.raises(RegardError, match="rows and columns"):
        PositionTable("none", np.ones(shape), rows="position", columns="channel")
