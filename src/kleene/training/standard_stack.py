"""Standard transformers of one shape, trained side by side as one: every weight has a leading axis of networks.

Nothing passes between the networks. Each starts from its own first weights, reads the batches of its own seed, and has
its own optimiser statistics, so that it learns what it would learn alone, up to rounding. Words are packed: several
share a row, and attend to themselves alone, since positions and offsets are counted within a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kleene.errors import InputError
from kleene.networks.trained.encoder_decoder import BUCKETS, StandardConfig, StandardTransformer, bucket, rows
from kleene.training.cuda_graph import CudaGraphStep, make_optimiser
from kleene.training.end_to_end import EVALUATED, IGNORED, Data
from kleene.training.loop import fingerprint, seeded, train
from kleene.training.options import Evaluation, GradientStep, Metrics, Storage, TrainingPlan

WIDTH = 64  # positions of a row are a multiple of this
LARGEST = 64  # batches packed to find how many rows all of them need
FULLEST = 2_000  # batches that are tried, to know how many rows are enough
PADDING = -1


class StackedBlock(nn.Module):
    """A pre-norm layer of every network; see `StandardBlock`."""

    norm1_weight: Tensor
    norm1_bias: Tensor
    attention_query_weight: Tensor
    attention_key_value_weight: Tensor
    attention_out_weight: Tensor
    norm2_weight: Tensor
    norm2_bias: Tensor
    mlp_0_weight: Tensor
    mlp_0_bias: Tensor
    mlp_2_weight: Tensor
    mlp_2_bias: Tensor

    def __init__(self, heads: int, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self.heads = heads
        for name, weight in weights.items():
            kept = weight.mT.contiguous() if weight.dim() == 3 else weight  # (network, in, out), as products want it
            self.register_parameter(name.replace(".", "_"), nn.Parameter(kept))

    def forward(self, x: Tensor, bias: Tensor, last: Tensor | None = None) -> Tensor:
        """x (network, position, width), bias (network · row, head, query, key); where `last` (network, word) is given,
        only those positions come out.
        """

        def split(y: Tensor) -> Tensor:  # (network · row, head, position, size)
            return y.reshape(len(bias), bias.shape[-1], self.heads, -1).transpose(1, 2)

        y = _norm(x, self.norm1_weight, self.norm1_bias)
        query = torch.bmm(y, self.attention_query_weight)
        key, value = torch.bmm(y, self.attention_key_value_weight).chunk(2, dim=-1)
        mixed = F.scaled_dot_product_attention(split(query), split(key), split(value), bias)
        mixed = mixed.transpose(1, 2).reshape(len(x), x.shape[1], -1)
        if last is not None:
            x, mixed = _chosen(x, last), _chosen(mixed, last)
        x = x + torch.bmm(mixed, self.attention_out_weight)
        hidden = torch.bmm(_norm(x, self.norm2_weight, self.norm2_bias), self.mlp_0_weight)
        hidden = F.gelu(hidden + self.mlp_0_bias[:, None].to(hidden.dtype))
        after = torch.bmm(hidden, self.mlp_2_weight)
        return x + (after + self.mlp_2_bias[:, None].to(after.dtype))


def _norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:]) * weight[:, None] + bias[:, None]


def _chosen(x: Tensor, places: Tensor) -> Tensor:
    return x.gather(1, places[..., None].expand(-1, -1, x.shape[-1]))


class StandardStack(nn.Module):
    """Encoders that are read at each word's last position; network n reads text `texts[n]` of a batch.

    Where a network has no table of offsets, or of positions, it has one of zeros that never changes.
    """

    text: Tensor  # (network,), which text of a batch each reads
    relative: Tensor  # (network,), whether its positions are
    summed: Tensor  # (network,), the losses since they were last looked at

    def __init__(self, networks: Sequence[StandardTransformer], texts: Sequence[int]) -> None:
        super().__init__()
        first, *others = configs = [replace(net.config, positions="relative") for net in networks]
        if any(config != first for config in others) or first.target_tokens is not None or len(texts) != len(configs):
            raise InputError(f"stack: encoders of one shape, and a text for each; got {len(texts)} texts for {configs}")
        self.config: StandardConfig = first
        self.positions = [net.config.positions for net in networks]
        states = [dict(net.named_parameters()) for net in networks]

        def stacked(name: str, missing: Tensor | None = None) -> Tensor:
            return torch.stack([s.get(name, missing).detach() for s in states])  # type: ignore[union-attr]

        names = [name.removeprefix("encoder.blocks.0.") for name in states[0] if name.startswith("encoder.blocks.0.")]
        self.blocks = nn.ModuleList(
            StackedBlock(first.heads, {name: stacked(f"encoder.blocks.{layer}.{name}") for name in names})
            for layer in range(1 if first.shared else first.layers)
        )
        self.embedding = nn.Parameter(stacked("encoder.embedding.weight"))
        self.offsets = nn.Parameter(stacked("encoder.bias.weight", torch.zeros(BUCKETS, first.heads)))
        self.places = nn.Parameter(stacked("encoder.places.weight", torch.zeros(first.max_length, first.width)))
        self.norm_weight, self.norm_bias = (nn.Parameter(stacked(f"encoder.norm.{n}")) for n in ("weight", "bias"))
        self.out_weight, self.out_bias = (nn.Parameter(stacked(f"out.{n}")) for n in ("weight", "bias"))
        self.register_buffer("text", torch.tensor(texts), persistent=False)
        self.register_buffer("relative", torch.tensor([p == "relative" for p in self.positions]), persistent=False)
        self.register_buffer("summed", torch.zeros(len(networks)))

    def take(self, n: int) -> StandardTransformer:
        """Network n by itself, on the CPU."""
        net = StandardTransformer(replace(self.config, positions=self.positions[n]))
        mine = {
            "encoder.embedding.weight": self.embedding,
            "encoder.bias.weight": self.offsets,
            "encoder.places.weight": self.places,
            "encoder.norm.weight": self.norm_weight,
            "encoder.norm.bias": self.norm_bias,
            "out.weight": self.out_weight,
            "out.bias": self.out_bias,
        }
        with torch.no_grad():
            for name, parameter in net.named_parameters():
                if name.startswith("encoder.blocks."):
                    _, _, layer, rest = name.split(".", 3)
                    weight = self.blocks[int(layer)].get_parameter(rest.replace(".", "_"))[n]
                    parameter.copy_(weight.mT if weight.dim() == 2 else weight)
                else:
                    parameter.copy_(mine[name][n])
        return net.eval()

    def forward(self, words: PackedWords, packed: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Logits and labels, (network, word, class) and (network, word), of `count` words packed for each text."""
        tokens, places, mask, last, labels = words.unpacked(packed, count)
        networks, inner = len(self.text), mask.shape[-1]
        own = torch.arange(networks, device=packed.device)[:, None]
        mine = self.text
        x = rows(self.embedding.flatten(0, 1), tokens[mine] + own * self.config.tokens)
        there = rows(self.places.flatten(0, 1), places[mine] + own * self.config.max_length)
        x = x + torch.where(self.relative[:, None, None], 0, there)
        here = torch.arange(inner, device=packed.device)
        buckets = bucket(here[None, :] - here[:, None], both_ways=True)
        learned = rows(self.offsets.flatten(0, 1), buckets[None] + own[..., None] * BUCKETS).permute(0, 3, 1, 2)
        learned = torch.where(self.relative[:, None, None, None], learned, 0)
        bias = (learned[:, None] + mask[mine][:, :, None]).flatten(0, 1)  # (network · row, head, query, key)
        device = packed.device.type
        lower = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
        bias, ends = bias.to(lower).contiguous(), last[mine]
        for layer in range(self.config.layers):
            block = self.blocks[layer % len(self.blocks)]
            x = block(x, bias, ends) if layer == self.config.layers - 1 else block(x, bias)
        logits = torch.bmm(_norm(x, self.norm_weight, self.norm_bias), self.out_weight.mT)
        return logits + self.out_bias[:, None].to(logits.dtype), labels[mine]


