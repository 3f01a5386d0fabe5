"""regard recipes: what ships, one line each."""


def recipes() -> None:
    """List the shipped recipes, one line each."""
    from regard.config import shipped_recipes

    shipped = shipped_recipes()
    width = max(map(len, shipped))
    for name, path in shipped.items():
        first = path.read_text(encoding="utf-8").splitlines()[0]
        print(f"{name:{width}} {first.lstrip('# ')}")
