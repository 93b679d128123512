"""A compiled transformer as a model of the `transformers` library: save_pretrained, from_pretrained, AutoModel.

Importing this module registers the model type "kleene" with AutoConfig and AutoModel. Loading runs no code from the
folder: config.json holds numbers and names, and the weights are safetensors.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel
from transformers.utils.generic import ModelOutput

from kleene.common.output import Output
from kleene.common.residual import Layout
from kleene.errors import DidNotHalt, FileError
from kleene.files import MAX_PARAMETERS
from kleene.networks.transformer.files import config_from_json, count_parameters
from kleene.networks.transformer.model import DTYPES, Transformer

MAX_LAYERS = 10_000


class KleeneConfig(PretrainedConfig):
    """The config of a Kleene network.

    transformer: the sizes of the network.
    description: its program, layout, updates and read guards, as JSON text. (config.json sorts its keys, and the
        order of variables matters.)
    """

    model_type = "kleene"

    def __init__(
        self, transformer: dict[str, Any] | None = None, description: str | None = None, **options: Any
    ) -> None:
        self.transformer, self.description = transformer, description
        super().__init__(**options)


@dataclass
class KleeneOutput(ModelOutput):
    """Logits (batch, position, class), the residual stream that they are read from, and how each sequence ended."""

    logits: Tensor | None = None
    last_hidden_state: Tensor | None = None
    layers: Tensor | None = None  # (batch): how many layers ran
    halted: Tensor | None = None  # (batch): whether the sequence halted
    hidden_states: tuple[Tensor, ...] | None = None  # the residual stream before the first layer and after each
    attentions: tuple[Tensor, ...] | None = None  # (batch, head, position, position + 1) by layer; last: the null key


class KleeneModel(PreTrainedModel):
    """Runs each sequence until it halts, like `net.run`; `model.network` is the transformer itself."""

    config_class = KleeneConfig
    base_model_prefix = "network"
    main_input_name = "input_ids"

    def __init__(self, config: KleeneConfig) -> None:
        super().__init__(config)
        if config.transformer is None or config.description is None:
            raise FileError("config.json: no Kleene network in it ('transformer' and 'description' are missing)")
        try:
            shape, description = config_from_json(config.transformer), dict(json.loads(config.description))
            Layout.from_json(description["layout"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileError(f"config.json: not a description of a transformer ({error!r})") from None
        if count_parameters(shape) > MAX_PARAMETERS:
            raise FileError(f"config.json: {count_parameters(shape):,} parameters, more than {MAX_PARAMETERS:,}")
        dtype = config.dtype if isinstance(config.dtype, torch.dtype) else DTYPES[config.dtype or "float32"]
        self.network = Transformer(shape, description, dtype)
        self.post_init()  # type: ignore[no-untyped-call]

    @classmethod
    def from_pretrained(cls, *arguments: Any, **options: Any) -> Any:
        """Load the model from a folder; its weights do not require gradients."""
        made = super().from_pretrained(*arguments, **options)
        (made[0] if isinstance(made, tuple) else made).requires_grad_(False)
        return made

    def _init_weights(self, module: Any) -> None:
        """Do nothing: the weights come from the file."""

    @torch.no_grad()
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        layers: int | None = None,
        max_layers: int = MAX_LAYERS,
        return_dict: bool | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        **_: Any,
    ) -> Any:
        """Run a batch of tokens.

        input_ids: tokens (batch, position).
        attention_mask: which positions are real; heads ignore the others.
        layers: run exactly this many layers; by default each sequence runs until it halts, and then stays as it is.
        max_layers: the most layers to run.
        return_dict: false returns a tuple.
        output_hidden_states: also return the residual stream before the first layer and after every layer.
        output_attentions: also return the attention of every layer; the last column is the null key.
        """
        net, c = self.network, self.network.config
        mask = torch.ones_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        fixed = layers if layers is not None else None if c.halts else c.layers
        x, number = net.embed(input_ids), 0
        wanted = [self.config.output_hidden_states if output_hidden_states is None else output_hidden_states]
        wanted.append(self.config.output_attentions if output_attentions is None else output_attentions)
        streams, attentions = [x], list[Tensor]()
        halted = torch.zeros(len(input_ids), dtype=torch.bool, device=x.device)
        counts = torch.zeros(len(input_ids), dtype=torch.long, device=x.device)
        while number < (max_layers if fixed is None else fixed) and not bool(halted.all()):
            if wanted[1]:
                attentions.append(net.block(number).pattern(x, mask))
            x = torch.where(halted[:, None, None], x, net.block(number)(x, mask))
            streams.append(x)
            counts += (~halted).long()
            number += 1
            if fixed is None:
                halted = halted | net.done(x, mask)
        made = KleeneOutput(logits=net.logits(x), last_hidden_state=x, layers=counts, halted=halted)
        made.hidden_states = tuple(streams) if wanted[0] else None
        made.attentions = tuple(attentions) if wanted[1] else None
        return made if return_dict is None or return_dict else made.to_tuple()

    def run(self, tokens: Sequence[int], *, layers: int | None = None, max_layers: int = MAX_LAYERS) -> Output:
        """Run one input, like `net.run`; a decoder appends tokens until it stops."""
        net = self.network
        given = net.check_input(tokens)
        if net.config.shape == "decoder":
            return net.decode_batch([given], layers=layers)[0]
        made = self(torch.tensor([given], device=self.device), layers=layers, max_layers=max_layers)
        if layers is None and net.config.halts and not bool(made.halted.all()):
            raise DidNotHalt(f"{net.config.name}: did not halt within {max_layers:,} layers (max_layers)")
        return Output(net.read(made.last_hidden_state)[0].tolist(), layers=int(made.layers[0]))


def as_model(net: Transformer) -> KleeneModel:
    """Wrap a network as a model of transformers; both share the weights."""
    config = KleeneConfig(dataclasses.asdict(net.config), json.dumps(net.description), dtype=net.dtype)
    config.architectures = ["KleeneModel"]
    model = KleeneModel(config)
    model.network = net
    model.eval()  # type: ignore[no-untyped-call]
    return model


AutoConfig.register("kleene", KleeneConfig, exist_ok=True)
AutoModel.register(KleeneConfig, KleeneModel, exist_ok=True)
