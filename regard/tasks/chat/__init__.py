"""Conversations: answers that are learnt, and answers that are preferred."""
