#!/usr/bin/env python3
"""Write parity fixtures of several adapters on one body (tests/fixtures/adapters/fusion-*, routing-*): the model of a
fixture, the adapters and what combines them in adapters.safetensors, and what PyTorch computes in float64.

Usage: combination.py FIXTURES OUT [NAME ...]     FIXTURES: tests/fixtures/models

Needs PyTorch, transformers and safetensors. Fusion is defined after AdapterHub's documentation and its BertFusion; hard
routing and its loss after the Switch Transformer (Fedus et al. 2022).
"""
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

from bottleneck import DEFAULTS, Bottleneck, f32, places

SEQUENTIAL = {"original_ln_before": True, "reduction_factor": 4}
FIXTURES = [
    {"name": "fusion-bert", "model": "bert-tagger", "how": "fusion(a, b, c)", "combine": {},
     "adapters": {"a": SEQUENTIAL, "b": {**SEQUENTIAL, "non_linearity": "gelu"}, "c": {**SEQUENTIAL, "leave_out": [0]}},
     "frozen": ["a", "b", "c"]},
    {"name": "fusion-bert-residual", "model": "bert-tagger", "how": "fusion(a, b)",
     "combine": {"residual_before": True, "query_before_ln": True, "key": False, "regularization": 0.0},
     "adapters": {"a": {"mh_adapter": True}, "b": {"mh_adapter": True}}, "frozen": ["b"]},
    {"name": "fusion-gpt2-stack", "model": "gpt2-clm", "how": "stack(a, fusion(b, c))", "combine": {"value": False},
     "adapters": {"a": SEQUENTIAL, "b": SEQUENTIAL, "c": SEQUENTIAL}, "frozen": ["a"]},
    {"name": "routing-soft-gpt2", "model": "gpt2-clm", "how": "soft(a, b, c)", "combine": {"temperature": 0.5},
     "adapters": {"a": 4, "b": 4, "c": 2}, "frozen": []},
    {"name": "routing-hard-gpt2", "model": "gpt2-clm", "how": "hard(a, b, c)", "combine": {"balance": 0.5},
     "adapters": {"a": 4, "b": 4, "c": 2}, "frozen": []},
    {"name": "routing-two-gpt2", "model": "gpt2-clm", "how": "hard(a, b, c)",
     "combine": {"top_k": 2, "straight_through": False, "balance": 0.0},
     "adapters": {"a": 4, "b": 4, "c": 2}, "frozen": ["c"]},
    {"name": "routing-average-gpt2", "model": "gpt2-clm", "how": "average(a, stack(b, c))",
     "combine": {"weights": [3.0, 1.0]}, "adapters": {"a": 4, "b": 4, "c": 2}, "frozen": []},
]


def parsed(text):
    """"stack(a, fusion(b, c))" -> ("stack", ["a", ("fusion", ["b", "c"])])"""
    at = 0

    def part():
        nonlocal at
        begin = at
        while at < len(text) and (text[at].isalnum() or text[at] in "_-"):
            at += 1
        name = text[begin:at]
        if at >= len(text) or text[at] != "(":
            return name
        parts = []
        while text[at] != ")":
            at += 1
            while text[at] == " ":
                at += 1
            parts.append(part())
        at += 1
        return (name, parts)

    return part()


class Fusion(nn.Module):
    def __init__(self, c, width_in, width):
        super().__init__()
        self.c = {"query": True, "key": True, "value": True, "query_before_ln": False, "residual_before": False,
                  "regularization": 0.01, **c}
        if self.c["query"]:
            self.query = nn.Linear(width if self.c["query_before_ln"] else width_in, width)
        if self.c["key"]:
            self.key = nn.Linear(width, width)
        if self.c["value"]:
            self.value = nn.Linear(width, width, bias=False)

    def forward(self, deltas, source, y, mask):
        c = self.c
        up = torch.stack(deltas, dim=2)  # [B, T, E, D]
        if c["residual_before"]:
            up = up + y.unsqueeze(2)
        query = y if c["query_before_ln"] else source
        query = self.query(query) if c["query"] else query
        key = self.key(up) if c["key"] else up
        value = self.value(up) if c["value"] else up
        weights = torch.softmax((query.unsqueeze(2) * key).sum(-1), dim=-1)
        fused = (weights.unsqueeze(-1) * value).sum(2)
        loss = 0.0
        if c["value"]:
            loss = c["regularization"] * ((self.value.weight - torch.eye(up.shape[-1])) ** 2).sum()
        return (fused - y if c["residual_before"] else fused), loss


