"""Settings of generation: what transformers keeps in generation_config.json, in older folders in config.json, is our
[decoding] table; what has no place there, either way, is said."""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from regard.config import Settings
from regard.decoding.config import DecodingConfig
from regard.errors import ConfigError
from regard.interop.families.settings import LONGEST, Theirs
from regard.interop.formats.safe import read_json

FILE = "generation_config.json"
CARRIED = (
    "eos_token_id", "decoder_start_token_id", "bad_words_ids", "suppress_tokens", "begin_suppress_tokens",
    "repetition_penalty", "no_repeat_ngram_size",
)  # fmt: skip
OF_TARGETS = ("forced_bos_token_id", "min_length", "min_new_tokens", "max_length", "max_new_tokens")  # else left out
OF_SAMPLING = {"temperature": 1.0, "top_k": 50, "top_p": 1.0, "min_p": 0.0, "typical_p": 1.0}
OF_BEAMS = {"length_penalty": 1.0, "early_stopping": False, "num_beam_groups": 1, "diversity_penalty": 0.0}
# What regard does not do, or leaves to the user, and the value that changes nothing.
LEFT_OUT: dict[str, object] = {
    "do_sample": False,
    "num_beams": 1,
    "num_return_sequences": 1,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "forced_eos_token_id": None,
    "exponential_decay_length_penalty": None,
    "remove_invalid_values": False,
    "renormalize_logits": False,
    "sequence_bias": None,
    "guidance_scale": None,
    "stop_strings": None,
    "max_time": None,
    "force_words_ids": None,
    "forced_decoder_ids": None,
    "constraints": None,
    "penalty_alpha": None,
    "token_healing": False,
    "watermarking_config": None,
}
HARMLESS = (
    "_from_model_config", "_commit_hash", "transformers_version", "use_cache", "cache_implementation", "cache_config",
    "bos_token_id", "pad_token_id", "output_scores", "output_logits", "output_attentions", "output_hidden_states",
    "return_dict_in_generate", "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_early_exit",
    "assistant_confidence_threshold", "assistant_lookbehind", "target_lookbehind", "is_assistant", "compile_config",
    "disable_compile", "prefill_chunk_size", "low_memory",
)  # fmt: skip
KNOWN = (*CARRIED, *HARMLESS, *OF_TARGETS, *OF_SAMPLING, *OF_BEAMS, *LEFT_OUT)


class Generation(NamedTuple):
    decoding: Settings  # our table
    notes: tuple[str, ...]  # what is not in it


def generation_settings(folder: Path, config: Settings) -> Settings:
    """Those of the file for them alone, where there is one, as transformers has it; otherwise those of config.json."""
    if (folder / FILE).is_file():
        return read_json(folder / FILE)
    return {name: config[name] for name in KNOWN if name in config}


def read_generation(theirs: Theirs, translates: bool, end_id: int, n_words: int) -> Generation:
    ends = ids(theirs, "eos_token_id", n_words)
    forbidden = [
        word for word in rows(theirs, n_words) if word not in [[end] for end in ends]
    ]  # as transformers has it
    never = {*chain(*(word for word in forbidden if len(word) == 1)), *ids(theirs, "suppress_tokens", n_words)}
    decoding: Settings = {
        "ends": tuple(sorted({*ends} - {end_id})),
        "never": tuple(sorted(never)),
        "never_first": tuple(ids(theirs, "begin_suppress_tokens", n_words)),
        "never_in_a_row": tuple(tuple(word) for word in forbidden if len(word) > 1),
        "repetition_penalty": theirs.number("repetition_penalty", 1.0),
        "block_ngrams": theirs.integer("no_repeat_ngram_size", 0, n_words, least=0),
    }
    looks_back = decoding["repetition_penalty"] != 1 or decoding["block_ngrams"] or decoding["never_in_a_row"]
    if looks_back:
        decoding["counted"] = "start" if translates else "prompt"
    if translates:
        decoding |= of_targets(theirs, n_words)
    notes = list(left_out(theirs, translates))
    if ends and end_id not in ends:
        notes.append(f"its settings do not end a text at the tokenizer's end token, {end_id}; here it ends there, too")
    return Generation(decoding, tuple(notes))


