#!/usr/bin/env python3
"""The same training in PyTorch, and how far its losses are from the run's.

    hekla batches RECIPE output.dir=none --steps 200 -o given     the initial model and every batch
    hekla train RECIPE                                            the run to stand beside
    twin.py given RUN [--save FOLDER]                             the twin; one line of JSON

Initial weights, batches, learning rates (the run's log has them), AdamW's constants, decay, clipping and the loss are the
run's own; dropout must be 0 in the recipe. Losses are compared as |a - b| / b. Needs PyTorch and transformers.
"""
import argparse
import json
import pathlib
import re
import sys

import torch
import transformers
from safetensors.torch import load_file

IGNORED = -100


def value_of(recipe: str, key: str, default: float) -> float:
    """A number of the run's recipe.toml, which has every key on a line of its own."""
    found = re.search(rf'^"?{key}"? = ([-+.\de]+)', recipe, re.MULTILINE)
    return float(found.group(1)) if found else default


def open_model(folder: pathlib.Path):
    config = json.loads((folder / "config.json").read_text())
    name = (config.get("architectures") or [None])[0]
    if name is None:
        sys.exit(f"{folder}/config.json: has no architectures, so there is no class to open it with")
    model = getattr(transformers, name).from_pretrained(folder, attn_implementation="eager", torch_dtype=torch.float32)
    model.train()
    return model


def loss_of(model, fields, smoothing: float, autocast: torch.dtype | None):
    """Sum of the losses of what is asked for, and how many there are, as the objective of the run has them."""
    fields = {name: value.long() if value.dtype == torch.int32 else value for name, value in fields.items()}
    read = {name: fields[name] for name in ("input_ids", "attention_mask", "token_type_ids", "decoder_input_ids",
                                            "decoder_attention_mask") if name in fields}
    if model.config.is_encoder_decoder and "decoder_input_ids" not in read:
        labels = fields["labels"]
        read["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(labels)
    with torch.autocast("cpu", dtype=autocast or torch.bfloat16, enabled=autocast is not None):
        logits = model(**read).logits
    logits = logits.float()
    labels = fields["next_ids"] if "next_ids" in fields else fields["labels"]
    if "masked_positions" in fields:
        places = fields["masked_positions"].clamp(min=0)
        logits = torch.gather(logits, 1, places.unsqueeze(-1).expand(-1, -1, logits.shape[-1]))
    total = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1),
                                              ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing)
    return total, int((labels != IGNORED).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("given", type=pathlib.Path, help="what `hekla batches` wrote")
    parser.add_argument("run", type=pathlib.Path, help="the run's folder")
    parser.add_argument("--save", type=pathlib.Path, help="the twin's model at the end goes there")
    parser.add_argument("--first", type=int, default=200, help="steps over which the curves are compared")
    parser.add_argument("--autocast", choices=["bfloat16"], help="compute in this type, with float32 weights")
    arguments = parser.parse_args()
    autocast = getattr(torch, arguments.autocast) if arguments.autocast else None
    recipe = (arguments.run / "recipe.toml").read_text()
    log = {}
    for line in (arguments.run / "train_log.jsonl").read_text().splitlines():
        record = json.loads(line)
        if "loss" in record:
            log[record["step"]] = record
    model = open_model(arguments.given / "model")
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": value_of(recipe, "weight_decay", 0.1)},
         {"params": others, "weight_decay": 0.0}],
        betas=(value_of(recipe, "adam_beta1", 0.9), value_of(recipe, "adam_beta2", 0.95)),
        eps=value_of(recipe, "adam_epsilon", 1e-8))
    clip = value_of(recipe, "max_grad_norm", 1.0)
    smoothing = value_of(recipe, "label_smoothing", 0.0)
    apart, worst = [], (0.0, 0)
    own, theirs = [], []
    step = 0
    while (file := arguments.given / f"step-{step + 1}.safetensors").exists() and step + 1 in log:
        step += 1
        micro = {}
        for name, value in load_file(file).items():
            number, field = name.split(".", 1)
            micro.setdefault(int(number), {})[field] = value
        optimizer.zero_grad()
        totals = [loss_of(model, fields, smoothing, autocast) for _, fields in sorted(micro.items())]
        loss = sum(total for total, _ in totals) / sum(count for _, count in totals)
        loss.backward()
        if clip > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        for group in optimizer.param_groups:
            group["lr"] = log[step]["learning_rate"]
        optimizer.step()
        difference = abs(loss.item() - log[step]["loss"]) / log[step]["loss"]
        apart.append(difference)
        own.append(loss.item())
        theirs.append(log[step]["loss"])
        if step <= arguments.first:
            worst = max(worst, (difference, step))
        if step % 50 == 0:
            print(f"step {step}: {loss.item():.6f}, the run {log[step]['loss']:.6f}", file=sys.stderr)
    if step == 0:
        sys.exit(f"{arguments.given}: no step-1.safetensors, or no such step in {arguments.run}/train_log.jsonl")
    if arguments.save:
        model.save_pretrained(arguments.save)
    print(json.dumps({"steps": step, "worst_of_first": worst[0], "at_step": worst[1], "compared": min(step, arguments.first),
                      "mean_of_all": sum(apart) / len(apart),
                      "mean_of_last_50": {"twin": sum(own[-50:]) / len(own[-50:]), "run": sum(theirs[-50:]) / len(theirs[-50:])},
                      "above_1e-3": [[i + 1, d] for i, d in enumerate(apart) if d > 1e-3]}))


if __name__ == "__main__":
    main()
