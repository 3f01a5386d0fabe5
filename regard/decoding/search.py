"""One prompt's search: what is to be written after it, and how."""

from dataclasses import dataclass, replace
from functools import lru_cache

from regard.decoding.config import DecodingConfig
from regard.decoding.interface import Ids, Prompts
from regard.decoding.stopping import Stops
from regard.errors import RegardError
from regard.nn.layout import Prompt


@dataclass(frozen=True, kw_only=True, eq=False)
class Search:
    prompt: Prompt
    config: DecodingConfig
    begin: int  # the token that a translator writes after
    end: int
    limit: int  # tokens, with the end counted
    prefix: tuple[int, ...] = ()  # that every hypothesis begins with
    stops: Stops | None = None

    @property
    def copies(self) -> int:
        """Hypotheses that are written side by side."""
        return max(self.config.beam, self.config.n_best)

    @property
    def ends(self) -> tuple[int, ...]:
        return self.end, *self.config.ends

    @property
    def manner(self) -> tuple[DecodingConfig, int]:
        """Searches of one manner are advanced together."""
        return without_own(self.config), self.end


@lru_cache
def without_own(config: DecodingConfig) -> DecodingConfig:
    """The settings without those that every search has for itself."""
    return replace(config, seed=0, length_ratio=0.0, extra_length=1, max_length=0, batch_tokens=1)


def plan(
    prompts: Prompts,
    config: DecodingConfig,
    begin: int,
    end: int,
    prefixes: Ids | None = None,
    stops: Stops | None = None,
) -> list[Search]:
    """A search for each prompt.

    Hypotheses begin with `config.first` and the prompt's prefix, if any.  One is also finished by the token that
    completes a stop string; greedy search and sampling know of these.
    """
    if stops is not None and config.beam > 1:
        raise RegardError(f"stop strings need beam = 1 or sample = true, got beam = {config.beam}")
    if config.shortlist and (config.first or (prefixes and any(prefixes))):
        raise RegardError("a prefix may hold words that are not in the shortlist: set shortlist = 0")
    prefixes = [[] for _ in prompts] if prefixes is None else prefixes
    if len(prefixes) != len(prompts):
        raise RegardError(f"{len(prompts)} prompts need as many prefixes, got {len(prefixes)}")
    searches = []
    for prompt, own_prefix in zip(prompts, prefixes, strict=True):
        prefix = (*config.first, *own_prefix)
        for token in (end, *config.ends):
            if token in prefix:
                raise RegardError(f"a prefix holds the end token ({token}): nothing can follow it; leave it out")
        if config.max_length and len(prefix) >= config.max_length:
            raise RegardError(f"a prefix of {len(prefix)} tokens leaves no room in {config.max_length}; shorten it")
        limit = max(config.limit(prompt), len(prefix) + 1)
        searches.append(
            Search(prompt=prompt, config=config, begin=begin, end=end, limit=limit, prefix=prefix, stops=stops)
        )
    return searches
