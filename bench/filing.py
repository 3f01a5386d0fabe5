"""Translating a file, line by line, into another: 10,000 lines of the lengths of Multi30k's, beam 4, on a CPU.

Words stand between spaces, so nobody spends time on tokens.  Weights are random but the same for all, and such that
translations end after about as many words as Multi30k's.  Everybody makes batches as he likes.
"""

import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from bench.apart import Apart
from bench.decoding import endless
from bench.machine import which_can_run
from bench.peers import ctranslate2_folder, marian
from bench.report import Report, Row
from bench.timing import say, take_turns
from bench.translators import BEAM
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.models.transformer import Transformer, TransformerConfig
from regard.text.words import END, SPECIAL, START

LONGEST = 40  # words of a translation
TYPICAL, SPREAD, SHORTEST = 14, 4.5, 4  # words of a line
N_TRIED = 8  # sentences that say when the end comes
N_SAME = 0.9  # of the lines that both end must come out the same: rounding may decide a tie

TranslateFile = Callable[[str, str], None]  # from a file of lines into another


@dataclass(frozen=True, kw_only=True)
class Plan:
    shape: TransformerConfig
    n_lines: int
    rounds: int


# The recipe multi30k-ende.
SMALL = TransformerConfig(vocab_size=8000, d_model=256, n_heads=4, n_layers=4, d_ff=1024, max_length=256)
TINY = TransformerConfig(vocab_size=200, d_model=16, n_heads=2, n_layers=2, d_ff=32, max_length=128)
PLANS = {
    "cpu": Plan(shape=SMALL, n_lines=10_000, rounds=2),
    "tiny": Plan(shape=TINY, n_lines=40, rounds=1),
}


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    plan = PLANS["tiny" if tiny else "cpu"]
    names, notes = which_can_run(CONTENDERS, PACKAGES, skip)
    c, threads = plan.shape, torch.get_num_threads()
    work = (
        f"{plan.n_lines:,} lines from file to file, beam {BEAM}, {c.n_layers}+{c.n_layers} layers of {c.d_model}, "
        f"{c.vocab_size:,} words, {threads} threads, each contender in its own process"
    )
    report = Report("filing", "lines/s", work, notes=notes)
    with tempfile.TemporaryDirectory() as folder:
        source, short = Path(folder) / "source.txt", Path(folder) / "short.txt"
        lines = make_lines(plan)
        source.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        short.write_text("".join(line + "\n" for line in lines[:100]), encoding="utf-8")
        outputs = {name: Path(folder) / f"{number}.txt" for number, name in enumerate(names)}
        translators = {name: Apart(one_translator, plan, name, threads) for name in names}
        for name, translate in translators.items():
            say(f"warming up: {name}")
            translate(str(short), str(outputs[name]))
        runs = {name: partial(translators[name], str(source), str(outputs[name])) for name in names}
        taken = take_turns(runs, rounds or plan.rounds, torch.device("cpu"))
        texts = {name: outputs[name].read_text(encoding="utf-8").splitlines() for name in names}
    notes.append(check_same(texts, plan.n_lines))
    for name in names:
        case = "int8" if name.endswith("int8") else "float32"
        report.rows.append(Row(case=case, contender=name, figures=taken[name].rates(plan.n_lines)))
    return report


def make_lines(plan: Plan) -> list[str]:
    chance = random.Random(0)
    lengths = [min(max(SHORTEST, round(chance.gauss(TYPICAL, SPREAD))), LONGEST) for _ in range(plan.n_lines)]
    words = range(len(SPECIAL), plan.shape.vocab_size)
    return [" ".join(str(chance.choice(words)) for _ in range(length)) for length in lengths]


