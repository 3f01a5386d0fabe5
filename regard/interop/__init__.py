"""Models of other tools, in and out: their folders, the families of models, and the certificate of a carry-over."""
