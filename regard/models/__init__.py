"""The architectures, oldest first.  One file each: its settings, then its forward pass."""

from regard.models.transformer import Transformer, TransformerConfig

ARCHITECTURES = {
    "transformer": (TransformerConfig, Transformer),
}
