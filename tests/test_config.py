"""The configuration is strict: what no dataclass declares is an error that says where, what was got and the choices."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard import config
from regard.choose import choose
from regard.errors import ConfigError
from regard.runs.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Oven:
    degrees: int
    minutes: float = 30.0
    mode: str = "fan"
    is_open: bool = False
    trays: tuple[str, ...] = ()
    timer: int | None = None

    def __post_init__(self) -> None:
        if self.degrees > 300:
            raise ConfigError(f"degrees must be at most 300, got {self.degrees}")


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "some.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def message(function, *arguments: object) -> str:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError) as caught:
        function(*arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"degree": 200}, "[oven] has no setting 'degree'; did you mean 'degrees'?"),
        (
            {"x": 1},
            "[oven] has no setting 'x'; it has: degrees, minutes, mode, is_open, trays, timer",
        ),
        ({}, "[oven] needs a value for 'degrees'"),
        ({"degrees": "hot"}, "[oven] degrees must be int, got 'hot'"),
        ({"degrees": 200.0}, "[oven] degrees must be int, got 200.0"),
        ({"degrees": True}, "[oven] degrees must be int, got True"),
        ({"degrees": 200, "minutes": "10"}, "[oven] minutes must be float, got '10'"),
        ({"degrees": 200, "minutes": float("nan")}, "[oven] minutes must be a finite number, got nan"),
        ({"degrees": 200, "is_open": 1}, "[oven] is_open must be bool, got 1"),
        ({"degrees": 200, "mode": 1}, "[oven] mode must be str, got 1"),
        ({"degrees": 200, "trays": "top"}, "[oven] trays must be a list, got 'top'"),
        ({"degrees": 200, "trays": [1]}, "[oven] trays must be str, got 1"),
        ({"degrees": 200, "timer": "soon"}, "[oven] timer must be int, got 'soon'"),
        ({"degrees": 301}, "[oven] degrees must be at most 300, got 301"),
    ],
)
def test_a_wrong_setting_is_named(settings: config.Settings, said: str) -> None:
    assert message(config.build, Oven, settings, "oven") == said


def test_right_settings_build() -> None:
    settings = {"degrees": 200, "minutes": 1, "trays": ["top", "low"], "timer": 5}
    oven = config.build(Oven, settings, "oven")
    assert oven == Oven(degrees=200, minutes=1.0, trays=("top", "low"), timer=5)
    assert type(oven.minutes) is float


def test_what_is_not_set_is_left_out() -> None:
    assert "timer" not in config.as_settings(Oven(degrees=1))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ("0.5", 0.5),
        ("1e-9", 1e-9),
        ("true", True),
        ("adamw", "adamw"),
        ('"4"', "4"),
        ('["a.en", "a.fr"]', ["a.en", "a.fr"]),
        ("runs/demo", "runs/demo"),
        ("", ""),
    ],
)
def test_overrides_are_toml_and_names_need_no_quotes(text: str, value: object) -> None:
    parsed = config.parse(text)
    assert parsed == value and type(parsed) is type(value)


def test_overrides_reach_their_table(tmp_path: Path) -> None:
    name = write(tmp_path, "[model]\nd_model = 8\n")
    settings = config.load(name, ["model.d_model=16", "training.steps=3", "task.source=Old English"])
    assert settings == {"model": {"d_model": 16}, "training": {"steps": 3}, "task": {"source": "Old English"}}


@pytest.mark.parametrize("override", ["d_model", "=4", "model.=4", ".d_model=4"])
def test_an_override_without_a_name_or_value_is_named(tmp_path: Path, override: str) -> None:
    said = message(config.load, write(tmp_path, ""), [override])
    assert said == f"--set needs table.name=value, got {override!r}"


def test_an_override_through_a_value_is_named(tmp_path: Path) -> None:
    said = message(config.load, write(tmp_path, "[model]\nd_model = 8\n"), ["model.d_model.x=1"])
    assert said == "--set model.d_model.x=1: 'd_model' is a value, not a table"


def test_toml_that_is_none_is_named(tmp_path: Path) -> None:
    said = message(config.load, write(tmp_path, "[model\n"))
    assert "some.toml is not valid TOML" in said and "line 1" in said


def test_a_recipe_is_a_name_a_file_or_a_run(tmp_path: Path) -> None:
    assert config.find_recipe("transformer-base").name == "transformer-base.toml"
    assert config.find_recipe(write(tmp_path, "")) == tmp_path / "some.toml"
    (tmp_path / "recipe.toml").write_text("", encoding="utf-8")
    assert config.find_recipe(str(tmp_path)) == tmp_path / "recipe.toml"


def test_a_missing_recipe_is_named_with_the_nearest() -> None:
    said = message(config.find_recipe, "transformer-bas")
    assert said == ("no recipe 'transformer-bas': neither a shipped name nor a file; did you mean 'transformer-base'?")
    assert "shipped: " in message(config.find_recipe, "zzz") and "transformer-big" in message(config.find_recipe, "zzz")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["oven.degrees=1"], "has no table [oven]; its tables are: task, data, tokenizer, "),
        (["task.kind=chess"], "unknown task 'chess'; choose one of: "),
        (["model.architecture=rnn"], "unknown architecture 'rnn'; choose one of: "),
        (["task.kind=language"], "the architecture 'transformer' cannot do the task 'language'; these can: markov, "),
        (["model.n_layer=3"], "[model] has no setting 'n_layer'; did you mean 'n_layers'?"),
        (["tokenizer.kind=letters"], "[tokenizer] unknown kind of tokenizer 'letters'; choose one of: bpe, "),
        (["tokenizer.vocab_size=9"], "[tokenizer] vocab_size must be at least 260"),
        (["data.order=sorted"], "[data] order must be one of grouped, random, got 'sorted'"),
        (["data.valid_share=1.5"], "[data] valid_share must be at least 0 and below 1"),
        (
            ["data.valid_share=0.1", 'data.valid=["a", "b"]'],
            "[data] set either valid (files) or valid_share, not both; got ['a', 'b']",
        ),
        (["data.batch_tokens=0"], "[data] batch_tokens must be at least 1, got 0"),
        (["task.metric=chrf"], "[task] metric must be one of loss, bleu, rouge, got 'chrf'"),
        (["task.smoothing=1"], "[task] smoothing must be at least 0 and below 1"),
        (
            ["training.schedule=step"],
            "[training] unknown schedule 'step'; choose one of: constant, cosine, linear, noam",
        ),
        (["training.optimizer=lion"], "[training] unknown optimizer 'lion'; choose one of: adam, adamw"),
        (["training.steps=0"], "[training] steps must be at least 1, got 0"),
        (["training.betas=[0.9]"], "[training] betas must be two numbers"),
        (["training.average=9", "training.keep=3"], "[training] average = 9 needs keep to be at least that"),
        (
            ["training.patience=2", "training.validate_every=0"],
            "[training] patience and average_after count validations",
        ),
        (["decoding.n_best=9"], "[decoding] n_best = 9 needs a beam of at least 9"),
        (["decoding.top_p=0"], "[decoding] top_p must be above 0 and at most 1"),
        (["decoding.sample=true"], "[decoding] sample and beam exclude each other"),
    ],
)
def test_a_recipe_refuses_what_cannot_be_used(overrides: list[str], said: str) -> None:
    assert said in message(Recipe.read, "transformer-base", overrides)


def test_a_table_lists_its_names() -> None:
    assert message(choose, {"b": 1, "a": 2}, "c", "thing") == "unknown thing 'c'; choose one of: a, b"
    assert choose({"a": 2}, "a", "thing") == 2


# Every character of the Basic Multilingual Plane that a file name or a language's name may hold.
NAMES = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=("Cs", "Cc")), max_size=20)


def written_and_read(oven: Oven, path: Path) -> Oven:
    config.write({"oven": config.as_settings(oven)}, path)
    return config.build(Oven, config.load(str(path))["oven"], "oven")


@given(
    degrees=st.integers(-(2**53), 300),
    minutes=st.floats(allow_nan=False, allow_infinity=False),
    mode=NAMES,
    trays=st.lists(NAMES),
)
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, degrees: int, minutes: float, mode: str, trays: list[str]
) -> None:
    oven = Oven(degrees=degrees, minutes=minutes, mode=mode, trays=tuple(trays))
    assert written_and_read(oven, tmp_path_factory.mktemp("oven") / "oven.toml") == oven


def test_a_character_beyond_the_basic_plane_is_read_again(tmp_path: Path) -> None:
    oven = Oven(degrees=1, mode="😀")
    assert written_and_read(oven, tmp_path / "oven.toml") == oven


def test_a_value_in_the_place_of_a_table_is_named() -> None:
    assert "model is a table, [model], not a value" in message(Recipe.read, "transformer-base", ["model=5"])


def test_a_setting_that_an_earlier_version_had_elsewhere_is_found(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("[distribution]\ncheckpointing = true\nthreads = 2\n", encoding="utf-8")
    assert config.load(str(path)) == {"distribution": {"threads": 2}, "training": {"checkpointing": True}}
    path.write_text("training = 3\n[distribution]\ncheckpointing = true\n", encoding="utf-8")
    assert config.load(str(path))["training"] == 3, "which is refused by its table"
