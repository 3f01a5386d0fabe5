"""The families of models that other tools know, one file each."""
