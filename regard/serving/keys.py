"""Keys: who may ask.  They are read from a file, one a line, and compared in constant time."""

import hmac
from collections.abc import Iterable
from pathlib import Path

from regard.errors import ConfigError

SHORTEST = 16  # characters of a key


class Keys:
    """Without any, everybody may ask: that is for this machine alone."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self.keys = tuple(key.encode() for key in keys)

    def __bool__(self) -> bool:
        return bool(self.keys)

    def knows(self, given: str | None) -> bool:
        """Every key is compared to its end, whichever fits."""
        if not self.keys:
            return True
        sent = (given or "").encode("utf-8", "replace")
        fits = [hmac.compare_digest(key, sent) for key in self.keys]
        return any(fits)


def read_keys(path: Path) -> Keys:
    """Empty lines and those that begin with # are left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"{path} cannot be read; write one key a line into it, as UTF-8") from None
    keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not keys:
        raise ConfigError(f"{path} has no key; make one: openssl rand -hex 32 > {path}")
    for number, key in enumerate(keys, start=1):
        if len(key) < SHORTEST or not key.isascii() or " " in key:
            rule = f"must have at least {SHORTEST} ASCII characters and no spaces"
            raise ConfigError(f"{path}: key {number} {rule}; make one: openssl rand -hex 32")
    return Keys(keys)


def bearer(header: str | None) -> str | None:
    """The key of `Authorization: Bearer KEY`."""
    scheme, _, key = (header or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None
