"""Images: files of them, their pixels, and how training changes them."""
