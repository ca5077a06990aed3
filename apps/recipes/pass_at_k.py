#!/usr/bin/env python3
"""How many sums a model gets right: with its most likely answer, and with the best of k drawn ones (pass@k).

    apps/recipes/pass_at_k.py build/bin/hekla out/grpo-1 >scores.json

pass@k is the unbiased estimate of Chen and others (2021) from sixteen answers to each sum: 1 - C(n - c, k) / C(n, k), of which
c of n are right.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    hekla, model = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([hekla, "eval", model, "--tasks", "apps/tasks/sums.toml", "apps/tasks/sums_drawn.toml", "--log-samples", "-o",
                        folder], check=True, stdout=sys.stderr)
        out = pathlib.Path(folder)
        scores = json.loads((out / "results.json").read_text())["results"]
        rows = [json.loads(line) for line in (out / "samples_sums_drawn.jsonl").read_text().splitlines()]
    found = {"greedy": scores["sums"]["exact_match,none"], "vote": scores["sums_drawn"]["exact_match,vote"]}
    right = [(len(row["resps"][0]), sum(text.strip() == row["target"] for text in row["resps"][0]))
             for row in rows if row["filter"] == "vote"]
    for k in (1, 2, 4, 8, 16):
        found[f"pass@{k}"] = sum(1 - math.comb(n - c, k) / math.comb(n, k) for n, c in right) / len(right)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
