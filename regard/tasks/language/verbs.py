"""What can be asked of a language model: a text that goes on, and how likely given texts are."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.decoding.config import DecodingConfig
from regard.decoding.outputs import Place
from regard.tasks.request import Request, Texts


@dataclass(frozen=True)
class Written:
    text: str  # what follows the prompt
    whole: str  # with the prompt
    log_prob: float  # of all that was written, with what ended it
    finished: bool  # False: the length limit came first
    notes: tuple[str, ...] = ()  # what happened to the prompt
    places: tuple[Place, ...] = ()  # of each token, if asked for


@dataclass(frozen=True)
class Generate(Request[list[Written]]):
    """For each prompt the `n_best` texts that go on from it, by at most `length` tokens, up to a stop string."""

    name, takes_draft = "generate", True

    prompts: Texts
    length: int | None = None
    decoding: DecodingConfig | None = None
    stop: Sequence[str] = ()
    n_likeliest: int = 0


@dataclass(frozen=True)
class StreamText(Request[str]):
    """The text that `generate` gives, in pieces as it is written; its `notes` say what happened to the prompt."""

    name, streams, takes_draft = "stream", True, True

    prompt: str
    length: int | None = None
    decoding: DecodingConfig | None = None
    stop: Sequence[str] = ()


@dataclass(frozen=True)
class GenerateAs(Request[list[Written]]):
    """`generate` from a label: a prompt, which may be empty, is how the text begins."""

    name, takes_draft = "generate_as", True

    label: str
    prompts: Texts = ("",)
    length: int | None = None
    decoding: DecodingConfig | None = None


@dataclass(frozen=True)
class ScoreTexts(Request[list[float]]):
    """log P of each token of the given texts and, where lines have one, of their end."""

    name = "score_texts"

    texts: Texts


@dataclass(frozen=True)
class Reach(Request[float]):
    """|∂L/∂h_{T-d}| by distance, measured on a text (default: the recipe's test or validation text).

    With `jacobians`, of a recurrent model: the norm of the product of Jacobians, ‖∂h_T/∂h_{T-d}‖.
    """

    name, in_routes = "reach", False

    files: Sequence[str] = ()
    distance: int = 100
    n_passages: int | None = None  # None: 64; of Jacobians, which take longer, 4
    jacobians: bool = False
