"""Tokens of many texts, part by part: in constant memory, by several processes, and where one was stopped, the next
goes on.  `python -m regard.data.batching.parts FOLDER` is such a process."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from threading import Event, Lock

import numpy as np

from regard.data.cached import save_array
from regard.errors import RunError
from regard.text.table import FlatTokens
from regard.text.tokenizer import Tokenizer

PART, CHARACTERS = 50_000, 2**25  # texts of a part, or fewer if they are long: a part is held in memory
NumberedTexts = tuple[int, list[str]]


def write_parts(texts: Iterable[str], tokenizer: Tokenizer, folder: Path, processes: int) -> int:
    """Returns how many parts `folder` holds then.  Those that it holds already are not made again."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(folder / "tokenizer.json")
    n_parts, lock, is_over = 0, Lock(), Event()

    def missing() -> Iterator[NumberedTexts]:
        nonlocal n_parts
        remaining = iter(texts)
        while part := take(remaining, PART):
            if not part_files(folder, n_parts)[1].is_file():
                yield n_parts, part
            n_parts += 1

    work = missing()

    def following() -> NumberedTexts | None:
        with lock:
            return None if is_over.is_set() else next(work, None)

    def ask(_: int) -> None:
        """One of the processes, if there is work for it: a thread of this one hands it part after part."""
        part = following()
        if part is None:
            return
        environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}  # the others have the other cores
        command = [sys.executable, "-m", __name__, str(folder)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
            assert process.stdin is not None and process.stdout is not None
            while part is not None:
                process.stdin.write(json.dumps(part).encode() + b"\n")
                process.stdin.flush()
                if not process.stdout.readline():
                    raise lost_process()
                part = following()

    if processes == 1:
        encode = tokenizer.encoder()
        for number, part in work:
            write_part(folder, number, encode(part))
    else:
        with ThreadPoolExecutor(processes) as pool:
            try:
                list(pool.map(ask, range(processes)))
            except BrokenPipeError:
                raise lost_process() from None
            finally:
                is_over.set()  # where one has failed, or Ctrl-C came, the others end after the part they are at
    return n_parts


def take(remaining: Iterator[str], n: int) -> list[str]:
    texts: list[str] = []
    n_characters = 0
    for text in islice(remaining, n):
        texts.append(text)
        n_characters += len(text)
        if n_characters >= CHARACTERS:
            break
    return texts


def lost_process() -> RunError:
    return RunError("a process that tokenizes has ended; its message is above. What it has finished is kept: try again")


def part_files(folder: Path, number: int) -> tuple[Path, Path]:
    """The ids, and how many each text has; a part that has the second is complete."""
    return folder / f"{number:06d}-ids.npy", folder / f"{number:06d}-lengths.npy"


def write_part(folder: Path, number: int, tokens: FlatTokens) -> None:
    for path, array in zip(part_files(folder, number), tokens, strict=True):
        beside = path.with_suffix(f".{os.getpid()}")  # another training may make the same part
        save_array(beside, array.astype(np.uint32))
        os.replace(beside, path)


def join_parts(parts: Path, n_parts: int, kind: type[np.unsignedinteger], closing: int | None, folder: Path) -> None:
    """All of them as ids.npy and offsets.npy of one shard; `closing` is a token that follows every text."""
    n_texts = n_ids = 0
    for number in range(n_parts):
        lengths = np.load(part_files(parts, number)[1])
        n_texts, n_ids = n_texts + len(lengths), n_ids + int(lengths.sum(dtype=np.int64))
    n_ids += 0 if closing is None else n_texts
    with (folder / "ids.npy").open("wb") as ids, (folder / "offsets.npy").open("wb") as offsets:
        for file, n, dtype in ((ids, n_ids, kind), (offsets, n_texts + 1, np.int64)):
            shape = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (n,)}
            np.lib.format.write_array_header_1_0(file, shape)
        offsets.write(np.zeros(1, np.int64).data)
        done = 0
        for number in range(n_parts):
            some, lengths = (np.load(path) for path in part_files(parts, number))
            ends = np.cumsum(lengths, dtype=np.int64)
            if closing is not None:
                some = np.insert(some, ends, closing)
                ends += np.arange(1, len(ends) + 1)
            ids.write(some.astype(kind).data)
            offsets.write((done + ends).data)
            done += len(some)


def main() -> None:
    """Lines of JSON come in, each a part; the number of each goes out when it is written."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks says when it is over
    folder = Path(sys.argv[1])
    encode = Tokenizer.load(folder).encoder()
    for line in sys.stdin.buffer:
        number, texts = json.loads(line)
        write_part(folder, number, encode(texts))
        print(number, flush=True)


if __name__ == "__main__":
    main()
