#!/usr/bin/env python3
"""The objectives of preferences in PyTorch, compared with a run of Hekla: see `preferences`, which runs this.

    preferences.py write FOLDER                        the data
    preferences.py reference FOLDER                    the pairs with the reference's log probabilities
    preferences.py compare KIND GIVEN RUN REFERENCE    one line of JSON

The weights of step n are those of the run's checkpoint-(n-1), the batch is what `hekla batches` wrote, and the gradients are
those of `hekla replay`. PyTorch computes in float64. Differences are |a - b| / |b| of a loss, |a - b| / max(|b|, 0.1) of a
metric, because many are small differences of log probabilities of 20 nats and more, whose rounding is 1e-6, and the norm of the
difference over the norm of a parameter's gradient.
"""
import json
import math
import pathlib
import random
import re
import sys

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file

IGNORED = -100
transformers.utils.logging.disable_progress_bar()
NAMES = ["sun", "moon", "cat", "dog", "tree", "river", "stone"]
GOOD = ["is good.", "is bright and kind.", "sings."]
BAD = ["is bad.", "is a gray thing.", "falls."]


def write(folder: pathlib.Path) -> None:
    draw = random.Random(5)
    folder.mkdir(parents=True, exist_ok=True)
    pairs, judged, text = [], [], []
    for i in range(300):
        name, good, bad = draw.choice(NAMES), draw.choice(GOOD), draw.choice(BAD)
        pairs.append({"prompt": f"the {name} ", "chosen": good, "rejected": bad, "margin": round(draw.random(), 2)})
        judged.append({"prompt": f"the {name} ", "completion": good if i % 2 else bad, "label": bool(i % 2)})
        text.append(f"the {name} {good if draw.random() < 0.5 else bad}")
    for file, rows in (("pairs", pairs), ("judged", judged)):
        (folder / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "text.txt").write_text("\n".join(text) + "\n")


def setting(recipe: str, key: str, default: float) -> float:
    found = re.search(rf'^"?{key}"? = ([-+.\de]+)', recipe, re.MULTILINE)
    return float(found.group(1)) if found else default


def language_model(folder: pathlib.Path):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()


def log_probabilities(model, fields):
    """Sums over the scored tokens of each row, and their numbers."""
    logits = model(input_ids=fields["input_ids"].long(), attention_mask=fields["attention_mask"].long()).logits
    labels = fields["next_ids"].long()
    lost = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORED, reduction="none")
    return -lost.sum(1), (labels != IGNORED).sum(1).clamp(min=1)


def mean(values, counts):
    return (values * counts).sum() / counts.sum()


def dpo(fields, recipe, policy, reference):
    beta, smoothing = setting(recipe, "beta", 0.1), setting(recipe, "label_smoothing", 0.0)
    kind = re.search(r'"?loss_type"? = "(\w+)"', recipe)
    kind = kind.group(1) if kind else "sigmoid"
    own, tokens = log_probabilities(policy, fields)
    if "ref_chosen_logps" in fields:
        theirs = torch.cat([fields["ref_chosen_logps"], fields["ref_rejected_logps"]]).double()
    else:
        with torch.no_grad():
            theirs = log_probabilities(reference, fields)[0]
    pairs = own.shape[0] // 2
    chosen, rejected = (own - theirs)[:pairs], (own - theirs)[pairs:]
    counts = (fields["pair_labels"] != IGNORED).double()
    margin = beta * (chosen - rejected)
    if kind == "ipo":
        each = (chosen / tokens[:pairs] - rejected / tokens[pairs:] - 1 / (2 * beta)) ** 2
    elif kind == "hinge":
        each = torch.relu(1 - margin)
    else:
        each = -F.logsigmoid(margin) * (1 - smoothing) + F.logsigmoid(-margin) * (smoothing if kind == "robust" else -smoothing)
        if kind == "robust":
            each = each / (1 - 2 * smoothing)
    loss = mean(each, counts)
    weight = setting(recipe, "sft_weight", 0.0)
    if weight > 0:
        loss = loss - weight * own[:pairs].sum() / (fields["next_ids"][:pairs] != IGNORED).sum()
    return loss, {"rewards/chosen": mean(beta * chosen, counts), "rewards/rejected": mean(beta * rejected, counts),
                  "rewards/margins": mean(margin, counts),
                  # Where policy and reference are equal, rounding decides which answer is preferred.
                  "rewards/accuracies": mean((chosen > rejected).double(), counts) if margin.abs().min() > 1e-4 else torch.tensor(math.nan),
                  "logps/chosen": mean(own[:pairs], counts), "logps/rejected": mean(own[pairs:], counts)}


