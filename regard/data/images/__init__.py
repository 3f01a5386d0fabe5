"""Images: files of every kind that regard takes → pixels, decoded once, and how training changes them."""
