#!/usr/bin/env python3
"""Write parity fixtures of bottleneck adapters (tests/fixtures/adapters/bottleneck-*): the model of a fixture, an adapter
in AdapterHub's files, and what PyTorch computes with both in float64.

Usage: bottleneck.py FIXTURES OUT [NAME ...]     FIXTURES: tests/fixtures/models

Needs PyTorch, transformers and safetensors. AdapterHub's library needs other versions of these than the other
comparisons, so the adapter is defined here, after its documentation of BnConfig.
"""
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

DEFAULTS = {
    "mh_adapter": False, "output_adapter": True, "cross_adapter": False, "reduction_factor": 4, "non_linearity": "relu",
    "original_ln_before": False, "original_ln_after": True, "ln_before": False, "ln_after": False,
    "init_weights": "bert", "is_parallel": False, "scaling": 1.0, "use_gating": False, "residual_before_ln": True,
    "adapter_residual_before_ln": False, "leave_out": [], "dropout": 0.0, "phm_layer": False, "inv_adapter": None,
}
FIXTURES = [
    {"name": "bottleneck-bert-houlsby", "model": "bert-tagger", "config": {"mh_adapter": True, "non_linearity": "swish"}},
    {"name": "bottleneck-bert-pfeiffer", "model": "bert-tagger", "config": {"original_ln_before": True}},
    {"name": "bottleneck-bert-norms", "model": "bert-tagger", "config": {
        "mh_adapter": True, "original_ln_before": True, "residual_before_ln": "post_add", "ln_before": True,
        "ln_after": True, "adapter_residual_before_ln": True, "leave_out": [0], "non_linearity": "gelu"}},
    {"name": "bottleneck-bert-plus", "model": "bert-tagger", "config": {
        "original_ln_before": True, "original_ln_after": False, "residual_before_ln": False, "scaling": "channel"}},
    {"name": "bottleneck-gpt2-parallel", "model": "gpt2-clm", "config": {
        "is_parallel": True, "scaling": "learned", "reduction_factor": {"0": 8, "default": 2}}},
    {"name": "bottleneck-gpt2-gating", "model": "gpt2-clm", "config": {
        "mh_adapter": True, "original_ln_before": True, "use_gating": True, "scaling": 4.0}},
    {"name": "bottleneck-t5-cross", "model": "t5-span-corruption", "config": {
        "mh_adapter": True, "cross_adapter": True, "non_linearity": "gelu_new"}},
]


class Bottleneck(nn.Module):
    def __init__(self, config, width, layer):
        super().__init__()
        self.c = config
        factor = config["reduction_factor"]
        if isinstance(factor, dict):
            factor = factor.get(str(layer), factor["default"])
        small = max(1, int(width // factor))
        activation = transformers.activations.get_activation(config["non_linearity"])
        down = [nn.Linear(width, small), activation]
        if config["ln_before"]:
            self.adapter_norm_before = nn.LayerNorm(width)
            down.insert(0, self.adapter_norm_before)
        self.adapter_down = nn.Sequential(*down)
        self.adapter_up = nn.Linear(small, width)
        if config["ln_after"]:
            self.adapter_norm_after = nn.LayerNorm(width)
        if config["use_gating"]:
            self.gate = nn.Linear(width, 1)
        if config["scaling"] in ("learned", "channel"):
            self.scaling = nn.Parameter(torch.ones(1 if config["scaling"] == "learned" else width))
        else:
            self.scaling = config["scaling"]

    def forward(self, x, y, norm):
        """x: the residual stream; y: what the part computed; norm: the block's, after the sum, or None."""
        c = self.c
        close = (lambda v: norm(v + x)) if norm is not None else (lambda v: v + x)
        if c["is_parallel"]:
            source = x
        elif c["original_ln_before"]:
            source = close(y)
        else:
            source = y
        residual = {True: y, False: source, "post_add": x + y}[c["residual_before_ln"]]
        out = self.adapter_up(self.adapter_down(source)) * self.scaling
        if c["use_gating"]:
            out = out * torch.sigmoid(self.gate(source)).mean(dim=1, keepdim=True)
        if not c["is_parallel"] and c["adapter_residual_before_ln"]:
            out = out + residual
        if c["ln_after"]:
            out = self.adapter_norm_after(out)
        if c["is_parallel"]:
            out = out + y
        elif not c["adapter_residual_before_ln"]:
            out = out + residual
        return close(out) if c["original_ln_after"] else out


def places(model):
    """Yields (kind, layer, AdapterHub's module, Hekla's module, how to attach an adapter)."""
    family = model.config.model_type

    def before_norm(norm, part):
        def attach(adapter):
            seen = {}
            norm.register_forward_pre_hook(lambda module, given: seen.update(x=given[0]))

            def after(module, given, made):
                y = made[0] if isinstance(made, tuple) else made
                v = adapter(seen["x"], y, None) - seen["x"]
                return (v, *made[1:]) if isinstance(made, tuple) else v
            part.register_forward_hook(after)
        return attach

    def after_norm(module):
        def attach(adapter):
            module.forward = lambda hidden, x: adapter(x, module.dropout(module.dense(hidden)), module.LayerNorm)
        return attach

    if family == "bert":
        for i, layer in enumerate(model.bert.encoder.layer):
            at = f"bert.encoder.layer.{i}"
            yield "mh", i, f"{at}.attention.output", f"{at}.attention.output.dense", after_norm(layer.attention.output)
            yield "output", i, f"{at}.output", f"{at}.output.dense", after_norm(layer.output)
    elif family == "gpt2":
        for i, block in enumerate(model.transformer.h):
            at = f"transformer.h.{i}"
            yield "mh", i, f"{at}.attention_adapters", f"{at}.attn.c_proj", before_norm(block.ln_1, block.attn)
            yield "output", i, f"{at}.output_adapters", f"{at}.mlp.c_proj", before_norm(block.ln_2, block.mlp)
    elif family == "t5":
        for side in ("encoder", "decoder"):
            for i, block in enumerate(getattr(model, side).block):
                for j, layer in enumerate(block.layer):
                    at = f"{side}.block.{i}.layer.{j}"
                    for name, kind, last in (("SelfAttention", "mh", "o"), ("EncDecAttention", "cross", "o"),
                                             ("DenseReluDense", "output", "wo")):
                        if hasattr(layer, name):
                            yield (kind, i, at, f"{at}.{name}.{last}",
                                   before_norm(layer.layer_norm, getattr(layer, name)))


def f32(t):
    return t.detach().to(torch.float32).contiguous().clone()


def expected_of(forward, named, a):
    """Returns outputs, loss, gradients and AdamW steps of the named parameters. forward() returns logits and loss."""
    result = forward()
    expected = {"out.logits": f32(result.logits), "loss": f32(result.loss)}
    result.loss.backward()
    expected |= {f"grad.{n}": f32(p.grad) for n, p in named.items()}
    parameters = list(named.values())
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": a["weight_decay"]},
         {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}],
        lr=a["lr"], betas=tuple(a["betas"]), eps=a["eps"])
    losses = []
    for _ in range(a["steps"]):
        optimizer.zero_grad()
        loss = forward().loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, a["clip_grad_norm"])
        optimizer.step()
        losses.append(loss.detach())
    expected["adamw.loss"] = f32(torch.stack(losses))
    return expected | {f"adamw.{n}": f32(p) for n, p in named.items()}


