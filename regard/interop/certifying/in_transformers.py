"""Our run and their folder, asked the same questions: random tokens, sentences, prompts to go on from, strings."""

import importlib.metadata
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from torch import nn

import regard
from regard.errors import RegardError
from regard.interop.certifying.certificate import LIMIT, Certificate, Finding, compare_ids, compare_rows
from regard.interop.certifying.samples import random_tokens, sentences, strings
from regard.interop.certifying.sides import Ids, InTransformers, Ours, found_at, quiet
from regard.interop.certifying.translators import compare_translators
from regard.interop.families.family import TRANSLATORS, WRITERS
from regard.interop.needs import need
from regard.runs.run import Run

N_RANDOM, N_SENTENCES, N_PROMPTS = 24, 24, 8
LONGEST = 64  # tokens of a random sequence
WRITTEN = 20  # tokens that follow a prompt
N_STRINGS = 10_000
LIKELIEST = {"masked": "likeliest words", "classification": "likeliest labels"}
N_EXACT = 3  # sequences that are read in float64


def certify(
    run: Run,
    folder: Path,
    model_type: str,
    notes: tuple[str, ...] = (),
    n_strings: int = N_STRINGS,
) -> Certificate:
    """Compare a run with the folder that it came from, or that it became."""
    ask = COMPARISONS.get(run.recipe.kind)
    if ask is None:
        raise RegardError(f"there is no comparison for runs of the task {run.recipe.kind!r}")
    findings = ask(run, folder)
    try:
        findings.append(compare_tokenizers(run, folder, n_strings))
        notes += spared(run)
    except (OSError, ValueError, TypeError) as error:  # what transformers raises for a folder without a tokenizer
        reason = f"transformers reads no tokenizer from {folder.name}: {str(error).splitlines()[0]}"
        notes = (*notes, f"{reason}; where the run was imported, copy the tokenizer's files from there")
    packages = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "tokenizers")}
    return Certificate(
        subject=f"{run.folder.name} and {folder.name}",
        family=model_type,
        versions={"regard": regard.__version__, **packages},
        findings=tuple(findings),
        notes=notes,
    )


def compare_sequences(run: Run, folder: Path) -> list[Finding]:
    """A model that reads one sequence."""
    ours = Ours(run)
    theirs = InTransformers(folder, ours)
    tokenizer, config = run.tokenizer, run.recipe.model
    longest = min(LONGEST, config.max_length)
    drawn = random_tokens(N_RANDOM, longest, config.vocab_size, without={tokenizer.pad_id})
    real = [[tokenizer.start_id, *ids, tokenizer.end_id] for ids in tokenizer.encode_batch(sentences(N_SENTENCES))]
    real = [ids[:longest] for ids in real]
    what = ours.compared.what
    of_drawn, of_real = f"{len(drawn)} random sequences of 1 to {longest} tokens", f"{len(real)} sentences"
    rows = [[ours.rows([ids])[0] for ids in drawn], theirs.rows(drawn)]  # each alone here, all padded there
    findings = [
        compare_rows(what, rows[0], rows[1], of_drawn),
        compare_rows(what, ours.rows(real), theirs.rows(real), of_real),
    ]
    if not all(finding.holds for finding in findings):
        exact = largest_in_double(ours, theirs, drawn[:N_EXACT])
        findings = [without_rounding(finding, exact) for finding in findings]
    if run.recipe.kind in LIKELIEST:
        best = [[side.argmax(-1).tolist() for side in one] for one in rows]
        findings.append(compare_ids(LIKELIEST[run.recipe.kind], best[0], best[1], of_drawn))
    if run.recipe.kind in WRITERS:
        room = min(WRITTEN, config.max_length - 1)
        prompts = [ids[: config.max_length - room] for ids in (*drawn[:N_PROMPTS], *real[:N_PROMPTS])]
        of = f"{room} tokens after each of {len(prompts)} prompts"
        findings.append(compare_ids("greedy outputs", ours.greedy(prompts, room), theirs.greedy(prompts, room), of))
    return findings


def largest_in_double(ours: Ours, theirs: InTransformers, inputs: Ids) -> float:
    for side in (ours, theirs):
        nn.Module.double(side.model)  # transformers forbids its own method where a file had few bits a number
    rows = zip(ours.rows(inputs), theirs.rows(inputs), strict=True)
    exact = max(float((a - b).abs().max()) for a, b in rows)
    for side in (ours, theirs):
        nn.Module.float(side.model)
    return exact


def without_rounding(finding: Finding, exact: float) -> Finding:
    """A deep model with large logits may differ by more than the limit because float32 rounds.  In float64 little of
    that is left (some norms of transformers stay in float32), but all that would be another model."""
    return replace(
        finding,
        wanted=f"{finding.wanted}, or in float64",
        holds=finding.holds or exact <= LIMIT,
        of=f"{finding.of}; in float64 {exact:.3g} on {N_EXACT} random ones",
    )


def compare_tokenizers(run: Run, folder: Path, n: int) -> Finding:
    """Without special tokens, and with none made of the text."""
    transformers = need("transformers")
    with quiet(transformers):
        theirs = transformers.AutoTokenizer.from_pretrained(**found_at(folder))
    spares_marks = bool(spared(run))
    asked = [text for text in strings(n) if not (spares_marks and has_marks(text))]
    kind = "strings"
    if folder.is_file():  # of a GGUF file transformers does not read how numbers are cut (tokenizer.ggml.pre)
        asked = [text for text in asked if not any(character.isnumeric() for character in text)]
        kind = "strings without digits"
    answers = theirs(asked, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    return compare_ids("token sequences", run.tokenizer.encode_batch(asked), answers, f"{len(asked):,} {kind}")


def spared(run: Run) -> tuple[str, ...]:
    """What SentencePiece does with accents apart from their letters, its own tool and transformers do differently."""
    if '"Precompiled"' not in run.tokenizer.to_json():
        return ()
    return (
        "strings in which accents stand apart from their letters were not asked: tools differ in SentencePiece's rules",
    )


def has_marks(text: str) -> bool:
    """Accents apart from their letter, or letters joined by a sign of width 0."""
    return any(unicodedata.combining(character) or character == "\N{ZERO WIDTH JOINER}" for character in text)


COMPARISONS: dict[str, Callable[[Run, Path], list[Finding]]] = {
    **dict.fromkeys(WRITERS, compare_sequences),
    "masked": compare_sequences,
    "reading": compare_sequences,
    "classification": compare_sequences,
    "permutation": compare_sequences,
    **dict.fromkeys(TRANSLATORS, compare_translators),
}
