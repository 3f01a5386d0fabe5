"""How a model learns: one loop (`loop.py`), and a file for each thing the loop relies on."""
