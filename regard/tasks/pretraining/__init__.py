"""What models learn from plain text before they learn a task."""
