"""BERT with random weights, through the model classes of the `transformers` library."""

from __future__ import annotations

from torch import Tensor, nn

from kleene.errors import NotSupported
from kleene.networks.synthesizer.descriptions import PAD


class Bert(nn.Module):
    """Tokens (batch, time) → logits (batch, outputs), read at the first token; heads do not attend to PAD.

    `spread` is the standard deviation of the initial weights. BERT's 0.02 suits hundreds of dimensions; small models
    learn faster from about 1/√hidden.
    """

    def __init__(
        self,
        outputs: int,
        vocabulary: int,
        *,
        hidden: int = 256,
        intermediate: int = 1024,
        layers: int = 4,
        heads: int = 4,
        dropout: float = 0.1,
        positions: int = 128,
        spread: float = 0.02,
    ) -> None:
        super().__init__()
        try:
            from transformers import BertConfig, BertForSequenceClassification
        except ImportError:
            raise NotSupported("BERT needs the package transformers; pip install 'kleene[language]'") from None
        config = BertConfig(
            vocab_size=vocabulary,
            hidden_size=hidden,
            intermediate_size=intermediate,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            max_position_embeddings=positions,
            initializer_range=spread,
            pad_token_id=PAD,
        )
        config.num_labels = outputs
        self.model = BertForSequenceClassification(config)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.model(input_ids=tokens, attention_mask=(tokens != PAD).long()).logits
        return logits
