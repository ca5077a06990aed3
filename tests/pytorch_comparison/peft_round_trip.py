#!/usr/bin/env python3
"""Load with PEFT what `hekla adapter convert` wrote, for fixtures of tests/fixtures/adapters: no key is missing or
unexpected, every tensor has the same bits, and the outputs are those of the fixture.

Usage: peft_round_trip.py FIXTURE=FOLDER...     FOLDER: what `hekla adapter convert FIXTURE/adapter` wrote

Needs PyTorch, transformers, PEFT and safetensors.
"""
import json
import pathlib
import sys

import peft
import torch
import transformers
from safetensors.torch import load_file


def check(fixture, written):
    info = json.loads((fixture / "fixture.json").read_text())
    before, after = (load_file(f / "adapter_model.safetensors") for f in (fixture / "adapter", written))
    assert before.keys() == after.keys(), before.keys() ^ after.keys()
    config = json.loads((written / "adapter_config.json").read_text())
    for name, value in before.items():
        other = after[name]
        if config["peft_type"] == "PREFIX_TUNING" and config["num_transformer_submodules"] == 2:
            # Layer i of a decoder reads the keys and values 2 i modulo their number; the rest is not kept.
            layers = config["num_layers"]
            used = sorted({2 * i % layers for i in range(layers)})
            value, other = (t.unflatten(1, (layers, -1))[:, used] for t in (value, other))
        assert torch.equal(value, other), name
    model = getattr(transformers, info["class"]).from_pretrained(fixture, attn_implementation="eager")
    config = peft.PeftConfig.from_pretrained(written)
    config.inference_mode = True
    model = peft.get_peft_model(model, config)
    found = peft.set_peft_model_state_dict(model, after)
    ours = [k for k in found.missing_keys if any(part in k for part in ("lora_", "ia3_", "ln_tuning", "modules_to_save"))]
    unexpected = [k for k in found.unexpected_keys if k != "prompt_embeddings"]  # PEFT loads it apart from the others
    assert not ours and not unexpected, (ours, unexpected)
    inputs = load_file(fixture / "inputs.safetensors")
    run = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
    if "adapter_rows" in run:
        run["task_ids"] = run.pop("adapter_rows")
    with torch.no_grad():
        logits = model.double().eval()(**run).logits
    expected = load_file(fixture / "expected.safetensors")["out.logits"].double()
    error = float((logits - expected).abs().max() / expected.abs().max())
    assert error < 1e-6, error
    print(f"{fixture.name:24s} {len(after):3d} tensors, logits {error:.1e}")


for pair in sys.argv[1:]:
    check(*map(pathlib.Path, pair.split("=")))