class PackedWords:
    """Words as tensors, and batches of them as rows that several words share.

    A packed batch is one tensor of whole numbers: for each position of each row the place of its token in the flat
    table of tokens, or PADDING; then for each word the place of its last token among the positions.
    """

    def __init__(self, data: Data, device: torch.device) -> None:
        tokens, real, labels = data
        self.size, self.lengths = tokens.shape[1], real.sum(dim=1)
        self.width = -(-self.size // WIDTH) * WIDTH
        ends = labels.gather(1, self.lengths[:, None] - 1)[:, 0]
        if bool((ends == IGNORED).any()) or int((labels != IGNORED).sum()) != len(labels):
            raise InputError("stack: words have labels at their last positions alone")
        self.tokens, self.labels = tokens.flatten().to(device), ends.to(device)

    def pack(self, chosen: Tensor, count: int) -> Tensor:
        """These words in `count` rows."""
        starts = self._starts(chosen, count)
        if starts is None:
            total = int(self.lengths[chosen].sum())
            raise InputError(f"stack: {total} tokens do not fit into {count} rows of {self.width}")
        entries = torch.full((count * self.width,), PADDING)
        long, start = self.lengths[chosen], torch.tensor(starts)
        within = torch.arange(int(long.sum())) - (long.cumsum(0) - long).repeat_interleave(long)
        entries[start.repeat_interleave(long) + within] = (chosen * self.size).repeat_interleave(long) + within
        return torch.cat([entries, start + long - 1])

    def _starts(self, chosen: Tensor, count: int) -> list[int] | None:
        """The start of each word: longest first, each in the fullest row that has room; None where one has no room."""
        lengths = self.lengths[chosen].tolist()
        by_room: list[list[int]] = [[] for _ in range(self.width + 1)]
        by_room[self.width] = list(range(count))
        starts = [0] * len(lengths)
        for word in sorted(range(len(lengths)), key=lambda n: -lengths[n]):
            length = lengths[word]
            room = next((room for room in range(length, self.width + 1) if by_room[room]), None)
            if room is None:
                return None
            row = by_room[room].pop()
            starts[word] = row * self.width + self.width - room
            by_room[room - length].append(row)
        return starts

    def row_count(self, batches: Sequence[Tensor]) -> int:
        """Rows that the fullest of these batches fit into, with one more to spare."""
        by_tokens = sorted(batches, key=lambda chosen: -int(self.lengths[chosen].sum()))
        count = -(-int(self.lengths[by_tokens[0]].sum()) // self.width)
        for chosen in by_tokens[:FULLEST]:
            while self._starts(chosen, count) is None:
                count += 1
        return count + 1

    def unpacked(self, packed: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Pack `count` words into each text: tokens and their places (text, position), the mask (text, row, query,
        key), last positions and labels (text, word).
        """
        entries, last = packed[:, :-count], packed[:, -count:]
        real, known = entries >= 0, entries.clamp(min=0)
        places = torch.where(real, known % self.size, 0)
        begins = (real & (places == 0)).view(len(packed), -1, self.width)
        word = torch.where(real.view_as(begins), begins.cumsum(-1), 0)  # padding attends to padding
        apart = word[..., :, None] != word[..., None, :]
        mask = torch.zeros(apart.shape, device=packed.device).masked_fill(apart, -torch.inf)
        labels = self.labels[known.gather(1, last) // self.size]
        return self.tokens[known], places, mask, last, labels


def train_standards(
    networks: Sequence[StandardTransformer], data: Data, *, plans: Sequence[TrainingPlan], storage: Storage, title: str
) -> list[StandardTransformer]:
    """Train networks on words with a label at the last position, each by its own plan; plans differ in seeds alone.

    Each network that comes back has the metrics that it would have alone.
    """
    plan, where = plans[0], torch.device(storage.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if any(replace(other, seed=plan.seed) != plan for other in plans):
        raise InputError("stack: the plans differ in more than their seeds")
    seeds = list(dict.fromkeys(one.seed for one in plans))
    stack = StandardStack(networks, [seeds.index(one.seed) for one in plans]).to(where)
    words = PackedWords(data, where)
    some = torch.randperm(len(data[0]), generator=torch.Generator().manual_seed(0))[:EVALUATED]
    looked = words.pack(some, words.row_count([some]))[None].expand(len(seeds), -1).to(where)

    def batch_of(seed: int, step: int) -> Tensor:
        source = torch.Generator().manual_seed(seeded(seed, step))
        return torch.randint(len(data[0]), (plan.batch,), generator=source)

    def batches(step: int) -> Tensor:
        packed = torch.stack([words.pack(batch_of(seed, step), count) for seed in seeds])
        return packed.pin_memory() if where.type == "cuda" else packed  # so that the copy waits for nothing

    count = words.row_count([batch_of(seed, step) for seed in seeds for step in range(plan.steps)])

    def loss(net: nn.Module, packed: Tensor) -> Tensor:
        logits, labels = net(words, packed, plan.batch)
        each = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), reduction="none")
        losses = each.view(len(logits), -1).mean(dim=1)
        stack.summed += losses.detach()
        return losses.sum()

    def evaluate(net: nn.Module) -> Metrics:
        with torch.compiler.set_stance("force_eager") if blocks else nullcontext():  # its batch has another shape
            logits, labels = net(words, looked, len(some))
        losses = stack.summed.tolist()
        stack.summed.zero_()
        return {"losses": losses, "accuracy": (logits.argmax(dim=-1) == labels).double().mean(dim=1).tolist()}

    use_half = where.type == "cuda" if plan.half is None else plan.half
    blocks = list(stack.blocks) if where.type == "cuda" else []
    for block in blocks:
        block.compile(dynamic=False)  # all layers share one compilation, the last has another
    descent = make_optimiser(plan.optimiser, stack, plan.rate, stacked=True)
    run = train(
        stack,
        descent,
        loss,
        batches,
        steps=plan.steps,
        seed=plan.seed,
        evaluation=Evaluation(evaluate, plan.every or max(1, plan.steps // 10)),
        gradient=GradientStep(descend=CudaGraphStep(descent, loss, half=use_half)),
        storage=storage,
        settings={
            **asdict(stack.config),
            "positions": stack.positions,
            "seeds": [one.seed for one in plans],
            "examples": fingerprint(*data),
            "rate": plan.rate,
            "optimiser": plan.optimiser,
            "batch": plan.batch,
            "half": use_half,
        },
        title=title,
    )
    made = [stack.take(n) for n in range(len(networks))]
    for n, net in enumerate(made):
        net.metrics = [_alone(entry, n) for entry in run.metrics]
    return made


def _alone(entry: Metrics, n: int) -> Metrics:
    """Return one network's part of the metrics of a stack, whose loss is the sum of its networks' mean losses."""
    share = entry["losses"][n] / sum(entry["losses"])
    return {"step": entry["step"], "loss": entry["loss"] * share, "accuracy": entry["accuracy"][n]}
