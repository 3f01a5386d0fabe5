"""The text of a ladder: the demo's sentences, or the user's files, divided once for all rungs."""

from pathlib import Path

from regard.config import Settings
from regard.data.corpora.grammar import generate
from regard.data.files.reading import read_examples
from regard.data.files.splits import places
from regard.errors import ConfigError, RunError

KEPT_BACK = 0.05  # of the user's text for validation, and as much for the test
PARTS = ("train", "valid", "test")


def text_table(files: list[Path], folder: Path) -> Settings:
    """The [data] table of language models: one text, of which the end is kept back, or one file for each part."""
    if not files:
        return grammar_table(folder, ("en",))
    named = [str(file.resolve()) for file in files]
    if len(named) == 1:
        return {"root": ".", "train": named, "valid": [], "test": [], "valid_share": KEPT_BACK, "test_share": KEPT_BACK}
    if len(named) == len(PARTS):
        return {"root": ".", **{part: [name] for part, name in zip(PARTS, named, strict=True)}}
    raise ConfigError(f"--data takes one text, or three: train, valid and test; got {len(files)}")


def pairs_table(files: list[Path], folder: Path) -> Settings:
    """The [data] table of translators.  Pairs with the same source are never on both sides of a division."""
    if not files:
        return grammar_table(folder, ("en", "fr"))
    if len(files) != 2:
        raise ConfigError(f"--data takes two files, the source and the target lines; got {len(files)}")
    columns = read_examples(tuple(map(str, files)), (), ".").columns
    folder.mkdir(parents=True, exist_ok=True)
    lines: dict[str, list[int]] = {part: [] for part in PARTS}
    for i, place in enumerate(places(columns[0], seed=0)):
        lines["test" if place < KEPT_BACK else "valid" if place < 2 * KEPT_BACK else "train"].append(i)
    for part, chosen in lines.items():
        if not chosen:
            raise ConfigError(f"{len(columns[0]):,} pairs are too few to divide: nothing is left for {part}")
        for side, column in zip(("source", "target"), columns, strict=True):
            put("".join(column[i] + "\n" for i in chosen), folder / f"{part}.{side}")
    return {"root": str(folder.resolve()), **{part: [f"{part}.source", f"{part}.target"] for part in PARTS}}


def put(text: str, path: Path) -> None:
    """Write a part; what another ladder of this folder was trained on is not overwritten."""
    if path.is_file() and path.read_bytes() != text.encode():
        raise RunError(f"{path} holds lines of another ladder, which are left as they are; choose a folder with --out")
    path.write_text(text, encoding="utf-8", newline="\n")


def grammar_table(folder: Path, languages: tuple[str, ...]) -> Settings:
    """The demo's sentences: those of the test say what no training sentence says."""
    generate().write(folder)
    names = {"train": "train", "valid": "valid", "test": "held-out"}
    files = {part: [f"{name}.{language}" for language in languages] for part, name in names.items()}
    return {"root": str(folder.resolve()), **files}
