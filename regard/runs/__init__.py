"""The run folder: recipe, weights, checkpoints, card; loading it, and what can be done with it."""
