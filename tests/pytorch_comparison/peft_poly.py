#!/usr/bin/env python3
"""Write parity fixtures of Poly (tests/fixtures/adapters/poly-*) in evaluation mode, in float64: PEFT's folder with the
outputs of rows of three tasks, and the same adapter with gradients and training steps.

Usage: peft_poly.py FIXTURES OUT     FIXTURES: tests/fixtures/models

Needs PyTorch, transformers, PEFT and safetensors.
"""
import json
import pathlib
import shutil
import sys

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

from bottleneck import f32

CONFIG = {"r": 2, "n_tasks": 3, "n_skills": 3, "n_splits": 2, "target_modules": ["q_proj", "v_proj", "down_proj"]}
TASKS = [2, 0]


def main():
    source, root = pathlib.Path(sys.argv[1]) / "llama-clm", pathlib.Path(sys.argv[2])
    info = json.loads((source / "fixture.json").read_text())
    inputs = load_file(source / "inputs.safetensors")
    tasks = torch.tensor(TASKS)
    base = getattr(transformers, info["class"]).from_pretrained(source, attn_implementation="eager").double().eval()
    body = f32(base(**inputs).logits)
    torch.manual_seed(8001)
    model = peft.get_peft_model(base, peft.PolyConfig(task_type="CAUSAL_LM", **CONFIG))
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    with torch.no_grad():
        for name, parameter in trained.items():
            size = 1.0 if "router" in name else 0.1
            parameter.add_(torch.randn(parameter.shape, dtype=torch.float64) * size)
            parameter.copy_(parameter.to(torch.float32))
    model.double().eval()
    logits = f32(model(input_ids=inputs["input_ids"], task_ids=tasks).logits)

    out = root / "poly-llama"
    for folder in (out, root / "poly-llama-gradients"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "model.safetensors"):
            shutil.copy(source / name, folder / name)
    model.save_pretrained(out / "adapter")
    (out / "adapter" / "README.md").unlink(missing_ok=True)
    config = json.loads((out / "adapter" / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = ".."
    (out / "adapter" / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    file = out / "adapter" / "adapter_model.safetensors"
    saved = {name: f32(tensor) for name, tensor in load_file(file).items()}
    save_file(saved, file)
    save_file({"input_ids": inputs["input_ids"], "adapter_rows": tasks}, out / "inputs.safetensors")
    save_file({"base.out.logits": body, "out.logits": logits}, out / "expected.safetensors")
    (out / "fixture.json").write_text(json.dumps(
        {"class": info["class"], "seed": 8001, "dtype_of_reference": "float64", "adapter": CONFIG}, indent=1) + "\n")

    out = root / "poly-llama-gradients"
    named = {}
    for name, parameter in trained.items():
        key = name.replace(".default", "")
        assert key in saved, (key, list(saved))
        named[key.replace("base_model.model.", "adapter.a.")] = parameter
    save_file({name: f32(parameter) for name, parameter in named.items()}, out / "adapters.safetensors")
    save_file({**inputs, "adapter_rows": tasks}, out / "inputs.safetensors")
    loss = model(**inputs, task_ids=tasks).loss
    loss.backward()
    expected = {"out.logits": logits, "loss": f32(loss)}
    expected |= {f"grad.{name}": f32(parameter.grad) for name, parameter in named.items()}
    a = info["adamw"]
    optimizer = torch.optim.AdamW(named.values(), lr=a["lr"], betas=tuple(a["betas"]), eps=a["eps"],
                                  weight_decay=a["weight_decay"])
    losses = []
    for _ in range(a["steps"]):
        optimizer.zero_grad()
        step = model(**inputs, task_ids=tasks).loss
        step.backward()
        torch.nn.utils.clip_grad_norm_(named.values(), a["clip_grad_norm"])
        optimizer.step()
        losses.append(step.detach())
    expected["adamw.loss"] = f32(torch.stack(losses))
    expected |= {f"adamw.{name}": f32(parameter) for name, parameter in named.items()}
    save_file(expected, out / "expected.safetensors")
    (out / "fixture.json").write_text(json.dumps(
        {**{k: v for k, v in info.items() if k != "generate"},
         "adapters": [{"name": "a", "id": "poly", "trained": True, "config": {**CONFIG, "sample": False}}]},
        indent=1) + "\n")
    print(f"poly-llama loss {float(loss):.6f} {sorted(saved)[:3]}")


if __name__ == "__main__":
    main()