def of_targets(theirs: Theirs, n_words: int) -> Settings:
    """What counts the tokens of a target; there the start token is one of them."""
    decoding: Settings = {}
    if theirs.get("forced_bos_token_id", None) is not None:
        decoding["first"] = (theirs.integer("forced_bos_token_id", None, n_words - 1, least=0),)
    for name, ours in (("min", "min_length"), ("max", "max_length")):
        length = theirs.integer(f"{name}_length", 0, LONGEST, least=0) - 1
        decoding[ours] = max(0, theirs.integer(f"{name}_new_tokens", length, LONGEST, least=-1))
    return decoding


def left_out(theirs: Theirs, translates: bool) -> list[str]:
    """A note that names each setting that asks for something and is not followed."""
    plain = dict(LEFT_OUT)
    if theirs.get("do_sample", False):
        plain |= OF_SAMPLING
    if theirs.get("num_beams", 1) != 1:
        plain |= OF_BEAMS
    if not translates:
        plain |= {name: None for name in OF_TARGETS}
    named = [name for name, value in plain.items() if theirs.get(name, value) != value]
    named += [name for name in theirs.settings if name not in KNOWN]
    if not named:
        return []
    listed = ", ".join(f"{name} = {theirs.settings[name]!r}" for name in named)
    return [f"settings of generation that were not carried over: {listed}"]


def ids(theirs: Theirs, name: str, n_words: int) -> list[int]:
    """One token or several.  Those that the model does not have are never written anyway."""
    value = theirs.get(name, [])
    tokens = value if isinstance(value, list) else [value]
    numbers = [token for token in tokens if type(token) is int]
    if len(numbers) < len(tokens):
        raise ConfigError(f"{name} must be ids of tokens, got {value!r}")
    return [token for token in numbers if 0 <= token < n_words]


def rows(theirs: Theirs, n_words: int) -> list[list[int]]:
    words = theirs.get("bad_words_ids", [])
    if not isinstance(words, list) or not all(isinstance(word, list) and word for word in words):
        raise ConfigError(f"bad_words_ids must be lists of ids of tokens, got {words!r}")
    within = [ids(Theirs({"bad_words_ids": word}, 0, 0), "bad_words_ids", n_words) for word in words]
    return [word for word, kept in zip(words, within, strict=True) if word == kept]


def write_generation(config: DecodingConfig, end_id: int, translates: bool) -> Generation:
    """Our settings in transformers' words, and what these do not say."""
    settings: Settings = {
        "eos_token_id": [end_id, *config.ends] if config.ends else end_id,
        "do_sample": config.sample,
        "num_beams": config.beam,
    }
    notes = []
    if config.sample:
        drawn = {"temperature": config.temperature, "top_k": config.top_k, "top_p": config.top_p, "min_p": config.min_p}
        settings |= drawn
    if config.beam > 1:
        settings |= {"length_penalty": config.length_penalty, "early_stopping": "never"}
        notes.append(f"beams: transformers divides by |Y|^{config.length_penalty:g}, regard by ((5 + |Y|) / 6)^…")
    optional: Mapping[str, tuple[object, object]] = {
        "repetition_penalty": (config.repetition_penalty, 1.0),
        "no_repeat_ngram_size": (config.block_ngrams, 0),
        "min_new_tokens": (config.min_length, 0),
        "suppress_tokens": (list(config.never), []),
        "begin_suppress_tokens": (list(config.never_first), []),
        "bad_words_ids": (list(map(list, config.never_in_a_row)), []),
    }
    settings |= {name: value for name, (value, plain) in optional.items() if value != plain}
    counted = "start" if translates else "prompt"
    looks_back = settings.keys() & {"repetition_penalty", "no_repeat_ngram_size", "bad_words_ids"}
    if looks_back and config.counted != counted:
        notes.append(f"{', '.join(sorted(looks_back))}: transformers also counts the {counted}, this run does not")
    if translates and len(config.first) == 1:
        settings["forced_bos_token_id"] = config.first[0]
    elif config.first:
        notes.append(f"transformers does not begin such texts with given tokens: first = {list(config.first)}")
    return Generation(settings, tuple(notes))