def orpo(fields, recipe, policy, reference):
    own, tokens = log_probabilities(policy, fields)
    pairs = own.shape[0] // 2
    average = own / tokens
    chosen, rejected = average[:pairs], average[pairs:]
    ratio = (chosen - rejected) - (torch.log1p(-chosen.exp()) - torch.log1p(-rejected.exp()))
    counts = (fields["pair_labels"] != IGNORED).double()
    nll = -own[:pairs].sum() / (fields["next_ids"][:pairs] != IGNORED).sum()
    return nll + setting(recipe, "beta", 0.1) * mean(-F.logsigmoid(ratio), counts), {
        "log_odds_ratio": mean(ratio, counts), "rewards/accuracies": mean((chosen > rejected).double(), counts)}


def kto(fields, recipe, policy, reference):
    beta = setting(recipe, "beta", 0.1)
    own, _ = log_probabilities(policy, fields)
    with torch.no_grad():
        theirs, _ = log_probabilities(reference, fields)
    rows = own.shape[0] // 2
    ratio, counts = own - theirs, fields["counts"].double()
    kl = mean(ratio[rows:].detach(), counts[rows:]).clamp(min=0)
    good = fields["desirable"].double()
    desired = setting(recipe, "desirable_weight", 1.0) * (1 - torch.sigmoid(beta * (ratio[:rows] - kl)))
    undesired = setting(recipe, "undesirable_weight", 1.0) * (1 - torch.sigmoid(beta * (kl - ratio[:rows])))
    real = counts[:rows]
    return mean(torch.where(good > 0, desired, undesired), real), {
        "rewards/chosen": mean(beta * ratio[:rows], good * real), "rewards/rejected": mean(beta * ratio[:rows], (1 - good) * real),
        "logps/chosen": mean(own[:rows], good * real), "logps/rejected": mean(own[:rows], (1 - good) * real), "kl": kl}


def reward(fields, recipe, model, reference):
    hidden = model.transformer(input_ids=fields["input_ids"].long(), attention_mask=fields["attention_mask"].long())[0]
    last = fields["attention_mask"].long().sum(1) - 1
    rewards = model.score(hidden[torch.arange(hidden.shape[0]), last])[:, 0]
    pairs = rewards.shape[0] // 2
    chosen, rejected = rewards[:pairs], rewards[pairs:]
    counts = (fields["rank_labels"] != IGNORED).double().prod(1)
    loss = mean(-F.logsigmoid(chosen - rejected - fields["margin"].double()), counts)
    loss = loss + setting(recipe, "center_rewards_coefficient", 0.0) * mean((chosen + rejected) ** 2, counts)
    return loss, {"accuracy": mean((chosen > rejected).double(), counts), "margin": mean(chosen - rejected, counts),
                  "reward": mean((chosen + rejected) / 2, counts)}


