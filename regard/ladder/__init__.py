"""The ladder: from counting to the Transformer on the same data with the same budget, side by side."""