class Router(nn.Module):
    def __init__(self, kind, c, width, count):
        super().__init__()
        self.kind = kind
        self.c = {"temperature": 1.0, "top_k": 1, "straight_through": True, "balance": 0.01, **c}
        self.router = nn.Linear(width, count)

    def forward(self, deltas, source, y, mask):
        c = self.c
        soft = torch.softmax(self.router(source) / c["temperature"], dim=-1)
        weights, loss = soft, 0.0
        if self.kind == "hard":
            best = soft.topk(c["top_k"], dim=-1).indices
            chosen = torch.zeros_like(soft).scatter(-1, best, 1.0)
            hard = chosen * soft / (chosen * soft).sum(-1, keepdim=True)
            weights = hard.detach() + soft - soft.detach() if c["straight_through"] else hard
            m = mask.unsqueeze(-1)
            share = (chosen * m).sum((0, 1)) / (mask.sum() * c["top_k"])
            loss = c["balance"] * len(deltas) * (share * ((soft * m).sum((0, 1)) / mask.sum())).sum()
        return sum(weights[..., i:i + 1] * d for i, d in enumerate(deltas)), loss


class Average(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weights = c["weights"]

    def forward(self, deltas, source, y, mask):
        return sum(w / sum(self.weights) * d for w, d in zip(self.weights, deltas)), 0.0


class LowRank(nn.Module):
    def __init__(self, r, width_in, width):
        super().__init__()
        self.lora_A = nn.Linear(width_in, r, bias=False)
        self.lora_B = nn.Linear(r, width, bias=False)
        self.scale = 8.0 / r


class Site(nn.Module):
    """The adapters and combiners of one site: gives what is added to y."""

    def __init__(self, spec, tree, adapters, width_in, width, state):
        super().__init__()
        self.tree, self.state = tree, state
        self.adapters = nn.ModuleDict(adapters)
        self.combiners = nn.ModuleDict()
        self.make(spec, tree, "combine", width_in, width)

    def acts(self, tree):
        return tree in self.adapters if isinstance(tree, str) else any(self.acts(part) for part in tree[1])

    def make(self, spec, tree, place, width_in, width):
        if isinstance(tree, str):
            return
        kind, parts = tree
        count = sum(self.acts(part) for part in parts)
        c = spec["combine"]
        made = (Fusion(c, width_in, width) if kind == "fusion" else Router(kind, c, width_in, count)
                if kind in ("soft", "hard") else Average(c) if kind == "average" else None)
        if made is not None:
            self.combiners[place.replace(".", "/")] = made
        for i, part in enumerate(parts):
            self.make(spec, part, f"{place}.{i}", width_in, width)

    def leaf(self, name, x, y, norm):
        adapter = self.adapters[name]
        if isinstance(adapter, LowRank):
            return adapter.lora_B(adapter.lora_A(x)) * adapter.scale, x
        source = y
        if adapter.c["original_ln_before"]:
            source = norm(y + x) if norm is not None else y + x
        return adapter.adapter_up(adapter.adapter_down(source)), source

    def forward(self, x, y, norm, tree=None, place="combine"):
        tree = tree if tree is not None else self.tree
        if isinstance(tree, str):
            return self.leaf(tree, x, y, norm)
        kind, parts = tree
        if kind == "stack":
            sum_, source = 0.0, None
            for i, part in enumerate(parts):
                if self.acts(part):
                    delta, source = self(x, y + sum_, norm, part, f"{place}.{i}")
                    sum_ = sum_ + delta
            return sum_, source
        found = [self(x, y, norm, part, f"{place}.{i}") for i, part in enumerate(parts) if self.acts(part)]
        source = found[-1][1]
        delta, loss = self.combiners[place.replace(".", "/")]([d for d, _ in found], source, y, self.state["mask"])
        self.state["losses"].append(loss)
        return delta, source


def make(spec, fixtures, root):
    source, out = fixtures / spec["model"], root / spec["name"]
    out.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "model.safetensors", "inputs.safetensors"):
        shutil.copy(source / name, out / name)
    info = json.loads((source / "fixture.json").read_text())
    model = getattr(transformers, info["class"]).from_pretrained(source, attn_implementation="eager").double().train()
    for p in model.parameters():
        p.requires_grad = False
    torch.manual_seed(11)
    torch.set_default_dtype(torch.float64)
    width = model.config.hidden_size
    tree, state = parsed(spec["how"]), {}
    low_rank = not isinstance(next(iter(spec["adapters"].values())), dict)
    sites = {}
    if low_rank:
        for i, block in enumerate(model.transformer.h):
            for part, layer in (("attn.c_attn", block.attn.c_attn), ("mlp.c_fc", block.mlp.c_fc)):
                width_in, width_out = layer.weight.shape
                adapters = {n: LowRank(r, width_in, width_out) for n, r in spec["adapters"].items()}
                site = Site(spec, tree, adapters, width_in, width_out, state)
                sites[f"transformer.h.{i}.{part}"] = site
                layer.register_forward_hook(lambda module, given, y, site=site: y + site(given[0], y, None)[0])
    else:
        for kind, layer, hub, ours, attach in places(model):
            adapters = {}
            for name, config in spec["adapters"].items():
                c = {**DEFAULTS, **config}
                if layer not in c["leave_out"] and c["mh_adapter" if kind == "mh" else "output_adapter"]:
                    adapters[name] = Bottleneck(c, width, layer)
            if not adapters:
                continue
            site = Site(spec, tree, adapters, width, width, state)
            sites[ours] = site

            def act(x, y, norm, site=site):
                value = y + site(x, y, norm)[0] + x
                return norm(value) if norm is not None else value
            attach(act)
    every, saved = {}, {}
    for ours, site in sites.items():
        for name, p in site.named_parameters():
            kind, rest = name.split(".", 1)
            owner, rest = rest.split(".", 1)
            at = f"{ours}.residual" if kind == "combiners" and not low_rank else ours
            key = f"adapter.{owner.replace('/', '.')}.{at}.{rest}"
            with torch.no_grad():
                p.add_(torch.randn(p.shape) * 0.2)
                p.copy_(p.to(torch.float32))
            every[key] = p
            saved[key] = f32(p)
    save_file(saved, out / "adapters.safetensors")
    inputs = load_file(source / "inputs.safetensors")
    run = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
    mask = run.get("attention_mask")
    state["mask"] = (mask if mask is not None else torch.ones(run["input_ids"].shape)).double()

    def compute():
        state["losses"] = []
        result = model(**run)
        return result, result.loss + sum(state["losses"])

    result, loss = compute()
    expected = {"out.logits": f32(result.logits), "loss": f32(loss)}
    named = {n: p for n, p in every.items() if n.split(".")[1] not in spec["frozen"]}
    for name, p in every.items():
        p.requires_grad = name in named
    compute()[1].backward()
    expected |= {f"grad.{n}": f32(p.grad) for n, p in named.items()}
    a = info["adamw"]
    parameters = list(named.values())
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": a["weight_decay"]},
         {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}],
        lr=a["lr"], betas=tuple(a["betas"]), eps=a["eps"])
    losses = []
    for _ in range(a["steps"]):
        optimizer.zero_grad()
        loss = compute()[1]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, a["clip_grad_norm"])
        optimizer.step()
        losses.append(loss.detach())
    expected["adamw.loss"] = f32(torch.stack(losses))
    expected |= {f"adamw.{n}": f32(p) for n, p in named.items()}
    save_file(expected, out / "expected.safetensors")
    adapters = [{"name": name, "id": "lora" if low_rank else "bottleneck", "trained": name not in spec["frozen"],
                 "config": {"r": config, "lora_alpha": 8.0, "target_modules": ["attn.c_attn", "mlp.c_fc"]}
                 if low_rank else {**{k: v for k, v in DEFAULTS.items() if k not in ("phm_layer", "inv_adapter")},
                                   **config}}
                for name, config in spec["adapters"].items()]
    (out / "fixture.json").write_text(json.dumps(
        {**{k: v for k, v in info.items() if k != "generate"}, "adapters": adapters,
         "combine": {"how": spec["how"], **spec["combine"]}}, indent=1) + "\n")
    print(f"{spec['name']:28s} trains {sum(p.numel() for p in parameters):>6d}  loss {float(expected['loss']):.6f}")


def main():
    fixtures, root, only = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), set(sys.argv[3:])
    for spec in FIXTURES:
        if not only or spec["name"] in only:
            make(spec, fixtures, root)


if __name__ == "__main__":
    main()
