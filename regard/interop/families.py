"""The families that can be imported and exported, by the `model_type` of their config.json."""

from regard.interop.family import Family
from regard.interop.gpt2 import GPT2

FAMILIES: dict[str, Family] = {
    "gpt2": GPT2,
}
