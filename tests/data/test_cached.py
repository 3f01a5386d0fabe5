"""Folders of a cache, made by several processes at once."""

from pathlib import Path

from regard.data.cached import is_unharmed, write_whole


def test_what_another_process_made_meanwhile_stays(tmp_path: Path) -> None:
    """It may be reading it: its folder must not vanish for a moment."""
    folder, files = tmp_path / "tokens", ["part"]

    def write(beside: Path) -> None:
        (beside / "part").write_text("same")

    def write_late(beside: Path) -> None:
        write_whole(folder, files, write)  # the other one, which was faster
        write(beside)

    write_whole(folder, files, write_late)
    first = folder.stat().st_ino
    assert is_unharmed(folder, files)
    write_whole(folder, files, write)
    assert folder.stat().st_ino == first
    (folder / "part").write_text("harmed")
    write_whole(folder, files, write)
    assert is_unharmed(folder, files) and folder.stat().st_ino != first
    assert [path.name for path in tmp_path.iterdir()] == ["tokens"]
