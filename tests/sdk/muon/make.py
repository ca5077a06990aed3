#!/usr/bin/env python3
"""Writes twin.json: the weights of taught, trained for 20 steps with Muon in PyTorch, in float64.

start/ is what Hekla trained (see ../examples.sh): the weights to begin with, and the tokenizer. As in
plugins/examples/own_muon/recipe.toml: matrices by Muon, the table of the embedding by AdamW; both rows of twin.txt in each step.

    python3 tests/sdk/muon/make.py
"""
import json
import math
import pathlib
import struct

import torch

STEPS, LENGTH, RATE = 20, 48, 0.02
torch.set_default_dtype(torch.float64)
here = pathlib.Path(__file__).parent


def tensors(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(bytearray(data[8 + size + one["data_offsets"][0]:8 + size + one["data_offsets"][1]]),
                                   dtype=torch.float32).reshape(one["shape"]).double() for name, one in header.items()}


class Muon:
    def __init__(self, parameter):
        self.parameter, self.mean = parameter, torch.zeros_like(parameter)

    def step(self):
        p = self.parameter
        self.mean.lerp_(p.grad, 0.05)
        x = p.grad.lerp(self.mean, 0.95)
        rows, columns = x.shape
        x = x.T if rows > columns else x
        x = x / x.norm()
        for _ in range(5):
            gram = x @ x.T
            x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
        x = x.T if rows > columns else x
        p.data.sub_(RATE * math.sqrt(max(1, rows / columns)) * x)


vocabulary = json.loads((here / "start/tokenizer.json").read_text())["model"]["vocab"]
ids = torch.tensor([vocabulary[c] for c in (here / "twin.txt").read_text()])
rows = torch.stack([ids[i * LENGTH:i * LENGTH + LENGTH + 1] for i in range(2)])
weights = {name: value.requires_grad_() for name, value in tensors(here / "start/model.safetensors").items()
           if name in ("words.weight", "up.weight", "down.weight")}
optimizers = [Muon(weights["up.weight"]), Muon(weights["down.weight"]),
              torch.optim.AdamW([weights["words.weight"]], lr=RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0, foreach=False)]
losses = []
for _ in range(STEPS):
    for p in weights.values():
        p.grad = None
    x = torch.nn.functional.embedding(rows[:, :-1], weights["words.weight"])
    hidden = x + torch.nn.functional.gelu(x @ weights["up.weight"].T) @ weights["down.weight"].T
    logits = hidden @ weights["words.weight"].T
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
    loss.backward()
    losses.append(loss.item())
    for optimizer in optimizers:
        optimizer.step()
(here / "twin.json").write_text(json.dumps(
    {"losses": losses, "weights": {name: value.detach().flatten().tolist() for name, value in weights.items()}}) + "\n")
print(losses[0], losses[-1])
