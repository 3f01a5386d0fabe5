"""One small set of files for each kind of data that tasks read."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

ANIMALS = {"cat": "meow", "dog": "woof", "cow": "moo", "hen": "cluck", "fox": "yip", "owl": "hoot"}
PLACES = ("house", "field", "barn")
N_EXAMPLES = {"train": 12, "valid": 5}


def example(i: int) -> tuple[str, str, str]:
    """An animal, what it says, and where; no two of the first 18 are alike."""
    animal = list(ANIMALS)[i % 6]
    return animal, ANIMALS[animal], PLACES[i % 3 if i < 6 else (i // 6 + i) % 3]


def sentence(i: int) -> str:
    """Of 4 to 8 words, so that a batch has examples of several lengths."""
    animal, sound, place = example(i)
    return f"the {animal} says {sound}" + f" in the {place}" * (i % 2) + " again" * (i % 3 == 0)


def text(i: int) -> str:
    animal, sound, place = example(i)
    return f"The {animal} says {sound}, and it says so" + f" in the {place}" * (i % 2) + ".\n"


def tagged(i: int) -> str:
    return "".join(f"{word}\t{'SOUND' if word in ANIMALS.values() else 'O'}\n" for word in sentence(i).split()) + "\n"


def numbered(i: int) -> str:
    """How many letters a word has."""
    return "".join(f"{word}\t{len(word)}\n" for word in sentence(i).split()) + "\n"


def question(i: int) -> str:
    animal, sound, _ = example(i)
    context = sentence(i)
    answer = {"text": sound, "answer_start": context.index(sound)}
    return json.dumps({"question": animal, "context": context, "answers": [answer] * (i % 4 > 0)}) + "\n"


def conversation(i: int) -> str:
    animal, sound, place = example(i)
    asked = {"role": "user", "content": f"what says the {animal}" + f" in the {place}" * (i % 2)}
    return json.dumps({"messages": [asked, {"role": "assistant", "content": sound}]}) + "\n"


def preference(i: int) -> str:
    animal, sound, _ = example(i)
    return json.dumps({"prompt": f"what says the {animal}", "chosen": sound, "rejected": f"the {animal}"}) + "\n"


def picture(i: int) -> Image.Image:
    """Bright at the top or at the bottom, in one of two sizes."""
    pixels = np.random.default_rng(i).integers(0, 60, (8, 8 + 4 * (i % 3 == 0), 3)).astype(np.uint8)
    pixels[:4] += np.uint8(150 * (i % 2))
    pixels[4:] += np.uint8(150 * (1 - i % 2))
    return Image.fromarray(pixels)


def captions(i: int) -> str:
    """Of one image: one or two."""
    side = "top" if i % 2 else "bottom"
    others = [f"{i}.png,the {'wide ' * (i % 3 == 0)}image is bright at the {side}\n"] * (i % 4 < 2)
    return "".join([f"{i}.png,{side} is bright\n", *others])


def episode(i: int) -> str:
    """Of 3 to 7 steps: a push, and the distance that is left."""
    draw = np.random.default_rng(i)
    n = 3 + i % 5
    states, pushes = draw.uniform(-2, 2, (n, 2)).round(3), draw.uniform(-1, 1, (n, 1)).round(3)
    rewards = (-np.abs(states[:, 1] - states[:, 0])).round(3)
    return json.dumps({"states": states.tolist(), "actions": pushes.tolist(), "rewards": rewards.tolist()}) + "\n"


def measured(i: int) -> str:
    """A day of two columns, which swing: a value is the opposite of that two days before."""
    return f"2024-02-{i + 1:02},{(0, 1, 0, -1)[i % 4]},{(5, 3, 1, 3)[i % 4]}\n"


# By kind: the header of a file, and the line or lines of an example; two files where examples are pairs of lines.
KINDS: dict[str, dict[str, tuple[str, Callable[[int], str]]]] = {
    "text": {"txt": ("", text)},
    "pairs": {
        "en": ("", lambda i: f"{sentence(i)}\n"),
        "back": ("", lambda i: " ".join(sentence(i).split()[::-1][: 3 + i % 3]) + "\n"),
    },
    "labeled": {"tsv": ("text\tlabel\n", lambda i: f"{sentence(i)}\t{'in' if i % 2 else 'out'}\n")},
    "tagged": {"tags": ("", tagged)},
    "numbered": {"tags": ("", numbered)},
    "questions": {"jsonl": ("", question)},
    "conversations": {"jsonl": ("", conversation)},
    "preferences": {"jsonl": ("", preference)},
    "episodes": {"jsonl": ("", episode)},
    "images": {"csv": ("path,label\n", lambda i: f"{i}.png,{'top' if i % 2 else 'bottom'}\n")},
    "series": {"csv": ("date,load,wind\n", measured)},
    "captions": {"csv": ("path,caption\n", captions)},
}


COLUMNS = {"labeled": ["text", "label"], "images": ["path", "label"], "captions": ["path", "caption"]}
PICTURED = ("images", "captions")


def write_data(kind: str, folder: Path) -> dict[str, object]:
    """The files of a kind, and the settings of [data] that read them."""
    folder.mkdir(parents=True, exist_ok=True)
    names: dict[str, list[str]] = {part: [f"{part}.{ending}" for ending in KINDS[kind]] for part in N_EXAMPLES}
    first = {"train": 0, "valid": N_EXAMPLES["train"]}
    for part, n in N_EXAMPLES.items():
        for name, (header, line) in zip(names[part], KINDS[kind].values(), strict=True):
            lines = (line(first[part] + i) for i in range(n))
            (folder / name).write_text(header + "".join(lines), encoding="utf-8")
            for i in range(first[part], first[part] + n) if kind in PICTURED else ():
                picture(i).save(folder / f"{i}.png")
    columns = {"columns": COLUMNS[kind]} if kind in COLUMNS else {}
    return {"root": str(folder), "train": names["train"], "valid": names["valid"], "test": names["valid"]} | columns
