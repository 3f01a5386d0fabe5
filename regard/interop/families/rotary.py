"""Rotary positions in transformers' words (`rope_parameters`), read and written."""

import math

from regard.config import Settings
from regard.errors import ConfigError
from regard.interop.families.settings import LONGEST, Theirs
from regard.models.transformer import TransformerConfig

TYPES = {"default": "none", "linear": "linear", "dynamic": "dynamic", "llama3": "llama3", "yarn": "yarn"}
BEFORE = "original_max_position_embeddings"


def read_rotary(theirs: Theirs, max_length: int) -> Settings:
    """Our settings.  Texts may be as long as `max_length`; where angles change as a text grows, that is the length up
    to which they do not, and texts may be longer by the factor."""
    angles = angles_of(theirs)
    older = {"rope_type": angles.settings["type"]} if "type" in angles.settings else {}
    scaling = angles.within({**older, **angles.settings}).choice("rope_type", TYPES, "default")
    model: Settings = {
        "rotary_base": angles.number("rope_theta", theirs.number("rope_theta", 10000.0)),
        "rotary_scaling": scaling,
    }
    if scaling == "none":
        return model
    angles.expect(partial_rotary_factor=1.0, truncate=True)
    before = theirs.length(BEFORE, angles.length(BEFORE, max_length))
    model["rotary_factor"] = factor = angles.number("factor", max_length / before if scaling == "yarn" else None)
    if scaling == "dynamic":
        if factor * max_length > LONGEST:
            raise ConfigError(
                f"factor must make texts of at most {LONGEST:,} tokens, got {factor} times {max_length:,}"
            )
        model |= {"rotary_length": max_length, "max_length": int(factor * max_length)}
    if scaling == "llama3":
        slow, fast = angles.number("low_freq_factor", None), angles.number("high_freq_factor", None)
        model |= {"rotary_length": before, "rotary_slow": slow, "rotary_fast": fast}
    if scaling == "yarn":
        slow, fast = angles.number("beta_slow", 1.0) or 1.0, angles.number("beta_fast", 32.0) or 32.0
        model |= {
            "rotary_length": before,
            "rotary_slow": slow,
            "rotary_fast": fast,
            "rotary_gain": gain(angles, factor),
        }
    return model


def angles_of(theirs: Theirs) -> Theirs:
    """Newer files have them in `rope_parameters`; the older `rope_scaling` counts where there are both."""
    for name in ("rope_scaling", "rope_parameters"):
        angles = theirs.settings.get(name)
        if angles:
            if not isinstance(angles, dict):
                raise ConfigError(f"{name} must be a table, got {angles!r}")
            return theirs.within(angles)
    return theirs.within({})


def gain(angles: Theirs, factor: float) -> float:
    """Of queries and keys, in YaRN: given, or made of two numbers (DeepSeek), or 0 for that of the paper."""
    if angles.settings.get("attention_factor") is not None:
        given = angles.number("attention_factor", None)
        if given <= 0:
            raise ConfigError(f"attention_factor must be above 0, got {given!r}")
        return given
    above, below = angles.number("mscale", 0.0), angles.number("mscale_all_dim", 0.0)
    growth = 0.1 * math.log(max(factor, 1.0))
    return (above * growth + 1) / (below * growth + 1) if above and below else 0.0


def write_rotary(c: TransformerConfig) -> dict[str, object]:
    """Their settings, with the number of places that these have."""
    turning = c.turning
    kind = next(theirs for theirs, ours in TYPES.items() if ours == turning.scaling)
    angles: dict[str, object] = {"rope_type": kind, "rope_theta": turning.base}
    if kind != "default":
        angles["factor"] = turning.factor
    if kind == "llama3":
        angles |= {BEFORE: turning.length, "low_freq_factor": turning.slow, "high_freq_factor": turning.fast}
    if kind == "yarn":
        angles |= {BEFORE: turning.length, "beta_slow": turning.slow, "beta_fast": turning.fast}
        angles["attention_factor"] = turning.size
    elif turning.size != 1:
        raise ConfigError(f"only yarn scales queries and keys, and this run has rotary_gain = {turning.gain}")
    n_places = turning.length if kind == "dynamic" else c.max_length
    return {"rope_parameters": angles, "max_position_embeddings": n_places}
