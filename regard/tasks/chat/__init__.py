"""Conversations: answers that are learned, and answers that are preferred."""
