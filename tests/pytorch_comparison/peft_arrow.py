#!/usr/bin/env python3
"""Write the parity fixture of Arrow (tests/fixtures/adapters/routing-arrow-gpt2): the model of a fixture, three LoRA
adapters and the prototypes that PEFT finds for them in adapters.safetensors, and what PEFT computes in float64.

Usage: peft_arrow.py FIXTURES OUT     FIXTURES: tests/fixtures/models

Needs PyTorch, transformers, PEFT and safetensors. The largest singular value of each change is far above the others, so
that PEFT's 15 iterations in float32 find its vector. The gradients are those of the experts, with PEFT's prototypes fixed.
"""
import json
import pathlib
import shutil
import sys
import tempfile

import peft
import torch
import transformers
from peft.tuners.lora.arrow import create_arrow_model
from safetensors.torch import load_file, save_file

from bottleneck import f32

ADAPTERS = {"a": 8.0, "b": 4.0, "c": 12.0}  # lora_alpha
TRAINED = ("a", "b")
ARROW = {"top_k": 2, "router_temperature": 0.5}
TARGETS = ["attn.c_attn", "mlp.c_fc"]
RANK = 4


def expert(base, alpha, folder, generator):
    config = peft.LoraConfig(r=RANK, lora_alpha=alpha, lora_dropout=0.0, target_modules=TARGETS, fan_in_fan_out=True)
    model = peft.get_peft_model(base, config)
    sizes = torch.tensor([1.0, 0.2, 0.1, 0.05])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_A" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * sizes.unsqueeze(1) * 0.3)
            elif "lora_B" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * sizes.unsqueeze(0) * 0.6)
    model.save_pretrained(folder)
    return model.unload()


def main():
    source, out = pathlib.Path(sys.argv[1]) / "gpt2-clm", pathlib.Path(sys.argv[2]) / "routing-arrow-gpt2"
    out.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "model.safetensors", "inputs.safetensors"):
        shutil.copy(source / name, out / name)
    info = json.loads((source / "fixture.json").read_text())
    base = getattr(transformers, info["class"]).from_pretrained(source, attn_implementation="eager")
    generator = torch.Generator().manual_seed(7001)
    with tempfile.TemporaryDirectory() as place:
        folders = [f"{place}/{name}" for name in ADAPTERS]
        for folder, alpha in zip(folders, ADAPTERS.values()):
            base = expert(base, alpha, folder, generator)
        model = create_arrow_model(base, folders, peft.ArrowConfig(rng_seed=3, **ARROW))
    model.double().train()
    every = {}
    for module_name, module in model.named_modules():
        if not hasattr(module, "lora_arrow"):
            continue
        site = module_name.removeprefix("base_model.model.")
        for i, name in enumerate(ADAPTERS):
            for part in ("lora_A", "lora_B"):
                every[f"adapter.{name}.{site}.{part}.weight"] = getattr(module, part)[f"task_{i}"].weight
    trained = {n: p for n, p in every.items() if n.split(".")[1] in TRAINED}
    for parameter in model.parameters():
        parameter.requires_grad = False
    for parameter in trained.values():
        parameter.requires_grad = True
    inputs = load_file(source / "inputs.safetensors")
    result = model(**inputs)
    saved = {name: f32(parameter) for name, parameter in every.items()}
    for module_name, module in model.named_modules():
        if hasattr(module, "lora_arrow"):
            site = module_name.removeprefix("base_model.model.")
            saved[f"adapter.combine.{site}.prototypes"] = f32(module.lora_arrow["arrow_router"].prototypes)
    save_file(saved, out / "adapters.safetensors")
    expected = {"out.logits": f32(result.logits), "loss": f32(result.loss)}
    result.loss.backward()
    expected |= {f"grad.{name}": f32(parameter.grad) for name, parameter in trained.items()}
    a = info["adamw"]
    optimizer = torch.optim.AdamW(trained.values(), lr=a["lr"], betas=tuple(a["betas"]), eps=a["eps"],
                                  weight_decay=a["weight_decay"])
    losses = []
    for _ in range(a["steps"]):
        optimizer.zero_grad()
        loss = model(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained.values(), a["clip_grad_norm"])
        optimizer.step()
        losses.append(loss.detach())
    expected["adamw.loss"] = f32(torch.stack(losses))
    expected |= {f"adamw.{name}": f32(parameter) for name, parameter in trained.items()}
    save_file(expected, out / "expected.safetensors")
    adapters = [{"name": name, "id": "lora", "trained": name in TRAINED,
                 "config": {"r": RANK, "lora_alpha": alpha, "target_modules": TARGETS}}
                for name, alpha in ADAPTERS.items()]
    (out / "fixture.json").write_text(json.dumps(
        {**{k: v for k, v in info.items() if k != "generate"}, "adapters": adapters,
         "combine": {"how": "arrow(a, b, c)", **ARROW}}, indent=1) + "\n")
    print(f"routing-arrow-gpt2 trains {sum(p.numel() for p in trained.values())} loss {float(expected['loss']):.6f}")


if __name__ == "__main__":
    main()