@torch.no_grad()
def ending(plan: Plan) -> Transformer:
    """Random weights whose translations depend on the source and end by themselves, most after about TYPICAL words.

    The end is compared with what all later places have in common, and is scaled so that it is as likely as the best
    word after TYPICAL words.
    """
    model = endless(plan.shape)
    chance = torch.Generator().manual_seed(1)
    words = torch.randint(len(SPECIAL), plan.shape.vocab_size, (N_TRIED, 2 * TYPICAL), generator=chance)
    sources, targets = words.split(TYPICAL, 1)
    table = model.target_position.get_buffer("table")
    norm = model.decoder[-1].feed_forward_residual.norm
    assert isinstance(norm, nn.LayerNorm)
    later = table[TYPICAL:LONGEST].mean(0) - table[1]
    vector = later * norm.weight.sign()  # which turns some channels round
    vector[0] = 0  # for what is added to every place

    def written() -> Tensor:
        state, _ = model.start(sources.tolist(), START, 1, LONGEST)
        return model.step(targets, state)

    best = float(written()[:, -1].amax(-1).mean())
    model.embedding.weight[END] = vector
    ends = written()[:, :, END].mean(0)
    scale = best / float(ends[-1] - ends[2])
    model.embedding.weight[END] = scale * vector
    model.embedding.weight[END, 0] = (best - scale * float(ends[-1])) / norm.bias[0]
    return model


def one_translator(plan: Plan, name: str, n_threads: int) -> TranslateFile:
    torch.set_num_threads(n_threads)
    return CONTENDERS[name](ending(plan))


def ours(model: Transformer, weights: str) -> TranslateFile:
    """As a loaded run does it."""
    engine = Engine(model)
    config = DecodingConfig(beam=BEAM, length_penalty=0.0, length_ratio=0.0, extra_length=LONGEST, weights=weights)

    def translate(source: str, target: str) -> None:
        lines = Path(source).read_text(encoding="utf-8").splitlines()
        hypotheses = engine.generate([[int(word) for word in line.split()] for line in lines], config, START, END)
        written = (" ".join(map(str, best.tokens)) + "\n" for best, *_ in hypotheses)
        Path(target).write_text("".join(written), encoding="utf-8")

    return translate


def ctranslate2_files(model: Transformer, compute_type: str) -> TranslateFile:
    """By its own `translate_file`, with batches of 32 lines, as it does by itself."""
    import ctranslate2

    with tempfile.TemporaryDirectory() as folder:
        ctranslate2_folder(marian(model), folder)
        translator = ctranslate2.Translator(
            folder, device="cpu", compute_type=compute_type, inter_threads=1, intra_threads=torch.get_num_threads()
        )

    def translate(source: str, target: str) -> None:
        translator.translate_file(
            source, target, beam_size=BEAM, length_penalty=0.0, max_decoding_length=LONGEST, max_input_length=0
        )

    return translate


CONTENDERS: dict[str, Callable[[Transformer], TranslateFile]] = {
    "regard": lambda model: ours(model, "float32"),
    "CTranslate2": lambda model: ctranslate2_files(model, "float32"),
    "regard int8": lambda model: ours(model, "int8"),
    "CTranslate2 int8": lambda model: ctranslate2_files(model, "int8"),
}
PACKAGES = {name: ("ctranslate2", "transformers") for name in CONTENDERS if name.startswith("CTranslate2")}


def check_same(texts: dict[str, list[str]], n_lines: int) -> str:
    """Contenders of one precision must do the same work; says how much they agree, and how long translations are.

    Where a translation is cut after LONGEST words they differ by rule: CTranslate2 ranks what was cut beside what
    ended; regard ranks it last.
    """
    assert all(len(lines) == n_lines for lines in texts.values()), "some lines have no translation"
    n_words = sum(len(line.split()) for line in texts["regard"]) / n_lines
    sentences = [f"a translation has {n_words:.1f} words"]
    if "CTranslate2" in texts:
        pairs = list(zip(texts["regard"], texts["CTranslate2"], strict=True))
        ended = [(a, b) for a, b in pairs if max(len(a.split()), len(b.split())) < LONGEST]
        n_same = sum(a == b for a, b in ended)
        if len(ended) < n_lines / 2 or n_same < N_SAME * len(ended):
            raise AssertionError(
                f"the contenders do not do the same work: of {n_lines:,} lines both end {len(ended):,}, "
                f"of which {n_same:,} agree"
            )
        sentences.append(
            f"{n_same:,} of {len(ended):,} that both end are the same in float32 by regard and CTranslate2"
        )
    return "; ".join(sentences)