def reference(folder: pathlib.Path) -> None:
    model = language_model(folder / "first")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "first")
    end = tokenizer.eos_token_id

    @torch.no_grad()
    def summed(prompt: str, answer: str) -> float:
        before = tokenizer(prompt, add_special_tokens=False).input_ids
        ids = before + tokenizer(answer, add_special_tokens=False).input_ids + ([end] if end is not None else [])
        logp = model(input_ids=torch.tensor([ids[:-1]])).logits[0].log_softmax(-1)
        return sum(float(logp[i - 1, ids[i]]) for i in range(len(before), len(ids)))

    rows = [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]
    known = {}
    for row in rows:
        for name in ("chosen", "rejected"):
            key = (row["prompt"], row[name])
            known[key] = known.get(key) or summed(*key)
            row[f"ref_{name}_logps"] = known[key]
    (folder / "given.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def compare(kind: str, given: pathlib.Path, run: pathlib.Path, first: pathlib.Path) -> None:
    recipe = (run / "recipe.toml").read_text()
    log = {}
    for line in (run / "train_log.jsonl").read_text().splitlines():
        record = json.loads(line)
        if "grad_norm" in record:
            log[record["step"]] = record
    compute = {"dpo": dpo, "orpo": orpo, "kto": kto, "reward": reward}[kind]
    base = language_model(first) if kind in ("dpo", "kto") else None
    worst = {"loss": 0.0, "metrics": 0.0, "gradients": 0.0}
    names, first_loss, steps, steps_with_gradient = set(), None, 0, 0

    def note(what: str, difference: float) -> None:
        worst[what] = max(worst[what], difference)

    def apart(a: float, b: float, least: float) -> float:
        return abs(a - b) / max(abs(b), least)

    while (file := given / f"step-{steps + 1}.safetensors").exists():
        steps += 1
        folder = given / "model" if steps == 1 else run / f"checkpoint-{steps - 1}"
        if kind == "reward":
            model = transformers.AutoModelForSequenceClassification.from_pretrained(
                folder, attn_implementation="eager", dtype=torch.float64).eval()
        else:
            model = language_model(folder)
        fields = {name.split(".", 1)[1]: value for name, value in load_file(file).items()}
        loss, metrics = compute(fields, recipe, model, base)
        loss.backward()
        first_loss = first_loss if first_loss is not None else log[steps]["loss"]
        note("loss", apart(log[steps]["loss"], loss.item(), 1e-6))
        for name, value in metrics.items():
            if not math.isnan(value.item()): # no row of a kind, or undecided
                note("metrics", apart(log[steps]["metrics"][name], value.item(), 0.1))
                names.add(name)
        own = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        theirs = load_file(run / f"replay-{steps}" / "gradients.safetensors")
        missing = sorted(set(own) ^ set(theirs))
        if missing:
            sys.exit(f"{run}: step {steps}: parameters of only one side: {missing}")
        total = math.sqrt(sum(float((g ** 2).sum()) for g in own.values()))
        if total == 0.0: # every pair of a hinge is far enough apart
            note("gradients", 0.0 if all(not theirs[name].any() for name in own) else math.inf)
            continue
        steps_with_gradient += 1
        for name, gradient in own.items():
            # A gradient that is zero in exact arithmetic (the keys' bias) has rounding alone.
            size = max(float(gradient.norm()), 1e-3 * total)
            note("gradients", float((theirs[name].double().reshape(gradient.shape) - gradient).norm()) / size)
    if steps == 0:
        sys.exit(f"{given}: there is no step-1.safetensors")
    print(json.dumps({"steps": steps, "steps_with_gradient": steps_with_gradient, "first_loss": first_loss, **worst, "compared_metrics": sorted(names)}))
    if steps_with_gradient < steps / 2:
        sys.exit(f"{run}: only {steps_with_gradient} of {steps} steps have a gradient, which compares too little")
    if max(worst.values()) > 1e-5:
        sys.exit(f"{run}: a difference is above 1e-5")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] in ("write", "reference"):
        {"write": write, "reference": reference}[sys.argv[1]](pathlib.Path(sys.argv[2]))
    elif len(sys.argv) == 6 and sys.argv[1] == "compare":
        compare(sys.argv[2], *map(pathlib.Path, sys.argv[3:]))
    else:
        sys.exit(__doc__)
