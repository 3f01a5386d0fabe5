"""The shape of the code: imports point one way, files stay small, one idea lives in one place, recipes build."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import torch

from regard.config import shipped_recipes
from regard.runs.recipe import Recipe
from tests.shipped import own_models
from tests.trees import nodes, trees

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "regard"
SOURCES = sorted(PACKAGE.rglob("*.py"))

# A package may import those on lines above its own.  `evaluation` is left of `tasks`: metrics are leaf functions
# that a task needs in order to validate (docs/decisions.md).
TIERS = (
    ("errors",),
    ("checks", "choose", "config", "memory", "processes"),
    ("games",),
    ("text",),
    ("nn",),
    ("inputs",),
    ("models",),
    ("data", "decoding"),
    ("evaluation",),
    ("viewer",),
    ("tasks",),
    ("learning",),
    ("runs",),
    ("training",),
    ("interop",),
    ("ladder",),
    ("serving",),
    ("commands",),
    ("__main__",),
)
TIER_OF = {name: tier for tier, names in enumerate(TIERS) for name in names}

LONGEST = 300  # lines of a file

PARAMETERS = {
    "demo": 727_040,
    "multi30k-ende": 9_421_824,
    "multi30k-enfr": 9_421_824,
    "multi30k-deen-lstm": 9_139_712,
    "tatoeba-enfr": 9_421_824,
    "aeslc": 9_421_824,
    "aeslc-gpt": 8_366_592,
    "multi30k-enfr-gpt": 8_366_592,
    "transformer-base": 63_082_496,
    "transformer-big": 214_245_376,
    "gpt1": 116_534_784,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "gpt3": 174_604_259_328,
    "imdb-bag": 800_002,
    "imdb-lstm": 4_631_554,
    "imdb-transformer": 4_318_978,
    "sst2-bag": 200_002,
    "sst2-lstm": 3_440_834,
    "sst2-transformer": 1_561_858,
    "mnist": 694_626,
    "mnist-vit": 804_098,
    "fashion": 4_325_834,
    "cifar10-vit": 3_722_250,
    "cifar10-cct": 3_765_514,
    "flickr8k-cnn-rnn": 12_083_448,
    "flickr8k-transformer": 15_838_400,
    "sms-bag": 100_002,
    "timemachine": 920_064,
    "shakespeare-char-lstm": 3_460_224,
    "shakespeare-char": 10_653_312,
    "shakespeare-char-cpu": 797_568,
    "wikitext2-gpt": 32_781_824,
    "enwik8": 37_907_456,
    "enwik8-xl": 37_907_456,
    "enwik8-compressive": 50_496_512,
    "enwik8-global": 37_907_456,
    "enwik8-hashing": 34_761_728,
    "enwik8-long": 37_907_456,
    "enwik8-window": 37_907_456,
    "recall": 69_856,
    "totals": 25_793,
    "listops": 4_747_786,
    "imdb-bytes": 4_806_146,
    "imdb-bytes-masked": 4_872_453,
    "python-code": 13_698_816,
    "ptb-lstm": 24_274_480,
    "ptb-awd-lstm": 24_274_480,
    "ptb-transformer": 14_537_856,
    "ptb-trigram": 0,
    "ptb-skips": 0,
    "wikitext2-lstm": 33_585_680,
    "ladder": 986_880,
    "ladder-translation": 1_182_208,
    "sms-writer": 1_038_848,
    "wikitext2-case": 3_402_261,
    "elmo": 31_186_944,
    "sst2-elmo": 34_862_086,
    "chat-tiny": 647_936,
    "chat-preference": 647_936,
    "chat-reward": 648_065,
    "chat-policy": 647_936,
    "bart-small": 38_144_000,
    "t5-small-own": 37_563_904,
    "xlnet-small": 28_689_536,
    "sst2-bart": 38_144_000,
    "aeslc-bart": 38_144_000,
    "sst2-t5": 37_563_904,
    "sst2-xlnet": 28_674_562,
    "bert-base": 110_106_428,  # as the authors' BertForPreTraining
    "bert-small": 27_651_714,
    "roberta-small": 27_387_008,
    "distilbert-small": 17_930_880,
    "electra-small": 28_711_937,
    "imdb-bert": 27_372_034,
    "sst2-bert": 27_372_034,
    "sms-bert": 27_372_034,
    "boolq-bert": 27_372_034,
    "wikitext2-case-bert": 27_119_125,
    "quac-bert": 27_109_378,
    "sentences-bart": 990_208,
    "sentences-gru": 317_184,
    "sentences-t5": 990_464,
    "shapes-cnn-rnn": 77_008,
    "shapes-transformer": 273_472,
    "luck": 8_865,  # the games, before the data settle how many symbols and actions there are
    "key-to-door": 100_609,
    "key-to-door-lstm": 99_905,
    "cartpole": 100_609,
    "acrobot": 100_609,
    "etth1": 404_800,
    "etth1-720": 1_455_840,
    "weather": 5_127_232,
    "ettm1": 3_502_400,
    "etth1-linear": 295_488,
    "ettm1-linear": 194_112,  # before the data settle how many columns there are, each of which has weights of its own
    "weather-linear": 194_112,  # likewise
    "illness": 114_192,
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in SOURCES}


def package_of(module: str) -> str:
    """The part of the library that a module belongs to: "nn" of regard.nn.sight; "" of regard itself."""
    return module.partition(".")[2].partition(".")[0]


def tree_of(path: Path) -> ast.Module:
    return trees()[path.relative_to(PACKAGE).as_posix()]


def imports(path: Path) -> Iterator[str]:
    """The modules of this library that a file imports, anywhere in it."""
    for node in nodes(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "regard")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} is a relative import; write the whole name"
            if (node.module or "").split(".")[0] == "regard":
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    yield inner if inner in MODULES else str(node.module)


def test_every_package_has_its_tier() -> None:
    assert {package_of(module) for module in MODULES} - {""} == set(TIER_OF)


def test_imports_point_to_the_left() -> None:
    for module in filter(package_of, MODULES):
        own = package_of(module)
        for imported in imports(MODULES[module]):
            other = package_of(imported)
            if other and other != own:
                assert TIER_OF[other] < TIER_OF[own], f"{module} imports {imported}: {other} is not left of {own}"


def test_no_module_needs_itself() -> None:
    """Also within a package: no cycles, and none dodged by an import in a function."""
    graph = {module: set(imports(path)) - {"regard"} for module, path in MODULES.items() if module != "regard"}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle


def test_only_commands_use_the_public_names() -> None:
    """`import regard` gives a lower layer the version and nothing else: `regard.load` would point to the right."""
    for module, path in MODULES.items():
        used = {
            node.attr
            for node in nodes(tree_of(path))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "regard"
        }
        assert used <= {"__version__"} or package_of(module) == "commands", f"{module} uses {used} of regard"


@pytest.mark.parametrize("folder", ["regard", "tests", "bench"])
def test_files_are_small(folder: str) -> None:
    kinds = ("*.py", "*.js", "*.css", "*.html", "*.toml")
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for kind in kinds
        for path in (ROOT / folder).rglob(kind)
    }
    assert lengths
    assert {name: n for name, n in lengths.items() if n > LONGEST} == {}


def test_names_say_what_is_inside() -> None:
    grab_bags = re.compile(r"(^|_)(utils?|helpers?|common|base|manager|misc)(_|$)", re.IGNORECASE)
    for path in SOURCES:
        parts = path.relative_to(ROOT).with_suffix("").parts
        classes = [n.name for n in nodes(tree_of(path)) if isinstance(n, ast.ClassDef)]
        assert not [part for part in parts if grab_bags.search(part)], path
        assert not [name for name in classes if re.search(r"(Utils?|Helper|Common|Base|Manager|Mixin)$", name)], path


def test_every_module_says_what_it_is() -> None:
    assert [path for path in SOURCES if not ast.get_docstring(tree_of(path))] == []


@cache
def texts() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in SOURCES}


def lines_with(pattern: str) -> list[str]:
    """The places in the library whose line matches, as "regard/nn/sight.py: text"."""
    return [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path, text in texts().items()
        if re.search(pattern, text)
        for line in text.splitlines()
        if re.search(pattern, line)
    ]


def test_the_causal_rule_is_said_once() -> None:
    assert lines_with(r"\bk <= q\b|\bq >= k\b") == [
        'regard/nn/sight.py: """Nobody looks at the future: k <= q."""',
        "regard/nn/sight.py: return k <= q",
    ]
    assert lines_with(r"\b(tril|triu)\b|generate_square_subsequent_mask") == []
    flags = lines_with(r"is_causal\s*=")  # the flag of a fused kernel, which only the fast paths set
    assert flags and all(line.startswith("regard/nn/paths.py") for line in flags)


def test_the_mask_is_applied_in_one_line() -> None:
    """The readable path hides keys in masked_softmax; only the fused kernels (paths.py) take the mask another way."""
    in_nn = [line for line in lines_with(r"masked_fill") if line.startswith("regard/nn/")]
    readable = [line for line in in_nn if not line.startswith("regard/nn/paths.py")]
    assert len(readable) == 1 and readable[0].startswith("regard/nn/attention.py")
    tree = tree_of(PACKAGE / "nn" / "attention.py")
    [function] = [n for n in nodes(tree) if isinstance(n, ast.FunctionDef) and n.name == "masked_softmax"]
    assert "masked_fill" in ast.unparse(function)


def test_every_shipped_recipe_is_counted() -> None:
    assert set(own_models()) == set(PARAMETERS)


@pytest.mark.parametrize("name", own_models())
def test_recipes_build_models_of_known_size(name: str) -> None:
    with torch.device("meta"):  # shapes without memory
        model = Recipe.read(name).build_model()
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("name", own_models())
def test_recipes_are_read_as_they_were_written(name: str, tmp_path: Path) -> None:
    recipe = Recipe.read(name)
    path = tmp_path / f"{name}.toml"
    recipe.write(path)
    assert Recipe.read(str(path)) == recipe


@pytest.mark.parametrize("name", shipped_recipes())
def test_recipes_begin_with_what_they_are(name: str) -> None:
    """`regard recipes` prints the first line."""
    first = shipped_recipes()[name].read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ") and first.endswith(".")
