"""Language modeling: text that goes on, freely or from a label."""
