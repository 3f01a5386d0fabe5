"""A GPT as most people write it in plain PyTorch: one product for queries, keys and values, PyTorch's attention, tied
embeddings, and one matrix of logits; the shape of nanoGPT, with the weights of one of ours."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.heads import LanguageModel
from regard.models.stack import StackConfig


class PlainBlock(nn.Module):
    def __init__(self, c: StackConfig):
        super().__init__()
        self.n_heads = c.n_heads
        self.norm_attention, self.norm_feed_forward = (nn.LayerNorm(c.d_model, eps=c.norm_eps) for _ in range(2))
        self.to_all = nn.Linear(c.d_model, 3 * c.d_model)
        self.to_output = nn.Linear(c.d_model, c.d_model)
        self.expand = nn.Linear(c.d_model, c.d_ff)
        self.contract = nn.Linear(c.d_ff, c.d_model)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.to_all(self.norm_attention(x)).chunk(3, dim=-1)
        queries, keys, values = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x = x + self.to_output(mixed.transpose(1, 2).flatten(2))
        return x + self.contract(F.gelu(self.expand(self.norm_feed_forward(x)), approximate="tanh"))


class PlainGPT(nn.Module):
    def __init__(self, ours: LanguageModel, c: StackConfig):
        super().__init__()
        self.embedding = nn.Embedding(c.vocab_size, c.d_model)
        self.position = nn.Embedding(c.max_length, c.d_model)
        self.blocks = nn.ModuleList(PlainBlock(c) for _ in range(c.n_layers))
        self.norm = nn.LayerNorm(c.d_model, eps=c.norm_eps)
        self.take(ours)

    @torch.no_grad()
    def take(self, ours: LanguageModel) -> None:
        theirs = ours.reader
        self.embedding.weight.copy_(theirs.get_parameter("embedding.weight"))
        self.position.weight.copy_(theirs.get_parameter("position.table"))
        self.norm.load_state_dict(theirs.get_submodule("norm").state_dict())
        for number, block in enumerate(self.blocks):
            for name, source in (
                ("norm_attention", "attention_residual.norm"),
                ("norm_feed_forward", "feed_forward_residual.norm"),
                ("to_output", "attention.to_output"),
                ("expand", "feed_forward.expand"),
                ("contract", "feed_forward.contract"),
            ):
                same = theirs.get_submodule(f"blocks.{number}.{source}")
                block.get_submodule(name).load_state_dict(same.state_dict())
            for what in ("weight", "bias"):
                sources = (f"blocks.{number}.attention.to_{name}.{what}" for name in ("queries", "keys", "values"))
                joined = torch.cat([theirs.get_parameter(source) for source in sources])
                block.get_parameter(f"to_all.{what}").copy_(joined)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """(B, T) -> -log P of all labels."""
        x = self.embedding(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), reduction="sum")
