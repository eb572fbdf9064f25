"""Small models for tests with real frameworks, written like user code: plain modules without knowledge of ranks."""

import torch
from torch import nn
from torch.nn import functional as F


class RMSNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Attention(nn.Module):
    """Attention with grouped heads and rotary positions; -1 in a view is the local number of heads."""

    def __init__(self, size, heads, kv_heads, bias, fused):
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim, self.fused = heads, kv_heads, size // heads, fused
        if fused:
            self.qkv_proj = nn.Linear(size, (heads + 2 * kv_heads) * self.head_dim, bias)
        else:
            self.q_proj = nn.Linear(size, size, bias)
            self.k_proj = nn.Linear(size, kv_heads * self.head_dim, bias)
            self.v_proj = nn.Linear(size, kv_heads * self.head_dim, bias)
        self.o_proj = nn.Linear(size, size, bias)

    def forward(self, x, cos, sin):
        q, k, v = self.split(self.qkv_proj(x)) if self.fused else (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        q, k, v = (t.view(*t.shape[:2], -1, self.head_dim).transpose(1, 2) for t in (q, k, v))
        q, k = (
            t * cos + torch.cat([-t[..., self.head_dim // 2 :], t[..., : self.head_dim // 2]], -1) * sin for t in (q, k)
        )
        groups = self.num_heads // self.num_kv_heads
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        return self.o_proj(out.reshape(*out.shape[:2], -1))

    def split(self, qkv):
        group = qkv.shape[-1] // (self.num_heads // self.num_kv_heads + 2)
        return qkv.split([qkv.shape[-1] - 2 * group, group, group], -1)


class MLP(nn.Module):
    def __init__(self, size, inner, bias):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(size, inner, bias), nn.Linear(size, inner, bias)
        self.down_proj = nn.Linear(inner, size, bias)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, size, heads, kv_heads, inner, bias, fused=False):
        super().__init__()
        self.input_norm, self.post_norm = RMSNorm(size), RMSNorm(size)
        self.self_attn, self.mlp = Attention(size, heads, kv_heads, bias, fused), MLP(size, inner, bias)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_norm(x), cos=cos, sin=sin)
        return x + self.mlp(self.post_norm(x))


class Rotary(nn.Module):
    def __init__(self, head_dim):
        super().__init__()
        self.register_buffer(
            "inv_freq", 1.0 / 10000 ** (torch.arange(0, head_dim, 2).double() / head_dim), persistent=False
        )

    def forward(self, length):
        angles = torch.arange(length, device=self.inv_freq.device)[:, None] * self.inv_freq
        return torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)


class Llama(nn.Module):
    def __init__(
        self, vocabulary=32, size=16, heads=4, kv_heads=2, inner=24, layers=2, bias=False, tied=False, fused=False
    ):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, size)
        self.rotary = Rotary(size // heads)
        self.layers = nn.ModuleList(Layer(size, heads, kv_heads, inner, bias, fused) for _ in range(layers))
        self.norm = RMSNorm(size)
        self.head = nn.Linear(size, vocabulary, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        cos, sin = self.rotary(tokens.shape[1])
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


class Block(nn.Module):
    """A post-norm encoder block with a fused q|k|v and an exact GELU."""

    def __init__(self, size, heads, inner, fused):
        super().__init__()
        self.num_heads, self.head_dim, self.fused = heads, size // heads, fused
        if fused:
            self.qkv = nn.Linear(size, 3 * size)
        else:
            self.query, self.key, self.value = nn.Linear(size, size), nn.Linear(size, size), nn.Linear(size, size)
        self.out = nn.Linear(size, size)
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.up, self.down = nn.Linear(size, inner), nn.Linear(inner, size)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1) if self.fused else (self.query(x), self.key(x), self.value(x))
        q, k, v = (t.reshape(*t.shape[:2], -1, self.head_dim).transpose(1, 2) for t in (q, k, v))
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        x = self.norm1(x + self.out(attended.reshape(*attended.shape[:2], -1)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    """Positions are a bare parameter of the root; the head uses the embedding's weight from outside its module."""

    def __init__(self, vocabulary=32, size=16, heads=4, inner=24, layers=2, length=8, fused=False):
        super().__init__()
        self.words = nn.Embedding(vocabulary, size)
        self.positions = nn.Parameter(torch.randn(length, size) * 0.1)
        self.norm = nn.LayerNorm(size)
        self.blocks = nn.ModuleList(Block(size, heads, inner, fused) for _ in range(layers))
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, tokens):
        x = self.norm(self.words(tokens) * self.scale + self.positions[: tokens.shape[1]])
        for block in self.blocks:
            x = block(x)
        return F.linear(x, self.words.weight)


class Experts(nn.Module):
    """Every token goes through every expert, weighted by the router: zero for experts that it did not choose."""

    def __init__(self, size, inner, experts):
        super().__init__()
        self.num_experts, self.is_transposed, self.is_concatenated, self.has_gate = experts, False, True, True
        self.gate_up_proj = nn.Parameter(torch.randn(experts, 2 * inner, size) * 0.1)
        self.down_proj = nn.Parameter(torch.randn(experts, size, inner) * 0.1)

    def forward(self, x, chosen, weights):
        gate, up = torch.einsum("bsh,eoh->bseo", x, self.gate_up_proj).chunk(2, -1)
        out = torch.einsum("bseo,eho->bseh", F.silu(gate) * up, self.down_proj)
        scores = torch.zeros(*x.shape[:2], self.num_experts, dtype=x.dtype, device=x.device).scatter(
            -1, chosen, weights
        )
        return (out * scores[..., None]).sum(2)


class MixtureMLP(nn.Module):
    def __init__(self, size, inner, experts):
        super().__init__()
        self.router, self.experts = nn.Linear(size, experts, bias=False), Experts(size, inner, experts)

    def forward(self, x):
        weights, chosen = torch.softmax(self.router(x), -1).topk(2, -1)
        return self.experts(x, chosen, weights / weights.sum(-1, keepdim=True))


class Mixture(Llama):
    """A Llama whose layers have experts."""

    def __init__(self, experts=4, size=16, inner=24, **more):
        super().__init__(size=size, inner=inner, **more)
        for layer in self.layers:
            layer.mlp = MixtureMLP(size, inner, experts)
