#!/usr/bin/env python3
"""Check with PEFT what `hekla adapter extract` wrote: the model with the adapter computes what the changed model computes,
for bodies of the fixtures with every parameter changed, those that are not linear layers saved whole.

Usage: peft_extraction.py HEKLA FIXTURES     FIXTURES: tests/fixtures/adapters

Needs PyTorch, transformers, PEFT and safetensors.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

HEKLA, FIXTURES = sys.argv[1], pathlib.Path(sys.argv[2])

# GPT-2's embedding is its output layer, too: PEFT does not apply a saved embedding there, so it stays as it is.
for name, unchanged in [("lora-llama", ()), ("lora-gpt2", ("wte",))]:
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        shutil.copytree(FIXTURES / name, folder / "tuned", ignore=shutil.ignore_patterns("adapter"))
        torch.manual_seed(1)
        tensors = load_file(FIXTURES / name / "model.safetensors")
        for key, value in tensors.items():
            if value.is_floating_point() and not any(part in key for part in unchanged):
                tensors[key] = value + 0.1 * torch.randn_like(value)
        save_file(tensors, folder / "tuned" / "model.safetensors", {"format": "pt"})
        subprocess.run(
            [HEKLA, "adapter", "extract", str(FIXTURES / name), str(folder / "tuned"), "-r", "4096", "--others", "save", "-o",
             str(folder / "out")],
            check=True, stdout=subprocess.DEVNULL)
        kind = getattr(transformers, json.loads((FIXTURES / name / "fixture.json").read_text())["class"])
        inputs = load_file(FIXTURES / name / "inputs.safetensors")
        body = kind.from_pretrained(FIXTURES / name, attn_implementation="eager").double().eval()
        tuned = kind.from_pretrained(folder / "tuned", attn_implementation="eager").double().eval()
        with torch.no_grad():
            before, expected = body(**inputs).logits, tuned(**inputs).logits
            found = peft.PeftModel.from_pretrained(body, folder / "out").double().eval()(**inputs).logits
        error, moved = ((expected - other).abs().max() / expected.abs().max() for other in (found, before))
        assert error < 1e-5 < moved, (error, moved)
        print(f"{name:12s} logits {error:.1e} (without the adapter {moved:.1e})")
