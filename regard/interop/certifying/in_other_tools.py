"""Our run and what was written of it for onnxruntime or CTranslate2, asked the same questions."""

import importlib.metadata
import random
from collections.abc import Sequence
from pathlib import Path

import tokenizers

import regard
from regard.interop.certifying.certificate import Certificate, Finding, compare_ids, compare_rows
from regard.interop.certifying.ctranslate2_sides import CTranslate2Translator, CTranslate2Writer, our_log_probs
from regard.interop.certifying.in_transformers import N_STRINGS
from regard.interop.certifying.onnx_sides import OnnxReader, OnnxTranslator
from regard.interop.certifying.samples import random_tokens, strings
from regard.interop.certifying.sides import Ours
from regard.interop.certifying.translators import OurTranslator
from regard.interop.certifying.written import compare_written
from regard.interop.families.family import TRANSLATORS, WRITERS
from regard.runs.run import Run

SHAPES = ((1, 1), (1, 7), (5, 1), (3, 12), (2, 33))  # sequences and the longest of them
N_RANDOM = 24
LONGEST = 32  # tokens of a random sequence


def certify_onnx(run: Run, folder: Path) -> Certificate:
    """At several shapes, some sequences shorter than the longest; what a translator writes, too."""
    findings: list[Finding] = []
    if run.recipe.kind in TRANSLATORS:
        translator = OurTranslator(run)
        graphs = OnnxTranslator(folder, translator)
        for n, longest in SHAPES:
            inputs = drawn(run, n, longest - 1)
            findings.append(compare_rows("logits", translator.rows(inputs), graphs.rows(inputs), f"{n} × {longest}"))
        findings += compare_written(translator, graphs, run)
    else:
        reader = Ours(run)
        graph = OnnxReader(folder, reader)
        for n, longest in SHAPES:
            inputs = drawn(run, n, longest)
            findings.append(compare_rows("rows", reader.rows(inputs), graph.rows(inputs), f"{n} × {longest}"))
        if run.recipe.kind in WRITERS:
            findings += compare_written(reader, graph, run)
    findings += compare_tokenizer_file(run, folder)
    return certificate(run, folder, "onnx", findings, ("onnx", "onnxruntime"))


def certify_ctranslate2(run: Run, folder: Path, names: Sequence[str]) -> Certificate:
    """Log-probabilities of random targets, or logits; and what is written of some sentences."""
    config = run.recipe.model
    inputs = random_tokens(N_RANDOM, min(LONGEST, config.max_length - 2), len(names), without=special(run))
    of = f"{len(inputs)} random sequences"
    if run.recipe.kind in TRANSLATORS:
        ours = OurTranslator(run)
        theirs = CTranslate2Translator(folder, ours, names)
        findings = [compare_rows("log-probabilities", our_log_probs(ours, inputs), theirs.log_probs(inputs), of)]
        findings += compare_written(ours, theirs, run)
    else:
        writer = Ours(run)
        their_writer = CTranslate2Writer(folder, writer, names)
        findings = [compare_rows("logits", writer.rows(inputs), their_writer.rows(inputs), of)]
        findings += compare_written(writer, their_writer, run)
    findings += compare_tokenizer_file(run, folder)
    return certificate(run, folder, "ctranslate2", findings, ("ctranslate2",))


def compare_tokenizer_file(run: Run, folder: Path, n: int = N_STRINGS) -> list[Finding]:
    """The tokenizer.json beside what was written, as the tokenizers library reads it."""
    if not (folder / "tokenizer.json").is_file():
        return []  # an imported folder has the tokenizer in files of its own
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    theirs.encode_special_tokens = True  # none is made of a text
    asked = strings(n)
    answers = [found.ids for found in theirs.encode_batch(asked, add_special_tokens=False)]
    return [compare_ids("token sequences", run.tokenizer.encode_batch(asked), answers, f"{len(asked):,} strings")]


def drawn(run: Run, n: int, longest: int) -> list[list[int]]:
    """The first is as long as said, or as long as the model reads."""
    chance = random.Random(n * longest)
    tokens = [token for token in range(run.recipe.model.vocab_size) if token not in special(run)]
    longest = min(longest, run.recipe.model.max_length - 2)
    lengths = [longest, *(chance.randint(min(1, longest), longest) for _ in range(n - 1))]
    return [chance.choices(tokens, k=length) for length in lengths]


def special(run: Run) -> set[int]:
    tokenizer = run.tokenizer
    return {tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id, tokenizer.unknown_id}


def certificate(run: Run, folder: Path, tool: str, findings: list[Finding], packages: tuple[str, ...]) -> Certificate:
    versions = {name: importlib.metadata.version(name) for name in ("torch", *packages)}
    return Certificate(
        subject=f"{run.folder.name} and {folder.name}",
        family=tool,
        versions={"regard": regard.__version__, **versions},
        findings=tuple(findings),
    )
