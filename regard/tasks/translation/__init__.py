"""A text becomes another text: translation and summaries, by a translator or a language model."""
