"""From a model to text: one interface (`interface.py`), and searches that know nothing else of a model."""
