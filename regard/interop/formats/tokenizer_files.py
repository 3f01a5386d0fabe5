"""The tokenizer of a run for other tools: a text typed there becomes the tokens that the run reads of it."""

import json
from pathlib import Path
from typing import NamedTuple

import tokenizers

from regard.data.batching.template import Template
from regard.interop.families.settings import exchange_of
from regard.runs.durable import write_file
from regard.runs.run import Run
from regard.tasks.framing import MarkedTexts
from regard.text.imported import IMPORTED
from regard.text.vocabulary import TOKENIZER_FILE

MASK, FILLS = "<mask>", "fill-mask"
PROBE = "it"  # any text
AS_TEXT = "special tokens that are typed in a text are text in regard"
IN_A_FILE = f"{AS_TEXT}. tokenizer.json cannot say so: set `tokenizer.encode_special_tokens = True` once it is loaded"
BESIDE_MASK = f"{AS_TEXT}, and `regard fill` reads [MASK], [SEP], <s> and </s>; here all are special, since <mask> is"
IN_CHATS = f"{AS_TEXT}; here they are special, because the chat template types them"
OF_ITS_OWN = f"{AS_TEXT}; here they are what the tokenizer's own files say"
# As `Template` has it: <s> <user> Hello! <assistant> Hi. </s>
CHAT = (
    "<s>{% for message in messages %}{{ '<' + message['role'] + '>' + message['content'] }}"
    "{% if message['role'] == 'assistant' %}</s>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


class Around(NamedTuple):
    """The tokens that stand before and after those of a text."""

    before: list[int]
    after: list[int]


def around(run: Run) -> Around:
    """What the run's task puts around a text."""
    ids, inner = run.task.encode(PROBE), run.tokenizer.encode(PROBE)
    places = [i for i in range(len(ids) - len(inner) + 1) if ids[i : i + len(inner)] == inner]
    return Around(ids[: places[0]], ids[places[0] + len(inner) :]) if places else Around([], [])


def write_framed(run: Run, folder: Path, is_framed: bool = True) -> None:
    """tokenizer.json, which puts around a text what the run's task does, or nothing (unless `is_framed`); what an
    imported tokenizer needs besides it brings along."""
    tokenizer, file = run.tokenizer, folder / TOKENIZER_FILE
    tokenizer.save(file)
    settings = json.loads(file.read_bytes())
    if not is_framed:  # the other tool puts it there
        if settings["post_processor"] is not None:
            write_file(file, json.dumps(settings | {"post_processor": None}, ensure_ascii=False).encode())
        return
    frame = around(run)
    if not differs(run, frame):
        return
    for token in settings["added_tokens"]:
        if tokenizer.kind != IMPORTED and token["content"] == MASK:
            token["lstrip"] = MarkedTexts(tokenizer).mask_takes_space
    inner = tokenizers.Tokenizer.from_str(json.dumps(settings))
    if any(frame):
        inner.post_processor = template(run, frame)
    write_file(file, inner.to_str(pretty=True).encode())


def differs(run: Run, frame: Around) -> bool:
    """Whether tokenizer.json has to say more than it does: of an imported one, where a language model has learned
    since that something else stands before a text."""
    adds_start = run.tokenizer.adds_start
    if adds_start is None:
        return True
    return exchange_of(run.recipe).writes and frame.before != [run.tokenizer.start_id] * adds_start


def template(run: Run, frame: Around) -> tokenizers.processors.TemplateProcessing:
    """`before` a `after` and, of two texts, `before` a `after` b `after`, as BERT reads them."""
    named = {name: ids for name, ids in frame._asdict().items() if ids}  # a token such as : has a meaning of its own
    single = " ".join(["before"] * bool(frame.before) + ["$A"] + ["after"] * bool(frame.after))
    second = " $B:1" + " after:1" * bool(frame.after)
    return tokenizers.processors.TemplateProcessing(
        single=single,
        pair=single + second,
        special_tokens=[{"id": name, "ids": ids, "tokens": run.tokenizer.tokens(ids)} for name, ids in named.items()],
    )


def write_for_transformers(run: Run, folder: Path) -> tuple[str, ...]:
    """With tokenizer_config.json.  Returns notes on what it cannot say."""
    write_framed(run, folder)
    tokenizer, exchange = run.tokenizer, exchange_of(run.recipe)
    if (folder / "tokenizer_config.json").is_file():  # an imported tokenizer brings its own
        return (OF_ITS_OWN,)
    start, end = tokenizer.token(start_token(run)), tokenizer.token(tokenizer.end_id)
    settings: dict[str, object] = {
        "bos_token": start,
        "eos_token": end,
        "unk_token": tokenizer.token(tokenizer.unknown_id),
        "pad_token": tokenizer.token(tokenizer.pad_id),
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": run.recipe.model.max_length,
        "split_special_tokens": True,  # those that are typed are text
    }
    notes: tuple[str, ...] = ()
    if exchange.is_framed:
        settings |= {"cls_token": start, "sep_token": end}
    if MASK in tokenizer.special:
        settings["mask_token"] = MASK
    if exchange.pipeline == FILLS:
        settings["split_special_tokens"], notes = False, (BESIDE_MASK,)
    if set(Template.names) <= set(tokenizer.special):
        settings |= {"chat_template": CHAT, "split_special_tokens": False}
        notes = (IN_CHATS,)
    if not exchange.translates and run.recipe.model.n_segments:
        settings["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    write_file(folder / "tokenizer_config.json", json.dumps(settings, indent=2, ensure_ascii=False).encode())
    return notes


def start_token(run: Run) -> int:
    """The special token that a text begins with: for a stream, what ends the text before it."""
    first = around(run).before[:1]
    return (
        first[0] if exchange_of(run.recipe).writes and first and is_special(run, first[0]) else run.tokenizer.start_id
    )


def is_special(run: Run, token: int) -> bool:
    return token in run.tokenizer.vocabulary.special.values()