def make(spec, fixtures, root):
    source, out = fixtures / spec["model"], root / spec["name"]
    out.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "model.safetensors", "inputs.safetensors"):
        shutil.copy(source / name, out / name)
    info = json.loads((source / "fixture.json").read_text())
    config = {**DEFAULTS, **spec["config"]}
    model = getattr(transformers, info["class"]).from_pretrained(source, attn_implementation="eager").double().train()
    for p in model.parameters():
        p.requires_grad = False
    torch.manual_seed(7)
    width = model.config.hidden_size
    trained, saved = {}, {}
    for kind, layer, hub, ours, attach in places(model):
        if not config[{"mh": "mh_adapter", "output": "output_adapter", "cross": "cross_adapter"}[kind]]:
            continue
        if layer in config["leave_out"]:
            continue
        adapter = Bottleneck(config, width, layer)
        with torch.no_grad():
            for p in adapter.parameters():
                p.add_(torch.randn(p.shape) * 0.2)
                p.copy_(p.to(torch.float32))
        adapter.double()
        attach(adapter)
        for name, p in adapter.named_parameters():
            trained[f"adapter.{ours}.{name}"] = p
        for name, p in adapter.state_dict().items():
            saved[f"{hub}.adapters.test.{name}"] = f32(p)
    folder = out / "adapter"
    folder.mkdir(exist_ok=True)
    save_file(saved, folder / "adapter.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({
        "config": {"architecture": None, **config}, "config_id": "0", "hidden_size": width,
        "model_class": info["class"], "model_name": "..", "model_type": model.config.model_type, "name": "test",
        "version": "adapters.1.3.0"}, indent=1, sort_keys=True) + "\n")
    inputs = load_file(source / "inputs.safetensors")
    run = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
    # A norm before the adapter is stored under two names, of which the first is kept.
    named = {n: p for n, p in trained.items() if not (config["ln_before"] and ".adapter_down.0." in n)}
    expected = expected_of(lambda: model(**run), named, info["adamw"])
    save_file(expected, out / "expected.safetensors")
    (out / "fixture.json").write_text(json.dumps({**{k: v for k, v in info.items() if k != "generate"},
                                                  "adapter": spec["config"]}, indent=1) + "\n")
    print(f"{spec['name']:28s} trains {sum(p.numel() for p in named.values()):>6d}  loss {float(expected['loss']):.6f}")


def main():
    fixtures, root, only = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), set(sys.argv[3:])
    for spec in FIXTURES:
        if not only or spec["name"] in only:
            make(spec, fixtures, root)


if __name__ == "__main__":
    main()
