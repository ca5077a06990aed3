#!/usr/bin/env python3
"""Add what PEFT's generate() answers, greedily and with beams, to the fixture.json of fixtures of tests/fixtures/adapters.

Usage: peft_generation.py FIXTURE...

Needs PyTorch, transformers, PEFT and safetensors.
"""
import json
import pathlib
import sys

import peft
import torch
import transformers
from safetensors.torch import load_file


def add(fixture):
    info = json.loads((fixture / "fixture.json").read_text())
    model = getattr(transformers, info["class"]).from_pretrained(fixture, attn_implementation="eager")
    model = peft.PeftModel.from_pretrained(model, fixture / "adapter").double().eval()
    inputs = load_file(fixture / "inputs.safetensors")
    encodes = model.config.is_encoder_decoder
    # A decoder's prompts have no padding here.
    prompt = inputs["input_ids"] if encodes else inputs["input_ids"][:, :4]
    mask = inputs["attention_mask"] if encodes and "attention_mask" in inputs else torch.ones_like(prompt)
    info["generate"] = []
    for beams in (1, 3):
        arguments = {"max_new_tokens": 8, "do_sample": False, "num_beams": beams, "eos_token_id": None,
                     "pad_token_id": model.config.pad_token_id or 0, "no_repeat_ngram_size": 2}
        if encodes:
            arguments |= {"forced_eos_token_id": None, "forced_bos_token_id": None}
        with torch.no_grad():
            ids = model.generate(input_ids=prompt, attention_mask=mask, **arguments)
        case = {"prompt": prompt.tolist(), "args": arguments, "ids": ids.tolist()}
        if encodes and "attention_mask" in inputs:
            case["with"] = ["attention_mask"]
        info["generate"].append(case)
    (fixture / "fixture.json").write_text(json.dumps(info, indent=1) + "\n")
    print(f"{fixture.name:24s} {info['generate'][0]['ids'][0]} {info['generate'][1]['ids'][0]}")


for folder in sys.argv[1:]:
    add(pathlib.Path(folder))
