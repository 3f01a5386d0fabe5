"""What a client may ask for, and for how long: every cap of the server, each of which names itself when it is met."""

from dataclasses import dataclass, fields

from regard.checks import at_least, not_negative
from regard.serving.refusal import Refusal


@dataclass(frozen=True, kw_only=True)
class Limits:
    # What arrives.
    body_bytes: int = 4 * 2**20  # of a request's body
    header_bytes: int = 16 * 2**10  # of its headers and its address together
    connections: int = 256  # open at once
    # What is asked.
    texts: int = 128  # texts, images, histories or messages in a request
    text_chars: int = 50_000  # characters of one text
    tokens: int = 16_384  # of all texts of a request
    new_tokens: int = 2_048  # written for each text
    beams: int = 16  # hypotheses kept at each step
    alternatives: int = 8  # further translations of LibreTranslate's, and n_best of a search
    n: int = 16  # texts drawn for each prompt
    stops: int = 8  # stop strings
    stop_chars: int = 100  # characters of a stop string
    likeliest: int = 100  # words, neighbors or alternatives for each place
    episodes: int = 16  # that a run plays
    attention_tokens: int = 256  # of a text whose attention is looked at
    attention_cells: int = 4_000_000  # weights of all layers and heads that are asked for
    # What runs and waits.
    running: int = 64  # requests that are worked on at once
    waiting: int = 256  # requests that wait for their turn; one more is refused (429)
    tokens_running: int = 262_144  # of the requests that are worked on; the next ones wait
    memory_reserve: int = 256 * 2**20  # bytes that stay free; with less, requests are refused (503)
    # Seconds.
    read_seconds: float = 10.0  # until all of a request has arrived
    wait_seconds: float = 30.0  # in the queue
    answer_seconds: float = 120.0  # from its turn to the whole answer
    write_seconds: float = 30.0  # that a client may take to read what waits for it
    idle_seconds: float = 20.0  # that a connection without a request stays open; clients keep theirs for about 5
    stop_seconds: float = 20.0  # from SIGTERM until what still runs is given up

    def __post_init__(self) -> None:
        at_least(self, 1, *(field.name for field in fields(self) if field.type is int and field.name not in MAY_BE_0))
        not_negative(self, *MAY_BE_0, *(field.name for field in fields(self) if field.type is float))

    def check(self, value: float | None, cap: str, what: str, status: int = 400) -> None:
        """Refuse a value above the cap of this name; None is none."""
        most = vars(self)[cap]
        if value is not None and value > most:
            raise Refusal(status, f"{what}: at most {most:,} (the server's cap {cap})", param=what, code=cap)

    def check_texts(self, texts: list[str], what: str) -> None:
        self.check(len(texts), "texts", what)
        for text in texts:
            self.check(len(text), "text_chars", what)

    def check_stops(self, stops: list[str]) -> None:
        self.check(len(stops), "stops", "stop")
        for text in stops:
            if not text:
                raise Refusal(400, "stop: a stop string must not be empty", param="stop")
            self.check(len(text), "stop_chars", "stop")


MAY_BE_0 = ("waiting", "memory_reserve")
# Which cap holds for a number of a verb's request, or of its decoding, by the name of its field.
CAPS = {
    "length": "new_tokens",
    "top": "likeliest",
    "n": "likeliest",
    "n_likeliest": "likeliest",
    "episodes": "episodes",
    "beam": "beams",
    "n_best": "n",
    "extra_length": "new_tokens",
    "max_length": "new_tokens",
    "min_length": "new_tokens",
}
