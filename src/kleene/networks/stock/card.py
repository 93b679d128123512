"""The model card of a stock model: what it computes, how to run it, and what is proved."""

from __future__ import annotations

from typing import Any

from kleene.networks.stock.model import CLASSES, StockModel


def model_card(net: StockModel, certificate: Any = None) -> str:
    """The text of README.md."""
    s = net.sizes
    shown = " ".join(f"`{symbol}`" for symbol in net.symbols[:64]) + (" …" if len(net.symbols) > 64 else "")
    stop = net.program["stop"]
    ends = f"`{net.symbols[stop]}` or " if stop is not None else ""
    return f"""---
library_name: transformers
pipeline_tag: text-generation
tags: [kleene, compiled]
---

# {net.name}

{net.about or "A program, compiled."}

This is a `{CLASSES[net.family]}` as transformers ships it. Its weights were constructed from a program by Kleene, not
trained. Greedy decoding gives the program's answer.

| layers | residual | heads | head size | neurons per layer | parameters | weights |
|---|---|---|---|---|---|---|
| {s.layers} | {s.residual} | {s.heads} | {s.head_size} | {s.hidden} | {s.parameters:,} | {s.bytes:,} bytes |

## Run it

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model, tokenizer = AutoModelForCausalLM.from_pretrained("."), AutoTokenizer.from_pretrained(".")
inputs = tokenizer(["…"], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))
```

Tokens: {shown}. The tokenizer puts `<s>` in front of every sequence; the model needs it.
It gives `<pad>` for any other symbol; `<pad>` means nothing to the program.
Generation ends at {ends}{net.max_tokens} tokens. A sequence has at most {net.length:,} tokens after `<s>`,
generated ones included.

## What is proved

{_proved(net, certificate)}

`kleene.json` holds the program as data. `kleene certify DIR` proves the tensors again, without the compiler.
"""


def _proved(net: StockModel, certificate: Any) -> str:
    if certificate is None:
        return "This folder was written without a proof. Run `kleene certify DIR`."
    if not certificate.holds:
        return f"No certificate: {certificate.reasons[0]}"
    lemmas = "\n".join(f"- {reason}" for reason in certificate.reasons[1:])
    return f"{certificate.statement[0].upper()}{certificate.statement[1:]}.\n\n{lemmas}"
