#!/usr/bin/env python3
"""Write parity fixtures of activated LoRA (tests/fixtures/adapters/alora-*): the model of a fixture, an adapter of PEFT with
alora_invocation_tokens, and what PEFT computes with both in float64, greedy texts included.

Usage: peft_alora.py FIXTURES OUT     FIXTURES: tests/fixtures/models

Needs PyTorch, transformers, PEFT and safetensors. The invocation is a part of what the body alone writes after the second
prompt, so that a text which contains it only because it was generated is compared too: PEFT looks for it in prompts alone.
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

FIXTURES = [
    {"name": "alora-gpt2", "model": "gpt2-clm", "seed": 6001, "count": 2,
     "config": {"target_modules": ["c_attn", "c_fc"], "fan_in_fan_out": True}},
    {"name": "alora-llama", "model": "llama-clm", "seed": 6011, "count": 3,
     "config": {"target_modules": "all-linear", "use_rslora": True}},
]
WRITES = {"max_new_tokens": 12, "do_sample": False, "eos_token_id": None, "pad_token_id": 0,
          "no_repeat_ngram_size": 3}


def rows_with(invocation, length, generator):
    """Rows in which it occurs twice, not at all, at the beginning, at the end, and cut off."""
    rows = torch.randint(0, 128, (5, length), generator=generator)
    n = len(invocation)
    for row, place in ((0, 2), (0, 7), (2, 0), (3, length - n)):
        rows[row, place:place + n] = torch.tensor(invocation)
    rows[4, length - n + 1:] = torch.tensor(invocation[:-1])
    return rows


def make(spec, fixtures, root):
    source, out = fixtures / spec["model"], root / spec["name"]
    out.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "model.safetensors"):
        shutil.copy(source / name, out / name)
    info = json.loads((source / "fixture.json").read_text())
    base = getattr(transformers, info["class"]).from_pretrained(source, attn_implementation="eager").double().train()
    generator = torch.Generator().manual_seed(spec["seed"])
    prompts = torch.randint(0, 128, (3, 6), generator=generator)
    with torch.no_grad():
        written = base.eval().generate(prompts, attention_mask=torch.ones_like(prompts), **WRITES)
    invocation = written[1, 8:8 + spec["count"]].tolist()
    prompts[0, 1:1 + len(invocation)] = torch.tensor(invocation)
    prompts[2, :len(invocation)] = torch.tensor(invocation)
    prompts[2, 3:3 + len(invocation)] = torch.tensor(invocation)
    ids = rows_with(invocation, 16, generator)
    inputs = {"input_ids": ids, "labels": ids.clone()}
    save_file(inputs, out / "inputs.safetensors")
    expected = {"base.out.logits": f32(base.train()(**inputs).logits)}
    torch.manual_seed(spec["seed"])
    settings = {"r": 4, "lora_alpha": 16, "lora_dropout": 0.0, **spec["config"]}
    model = peft.get_peft_model(
        base, peft.LoraConfig(task_type="CAUSAL_LM", alora_invocation_tokens=invocation, **settings))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.1)
                parameter.copy_(parameter.to(torch.float32))
    trained = {name.replace(".default", ""): p for name, p in model.named_parameters() if p.requires_grad}
    save_folder(model, out / "adapter", trained)
    model.double().train()
    result = model(**inputs)
    expected |= {"out.logits": f32(result.logits), "loss": f32(result.loss)}
    result.loss.backward()
    expected |= {f"grad.{name}": f32(p.grad) for name, p in trained.items()}
    with torch.no_grad():
        texts = model.eval().generate(input_ids=prompts, attention_mask=torch.ones_like(prompts), **WRITES)
    assert invocation in [texts[1, i:i + len(invocation)].tolist() for i in range(6, 18)]
    a = info["adamw"]
    parameters = list(trained.values())
    optimizer = torch.optim.AdamW(parameters, lr=a["lr"], betas=tuple(a["betas"]), eps=a["eps"],
                                  weight_decay=a["weight_decay"])
    losses = []
    model.train()
    for _ in range(a["steps"]):
        optimizer.zero_grad()
        loss = model(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, a["clip_grad_norm"])
        optimizer.step()
        losses.append(loss.detach())
    expected["adamw.loss"] = f32(torch.stack(losses))
    expected |= {f"adamw.{name}": f32(p) for name, p in trained.items()}
    save_file(expected, out / "expected.safetensors")
    (out / "fixture.json").write_text(json.dumps(
        {"class": info["class"], "seed": spec["seed"], "dtype_of_reference": "float64",
         "adapter": {"class": "LoraConfig", "alora_invocation_tokens": invocation, **settings}, "adamw": a,
         "generate": [{"prompt": prompts.tolist(), "args": WRITES, "ids": texts.tolist()}]}, indent=1) + "\n")
    print(f"{spec['name']:14s} {invocation} loss {float(expected['loss']):.6f} {texts.tolist()}")


def save_folder(model, folder, trained):
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    saved = load_file(folder / "adapter_model.safetensors")
    assert saved.keys() == trained.keys(), (list(saved)[:2], list(trained)[:2])
    save_file({name: f32(p) for name, p in trained.items()}, folder / "adapter_model.safetensors")
    file = folder / "adapter_config.json"
    config = json.loads(file.read_text())
    config["base_model_name_or_path"] = ".."
    file.write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    for one in FIXTURES:
        make(one, pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
