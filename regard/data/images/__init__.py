"""Images: files of every kind that regard takes → pixels, decoded once; nothing here knows tasks or models."""
