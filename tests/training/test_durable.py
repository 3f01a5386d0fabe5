"""A file is whole or absent, also after a power cut: what reached the disk is what was waited for, in this order."""

import os
from pathlib import Path

import pytest

from regard.runs import durable
from regard.text.tokenizer import Tokenizer, TokenizerConfig


def test_the_disk_has_the_content_before_the_name_and_the_name_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def sync(descriptor: int) -> None:
        synced = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        events.append(("sync", synced.name))
        if synced.is_file():
            assert synced.read_bytes() == b"new", "all of it is handed to the system before the disk is waited for"
        fsync(descriptor)

    def rename(source: Path, target: Path) -> None:
        events.append(("rename", Path(target).name))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", rename)
    durable.write_file(tmp_path / "a", b"new")
    assert events == [("sync", ".a.writing"), ("rename", "a"), ("sync", tmp_path.name)]


def test_cut_short_the_old_file_is_still_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"old")

    def power_cut(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", power_cut)
    with pytest.raises(KeyboardInterrupt):
        durable.write_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_tokenizer_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokenizer.json"
    Tokenizer.train(["a b c"], TokenizerConfig()).save(path)
    before = path.read_bytes()
    write_text, write_bytes = Path.write_text, Path.write_bytes

    def half(file: Path, content: str, **options: str) -> int:
        write_text(file, content[: len(content) // 2], **options)
        raise KeyboardInterrupt

    def half_of_bytes(file: Path, content: bytes) -> int:
        write_bytes(file, content[: len(content) // 2])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", half)
    monkeypatch.setattr(Path, "write_bytes", half_of_bytes)
    with pytest.raises(KeyboardInterrupt):
        Tokenizer.train(["other words here"], TokenizerConfig()).save(path)
    assert path.read_bytes() == before
