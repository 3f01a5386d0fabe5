"""An image gets a caption."""
