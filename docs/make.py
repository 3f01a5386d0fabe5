"""`make docs`: writes docs/map.md and docs/api.md from docstrings, docs/recipes.md from settings, and docs/walk.md."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the code beside these pages, not an installed one

from docs import api, code_map, settings, walks  # noqa: E402

PAGES = {"api.md": api.page, "map.md": code_map.page, "recipes.md": settings.page, "walk.md": walks.page}


def problems() -> list[str]:
    """What is missing from the pages: places that are not in the code, settings that nothing describes."""
    return api.gaps() + code_map.gaps() + settings.gaps() + walks.gaps()


def main() -> None:
    for name, page in PAGES.items():
        (ROOT / "docs" / name).write_text(page(), encoding="utf-8")
    for problem in problems():
        print(problem, file=sys.stderr)


if __name__ == "__main__":
    main()
