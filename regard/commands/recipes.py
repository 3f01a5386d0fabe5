"""regard recipes: what ships, one line each."""


def recipes() -> None:
    """List the shipped recipes, one line each."""
    from regard.config import shipped_recipes

    shipped = sorted(shipped_recipes().items())
    width = max(len(name) for name, _ in shipped)
    for name, path in shipped:
        first = path.read_text(encoding="utf-8").splitlines()[0]
        print(f"{name:{width}} {first.lstrip('# ')}")
