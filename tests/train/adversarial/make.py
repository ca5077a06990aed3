"""Trains the network of ../plugins/gan.cpp for twenty steps in PyTorch, in float64, and writes twin.json: the initial
weights, and for each case the weights and losses after the steps.

    python3 tests/train/adversarial/make.py
"""
import json
import math
import pathlib

import torch

STEPS, ROWS, WIDTH, NOISE = 20, 6, 7, 3
RATE, BETAS, EPSILON, DECAY = 0.02, (0.9, 0.95), 1e-8, 0.1
F64 = torch.float64

torch.manual_seed(3)
INITIAL = {}
for network, inputs, outputs in (("generator", NOISE, 2), ("discriminator", 2, 1)):
    INITIAL[f"{network}.in.weight"] = (torch.randn(WIDTH, inputs) * 0.5)
    INITIAL[f"{network}.in.bias"] = (torch.randn(WIDTH) * 0.1)
    INITIAL[f"{network}.out.weight"] = (torch.randn(outputs, WIDTH) * 0.5)
    INITIAL[f"{network}.out.bias"] = (torch.randn(outputs) * 0.1)

D = [name for name in INITIAL if name.startswith("discriminator.")]
G = [name for name in INITIAL if name.startswith("generator.")]
SHARED = "discriminator.out.bias"


def batch(step):
    real, noise = torch.zeros(ROWS, 2), torch.zeros(ROWS, NOISE)
    for row in range(ROWS):
        n = step * ROWS + row
        angle = 2.0 * math.pi * (n * 7 % 16) / 16.0
        real[row] = torch.tensor([0.5 * math.cos(angle) + 0.25, 0.5 * math.sin(angle)])
        for j in range(NOISE):
            noise[row, j] = ((n * (5 + 2 * j) + 3 * j) % 17) / 8.0 - 1.0
    return real.to(F64), noise.to(F64)


def network(p, x, name):
    hidden = torch.tanh(torch.nn.functional.linear(x, p[name + ".in.weight"], p[name + ".in.bias"]))
    return torch.nn.functional.linear(hidden, p[name + ".out.weight"], p[name + ".out.bias"])


def losses(p, step):
    real, noise = batch(step)
    fake = network(p, network(p, noise, "generator"), "discriminator")
    softplus = torch.nn.functional.softplus
    mistakes = softplus(-network(p, real, "discriminator")) + softplus(fake)
    return {"discriminator": mistakes.mean(), "generator": softplus(-fake).mean()}


def adamw(p, name):
    return torch.optim.AdamW([p[name]], lr=RATE, betas=BETAS, eps=EPSILON,
                             weight_decay=DECAY if p[name].dim() >= 2 else 0.0)


def sgd(p, name):
    return torch.optim.SGD([p[name]], lr=RATE, momentum=0.9)


def run(cycle, names, optimizer=adamw):
    """cycle: the losses of each step; names: the parameters of each loss. An optimizer of its own for every parameter,
    which steps only where a loss of the step names it."""
    p = {name: value.to(F64).requires_grad_() for name, value in INITIAL.items()}
    optimizers = {name: (optimizer if name != "generator.out.bias" else adamw)(p, name) for name in p}
    seen = []
    for step in range(STEPS):
        values = losses(p, step)
        seen.append({name: value.item() for name, value in values.items()})
        gradients = {}
        for loss in cycle[step % len(cycle)]:
            found = torch.autograd.grad(values[loss], [p[name] for name in names[loss]], retain_graph=True)
            for name, gradient in zip(names[loss], found):
                gradients[name] = gradients[name] + gradient if name in gradients else gradient
        for name, gradient in gradients.items():
            p[name].grad = gradient
            optimizers[name].step()
    return {"after": {name: value.detach().flatten().tolist() for name, value in p.items()}, "losses": seen}


OWN = {"discriminator": D, "generator": G}
OVERLAP = {"discriminator": D, "generator": G + [SHARED]}
BOTH = [["discriminator", "generator"]]
TURNS = [["discriminator"], ["generator"]]
CASES = [
    ("simultaneous", [], "generator.*", BOTH, OWN, adamw),
    ("alternating", ["discriminator", "generator"], "generator.*", TURNS, OWN, adamw),
    ("two to one", ["discriminator", "discriminator", "generator"], "generator.*",
     [["discriminator"], ["discriminator"], ["generator"]], OWN, adamw),
    ("overlap, simultaneous", [], "generator.*, " + SHARED, BOTH, OVERLAP, adamw),
    ("overlap, alternating", ["discriminator", "generator", "discriminator+generator"], "generator.*, " + SHARED,
     TURNS + BOTH, OVERLAP, adamw),
    ("sgd, alternating, one parameter with adamw", ["generator", "discriminator"], "generator.*", TURNS[::-1], OWN, sgd),
]

result = {
    "torch": torch.__version__, "steps": STEPS, "rows": ROWS, "learning_rate": RATE, "weight_decay": DECAY,
    "initial": {name: value.flatten().tolist() for name, value in INITIAL.items()},
    "cases": [{"name": name, "alternate": alternate, "names": names, "sgd": optimizer is sgd,
               **run(cycle, parameters, optimizer)}
              for name, alternate, names, cycle, parameters, optimizer in CASES]}
path = pathlib.Path(__file__).with_name("twin.json")
path.write_text(json.dumps(result, indent=0).replace(",\n", ", ").replace("[\n", "[").replace("\n]", "]") + "\n")
print(f"{path}: {len(CASES)} cases")
