"""The data of a run, copied into its folder RUN/data, where `config.load` finds them wherever the run is copied to."""

import shutil
from pathlib import Path

from regard.data.config import DataConfig
from regard.errors import ConfigError, DataError


def copy_data(data: DataConfig, run: Path) -> str:
    """Copy every file and folder that the recipe names; what was copied, in words."""
    names = list(dict.fromkeys((*data.train, *data.valid, *data.test)))
    for name in names:  # before anything is written
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ConfigError(
                f"--keep-data copies files by their names inside data.root, and {name!r} leads out of it; "
                "set data.root to a folder above all files"
            )
        if not (Path(data.root) / name).exists():
            raise DataError(f"no file {Path(data.root) / name}: it cannot be kept in {run / 'data'}")
    n_bytes = 0
    for name in names:
        source, place = Path(data.root) / name, run / "data" / name
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            beside = place.with_name(f".copying-{place.name}")  # what has its name is complete
            if source.is_dir():
                shutil.rmtree(beside, ignore_errors=True)
                shutil.copytree(source, beside)
            else:
                shutil.copyfile(source, beside)
            beside.rename(place)
        files = place.rglob("*") if place.is_dir() else [place]
        n_bytes += sum(file.stat().st_size for file in files if file.is_file())
    return f"{len(names)} files and folders, {n_bytes / 2**20:,.1f} MiB, in {run / 'data'}"
