"""From what was read to batches: tokens, windows, noise, and which examples go together."""
