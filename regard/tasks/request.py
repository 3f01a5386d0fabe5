"""A request: what is asked of a run by a verb.  The Python method, the command and the HTTP route are made from its
fields, so this file and every `verbs.py` must not import PyTorch."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from itertools import islice
from numbers import Integral
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from regard.errors import RegardError
from regard.tasks.plain import plain

A = TypeVar("A")

FOR_EACH_ANSWER = "one for each answer"
AT_A_TIME = 64  # things that are taken from an iterator and answered together
Texts = Annotated[Sequence[str], FOR_EACH_ANSWER]  # where two fields are such, their texts belong together


@dataclass(frozen=True, kw_only=True)
class Help:
    """An option of the command line; a field without one can be set in Python alone."""

    text: str
    least: int | None = None
    for_every_line: str = ""  # an option of this name takes one text, and every line gets it
    names_file: bool = False  # the option also takes a file with that text


@dataclass(frozen=True)
class Request(Generic[A]):
    """A is what is answered to one of the things that it asks about."""

    name: ClassVar[str]  # of the Python method, the command and the route
    in_routes: ClassVar[bool] = True  # False: it names files of this machine, or takes what only Python has
    streams: ClassVar[bool] = False  # its answer comes in pieces of text
    takes_draft: ClassVar[bool] = False  # another run can propose what this one writes (--draft)

    def records(self, shown: Sequence[str], answers: Any) -> list[object]:
        """The answers as JSON; `shown` says what each is about."""
        return [plain(answer) for answer in answers]


@dataclass(frozen=True)
class LineRequest(Request[A], ABC):
    """Its first field are texts, one answer for each: N lines in, N lines out."""

    takes_texts: ClassVar[bool] = False  # the command takes texts as arguments, not only a file of lines
    takes_one: ClassVar[str] = ""  # "question": the command takes one such text, or lines of standard input
    takes_whole: ClassVar[bool] = False  # the command can take all of its input as one text (--whole)
    joins_runs: ClassVar[bool] = False  # several runs can answer together (--with)
    gives_n_best: ClassVar[bool] = False  # --json gives the other n_best answers, too
    silent: ClassVar[tuple[str, ...]] = ()  # notes that are not printed, because the answer shows them

    def read(self, line: str, where: str) -> dict[str, str]:
        """The texts that a line of input gives, by field; `where` is "" for an argument of the command."""
        return {fields(self)[0].name: line}

    @abstractmethod
    def line(self, answer: A) -> str:
        """The answer as one line of output."""

    @abstractmethod
    def record(self, number: int, text: str, answer: A) -> dict[str, object]:
        """The answer to one line of input as JSON (--json)."""

    def records(self, shown: Sequence[str], answers: Any) -> list[object]:
        pairs = zip(shown, answers, strict=True)
        return [plain(self.record(number, text, answer)) for number, (text, answer) in enumerate(pairs, start=1)]

    def remarks(self, answer: A) -> list[str]:
        """Further notes, for a person."""
        return []

    def more(self, answer: A) -> list[str]:
        """Further lines, for texts that were given as arguments."""
        return []


AnyRequest = Request[Any]  # whatever it answers
AnyLineRequest = LineRequest[Any]


@dataclass(frozen=True)
class Embed(Request[list[float]]):
    """One vector for each line, (lines, D): of the rows that the model reads from it, whatever its task.  A line that
    is too long for the model is read in pieces, and gets the mean of their vectors."""

    name = "embed"

    lines: Texts
    pooling: str = "mean"
    layer: int | None = None


class NearToken(NamedTuple):
    token: str
    cosine: float
    id: int


@dataclass(frozen=True)
class Nearby:
    token: str  # that reads as the word does, perhaps with a space before it
    id: int
    neighbors: list[NearToken]  # the nearest first
    formula: str  # the token, or of an analogy " king - man + woman"
    terms: list[tuple[int, int]]  # of each of its tokens the id, and 1 or -1


@dataclass(frozen=True)
class Neighbors(Request[Nearby]):
    """The tokens whose embeddings are nearest to a word's, by cosine: for each token that reads as the word does.

    An analogy looks near word - minus + plus, the three being scaled to length 1: king - man + woman.
    """

    name = "neighbors"

    word: str
    minus: str = ""
    plus: str = ""
    n: Annotated[int, Help(text="how many", least=1)] = 10


# What a caller gives in Python, by the types of the fields.

R = TypeVar("R", bound=AnyRequest)


# A value that a caller gave, and where -> a list of what the task is asked about: texts, or images.
Listed = Callable[[object, str], Sequence[Any]]


def checked(request: R, listed: Listed | None = None) -> tuple[R, bool]:
    """The request with lists of texts, and whether it asks for one answer alone: a string in place of texts is one.

    `listed` makes the list of what is asked about where that is not text.
    """
    hints = get_type_hints(type(request), include_extras=True)
    lists: dict[str, Sequence[object]] = {}
    counts: dict[str, int] = {}  # of the fields with a text for each answer
    for name, value in vars(request).items():
        kinds, where = list(kinds_of(hints[name])), f"{request.name}, {name}"
        if value is None and NoneType in kinds:
            continue
        if Sequence[str] in kinds:
            lists[name] = (listed if listed and FOR_EACH_ANSWER in kinds else texts_of)(value, where)
        elif str in kinds and not isinstance(value, str):
            raise RegardError(f"{where}: expected a text, got {kind_name(value)}")
        elif Sequence[dict[str, str]] in kinds and not isinstance(value, Sequence):
            raise RegardError(f"{where}: expected a list of messages, got {kind_name(value)}")
        elif int in kinds:
            check_number(value, where, next((kind.least for kind in kinds if isinstance(kind, Help)), None))
        if FOR_EACH_ANSWER in kinds:
            counts[name] = len(lists[name])
    if len(set(counts.values())) > 1:
        counted = ", ".join(f"{n} {name}" for name, n in counts.items())
        raise RegardError(f"{request.name}: expected as many texts in each list, got {counted}")
    is_alone = any(len(lists[name]) == 1 and lists[name][0] is vars(request)[name] for name in list(counts)[:1])
    return replace(request, **lists), is_alone


def answered_fields(request: AnyRequest) -> list[str]:
    """The names of the fields that hold one thing for each answer."""
    hints = get_type_hints(type(request), include_extras=True)
    return [name for name in vars(request) if FOR_EACH_ANSWER in kinds_of(hints[name])]


def asks_in_turn(request: AnyRequest) -> bool:
    """Whether what it asks about comes from an iterator, such as a generator: then answers are given as they come."""
    return any(isinstance(vars(request)[name], Iterator) for name in answered_fields(request)[:1])


def in_pieces(request: R, listed: Listed | None = None) -> Iterator[R]:
    """The same request about a few things after the other; what else has one for each answer goes along."""
    columns = {name: iter(texts) for name in answered_fields(request) if (texts := vars(request)[name])}
    while True:
        taken = {name: list(islice(column, AT_A_TIME)) for name, column in columns.items()}
        if not any(taken.values()):
            return
        yield checked(replace(request, **taken), listed)[0]


def kinds_of(hint: object) -> Iterator[object]:
    """All that is joined in a type, and what is noted beside it: Annotated[int | None, HELP] → int, None, HELP."""
    if get_origin(hint) in (Annotated, Union, UnionType):
        for part in get_args(hint):
            yield from kinds_of(part)
    else:
        yield hint


def texts_of(value: object, where: str) -> list[str]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable) or isinstance(value, bytes | bytearray | Mapping | Set):
        raise RegardError(f"{where}: expected a text or a list of texts, got {kind_name(value)}")
    texts = list(value)
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise RegardError(f"{where}: expected a list of texts, got {kind_name(text)} at place {place}")
    return texts


def check_number(value: object, where: str, least: int | None) -> None:
    if not isinstance(value, Integral):
        raise RegardError(f"{where}: expected a whole number, got {kind_name(value)}")
    if least is not None and int(value) < least:
        raise RegardError(f"{where}: expected at least {least}, got {value}")


def kind_name(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__} {value!r:.40}"
