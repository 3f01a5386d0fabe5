"""An exported folder as its users take it: through transformers' pipelines and their defaults, from text to answer."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.decoding.interface import NEAR
from regard.errors import need
from regard.interop.certifying.certificate import Certificate, Finding, compare_rows
from regard.interop.certifying.in_transformers import certify, found_at, load_model, quiet
from regard.interop.certifying.samples import N_STRINGS, sentences
from regard.interop.certifying.sides import Ours
from regard.interop.certifying.texts import (
    N_READ,
    N_TEXTS,
    GreedyText,
    compare_answers,
    compare_read,
    fitting,
    own_settings,
    searched_greedily,
    typed,
    write_texts,
)
from regard.interop.families.settings import exchange_of
from regard.runs.run import Run
from regard.tasks.language.use import usual_length

SEARCH = "the run's settings draw or search with a beam; what is written was compared without"
NO_SPACE = "the pipeline leaves out the space after a prompt (SentencePiece), which does not count"
GREEDY = {"do_sample": False, "num_beams": 1}


def certify_export(
    run: Run, folder: Path, model_type: str, notes: tuple[str, ...] = (), n_strings: int = N_STRINGS
) -> Certificate:
    """`certify`, and what a user of the folder gets."""
    certificate, transformers = certify(run, folder, model_type, notes, n_strings), need("transformers")
    try:
        with quiet(transformers):
            tokenizer = transformers.AutoTokenizer.from_pretrained(**found_at(folder))
    except (OSError, ValueError, TypeError):  # no tokenizer; the certificate says so
        return certificate
    texts = fitting(run, sentences(N_READ))
    if not texts:
        return replace(certificate, notes=(*certificate.notes, "no text is short enough to be answered"))
    if tokenizer.split_special_tokens:
        texts += fitting(run, typed(run, N_READ))
    findings = [compare_read(run, texts, tokenizer(texts)["input_ids"])]
    exchange = exchange_of(run.recipe)
    compare = compare_translations if exchange.translates else PIPELINES.get(exchange.pipeline)
    if compare is not None:
        with quiet(transformers):
            findings += compare(run, folder, texts[:N_TEXTS])
        if (exchange.writes or exchange.translates) and not is_plain(run):
            certificate = replace(certificate, notes=(*certificate.notes, SEARCH))
    return replace(certificate, findings=(*certificate.findings, *findings))


def is_plain(run: Run) -> bool:
    return run.recipe.decoding == searched_greedily(run.recipe.decoding)


def pipeline(run: Run, folder: Path) -> Any:
    return need("transformers").pipeline(exchange_of(run.recipe).pipeline, model=str(folder))


def compare_written(run: Run, folder: Path, texts: list[str]) -> list[Finding]:
    length = usual_length(run.recipe.model.max_length)
    answers = pipeline(run, folder)(texts, **({} if is_plain(run) else GREEDY))
    theirs = [answer[0]["generated_text"][len(text) :] for answer, text in zip(answers, texts, strict=True)]
    of = f"{len(texts)} prompts, up to {length} tokens each"
    ours = write_texts(run, texts, own_settings(run, length))
    if any(text != answer.text and text == answer.alone for answer, text in zip(ours, theirs, strict=True)):
        ours, of = [answer._replace(text=str(answer.alone)) for answer in ours], f"{of}; {NO_SPACE}"
    return [compare_answers("texts of pipeline('text-generation')", ours, theirs, of)]


@torch.no_grad()
def compare_translations(run: Run, folder: Path, texts: list[str]) -> list[Finding]:
    """There is no pipeline for them: tokenizer, `generate`, tokenizer."""
    model = load_model(folder, exchange_of(run.recipe).loaded_by)
    tokenizer = need("transformers").AutoTokenizer.from_pretrained(**found_at(folder))
    length = usual_length(run.recipe.model.max_length)
    asked = {"max_new_tokens": length} | ({} if is_plain(run) else GREEDY)
    written = [model.generate(**tokenizer(text, return_tensors="pt"), **asked)[0] for text in texts]
    theirs = [tokenizer.decode(ids, skip_special_tokens=True) for ids in written]
    of = f"{len(texts)} texts, up to {length} tokens each"
    return [
        compare_answers("answers, from text to text", write_texts(run, texts, own_settings(run, length)), theirs, of)
    ]


def compare_filled(run: Run, folder: Path, texts: list[str]) -> list[Finding]:
    """One word of each text is masked."""
    if "<mask>" not in run.tokenizer.special:
        return []  # an imported tokenizer without one
    fill = pipeline(run, folder)
    masked = [text.replace(f" {text.split()[1]}", " [MASK]", 1) for text in texts if len(text.split()) > 1]
    their_answers = [fill(text.replace("[MASK]", fill.tokenizer.mask_token)) for text in masked]
    our_answers = [answer.words[0] for answer in run.fill(masked)]
    of = f"{len(masked)} texts with a masked word"
    best = [run.tokenizer.token(options[0]["token"]) for options in their_answers]
    ours = [GreedyText(words[0][0], words[0][1] - words[1][1] < NEAR) for words in our_answers]
    return [
        compare_answers("words of pipeline('fill-mask')", ours, best, of),
        compare_rows(
            "their probabilities",
            [torch.tensor([share for _, share in words]) for words in our_answers],
            [torch.tensor([option["score"] for option in options]) for options in their_answers],
            of,
        ),
    ]


def compare_labels(run: Run, folder: Path, texts: list[str]) -> list[Finding]:
    their_answers, our_answers = pipeline(run, folder)(texts), run.classify(texts)
    of = f"{len(texts)} texts"
    what = "labels of pipeline('text-classification')"
    ours = [GreedyText(answer.label) for answer in our_answers]
    return [compare_answers(what, ours, [answer["label"] for answer in their_answers], of)]


def compare_features(run: Run, folder: Path, texts: list[str]) -> list[Finding]:
    their_rows = [torch.tensor(rows[0]) for rows in pipeline(run, folder)(texts)]
    our_rows = Ours(run).rows([run.task.encode(text) for text in texts])
    if [rows.shape for rows in our_rows] != [rows.shape for rows in their_rows]:
        return []  # other tokens were read, which is a finding of its own
    return [compare_rows("rows of pipeline('feature-extraction')", our_rows, their_rows, f"{len(texts)} texts")]


PIPELINES: dict[str, Callable[[Run, Path, list[str]], list[Finding]]] = {
    "text-generation": compare_written,
    "fill-mask": compare_filled,
    "text-classification": compare_labels,
    "feature-extraction": compare_features,
}
