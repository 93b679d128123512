# mypy: ignore-errors
"""A Kleene network in `transformers`, alone: this file needs torch and transformers, but not Kleene.

It lies beside the weights that it is for. Load them with

    AutoModel.from_pretrained(FOLDER, trust_remote_code=True)

`model(input_ids)` runs each sequence until it halts. Read it before you trust it: it is one page.
"""

from dataclasses import dataclass

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.utils.generic import ModelOutput

MAX_LAYERS = 10_000


class KleeneConfig(PretrainedConfig):
    """`transformer` has the sizes of the network, `description` (JSON text) the names of its parts."""

    model_type = "kleene"

    def __init__(self, transformer=None, description=None, **options):
        self.transformer, self.description = transformer, description
        super().__init__(**options)


@dataclass
class KleeneOutput(ModelOutput):
    """Logits (batch, position, class), the residual stream that they are read from, and how each sequence ended."""

    logits: torch.Tensor = None
    last_hidden_state: torch.Tensor = None
    layers: torch.Tensor = None  # (batch): how many layers ran
    halted: torch.Tensor = None  # (batch): whether the sequence halted
    hidden_states: tuple = None  # the residual stream before the first layer and after each
    attentions: tuple = None  # (batch, head, position, position + 1) by layer; the last column is the null key


class Block(nn.Module):
    """One layer: heads with a null key, then two residual halves x + B·clip(A·x + b)."""

    def __init__(self, dim, shape, causal, dtype):
        super().__init__()
        h, k, v, (first, second) = len(shape["heads"]), shape["key_size"], shape["value_size"], shape["hidden"]
        self.causal, self.window = causal, shape["window"]
        sizes = {
            "query": (h, k, dim), "query_bias": (h, k), "key": (h, k, dim), "key_bias": (h, k),
            "value": (h, v, dim), "out": (h, dim, v), "relative": (h, 2 * self.window + 3),
            "null_score": (h,), "null_value": (h, v),
            "in1": (first, dim), "bias1": (first,), "out1": (dim, first),
            "in2": (second, dim), "bias2": (second,), "out2": (dim, second),
        }  # fmt: skip
        for name, size in sizes.items():
            setattr(self, name, nn.Parameter(torch.zeros(size, dtype=dtype), requires_grad=False))

    def forward(self, x, mask):
        """The residual stream after the layer, and the attention."""
        keys = torch.einsum("bnd,hkd->bhnk", x, self.key) + self.key_bias[:, None]
        queries = torch.einsum("bnd,hkd->bhnk", x, self.query) + self.query_bias[:, None]
        values = torch.einsum("bnd,hvd->bhnv", x, self.value)
        places = torch.arange(x.shape[1], device=x.device)
        offsets, reach = places[None, :] - places[:, None], self.window + 1
        scores = queries @ keys.transpose(-1, -2) + self.relative[:, offsets.clamp(-reach, reach) + reach]
        excluded = ~mask[:, None, None, :] | (
            (offsets > 0) if self.causal else torch.zeros_like(offsets, dtype=torch.bool)
        )
        scores = scores.masked_fill(excluded, -torch.inf)
        b, h, n, _ = scores.shape
        scores = torch.cat([scores, self.null_score[None, :, None, None].expand(b, h, n, 1)], dim=-1)
        weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        padded = torch.cat([values, self.null_value[None, :, None].expand(b, h, 1, -1)], dim=2)
        total = weights.sum(dim=-1, keepdim=True)
        x = x + torch.einsum("bhnv,hdv->bnd", (weights @ padded) / total, self.out)
        for into, bias, out in ((self.in1, self.bias1, self.out1), (self.in2, self.bias2, self.out2)):
            x = x + (x @ into.T + bias).clamp(0, 1) @ out.T
        return x, weights / total


class Network(nn.Module):
    """Embeddings, blocks that take turns, unembedding."""

    def __init__(self, sizes, dtype):
        super().__init__()

        def weight(*shape):
            return nn.Parameter(torch.zeros(*shape, dtype=dtype), requires_grad=False)

        self.sizes, dim, cycle = sizes, sizes["dim"], sizes["cycle"]
        self.token_embedding = weight(sizes["tokens"], dim)
        if sizes["positions"] is not None:
            self.position_embedding = weight(sizes["positions"], dim)
        shapes = [cycle[k % len(cycle)] for k in range(sizes["blocks"])]
        self.blocks = nn.ModuleList([Block(dim, shape, sizes["causal"], dtype) for shape in shapes])
        self.unembedding, self.halt_weight, self.halt_bias = weight(sizes["classes"], dim), weight(dim), weight(1)


class KleeneModel(PreTrainedModel):
    """Runs each sequence until it halts; a network that does not halt runs its fixed number of layers."""

    config_class = KleeneConfig
    base_model_prefix = "network"
    main_input_name = "input_ids"

    def __init__(self, config):
        super().__init__(config)
        dtype = config.dtype if isinstance(config.dtype, torch.dtype) else getattr(torch, config.dtype or "float32")
        self.network = Network(config.transformer, dtype)
        self.post_init()

    def _init_weights(self, module):
        """Do nothing: the weights come from the file."""

    @torch.no_grad()
    def forward(
        self, input_ids, attention_mask=None, layers=None, max_layers=MAX_LAYERS, return_dict=None,
        output_hidden_states=None, output_attentions=None, **_,
    ):  # fmt: skip
        """Logits of a batch of tokens (batch, position). `layers` runs exactly this many layers."""
        net, sizes = self.network, self.network.sizes
        mask = torch.ones_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        fixed = layers if layers is not None else None if sizes["halts"] else sizes["layers"]
        x = net.token_embedding[input_ids]
        if sizes["positions"] is not None:
            x = x + net.position_embedding[: input_ids.shape[1]]
        for first, bits, offset in sizes.get("counted", ()):
            place = torch.arange(input_ids.shape[1], device=x.device) + offset
            x[..., first : first + bits] += (place[:, None] >> torch.arange(bits, device=x.device) & 1).to(x.dtype)
        halted = torch.zeros(len(input_ids), dtype=torch.bool, device=x.device)
        counts, streams, attentions, number = halted.long(), [x], [], 0
        while number < (max_layers if fixed is None else fixed) and not bool(halted.all()):
            after, attention = net.blocks[number % len(net.blocks)](x, mask)
            x = torch.where(halted[:, None, None], x, after)
            counts += (~halted).long()
            number += 1
            streams.append(x)
            attentions.append(attention)
            if fixed is None:
                halted = halted | ((x @ net.halt_weight + net.halt_bias > 0) | ~mask).all(dim=1)
        made = KleeneOutput(logits=x @ net.unembedding.T, last_hidden_state=x, layers=counts, halted=halted)
        if self.config.output_hidden_states if output_hidden_states is None else output_hidden_states:
            made.hidden_states = tuple(streams)
        if self.config.output_attentions if output_attentions is None else output_attentions:
            made.attentions = tuple(attentions)
        return made if return_dict is None or return_dict else made.to_tuple()
