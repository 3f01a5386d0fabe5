"""An image gets a label."""
