"""Our run and their folder in transformers, on the same inputs: random tokens, sentences, prompts, strings."""

import contextlib
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.checks import expect
from regard.errors import need
from regard.interop.certifying.certificate import (
    LIMIT,
    Certificate,
    Finding,
    compare_ids,
    compare_rows,
    faults_of,
    issue,
)
from regard.interop.certifying.samples import N_STRINGS, random_tokens, sentences, strings
from regard.interop.certifying.sides import Ours, OurTranslator, TokenLists, flat, padded, up_to
from regard.interop.families.settings import exchange_of
from regard.interop.formats.gguf_file import GgufFile
from regard.models.heads import ReaderHead
from regard.runs.run import Run

N_RANDOM, N_SENTENCES, N_PROMPTS = 24, 24, 8
LONGEST = 64  # tokens of a random sequence
WRITTEN = 20  # tokens that follow a prompt, or of a target
LONGEST_SOURCE = 48
N_EXACT = 3  # sequences that are read in float64
NO_TOKENIZER = (OSError, ValueError, TypeError)  # what transformers raises for a folder without one
ANGLES = "transformers does not read how a GGUF file scales its rotary angles (rope.scaling), and was told"
MARKS = "strings in which accents stand apart from their letters were left out: tools differ in SentencePiece's rules"


class InTransformers:
    """A model that reads one sequence."""

    def __init__(self, folder: Path, run: Run):
        self.folder, self.run, self.exchange = folder, run, exchange_of(run.recipe)
        self.model = read_model(folder, self.exchange.loaded_by)

    @torch.no_grad()
    def rows(self, inputs: TokenLists) -> list[Tensor]:
        named = padded(inputs, self.run.tokenizer.pad_id)
        if self.run.recipe.model.n_segments:
            segments = expect(self.run.model, ReaderHead).reader.segments(*flat(inputs, self.run.device))
            parts = [part.tolist() for part in segments.split([len(ids) for ids in inputs])]
            named["token_type_ids"] = padded(parts, 0)["input_ids"]
        with faults_of("transformers", self.folder):
            rows = self.model(**named)[self.exchange.answer]
        if self.exchange.is_of_sequences:
            return list(rows[:, None])
        return [row[: len(ids)] for row, ids in zip(rows, inputs, strict=True)]

    @torch.no_grad()
    def greedy(self, prompts: TokenLists, length: int) -> list[list[int]]:
        end = self.run.tokenizer.end_id
        config = greedy_config(length, end, self.run.tokenizer.pad_id)
        with faults_of("transformers", self.folder):
            written = [self.model.generate(**padded([ids], 0), generation_config=config)[0] for ids in prompts]
        return [up_to(end, ids.tolist()[len(prompt) :]) for ids, prompt in zip(written, prompts, strict=True)]


class TranslatorInTransformers:
    def __init__(self, folder: Path, run: Run):
        self.folder, self.frame = folder, run.task.frame
        self.pad_id, self.never = run.tokenizer.pad_id, run.recipe.decoding.never
        self.model = read_model(folder, exchange_of(run.recipe).loaded_by)

    @torch.no_grad()
    def rows(self, inputs: TokenLists) -> list[Tensor]:
        targets = padded([[self.frame.start, *ids[::-1]] for ids in inputs], self.pad_id)  # nobody sees the padding
        with faults_of("transformers", self.folder):
            rows = self.model(**self.sources(inputs), decoder_input_ids=targets["input_ids"]).logits
        return [row[: len(ids) + 1] for row, ids in zip(rows, inputs, strict=True)]

    @torch.no_grad()
    def greedy(self, prompts: TokenLists, length: int) -> list[list[int]]:
        config = greedy_config(length, self.frame.end, self.pad_id)
        config.decoder_start_token_id = self.frame.start
        config.suppress_tokens = list(self.never) or None
        with faults_of("transformers", self.folder):
            written = self.model.generate(**self.sources(prompts), generation_config=config)[:, 1:].tolist()
        return [up_to(self.frame.end, ids) for ids in written]

    def sources(self, inputs: TokenLists) -> dict[str, Tensor]:
        return padded([self.frame.source(ids) for ids in inputs], self.pad_id)


def greedy_config(length: int, end: int, pad: int) -> Any:
    """Nothing but the likeliest token: the folder's own wishes, such as a penalty, do not count."""
    return need("transformers").GenerationConfig(
        do_sample=False, num_beams=1, max_new_tokens=length, eos_token_id=end, pad_token_id=pad
    )


