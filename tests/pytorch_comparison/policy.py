#!/usr/bin/env python3
"""PPO and GRPO repeated in PyTorch from the completions that Hekla wrote, and how far apart the numbers are.

    policy.py prepare OUT      trains with HEKLA (build/bin/hekla); needs only Python
    policy.py compare OUT      needs PyTorch, transformers and safetensors; one line of JSON for each objective

Five iterations of four epochs and two minibatches each. Every iteration is a run of its own that begins with the weights of the
one before, so that both sides begin it with the same weights and a fresh optimizer. Compared are, for each token, log
probabilities under the policy and the reference, entropies, values, advantages and returns (absolute); for each update its loss, its
parts, the gradient norm, approxkl and clipfrac (relative, above 1; absolute below).
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys

ITERATIONS = 5
HERE = pathlib.Path(__file__).resolve().parent
RECIPES = HERE.parent.parent / "apps" / "recipes"
CLIP, CLIP_VALUE, VALUE_WEIGHT, KL, LAM, BETA, TEMPERATURE = 0.2, 0.2, 0.1, 0.05, 0.95, 0.04, 0.7
OBJECTIVES = {
    "ppo": ["objective.id=ppo", "head.id=lm+value", "objective.num_ppo_epochs=4", f"objective.kl_coef={KL}", f"objective.lam={LAM}",
            "objective.scale_rewards=", "objective.loss_type="],
    "grpo": ["objective.id=grpo", "objective.num_iterations=4", f"objective.beta={BETA}", "objective.loss_type=grpo"],
}


def recipe_of(name: str) -> str:
    """The recipe of an objective, without the keys of the other."""
    text = (RECIPES / "grpo-arithmetic.toml").read_text()
    if name == "ppo":
        text = text.replace('scale_rewards = "group"\n', "").replace('loss_type = "dapo"\n', "")
    return text


def prepare(out: pathlib.Path) -> None:
    hekla = os.environ.get("HEKLA", "build/bin/hekla")

    def run(*arguments: str) -> None:
        subprocess.run([hekla, *arguments], check=True)

    subprocess.run([sys.executable, RECIPES / "make_prompts.py", out / "data"], check=True)
    data = [f"data.train={out}/data/sums.jsonl", f"data.valid={out}/data/sums_valid.jsonl", "train.eval_steps=0"]
    if not (out / "base" / "model.safetensors").exists():
        run("train", str(RECIPES / "grpo-arithmetic-tuned.toml"), *data, "model.n_layer=2", "model.n_embd=64",
            "train.max_steps=200", f"output.dir={out}/base")
    for name, keys in OBJECTIVES.items():
        (out / name).mkdir(exist_ok=True)
        recipe = out / name / "recipe.toml"
        recipe.write_text(recipe_of(name))
        for i in range(ITERATIONS):
            if (out / name / f"{i}" / "run" / "model.safetensors").exists():
                continue  # prepared before
            shutil.rmtree(out / name / f"{i}", ignore_errors=True)
            before = out / "base" if i == 0 else out / name / f"{i - 1}" / "run"
            common = [str(recipe), *data, *(key for key in keys if not key.endswith("=")), f"model.from={before}",
                      f"reference.from={out}/base", f"rollout.temperature={TEMPERATURE}", "rollout.batch=64",
                      "rollout.num_generations=4", "rewards.sum.id=exact_match", "rewards.sum.column=completion",
                      "rewards.sum.partial=true", "train.per_device_train_batch_size=16", "train.gradient_accumulation_steps=2",
                      "train.learning_rate=3e-4", "train.warmup_steps=0", "train.max_steps=8", "train.save_steps=0",
                      f"train.seed={i + 1}"]
            run("batches", *common, f"output.dir={out}/none", "--steps", "8", "-o", str(out / name / f"{i}" / "given"))
            run("train", *common, f"output.dir={out}/{name}/{i}/run")


def compare(out: pathlib.Path) -> None:
    import torch
    import transformers
    from safetensors.torch import load_file

    class Policy(torch.nn.Module):
        def __init__(self, folder: pathlib.Path) -> None:
            super().__init__()
            self.lm = transformers.GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager", torch_dtype=torch.float32)
            self.lm.eval()
            tensors = load_file(folder / "model.safetensors")
            self.value = None
            if "v_head.summary.weight" in tensors:
                self.value = torch.nn.Linear(self.lm.config.n_embd, 1)
                self.value.load_state_dict({"weight": tensors["v_head.summary.weight"], "bias": tensors["v_head.summary.bias"]})

        def forward(self, ids, labels):
            """Log probabilities of the labels at the temperature [B, T], 0 where there is none; values and entropies."""
            result = self.lm(input_ids=ids.long(), output_hidden_states=True)
            logs = torch.log_softmax(result.logits / TEMPERATURE, -1)
            picked = torch.gather(logs, -1, labels.long().clamp(min=0).unsqueeze(-1)).squeeze(-1)
            values = self.value(result.hidden_states[-1]).squeeze(-1) if self.value is not None else torch.zeros_like(picked)
            entropies = -(logs.exp() * logs).sum(-1)
            return torch.where(labels >= 0, picked, torch.zeros_like(picked)), values, entropies

    def of_tokens(model, rows):
        """The same for rows of prompt and completion, one at a time."""
        logps, values, entropies = [], [], []
        with torch.no_grad():
            for row in rows:
                prompt, completion = row["prompt_ids"], row["completion_ids"]
                ids = torch.tensor([(prompt + completion)[:-1]])
                labels = torch.tensor([[-100] * (len(prompt) - 1) + completion])
                for to, found in zip((logps, values, entropies), model(ids, labels)):
                    to.append(found[0, len(prompt) - 1:].tolist())
        return logps, values, entropies

    def whiten(numbers):
        mean = sum(numbers) / len(numbers)
        variance = sum((x - mean) ** 2 for x in numbers) / (len(numbers) - 1)
        return [(x - mean) / math.sqrt(variance + 1e-8) for x in numbers]

    def weighed(name, rows):
        """Advantages and returns of all tokens, from the numbers that Hekla wrote."""
        advantages, returns = [], []
        if name == "grpo":
            for first in range(0, len(rows), 4):
                scores = torch.tensor([row["score"] for row in rows[first:first + 4]], dtype=torch.float64)
                for row, score in zip(rows[first:first + 4], scores):
                    advantage = ((score - scores.mean()) / (scores.std() + 1e-4)).item()
                    advantages += [advantage] * len(row["completion_ids"])
            return advantages, None
        for row in rows:
            rewards = [-KL * (a - b) for a, b in zip(row["logps"], row["ref_logps"])]
            rewards[-1] += row["score"]
            later, next_value, reverse = 0.0, 0.0, []
            for reward, value in zip(reversed(rewards), reversed(row["values"])):
                later = reward + next_value - value + LAM * later
                next_value = value
                reverse.append(later)
            advantages += reversed(reverse)
            returns += [a + v for a, v in zip(reversed(reverse), row["values"])]
        return whiten(advantages), returns

    def loss_of(name, model, micro):
        """Loss of an update over its micro-batches, and its parts."""
        totals = {"policy": 0.0, "value": 0.0, "approxkl": 0.0, "clipfrac": 0.0}
        fields = [{key: value for key, value in one.items()} for one in micro]
        tokens = sum(int((one["next_ids"] >= 0).sum()) for one in fields)
        rows = sum(int((one["row_labels"] >= 0).sum()) for one in fields)
        for one in fields:
            real = (one["next_ids"] >= 0).float()
            logps, values, _ = model(one["input_ids"], one["next_ids"])
            difference = (logps - one["old_logps"]) * real
            ratio = difference.exp()
            lost, clipped = -ratio * one["advantages"], -ratio.clamp(1 - CLIP, 1 + CLIP) * one["advantages"]
            of_tokens_ = torch.maximum(lost, clipped)
            if name == "grpo":
                apart = one["ref_logps"] - logps
                of_tokens_ = of_tokens_ + BETA * (apart.exp() - apart - 1)
                totals["policy"] = totals["policy"] + ((of_tokens_ * real).sum(1) / real.sum(1).clamp(min=1)).sum() / rows
            else:
                totals["policy"] = totals["policy"] + (of_tokens_ * real).sum() / tokens
                near = one["old_values"] + (values - one["old_values"]).clamp(-CLIP_VALUE, CLIP_VALUE)
                worse = torch.maximum((values - one["returns"]) ** 2, (near - one["returns"]) ** 2)
                totals["value"] = totals["value"] + 0.5 * (worse * real).sum() / tokens
            totals["approxkl"] += 0.5 * (difference ** 2).sum().item() / tokens
            totals["clipfrac"] += ((clipped > lost).float() * real).sum().item() / tokens
        return totals["policy"] + VALUE_WEIGHT * totals["value"], totals

    for name in OBJECTIVES:
        apart = {}

        def note(what, a, b, relative=False):
            a, b = float(a), float(b)
            apart[what] = max(apart.get(what, 0.0), abs(a - b) / (max(1.0, abs(b)) if relative else 1.0))

        updates = 0
        reference = Policy(out / "base")
        for i in range(ITERATIONS):
            given, run = out / name / f"{i}" / "given", out / name / f"{i}" / "run"
            rows = [json.loads(line) for line in (run / "rollouts-1.jsonl").read_text().splitlines()]
            log = [json.loads(line) for line in (run / "train_log.jsonl").read_text().splitlines()]
            model = Policy(given / "model")
            logps, values, entropies = of_tokens(model, rows)
            ref_logps, _, _ = of_tokens(reference, rows)
            advantages, returns = weighed(name, rows)
            at = 0
            for r, row in enumerate(rows):
                for t in range(len(row["completion_ids"])):
                    note("logps", logps[r][t], row["logps"][t])
                    note("entropies", entropies[r][t], row["entropies"][t])
                    note("ref_logps", ref_logps[r][t], row["ref_logps"][t])
                    note("advantages", advantages[at], row["advantages"][t])
                    if returns is not None:
                        note("values", values[r][t], row["values"][t])
                        note("returns", returns[at], row["returns"][t])
                    at += 1
            optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0)
            for step in range(8):
                micro = {}
                for key, value in load_file(given / f"step-{step + 1}.safetensors").items():
                    number, field = key.split(".", 1)
                    micro.setdefault(int(number), {})[field] = value
                optimizer.zero_grad()
                loss, parts = loss_of(name, model, [one for _, one in sorted(micro.items())])
                loss.backward()
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                for group in optimizer.param_groups:
                    group["lr"] = log[step]["learning_rate"]
                optimizer.step()
                note("loss", loss.item(), log[step]["loss"], True)
                note("grad_norm", norm, log[step]["grad_norm"], True)
                note("approxkl", parts["approxkl"], log[step]["metrics"]["policy/approxkl_avg"])
                note("clipfrac", parts["clipfrac"], log[step]["metrics"]["policy/clipfrac_avg"])
                if name == "ppo":
                    note("policy_loss", parts["policy"].item(), log[step]["losses"]["loss/policy_avg"], True)
                    note("value_loss", parts["value"].item(), log[step]["losses"]["loss/value_avg"], True)
                if step == 0:
                    note("first_ratio", log[step]["metrics"]["val/ratio"], 1.0)
                updates += 1
        print(json.dumps({"objective": name, "updates": updates, "largest_differences": apart}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "compare"])
    parser.add_argument("out", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    (prepare if arguments.what == "prepare" else compare)(arguments.out)


if __name__ == "__main__":
    main()
