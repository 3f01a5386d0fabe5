"""A corpus of Python code from this interpreter's standard library.

    python -m regard.data.corpora.standard_library FOLDER

Whole modules go to train.txt, valid.txt and test.txt, chosen by what they say; each begins with a line of its name.
"""

import sys
import sysconfig
import tokenize
from pathlib import Path

from regard.data.files.splits import places
from regard.errors import DataError

LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "_bundled", "__pycache__"}
PARTS = {"test": 0.05, "valid": 0.10, "train": 1.0}  # the place of a module (`splits.places`) is below


def modules(library: Path) -> dict[str, str]:
    """The text of every module, by its path; tests and what others installed are left out."""
    texts = {}
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).parts
        if LEFT_OUT.isdisjoint(parts):
            try:
                with tokenize.open(path) as file:  # in the encoding that its first lines declare
                    text = file.read()
            except (SyntaxError, UnicodeDecodeError):
                continue
            if text.strip():
                texts["/".join(parts)] = text.rstrip("\n") + "\n"
    if not texts:
        raise DataError(f"{library} holds no Python modules; is the standard library of this Python packed away?")
    return texts


def gather(library: Path, folder: Path) -> dict[str, tuple[int, int]]:
    """Write the three files -> of each its modules and its bytes."""
    sources = modules(library)
    texts: dict[str, list[str]] = {part: [] for part in PARTS}
    for (name, text), place in zip(sources.items(), places(list(sources.values()), seed=0), strict=True):
        part = next(part for part, below in PARTS.items() if place < below)
        texts[part].append(f"# {name}\n{text}\n")
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {}
    for part, own in texts.items():
        data = "".join(own).encode()
        (folder / f"{part}.txt").write_bytes(data)
        sizes[part] = len(own), len(data)
    return sizes


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m regard.data.corpora.standard_library FOLDER")
    for part, (n_modules, n_bytes) in gather(Path(sysconfig.get_path("stdlib")), Path(sys.argv[1])).items():
        print(f"{sys.argv[1]}/{part}.txt: {n_modules:,} modules, {n_bytes:,} bytes")
