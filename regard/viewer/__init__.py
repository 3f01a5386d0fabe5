"""Seeing attention: one `Capture`, shown in the terminal, as pictures, or as one offline page."""
