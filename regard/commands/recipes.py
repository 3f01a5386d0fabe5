"""regard recipes: what ships, one line each."""


def recipes() -> None:
    """List the shipped recipes, one line each."""
    from regard.config import shipped_recipes

    for name, path in shipped_recipes().items():
        first = path.read_text(encoding="utf-8").splitlines()[0]
        print(f"{name:20} {first.lstrip('# ')}")
