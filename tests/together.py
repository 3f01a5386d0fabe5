"""Commands in several processes at once, as `torchrun` would start them: forked, so nothing is imported anew."""

import io
import os
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from regard.__main__ import build
from regard.errors import RegardError


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


def start_processes(
    n: int, folder: Path, arguments: tuple[str, ...], job: str = "", first: Callable[[], None] = lambda: None
) -> list[int]:
    """Processes that have begun; what each says goes to a file of its rank.  `first` is called in each."""
    torch.set_num_threads(1)
    meeting = {"WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    meeting |= {"GLOO_SOCKET_IFNAME": "lo"}  # no other machine can reach what listens here
    meeting |= {"TORCHELASTIC_RUN_ID": job} if job else {}
    children = []
    for rank in range(n):
        child = os.fork()
        if not child:
            code = 99
            try:
                if n > 1:
                    os.environ |= {**meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)}
                sys.stdout = sys.stderr = open(said_by(folder, rank), "w", encoding="utf-8")  # noqa: SIM115 (it ends here)
                first()
                code = command_code(arguments)
            finally:
                sys.stdout.flush()
                os._exit(code)
        children.append(child)
    return children


def said_by(folder: Path, rank: int) -> Path:
    return folder / f"said-{rank}.txt"


def exit_codes(children: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def in_processes(n: int, folder: Path, *arguments: str) -> str:
    """What the leader said.  All must succeed."""
    codes = exit_codes(start_processes(n, folder, arguments))
    texts = [said_by(folder, rank).read_text(encoding="utf-8") for rank in range(n)]
    assert codes == [0] * n, "\n".join(texts)
    return texts[0]


def command_code(arguments: tuple[str, ...]) -> int:
    try:
        build()(args=list(arguments), standalone_mode=False)
    except RegardError as error:
        print(error)
        return error.exit_code
    except BaseException:
        stream = io.StringIO()
        traceback.print_exc(file=stream)
        print(stream.getvalue())
        return 1
    return 0
