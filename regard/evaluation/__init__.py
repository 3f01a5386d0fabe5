"""How good outputs are: every figure comes with the settings it was measured with."""
