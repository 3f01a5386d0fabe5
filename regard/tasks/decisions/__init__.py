"""What to do next in a game, learned from episodes."""
