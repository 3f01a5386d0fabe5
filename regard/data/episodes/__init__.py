"""Episodes: what was seen, done and rewarded in games, read from files or recorded."""
