"""A model small enough to search by hand: the next token depends on the prompt and on all tokens so far, by a table."""

import torch
from torch import Tensor

START, END = 1, 0
N_CONTEXTS = 1009


class TableState:
    def __init__(self, prompts: list[list[int]], copies: int, room: int) -> None:
        self.copies, self.room = copies, room
        self.memory = torch.tensor([hash(tuple(prompt)) % N_CONTEXTS for prompt in prompts], dtype=torch.long)
        self.tokens = torch.zeros(len(prompts) * copies, 0, dtype=torch.long)
        self.lengths = torch.zeros(len(prompts) * copies, dtype=torch.long)

    @property
    def n_rows(self) -> int:
        return len(self.lengths)

    def select(self, rows: Tensor) -> None:
        owners = (rows // self.copies).view(-1, self.copies)
        assert (owners == owners[:, :1]).all(), "a group must come from one prompt"
        self.memory = self.memory[owners[:, 0]]
        self.tokens, self.lengths = self.tokens[rows], self.lengths[rows]

    def reorder(self, rows: Tensor) -> None:
        own = torch.arange(self.n_rows) // self.copies
        assert torch.equal(rows // self.copies, own), "every row must come from its own prompt"
        self.tokens, self.lengths = self.tokens[rows], self.lengths[rows]

    def truncate(self, lengths: Tensor) -> None:
        self.lengths = torch.minimum(self.lengths, lengths)

    def join(self, other: "TableState") -> None:
        self.room = max(self.room, other.room)
        width = max(self.tokens.shape[1], other.tokens.shape[1])
        pads = [torch.nn.functional.pad(s.tokens, (0, width - s.tokens.shape[1])) for s in (self, other)]
        self.tokens = torch.cat(pads)
        self.memory = torch.cat([self.memory, other.memory])
        self.lengths = torch.cat([self.lengths, other.lengths])


class TableModel:
    """Counts the rows it is asked to step, so that a test can see finished prompts being dropped."""

    def __init__(self, vocab_size: int = 6, seed: int = 0, scale: float = 1.5, end_bias: float = 0.0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.table = scale * torch.randn(N_CONTEXTS, vocab_size, generator=generator)
        self.table[:, END] += end_bias
        self.rows_stepped: list[int] = []

    def check_room(self, n_rows: int, room: int) -> None:
        """There is always enough."""

    is_capturable = False
    reads_on = False
    device = torch.device("cpu")
    max_length = 10_000

    def start(
        self, prompts: list[list[int]], begin: int, copies: int = 1, room: int = 256
    ) -> tuple[TableState, Tensor]:
        state = TableState(prompts, copies, room)
        logits = self.step(torch.full((state.n_rows, 1), begin), state)[:, -1]
        return state, logits[::copies]

    def step(self, tokens: Tensor, state: TableState) -> Tensor:
        self.rows_stepped.append(len(tokens))
        assert tokens.shape[0] == state.n_rows
        logits = []
        for column in tokens.T:
            if state.tokens.shape[1] <= state.lengths.max():
                state.tokens = torch.nn.functional.pad(state.tokens, (0, 1))
            state.tokens.scatter_(1, state.lengths[:, None], column[:, None])
            state.lengths = state.lengths + 1
            assert state.lengths.max() <= state.room, "more steps than room was asked for"
            logits.append(self.table[self.contexts(state)])
        return torch.stack(logits, 1)

    def contexts(self, state: TableState) -> Tensor:
        context = state.memory.repeat_interleave(state.copies)
        for place, token in enumerate(state.tokens.T):
            context = torch.where(place < state.lengths, (context * 31 + token + 7) % N_CONTEXTS, context)
        return context


def log_prob(model: TableModel, prompt: list[int], tokens: list[int]) -> float:
    """The sum of log P over the tokens, without any search."""
    context, total = hash(tuple(prompt)) % N_CONTEXTS, 0.0
    for before, token in zip([START, *tokens], tokens, strict=False):
        context = (context * 31 + before + 7) % N_CONTEXTS
        total += float(model.table[context].double().log_softmax(-1)[token])
    return total
