#!/usr/bin/env python3
"""A masked training in PyTorch with torch.nn.utils.prune, and how far its weights are from the run's.

    hekla train RECIPE prune.from_mask=MASK                          the run to compare with; dropout must be 0
    hekla batches RECIPE prune.from_mask=MASK output.dir=none --steps 5 -o given
    pruned.py given RUN                                              one line of JSON

Every masked parameter of the twin is weight_orig * weight_mask (prune.custom_from_mask). After the same batches, learning
rates, clipping and decay, the surviving weights must equal the run's up to rounding, and the pruned ones must be 0 in
both. Needs PyTorch, transformers and safetensors.
"""
import argparse
import json
import pathlib
import sys

import torch
from safetensors.torch import load_file
from torch.nn.utils import prune
from twin import loss_of, open_model, value_of


def masked_parameters(model, masks):
    """Prunes the model's modules and returns (name, module) of each; the names are those of the run's files."""
    modules = dict(model.named_modules())
    found = []
    for name, mask in masks.items():
        module = modules[name.rpartition(".")[0]]
        prune.custom_from_mask(module, name.rpartition(".")[2], mask.to(torch.float32))
        found.append((name, module))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("given", type=pathlib.Path, help="what `hekla batches` wrote")
    parser.add_argument("run", type=pathlib.Path, help="the run's folder")
    arguments = parser.parse_args()
    recipe = (arguments.run / "recipe.toml").read_text()
    log = {}
    for line in (arguments.run / "train_log.jsonl").read_text().splitlines():
        record = json.loads(line)
        if "loss" in record:
            log[record["step"]] = record
    masks = load_file(arguments.run / "mask.safetensors")
    model = open_model(arguments.given / "model")
    masked = masked_parameters(model, masks)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": value_of(recipe, "weight_decay", 0.1)},
         {"params": others, "weight_decay": 0.0}],
        betas=(value_of(recipe, "adam_beta1", 0.9), value_of(recipe, "adam_beta2", 0.95)),
        eps=value_of(recipe, "adam_epsilon", 1e-8))
    clip = value_of(recipe, "max_grad_norm", 1.0)
    step, norms = 0, []
    while (file := arguments.given / f"step-{step + 1}.safetensors").exists() and step + 1 in log:
        step += 1
        micro = {}
        for name, value in load_file(file).items():
            number, field = name.split(".", 1)
            micro.setdefault(int(number), {})[field] = value
        optimizer.zero_grad()
        totals = [loss_of(model, fields, 0.0, None) for _, fields in sorted(micro.items())]
        (sum(total for total, _ in totals) / sum(count for _, count in totals)).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip if clip > 0 else float("inf")).item()
        norms.append(abs(norm - log[step]["grad_norm"]) / norm)
        for group in optimizer.param_groups:
            group["lr"] = log[step]["learning_rate"]
        optimizer.step()
    if step == 0:
        sys.exit(f"{arguments.given}: no step-1.safetensors, or no such step in {arguments.run}/train_log.jsonl")
    for name, module in masked:
        prune.remove(module, name.rpartition(".")[2])  # weight = weight_orig * weight_mask
    ours = dict(model.named_parameters())
    theirs = load_file(arguments.run / "model.safetensors")
    worst, moved, not_zero = 0.0, 0.0, 0
    start = load_file(arguments.given / "model" / "model.safetensors")
    for name, value in theirs.items():
        worst = max(worst, (ours[name].detach() - value).abs().max().item())
        moved = max(moved, (start[name] - value).abs().max().item())
        if name in masks:
            not_zero += int(((value != 0) & (masks[name] == 0)).sum())
    print(json.dumps({"steps": step, "masked_weights": sum(int((m == 0).sum()) for m in masks.values()),
                      "pruned_not_zero": not_zero, "largest_difference": worst, "largest_change": moved,
                      "norm_difference": max(norms)}))


if __name__ == "__main__":
    main()
