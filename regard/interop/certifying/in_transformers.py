"""Our run and their folder, on the same inputs: random tokens, sentences, prompts to continue, strings."""

import unicodedata
from dataclasses import replace
from pathlib import Path

from torch import nn

from regard.interop.certifying.certificate import LIMIT, Certificate, Finding, compare_ids, compare_rows, issue
from regard.interop.certifying.samples import random_tokens, sentences, strings
from regard.interop.certifying.sides import Ids, Ours, OurTranslator
from regard.interop.certifying.transformers_sides import InTransformers, TranslatorInTransformers, found_at, quiet
from regard.interop.families.settings import exchange_of
from regard.interop.needs import need
from regard.runs.run import Run

N_RANDOM, N_SENTENCES, N_PROMPTS = 24, 24, 8
LONGEST = 64  # tokens of a random sequence
WRITTEN = 20  # tokens that follow a prompt, or of a target
N_STRINGS = 10_000
LONGEST_SOURCE = 48
N_EXACT = 3  # sequences that are read in float64


def certify(
    run: Run, folder: Path, model_type: str, notes: tuple[str, ...] = (), n_strings: int = N_STRINGS
) -> Certificate:
    """Compare a run with the folder that it came from, or that it became."""
    compare = compare_translators if exchange_of(run.recipe).translates else compare_sequences
    findings = compare(run, folder)
    try:
        findings.append(compare_tokenizers(run, folder, n_strings))
        notes += spared(run)
    except (OSError, ValueError, TypeError) as error:  # what transformers raises for a folder without a tokenizer
        reason = f"transformers reads no tokenizer from {folder.name}: {str(error).splitlines()[0]}"
        notes = (*notes, f"{reason}; where the run was imported, copy the tokenizer's files from there")
    return issue(run.folder, folder, model_type, findings, ("transformers", "tokenizers"), notes)


def compare_sequences(run: Run, folder: Path) -> list[Finding]:
    """A model that reads one sequence."""
    ours, theirs, exchange = Ours(run), InTransformers(folder, run), exchange_of(run.recipe)
    tokenizer, config = run.tokenizer, run.recipe.model
    longest = min(LONGEST, config.max_length)
    drawn = random_tokens(N_RANDOM, longest, config.vocab_size, without={tokenizer.pad_id})
    real = [run.task.encode(text) for text in sentences(N_SENTENCES)]
    real = [ids[:longest] for ids in real]
    of_drawn, of_real = f"{len(drawn)} random sequences of 1 to {longest} tokens", f"{len(real)} sentences"
    rows = [[ours.rows([ids])[0] for ids in drawn], theirs.rows(drawn)]  # each alone here, all padded there
    findings = [
        compare_rows(exchange.compared, rows[0], rows[1], of_drawn),
        compare_rows(exchange.compared, ours.rows(real), theirs.rows(real), of_real),
    ]
    if not all(finding.holds for finding in findings):
        exact = largest_in_double(ours, theirs, drawn[:N_EXACT])
        findings = [without_rounding(finding, exact) for finding in findings]
    if exchange.likeliest:
        likeliest = [[row.argmax(-1).tolist() for row in side] for side in rows]
        findings.append(compare_ids(exchange.likeliest, likeliest[0], likeliest[1], of_drawn))
    if exchange.writes:
        room = min(WRITTEN, config.max_length - 1)
        prompts = [ids[: config.max_length - room] for ids in (*drawn[:N_PROMPTS], *real[:N_PROMPTS])]
        of = f"{room} tokens after each of {len(prompts)} prompts"
        findings.append(compare_ids("greedy outputs", ours.greedy(prompts, room), theirs.greedy(prompts, room), of))
    return findings


def compare_translators(run: Run, folder: Path) -> list[Finding]:
    """A model that reads a source and writes a target."""
    ours, theirs = OurTranslator(run), TranslatorInTransformers(folder, run)
    tokenizer, config = run.tokenizer, run.recipe.model
    longest = min(LONGEST_SOURCE, config.max_length - run.task.frame.n_around)
    drawn = random_tokens(N_RANDOM, longest, config.vocab_size, without={tokenizer.pad_id, run.task.frame.start})
    real = [ids[:longest] for ids in tokenizer.encode_batch(sentences(N_SENTENCES))]
    of_drawn, of_real = f"{len(drawn)} random pairs of 1 to {longest} tokens", f"{len(real)} sentences"
    room = min(WRITTEN, config.max_length - 1)
    prompts = [*drawn[:N_PROMPTS], *real[:N_PROMPTS]]
    of = f"{room} tokens from each of {len(prompts)} sources"
    return [
        compare_rows("logits", ours.rows(drawn), theirs.rows(drawn), of_drawn),
        compare_rows("logits", ours.rows(real), theirs.rows(real), of_real),
        compare_ids("greedy outputs", ours.greedy(prompts, room), theirs.greedy(prompts, room), of),
    ]


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
    texts = [text for text in strings(n) if not (spares_marks and has_marks(text))]
    kind = "strings"
    if folder.is_file():  # of a GGUF file transformers does not read how numbers are cut (tokenizer.ggml.pre)
        texts = [text for text in texts if not any(character.isnumeric() for character in text)]
        kind = "strings without digits"
    answers = theirs(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    return compare_ids("token sequences", run.tokenizer.encode_batch(texts), answers, f"{len(texts):,} {kind}")


def spared(run: Run) -> tuple[str, ...]:
    """What SentencePiece does with accents apart from their letters, its own tool and transformers do differently."""
    if '"Precompiled"' not in run.tokenizer.to_json():
        return ()
    return (
        "strings in which accents stand apart from their letters were left out: tools differ in SentencePiece's rules",
    )


def has_marks(text: str) -> bool:
    """Accents apart from their letter, or letters joined by a sign of width 0."""
    return any(unicodedata.combining(character) or character == "\N{ZERO WIDTH JOINER}" for character in text)
