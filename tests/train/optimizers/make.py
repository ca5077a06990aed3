#!/usr/bin/env python3
"""Writes twin.json: what PyTorch's optimizers make of a small network in 20 steps, in float64.

torch.optim has AdamW, SGD and Adafactor. Lion (Chen et al. 2023) is in no release of PyTorch, and torch.optim.Muon
computes its iteration in bfloat16, so both are defined here, in float64.

    python3 tests/train/optimizers/make.py
"""
import json
import math
import pathlib

import torch

STEPS = 20
torch.manual_seed(7)
torch.set_default_dtype(torch.float64)


def rounded(*shape, scale=1.0):
    return (torch.randn(*shape) * scale).float().double()  # what float32 can hold


X, Y = rounded(16, 6), rounded(16, 5)
INITIAL = {"w1": rounded(12, 6, scale=0.4), "b1": rounded(12, scale=0.1),
           "w2": rounded(5, 12, scale=0.4), "b2": rounded(5, scale=0.1)}


class Lion:
    def __init__(self, groups, lr, betas, weight_decay=0.0):
        self.groups, self.lr, self.betas = groups, lr, betas
        self.mean = {}

    def step(self):
        for group in self.groups:
            for p in group["params"]:
                mean = self.mean.setdefault(p, torch.zeros_like(p))
                update = (mean * self.betas[0] + p.grad * (1 - self.betas[0])).sign()
                p.data.mul_(1 - self.lr * group["weight_decay"]).sub_(self.lr * update)
                mean.mul_(self.betas[1]).add_(p.grad * (1 - self.betas[1]))


class Muon:
    """torch.optim.Muon, with the iteration in the dtype of the parameters."""

    def __init__(self, groups, lr, momentum=0.95, nesterov=True, steps=5, eps=1e-7, match_rms=False):
        self.groups, self.lr, self.momentum, self.nesterov = groups, lr, momentum, nesterov
        self.steps, self.eps, self.match_rms = steps, eps, match_rms
        self.buffer = {}

    def step(self):
        for group in self.groups:
            for p in group["params"]:
                buffer = self.buffer.setdefault(p, torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - self.momentum)
                x = p.grad.lerp(buffer, self.momentum) if self.nesterov else buffer.clone()
                rows, columns = x.shape
                x = x.T if rows > columns else x
                x = x / x.norm().clamp(min=self.eps)
                for _ in range(self.steps):
                    gram = x @ x.T
                    x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
                x = x.T if rows > columns else x
                ratio = 0.2 * math.sqrt(max(rows, columns)) if self.match_rms else math.sqrt(max(1, rows / columns))
                p.data.mul_(1 - self.lr * group["weight_decay"]).sub_(self.lr * ratio * x)


def run(make):
    """make: parameters by name -> optimizers. Returns the parameters after all steps."""
    parameters = {name: value.clone().requires_grad_() for name, value in INITIAL.items()}
    optimizers = make(parameters)
    for _ in range(STEPS):
        for p in parameters.values():
            p.grad = None
        hidden = torch.tanh(X @ parameters["w1"].T + parameters["b1"])
        loss = (hidden @ parameters["w2"].T + parameters["b2"] - Y).square().sum() / Y.numel()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    return {name: value.detach().flatten().tolist() for name, value in parameters.items()}


def groups(p, decay, names=("w1", "b1", "w2", "b2")):
    """Biases do not decay."""
    return [{"params": [p[name]], "weight_decay": decay if p[name].dim() > 1 else 0.0} for name in names]


def adamw(p, lr, decay, names=("w1", "b1", "w2", "b2")):
    return torch.optim.AdamW(groups(p, decay, names), lr=lr, betas=(0.9, 0.95), eps=1e-8, foreach=False)


ADAFACTOR_EPS = (1.1920928955078125e-07, 1e-3)  # torch's first is that of the dtype
CASES = {
    # name: (train.learning_rate, train.weight_decay, [optimizer], twin)
    "adamw": (0.01, 0.1, {"name": "adamw"}, lambda p: [adamw(p, 0.01, 0.1)]),
    "adamw with its options": (
        0.01, 0.1, {"name": "adamw", "betas": [0.8, 0.99], "eps": 1e-6, "weight_decay": 0.3, "lr": 0.02},
        lambda p: [torch.optim.AdamW(groups(p, 0.3), lr=0.02, betas=(0.8, 0.99), eps=1e-6, foreach=False)]),
    "sgd": (0.05, 0.1, {"name": "sgd", "momentum": 0.0}, lambda p: [torch.optim.SGD(groups(p, 0.1), lr=0.05)]),
    "sgd with nesterov": (
        0.05, 0.1, {"name": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.02},
        lambda p: [torch.optim.SGD(groups(p, 0.02), lr=0.05, momentum=0.9, nesterov=True)]),
    "sgd with dampening": (
        0.05, 0.1, {"name": "sgd", "dampening": 0.2},
        lambda p: [torch.optim.SGD(groups(p, 0.1), lr=0.05, momentum=0.9, dampening=0.2)]),
    "lion": (0.003, 0.1, {"name": "lion"}, lambda p: [Lion(groups(p, 0.1), 0.003, (0.9, 0.99))]),
    "adafactor": (
        0.05, 0.1, {"name": "adafactor"},
        lambda p: [torch.optim.Adafactor(groups(p, 0.1), lr=0.05, eps=ADAFACTOR_EPS, foreach=False)]),
    "muon": (
        0.02, 0.1, {"name": "muon"},
        lambda p: [Muon(groups(p, 0.1, ("w1", "w2")), 0.02), adamw(p, 0.02, 0.1, ("b1", "b2"))]),
    "muon with its options": (
        0.02, 0.1,
        {"name": "muon", "momentum": 0.9, "nesterov": False, "ns_steps": 4, "adjust_lr_fn": "match_rms_adamw",
         "weight_decay": 0.0, "adamw": {"lr": 0.005}},
        lambda p: [Muon(groups(p, 0.0, ("w1", "w2")), 0.02, 0.9, False, 4, match_rms=True),
                   adamw(p, 0.005, 0.1, ("b1", "b2"))]),
    "rules": (
        0.01, 0.1,
        {"name": "lion", "lr": 0.002, "rules": {"w1*": "muon", "b1": "adamw", "b2": "sgd"}, "sgd": {"lr": 0.1}},
        lambda p: [Lion(groups(p, 0.1, ("w2",)), 0.002, (0.9, 0.99)), Muon(groups(p, 0.1, ("w1",)), 0.01),
                   adamw(p, 0.01, 0.1, ("b1",)),
                   torch.optim.SGD(groups(p, 0.1, ("b2",)), lr=0.1, momentum=0.9)]),
}

result = {
    "torch": torch.__version__, "steps": STEPS, "x": X.flatten().tolist(), "y": Y.flatten().tolist(),
    "initial": {name: value.flatten().tolist() for name, value in INITIAL.items()},
    "cases": [{"name": name, "learning_rate": rate, "weight_decay": decay, "optimizer": keys, "after": run(twin)}
              for name, (rate, decay, keys, twin) in CASES.items()]}
path = pathlib.Path(__file__).with_name("twin.json")
path.write_text(json.dumps(result, indent=0).replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]") + "\n")
print(f"{path}: {len(CASES)} cases")
