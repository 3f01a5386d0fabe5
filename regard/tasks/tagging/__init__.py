"""Every word gets a tag."""
