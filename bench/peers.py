"""The peers, made in the shape and with the weights of one of our Transformers, so that all do the same work."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from regard.models.transformer import Transformer
from regard.nn.attention import MultiHeadAttention
from regard.text.words import END, PAD, START, UNKNOWN

# Names of ours -> theirs, within a block.
MARIAN_ENCODER = {
    "attention.to_queries": "self_attn.q_proj",
    "attention.to_keys": "self_attn.k_proj",
    "attention.to_values": "self_attn.v_proj",
    "attention.to_output": "self_attn.out_proj",
    "attention_residual.norm": "self_attn_layer_norm",
    "feed_forward.expand": "fc1",
    "feed_forward.contract": "fc2",
    "feed_forward_residual.norm": "final_layer_norm",
}
MARIAN_DECODER = {
    **MARIAN_ENCODER,
    "cross_attention.to_queries": "encoder_attn.q_proj",
    "cross_attention.to_keys": "encoder_attn.k_proj",
    "cross_attention.to_values": "encoder_attn.v_proj",
    "cross_attention.to_output": "encoder_attn.out_proj",
    "cross_attention_residual.norm": "encoder_attn_layer_norm",
}
TORCH_ENCODER = {
    "attention.to_output": "self_attn.out_proj",
    "attention_residual.norm": "norm1",
    "feed_forward.expand": "linear1",
    "feed_forward.contract": "linear2",
    "feed_forward_residual.norm": "norm2",
}
TORCH_DECODER = {
    **TORCH_ENCODER,
    "cross_attention.to_output": "multihead_attn.out_proj",
    "cross_attention_residual.norm": "norm2",
    "feed_forward_residual.norm": "norm3",
}


def copy_blocks(ours: Iterable[nn.Module], theirs: Iterable[nn.Module], names: dict[str, str]) -> None:
    for mine, yours in zip(ours, theirs, strict=True):
        for my_name, your_name in names.items():
            yours.get_submodule(your_name).load_state_dict(mine.get_submodule(my_name).state_dict())


def copy_projections(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    """nn.MultiheadAttention keeps its three projections in one matrix."""
    projections = (ours.to_queries, ours.to_keys, ours.to_values)
    assert theirs.in_proj_weight is not None
    theirs.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
    theirs.in_proj_bias.copy_(torch.cat([p.bias for p in projections]))


@torch.no_grad()
def marian(model: Transformer) -> Any:
    """transformers' Marian: the architecture of the paper, with tied embeddings and fused attention (sdpa)."""
    import transformers

    transformers.logging.set_verbosity_error()
    c = model.config
    config = transformers.MarianConfig(
        vocab_size=c.vocab_size,
        max_position_embeddings=c.max_length,
        d_model=c.d_model,
        encoder_layers=c.n_layers,
        decoder_layers=c.n_layers,
        encoder_attention_heads=c.n_heads,
        decoder_attention_heads=c.n_heads,
        encoder_ffn_dim=c.d_ff,
        decoder_ffn_dim=c.d_ff,
        activation_function="relu",
        dropout=c.dropout,
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=START,
        forced_eos_token_id=None,
        attn_implementation="sdpa",
    )
    made = transformers.MarianMTModel(config)
    theirs = made.model
    copy_blocks(model.encoder, theirs.encoder.layers, MARIAN_ENCODER)
    copy_blocks(model.decoder, theirs.decoder.layers, MARIAN_DECODER)
    theirs.shared.weight.copy_(model.embedding.weight)
    for side in (theirs.encoder, theirs.decoder):
        assert side.embed_tokens.weight is theirs.shared.weight, "transformers did not tie its embeddings"
        side.embed_positions.weight.copy_(model.source_position.table)  # theirs has all sines first, then the cosines
    assert made.lm_head.weight is theirs.shared.weight, "transformers did not tie its output layer"
    return made


class TorchTransformer(nn.Module):
    """nn.Transformer with the embeddings, positions and output layer that it leaves to its users."""

    table: Tensor

    @torch.no_grad()
    def __init__(self, model: Transformer):
        super().__init__()
        c = model.config
        self.embedding = nn.Embedding(c.vocab_size, c.d_model)
        self.embedding.weight.copy_(model.embedding.weight)
        self.register_buffer("table", model.source_position.get_buffer("table"))
        self.dropout = nn.Dropout(c.dropout)
        self.transformer = nn.Transformer(
            c.d_model, c.n_heads, c.n_layers, c.n_layers, c.d_ff, c.dropout, batch_first=True
        )
        # The paper has neither the norms that nn.Transformer adds at the end of each stack, nor dropout on the
        # attention weights and inside the feed-forward net; Marian leaves that out by default too.
        self.transformer.encoder.norm = self.transformer.decoder.norm = None
        block: Any
        for block in (*self.transformer.encoder.layers, *self.transformer.decoder.layers):
            block.dropout.p = 0.0
            block.self_attn.dropout = 0.0
        for block in self.transformer.decoder.layers:
            block.multihead_attn.dropout = 0.0
        copy_blocks(model.encoder, self.transformer.encoder.layers, TORCH_ENCODER)
        copy_blocks(model.decoder, self.transformer.decoder.layers, TORCH_DECODER)
        for encoder_block, block in zip(model.encoder, self.transformer.encoder.layers, strict=True):
            copy_projections(encoder_block.attention, block.self_attn)
        for decoder_block, block in zip(model.decoder, self.transformer.decoder.layers, strict=True):
            copy_projections(decoder_block.attention, block.self_attn)
            copy_projections(decoder_block.cross_attention, block.multihead_attn)

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        """Ids (B, S), True where they are words (B, S), ids (B, T) -> logits (B, T, V)."""
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1], target.device)
        hidden = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=causal,
            tgt_is_causal=True,  # so that the kernel takes the flag, not the mask
            src_key_padding_mask=~source_mask,
            memory_key_padding_mask=~source_mask,
        )
        return nn.functional.linear(hidden, self.embedding.weight)

    def embed(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) * self.embedding.embedding_dim**0.5
        return self.dropout(x + self.table[: tokens.shape[1]])


def ctranslate2_folder(made: Any, folder: str) -> None:
    """Write a Marian model in CTranslate2's format.

    By the loader of BART, which has the same blocks: that of Marian would leave out <pad> and start from a zero
    embedding, and so do other work.
    """
    from ctranslate2.converters.transformers import BartLoader

    made.config.normalize_before, made.config.normalize_embedding = False, False
    spec = BartLoader().get_model_spec(made)
    words = [str(i) for i in range(made.config.vocab_size)]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.bos_token = spec.config.decoder_start_token = words[START]
    spec.config.eos_token = words[END]
    spec.config.unk_token = words[UNKNOWN]
    spec.validate()
    spec.optimize()
    spec.save(folder)
