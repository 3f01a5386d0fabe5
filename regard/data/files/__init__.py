"""Reading: files of every kind that regard takes, and what is in them."""
