"""One thread steps the engines of all runs; requests wait for their searches in threads of their own.

Model work happens in turns: a step of the engines is one turn, and so is what a request computes between searches.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Condition, Event, Lock, Thread
from typing import NamedTuple

from regard.decoding.engine import Engine
from regard.decoding.interface import Progress
from regard.decoding.outputs import Hypothesis
from regard.decoding.search import Search
from regard.decoding.ticket import Ticket
from regard.serving.usage import Usage

LAST_STEP = 3  # seconds that the step which runs at the end may still take
LOOK_AGAIN = 0.05  # seconds after which a call that waits looks whether its client is still there


class Gone(Exception):
    """Nobody waits for this answer any more."""


class TurnLock:
    """A lock that is given in the order in which it was asked for, so that steps do not hold up requests for long."""

    def __init__(self) -> None:
        self.lock, self.asked = Lock(), deque[Event]()
        self.is_taken = False

    def __enter__(self) -> None:
        mine = Event()
        with self.lock:
            if not self.is_taken:
                self.is_taken = True
                return
            self.asked.append(mine)
        mine.wait()

    def __exit__(self, *error: object) -> None:
        with self.lock:
            if self.asked:
                self.asked.popleft().set()
            else:
                self.is_taken = False

    @contextmanager
    def given_away(self) -> Iterator[None]:
        """While the holder waits for something, others take their turns."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()


class Waiter(NamedTuple):
    """Who waits for a search."""

    over: Event  # set when the search is over
    gone: Event  # is set when nobody waits any more


class Stepper:
    """Steps engines while they have something to do."""

    def __init__(self, turns: TurnLock) -> None:
        self.turns, self.changed = turns, Condition()
        self.engines: list[Engine] = []
        self.is_closed = False
        self.waiters: dict[Ticket, Waiter] = {}
        self.thread = Thread(target=self.run, name="regard-model", daemon=True)
        self.thread.start()

    def submit(self, engine: Engine, ticket: Ticket, gone: Event) -> Event:
        """Call it in a turn of one's own.  The event is set when the search is over, or when `gone` was seen."""
        over = Event()
        self.waiters[ticket] = Waiter(over, gone)
        engine.submit(ticket)
        with self.changed:
            if engine not in self.engines:
                self.engines.append(engine)
            self.changed.notify()
        return over

    def leave(self, tickets: Sequence[Ticket]) -> None:
        """Nobody waits for these any more."""
        for ticket in tickets:
            ticket.cancel()
            self.waiters.pop(ticket, None)

    def run(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.engines or self.is_closed)
                if self.is_closed:
                    return
                engines = list(self.engines)
            for engine in engines:
                with self.turns:
                    self.step(engine)

    def step(self, engine: Engine) -> None:
        self.cancel_left()
        try:
            over = engine.step()
        except Exception as error:  # a fault of ours: those who wait are told, and others go on
            over = engine.give_up(error)
        for ticket in over:
            self.tell(ticket)
        with self.changed:
            if engine.is_idle:
                self.engines.remove(engine)

    def cancel_left(self) -> None:
        """Searches that nobody waits for end here, so that their rows are free after this step."""
        for ticket, waiter in list(self.waiters.items()):
            if waiter.gone.is_set():
                ticket.cancel()
                self.tell(ticket)

    def tell(self, ticket: Ticket) -> None:
        """It is over: who waits looks up."""
        if waiter := self.waiters.pop(ticket, None):
            waiter.over.set()
        if ticket.listener is not None:
            ticket.listener([])

    def close(self) -> None:
        """Ends after the step that runs, which is waited for: PyTorch aborts a process that ends in the middle."""
        with self.changed:
            self.is_closed = True
            self.changed.notify()
        self.thread.join(LAST_STEP)


class SharedEngine(Engine):
    """The engine of a run, for one request: its searches run beside those of all others.

    It is used in a turn, which is given away while a search is waited for.  When `gone` is set they are cancelled.
    """

    def __init__(self, shared: Engine, stepper: Stepper, gone: Event, usage: Usage) -> None:
        super().__init__(shared.given)
        self.shared, self.stepper, self.gone, self.usage = shared, stepper, gone, usage
        self.models, self.word_lists = shared.models, shared.word_lists

    def answer(self, searches: Sequence[Search], on_progress: Progress | None = None) -> list[list[Hypothesis]]:
        tickets = [Ticket(search) for search in searches]
        try:
            over = [self.stepper.submit(self.shared, ticket, self.gone) for ticket in tickets]
            with self.stepper.turns.given_away():
                for n_done, event in enumerate(over, start=1):
                    self.wait(event)
                    if on_progress is not None:
                        on_progress(n_done, len(tickets))
        finally:
            self.stepper.leave(tickets)
        return [self.counted(ticket) for ticket in tickets]

    def follow(self, search: Search) -> Iterator[int]:
        heard: SimpleQueue[list[int]] = SimpleQueue()
        ticket, n_told = Ticket(search, lambda tokens: heard.put(list(tokens))), 0
        try:
            over = self.stepper.submit(self.shared, ticket, self.gone)
            while not over.is_set():
                with self.stepper.turns.given_away():
                    new = self.hear(heard)[n_told:]
                n_told += len(new)
                yield from new
            self.check_there()
            yield from self.counted(ticket)[0].tokens[n_told:]
        finally:
            self.stepper.leave([ticket])

    def counted(self, ticket: Ticket) -> list[Hypothesis]:
        hypotheses = ticket.answer()
        self.usage.count(ticket.search, hypotheses)
        return hypotheses

    def wait(self, over: Event) -> None:
        while not over.wait(LOOK_AGAIN):
            self.check_there()
        self.check_there()

    def check_there(self) -> None:
        if self.gone.is_set():
            raise Gone

    def hear(self, heard: SimpleQueue[list[int]]) -> list[int]:
        try:
            return heard.get(timeout=LOOK_AGAIN)
        except Empty:
            self.check_there()
            return []
