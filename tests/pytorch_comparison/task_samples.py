#!/usr/bin/env python3
"""Compares the answers of `hekla eval MODEL --tasks ... --log-samples -o FOLDER` with transformers in float64.

    tests/pytorch_comparison/task_samples.py MODEL FOLDER

MODEL is the folder of a decoder with a tokenizer.json. Prints, for each task, the worst relative difference of the log
likelihoods and the number of greedy flags that differ. Contexts and continuations are tokenized as lm-evaluation-harness does,
and whole texts are scored in its windows. Texts that were written are written again, greedily.
"""
import glob
import json
import pathlib
import sys

import torch
import transformers
from tokenizers import Tokenizer


class Model:
    def __init__(self, folder: str) -> None:
        self.network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
        self.tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")
        special = json.loads((pathlib.Path(folder) / "special_tokens_map.json").read_text())
        first = special.get("bos_token") or special["eos_token"]
        self.first = self.tokenizer.token_to_id(first if isinstance(first, str) else first["content"])
        self.end = self.tokenizer.token_to_id(special["eos_token"])
        self.positions = self.network.config.max_position_embeddings

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    @torch.no_grad()
    def score(self, ids: list[int], start: int) -> tuple[float, bool]:
        logp = self.network(input_ids=torch.tensor([ids[:-1]])).logits[0].log_softmax(-1)
        places = range(start, len(ids))
        return (sum(float(logp[i - 1, ids[i]]) for i in places), all(int(logp[i - 1].argmax()) == ids[i] for i in places))

    def continuation(self, context: str, text: str) -> tuple[float, bool]:
        spaces = len(context) - len(context.rstrip())
        if spaces:
            context, text = context[:-spaces], context[-spaces:] + text
        whole, start = self.encode(context + text), len(self.encode(context))
        ids = whole[-(self.positions + 1):]
        return self.score(ids, start - (len(whole) - len(ids)))

    def rolling(self, text: str) -> float:
        ids, done, total = self.encode(text), 0, 0.0
        while done < len(ids):
            end = min(len(ids), done + self.positions)
            row = [self.first] + ids[:end] if done == 0 else ids[max(0, end - self.positions - 1):end]
            total += self.score(row, len(row) - (end - done))[0]
            done = end
        return total

    def write(self, context: str, until: list[str], most: int) -> str:
        ids = self.encode(context)[-(self.positions - most):]
        made = self.network.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=most, eos_token_id=self.end,
                                     pad_token_id=self.end)[0].tolist()
        text = self.tokenizer.decode(made)[len(self.tokenizer.decode(ids)):]
        return min((text.split(end)[0] for end in until), key=len)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    model = Model(sys.argv[1])
    for file in sorted(glob.glob(sys.argv[2] + "/samples_*.jsonl")):
        worst, count, other = 0.0, 0, 0
        for line in open(file):
            sample = json.loads(line)
            for arguments, answer in zip(sample["arguments"].values(), sample["filtered_resps"]):
                count += 1
                if isinstance(answer, str):
                    how = arguments["arg_1"]
                    other += model.write(arguments["arg_0"], how["until"], how["max_gen_toks"]) != sample["resps"][0][0]
                elif isinstance(answer, list):
                    logp, greedy = model.continuation(arguments["arg_0"], arguments["arg_1"])
                    worst = max(worst, abs(logp - answer[0]) / abs(logp))
                    other += greedy != answer[1]
                else:
                    logp = model.rolling(arguments["arg_0"])
                    worst = max(worst, abs(logp - answer) / abs(logp))
        print(f"{pathlib.Path(file).stem}: {count} answers, worst relative difference {worst:.2g}, {other} differ")


if __name__ == "__main__":
    main()