def load_model(path: Path, loaded_by: str) -> Any:
    transformers = need("transformers")
    with quiet(transformers), faults_of("transformers", path):
        config = transformers.AutoConfig.from_pretrained(**found_at(path))
        if path.is_file():  # it does not read how angles are scaled
            config.rope_parameters = GgufFile(path).config["rope_parameters"]
        made_by = getattr(transformers, loaded_by)
        return made_by.from_pretrained(**found_at(path), config=config, dtype=torch.float32).eval()


def read_model(path: Path, loaded_by: str) -> Any:
    """Without its settings of generation: its forced tokens and penalties would be written, too."""
    model = load_model(path, loaded_by)
    model.generation_config = need("transformers").GenerationConfig()
    return model


def found_at(path: Path) -> dict[str, object]:
    """How transformers is told of a folder, or of a GGUF file."""
    if path.is_file():
        return {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name, "local_files_only": True}
    return {"pretrained_model_name_or_path": path, "local_files_only": True}


@contextlib.contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Without its bars, and its remarks on weights that a class has no use for and on libraries that it would like."""
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers.logging.set_verbosity(before)
        transformers.logging.enable_progress_bar()


def certify(
    run: Run, folder: Path, model_type: str, notes: tuple[str, ...] = (), n_strings: int = N_STRINGS
) -> Certificate:
    """Compare a run with the folder that it came from, or that it became."""
    if folder.is_file() and GgufFile(folder).config["rope_parameters"]["rope_type"] != "default":
        notes = (*notes, ANGLES)
    compare = compare_translators if exchange_of(run.recipe).translates else compare_sequences
    findings = compare(run, folder)
    try:
        of_tokens, more_notes = compare_tokenizers(run, folder, n_strings)
        findings, notes = [*findings, *of_tokens], notes + more_notes
    except NO_TOKENIZER as error:
        reason = f"transformers reads no tokenizer from {folder.name}: {str(error).splitlines()[0]}"
        notes = (*notes, f"{reason}; where the run was imported, copy the tokenizer's files from there")
    return issue(run.folder, folder, model_type, findings, ("transformers", "tokenizers"), notes)


def compare_sequences(run: Run, folder: Path) -> list[Finding]:
    """A model that reads one sequence."""
    ours, theirs, exchange = Ours(run), InTransformers(folder, run), exchange_of(run.recipe)
    tokenizer, config = run.tokenizer, run.recipe.model
    longest = min(LONGEST, config.max_length)
    if config.steady_length < longest:  # there the longest text of a batch counts, until a shorter one comes
        longest = max(1, config.steady_length - 1)
    drawn = random_tokens(N_RANDOM, longest, config.vocab_size, without={tokenizer.pad_id})
    real = [run.task.encode(text)[:longest] for text in sentences(N_SENTENCES)]
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
        room = max(1, min(WRITTEN, config.max_length - 1))
        prompts = [ids[: max(1, config.max_length - room)] for ids in (*drawn[:N_PROMPTS], *real[:N_PROMPTS])]
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


def largest_in_double(ours: Ours, theirs: InTransformers, inputs: TokenLists) -> float:
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


def compare_tokenizers(run: Run, folder: Path, n: int) -> tuple[list[Finding], tuple[str, ...]]:
    """Without special tokens, and with none made of the text; of a translator's sources with them, too.  And a note
    about strings that were left out."""
    transformers = need("transformers")
    with quiet(transformers), faults_of("transformers", folder, but=NO_TOKENIZER):
        theirs = transformers.AutoTokenizer.from_pretrained(**found_at(folder))
    texts, kind, notes = strings(n), "strings", tuple[str, ...]()
    if '"Precompiled"' in run.tokenizer.to_json():
        texts = [text for text in texts if not has_marks(text)]
        notes = (MARKS,)
    if folder.is_file():  # of a GGUF file transformers does not read how numbers are cut (tokenizer.ggml.pre)
        texts = [text for text in texts if not any(character.isnumeric() for character in text)]
        kind = "strings without digits"
    answers = theirs(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    ours = run.tokenizer.encode_batch(texts)
    findings = [compare_ids("token sequences", ours, answers, f"{len(texts):,} {kind}")]
    if exchange_of(run.recipe).translates:
        lines = sentences(N_SENTENCES)
        framed = [run.task.frame.source(ids) for ids in run.tokenizer.encode_batch(lines)]
        what = "sources with the tokens around them"
        findings.append(compare_ids(what, framed, theirs(lines)["input_ids"], f"{len(lines)} sentences"))
    return findings, notes


def has_marks(text: str) -> bool:
    """Accents apart from their letter, or letters joined by a sign of width 0: its own tool and transformers do
    differently what SentencePiece does with them."""
    return any(unicodedata.combining(character) or character == "\N{ZERO WIDTH JOINER}" for character in text)
