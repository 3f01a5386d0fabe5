"""The corpus of Python code: whole modules, each in one part, without tests."""

import re
import runpy
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from regard.data.corpora.standard_library import gather, modules
from regard.errors import DataError

PROGRAM = "regard.data.corpora.standard_library"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    place = tmp_path / "lib"
    (place / "pack" / "test").mkdir(parents=True)
    (place / "site-packages").mkdir()
    for i in range(60):
        (place / "pack" / f"m{i}.py").write_text(f"x = {i}\n\n\n", encoding="utf-8")
    (place / "pack" / "test" / "test_m.py").write_text("assert 0\n", encoding="utf-8")
    (place / "site-packages" / "foreign.py").write_text("import nothing\n", encoding="utf-8")
    (place / "latin.py").write_bytes("# -*- coding: latin-1 -*-\ns = 'é'\n".encode("latin-1"))
    (place / "broken.py").write_bytes(b"s = '\xff'\n")
    (place / "empty.py").write_text("\n", encoding="utf-8")
    return place


def test_modules_are_read_in_their_encoding_and_tests_left_out(library: Path) -> None:
    found = modules(library)
    assert set(found) == {"latin.py", *(f"pack/m{i}.py" for i in range(60))}
    assert "'é'" in found["latin.py"] and found["pack/m0.py"] == "x = 0\n"


def test_every_module_is_in_one_part(library: Path, tmp_path: Path) -> None:
    sizes = gather(library, tmp_path / "out")
    texts = {part: (tmp_path / "out" / f"{part}.txt").read_text(encoding="utf-8") for part in sizes}
    assert {part: (text.count(".py\n"), len(text.encode())) for part, text in texts.items()} == sizes
    assert sum(n for n, _ in sizes.values()) == len(modules(library))
    assert sizes["train"][0] > 45 and min(n for n, _ in sizes.values()) > 0
    again = gather(library, tmp_path / "again")
    assert again == sizes


def test_a_folder_without_modules_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no Python modules"):
        gather(tmp_path, tmp_path / "out")


def test_the_module_is_a_program(library: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sysconfig, "get_path", lambda name: str(library))
        patch.setattr(sys, "argv", ["standard_library", str(tmp_path / "out")])
        patch.delitem(sys.modules, PROGRAM)  # it is run anew
        runpy.run_module(PROGRAM, run_name="__main__")
    assert (tmp_path / "out" / "train.txt").read_text(encoding="utf-8").count(".py\n") > 45


@pytest.mark.slow  # all of it is read, hashed and compared: ten seconds
def test_this_interpreters_own_library_compiles(tmp_path: Path) -> None:
    called = [sys.executable, "-m", PROGRAM, str(tmp_path)]
    said = subprocess.run(called, check=True, capture_output=True, text=True).stdout
    assert "train.txt" in said
    text = (tmp_path / "valid.txt").read_text(encoding="utf-8")
    first, *others = re.split(r"^# \S+\.py$", text, flags=re.MULTILINE)
    assert not first and len(others) > 5
    for module in others:
        compile(module, "a module", "exec")
