"""The certificate: what was compared between a model here and the same model elsewhere, and how close they came."""

import dataclasses
import importlib.metadata
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import regard
from regard.errors import RegardError, RunError
from regard.runs.durable import write_file

LIMIT = 1e-4  # of a logit, in float32
FILE = "certificate.json"
LONGEST_REASON = 300  # characters of another tool's error


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was compared."""

    what: str  # "largest difference of logits"
    value: float
    wanted: str  # "at most 0.0001"
    holds: bool
    of: str  # what it was measured on


@dataclass(frozen=True, kw_only=True)
class Certificate:
    subject: str  # which model became which
    family: str  # its `model_type`, by which an export finds the way back
    versions: dict[str, str]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()  # what was left out, or could not be compared

    @property
    def holds(self) -> bool:
        return all(finding.holds for finding in self.findings)

    def text(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        lines = [f"Certificate: {self.subject}", f"family {self.family}; {versions}", ""]
        for finding in self.findings:
            verdict = "holds" if finding.holds else "FAILS"
            lines.append(f"{verdict}  {finding.what}: {finding.value:.6g} (wanted: {finding.wanted}); {finding.of}")
        return "\n".join([*lines, *(f"note   {note}" for note in self.notes)]) + "\n"

    def write(self, folder: Path) -> None:
        """certificate.json, and certificate.txt for people."""
        content = {"holds": self.holds, **dataclasses.asdict(self)}
        write_file(folder / FILE, json.dumps(content, indent=2, ensure_ascii=False).encode())
        write_file((folder / FILE).with_suffix(".txt"), self.text().encode())


@contextmanager
def faults_of(tool: str, folder: Path, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Whatever another tool raises while it loads or runs a folder becomes an error that names both: it checks
    settings that nobody else reads, in ways of its own.  What the caller expects (`but`) stays as it is."""
    expected: tuple[type[Exception], ...] = (RegardError, MemoryError, *but)
    try:
        yield
    except expected:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:LONGEST_REASON] or type(error).__name__
        raise RunError(f"{tool} cannot use {folder}: {reason}") from error


def issue(
    run: Path,
    folder: Path,
    family: str,
    findings: Sequence[Finding],
    packages: tuple[str, ...],
    notes: tuple[str, ...] = (),
) -> Certificate:
    """The certificate of a run and a folder of another tool, which needs these packages."""
    versions = {name: importlib.metadata.version(name) for name in ("torch", *packages)}
    return Certificate(
        subject=f"{run.name} and {folder.name}",
        family=family,
        versions={"regard": regard.__version__, **versions},
        findings=tuple(findings),
        notes=notes,
    )


def compare_rows(what: str, ours: Sequence[Tensor], theirs: Sequence[Tensor], of: str) -> Finding:
    """The largest difference between two lists of tensors of equal shapes."""
    assert [rows.shape for rows in ours] == [rows.shape for rows in theirs], (
        "the two sides answered different questions"
    )
    parts = [(a.float() - b.float()).abs().max() for a, b in zip(ours, theirs, strict=True) if a.numel()]
    largest = float(torch.stack(parts).max()) if parts else 0.0
    return Finding(
        what=f"largest difference of {what}",
        value=largest,
        wanted=f"at most {LIMIT:g}",
        holds=largest <= LIMIT,  # not a number is no
        of=of,
    )


def compare_ids(what: str, ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]], of: str) -> Finding:
    """The share of token sequences that are the same, token for token; all should be."""
    same = [list(a) == list(b) for a, b in zip(ours, theirs, strict=True)]
    return Finding(
        what=f"share of identical {what}",
        value=sum(same) / max(1, len(same)),
        wanted="1",
        holds=all(same),
        of=of,
    )
