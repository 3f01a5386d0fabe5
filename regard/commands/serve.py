"""regard serve: runs over HTTP."""

import re
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import regard
from regard import config
from regard.commands.options import Device
from regard.errors import ConfigError, need

if TYPE_CHECKING:
    from regard.serving.limits import Limits

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # of a run, for its clients
LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::", "")


def serve(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="run folders, each served by its name; or NAME=FOLDER")
    ],
    host: Annotated[str, typer.Option(help="the address to listen on; another than this machine's own needs a key")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free")] = 8000,
    key_file: Annotated[Path | None, typer.Option(help="keys, one per line: who asks must know one of them")] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="a further name that clients call this server by; repeatable")
    ] = None,
    origin: Annotated[
        list[str] | None, typer.Option(help="pages of this origin may ask, such as https://example.org; repeatable")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="LIMIT=VALUE", help="change a limit, such as waiting=32")
    ] = None,
    device: Device = None,
) -> None:
    """Serve runs over HTTP: OpenAI's and LibreTranslate's routes, a route for every verb, attention, and pages."""
    if host not in LOOPBACK and key_file is None:
        raise ConfigError(f"{host or 'every address'} can be reached by others: add --key-file, or leave --host out")
    for library in ("fastapi", "uvicorn", "python_multipart", "prometheus_client"):
        need(library, "serve")
    from regard.serving.app import Server
    from regard.serving.guard import LOCAL_NAMES
    from regard.serving.keys import Keys, read_keys
    from regard.serving.limits import Limits
    from regard.serving.listening import listen

    keys = Keys() if key_file is None else read_keys(key_file)
    limits = read_limits(Limits, set_ or [])
    names = [*LOCAL_NAMES, *([] if host in EVERYWHERE else [host_name(host)]), *(each.lower() for each in name or [])]
    if host in EVERYWHERE:
        names.append(socket.gethostname().lower())
    loaded = {called: regard.load(folder, device) for called, folder in named_runs(runs).items()}
    server = Server(loaded, limits, keys, names, origin or ())
    with bound(host, port) as listening:
        place = f"http://{host_name(host)}:{listening.getsockname()[1]}"
        print(f"serving {', '.join(loaded)} on {place} (Ctrl-C ends)", file=sys.stderr, flush=True)
        listen(server, listening)


def named_runs(runs: list[str]) -> dict[str, Path]:
    """Folders by the names that clients call them; nothing else can be reached."""
    named: dict[str, Path] = {}
    for run in runs:
        called, equals, folder = run.partition("=")
        if not equals or Path(run).exists():
            called, folder = Path(run).resolve().name, run
        if not NAME.fullmatch(called):
            raise ConfigError(f"{run}: a run is called by letters, digits, '.', '_' and '-'; name it: NAME={folder}")
        if called in named:
            raise ConfigError(f"{named[called]} and {folder} are both called {called}; name them: NAME={folder}")
        named[called] = Path(folder)
    return named


def read_limits(kind: "type[Limits]", changes: list[str]) -> "Limits":
    settings = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals:
            raise ConfigError(f"--set needs limit=value, got {change!r}")
        settings[name] = config.parse(value)
    return config.build(kind, settings, "limits")


def bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        place = socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise ConfigError(f"{host}:{port} cannot be listened on ({error.strerror}); choose another --port") from None
    # Connections take this over.  Otherwise the end of an answer waits until its beginning is acknowledged: 40 ms.
    place.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return place


def host_name(host: str) -> str:
    """As a Host header has it."""
    return f"[{host.lower()}]" if ":" in host else host.lower()
