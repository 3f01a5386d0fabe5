"""Our run, and what was written of it for onnxruntime or CTranslate2, on the same inputs."""

import random
from collections.abc import Sequence
from pathlib import Path

import tokenizers

from regard.interop.certifying.certificate import Certificate, Finding, compare_ids, compare_rows, issue
from regard.interop.certifying.ctranslate2_sides import CTranslate2Translator, CTranslate2Writer
from regard.interop.certifying.in_transformers import N_STRINGS
from regard.interop.certifying.onnx_sides import OnnxReader, OnnxTranslator
from regard.interop.certifying.samples import random_tokens, strings
from regard.interop.certifying.sides import Ours, OurTranslator, Side
from regard.interop.certifying.written import compare_written
from regard.interop.families.settings import exchange_of
from regard.runs.run import Run

SHAPES = ((1, 1), (1, 7), (5, 1), (3, 12), (2, 33))  # sequences and the longest of them
N_RANDOM = 24
LONGEST = 32  # tokens of a random sequence


def certify_onnx(run: Run, folder: Path) -> Certificate:
    """At several shapes, some sequences shorter than the longest; and what is written of some sentences."""
    exchange = exchange_of(run.recipe)
    ours: Side = OurTranslator(run) if exchange.translates else Ours(run)
    graphs: Side = OnnxTranslator(folder, run) if exchange.translates else OnnxReader(folder, run)
    findings: list[Finding] = []
    for n, longest in SHAPES:
        inputs = drawn(run, n, longest - exchange.translates)
        findings.append(compare_rows(exchange.compared, ours.rows(inputs), graphs.rows(inputs), f"{n} × {longest}"))
    if exchange.translates or exchange.writes:
        findings += compare_written(ours, graphs, run)
    findings += compare_tokenizer_file(run, folder)
    return issue(run.folder, folder, "onnx", findings, ("onnx", "onnxruntime"))


def certify_ctranslate2(run: Run, folder: Path, names: Sequence[str]) -> Certificate:
    """Log-probabilities of random targets, or logits; and what is written of some sentences."""
    config = run.recipe.model
    inputs = random_tokens(N_RANDOM, min(LONGEST, config.max_length - 2), len(names), without=special(run))
    of = f"{len(inputs)} random sequences"
    if exchange_of(run.recipe).translates:
        translator, their_translator = OurTranslator(run), CTranslate2Translator(folder, run, names)
        findings = [
            compare_rows("log-probabilities", translator.log_probs(inputs), their_translator.log_probs(inputs), of),
            *compare_written(translator, their_translator, run),
        ]
    else:
        writer, their_writer = Ours(run), CTranslate2Writer(folder, run, names)
        findings = [
            compare_rows("logits", writer.rows(inputs), their_writer.rows(inputs), of),
            *compare_written(writer, their_writer, run),
        ]
    findings += compare_tokenizer_file(run, folder)
    return issue(run.folder, folder, "ctranslate2", findings, ("ctranslate2",))


def compare_tokenizer_file(run: Run, folder: Path, n: int = N_STRINGS) -> list[Finding]:
    """The tokenizer.json beside what was written, as the tokenizers library reads it."""
    if not (folder / "tokenizer.json").is_file():
        return []  # an imported folder has the tokenizer in files of its own
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    theirs.encode_special_tokens = True  # none is made of a text
    texts = strings(n)
    answers = [encoding.ids for encoding in theirs.encode_batch(texts, add_special_tokens=False)]
    return [compare_ids("token sequences", run.tokenizer.encode_batch(texts), answers, f"{len(texts):,} strings")]


def drawn(run: Run, n: int, longest: int) -> list[list[int]]:
    """Random sequences.  The first has `longest` tokens, or as many as the model reads."""
    chance = random.Random(n * longest)
    tokens = [token for token in range(run.recipe.model.vocab_size) if token not in special(run)]
    longest = min(longest, run.recipe.model.max_length - 2)
    lengths = [longest, *(chance.randint(min(1, longest), longest) for _ in range(n - 1))]
    return [chance.choices(tokens, k=length) for length in lengths]


def special(run: Run) -> set[int]:
    tokenizer = run.tokenizer
    return {tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id, tokenizer.unknown_id}
