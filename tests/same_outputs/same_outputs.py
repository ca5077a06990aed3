#!/usr/bin/env python3
"""Compares what two builds of Hekla write, or one build with hashes that were stored: for changes of the code that must
not change a bit. Every case trains a small model in one mode of training; weights, moments, logs without times,
checkpoints, exports, texts and plans are hashed.
  same_outputs.py HEKLA --store FILE [CASE ...]     trains with build/bin/hekla, writes the hashes
  same_outputs.py HEKLA --compare FILE [CASE ...]   the same, compares, prints what differs; exit status 1 if anything does
The hashes depend on the device and its driver: compare only what was stored on the same machine.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

# Keys of logs and reports that measure instead of compute.
MEASURED = re.compile(r"seconds|second|time|tokens_per|milliseconds|\bms\b|peak|flops|memory|bytes|share_of|device|driver"
                      r"|version|speed|started|ended|created|host|absolute")

GPT = """[model]
architecture = "gpt2"
n_layer = 2
n_head = 2
n_embd = 16
n_positions = 32
"""
TRAIN = """[train]
max_steps = 6
context_length = 30
per_device_train_batch_size = 4
eval_steps = 2
eval_batches = 2
save_steps = 2
save_total_limit = 9
learning_rate = 0.01
warmup_steps = 2
"""
TEXT = """[data]
train = "a.txt"
valid = "b.txt"
"""
CLASSES = """[data]
train = "classes.csv"
valid = "classes.csv"
header = true
labels = ["no", "yes"]
columns = {text = "text", label = "label"}
"""
ROWS = """[data]
train = "rows.jsonl"
valid = "rows.jsonl"
"""


def recipe(model=GPT, data=TEXT, train="", more=""):
    return model + data + TRAIN + train + more


def encoder(architecture, more=""):
    return (f'[model]\narchitecture = "{architecture}"\nnum_hidden_layers = 1\nnum_attention_heads = 2\nhidden_size = 16\n'
            f'intermediate_size = 32\nmax_position_embeddings = 32\n{more}')


FROM = '[model]\nfrom = "text/out"\n'
PPO = """[rollout]
batch = 8
response_length = 4
local_rollout_forward_batch_size = 4
num_sample_generations = 0
stop_token = "none"
[rewards.length]
id = "length"
target = 4
[data]
train = "prompts.jsonl"
valid = "prompts.jsonl"
"""

GRPO = PPO.replace("[rollout]\n", "[rollout]\nnum_generations = 4\n")

# name -> (recipe, arguments of train, cases that must have run before)
CASES = {
    "text": (recipe(), [], []),
    "words": (recipe(more='[tokenizer]\nkind = "bpe"\nvocab_size = 300\n'), [], []),
    "held-out": (recipe(data='[data]\ntrain = "a.txt"\nvalid_fraction = 0.2\n'), [], []),
    "accumulated": (recipe(train="gradient_accumulation_steps = 3\n"), [], []),
    "recomputed": (recipe(train="gradient_checkpointing = true\n"), [], []),
    "average": (recipe(train="ema_decay = 0.9\n"), [], []),
    "bfloat16": (recipe(train="bf16 = true\n"), [], []),
    "float16": (recipe(train="fp16 = true\n"), [], []),
    "small-moments": (recipe(train='moments_dtype = "bfloat16"\n'), [], []),
    "lion": (recipe(more='[optimizer]\nname = "lion"\n'), [], []),
    "two-optimizers": (recipe(more='[optimizer]\nname = "adamw"\nrules = {"*.bias" = "sgd"}\n'), [], []),
    "frozen": (recipe(train='freeze = ["embeddings"]\nlayer_lr_decay = 0.9\n'), [], []),
    "best": (recipe(train="load_best_model_at_end = true\nearly_stopping_patience = 1\n"), [], []),
    "mlm": (recipe(encoder("bert"), more='[objective]\nid = "mlm"\n'), [], []),
    "sentences": (recipe(encoder("bert"), more='[objective]\nid = "mlm_nsp"\n[head]\nid = "pretraining"\n'), [], []),
    "spans": (recipe('[model]\narchitecture = "t5"\nd_model = 16\nd_kv = 8\nd_ff = 32\nnum_layers = 1\nnum_heads = 2\n',
                     more='[objective]\nid = "span_corruption"\n'), [], []),
    "permuted": (recipe('[model]\narchitecture = "xlnet"\nd_model = 16\nn_layer = 1\nn_head = 2\nd_inner = 32\n',
                        more='[objective]\nid = "permutation"\n'), [], []),
    "recurrent": (recipe('[model]\narchitecture = "bilstm_lm"\nembedding_size = 16\nhidden_size = 16\n',
                         more='[objective]\nid = "bilm"\n'), [], []),
    "vectors": (recipe('[model]\narchitecture = "word_vectors"\n', more='[objective]\nid = "skip_gram"\n[head]\nid = ""\n'), [], []),
    "completion": (recipe(data=ROWS + 'columns = {prompt = "q", completion = "a"}\n', more='[objective]\nid = "completion"\n'),
                   [], []),
    "chat": (recipe(data='[data]\ntrain = "talks.jsonl"\nvalid = "talks.jsonl"\nchat_template = "chatml"\n',
                    more='[tokenizer]\nadd = ["<|im_start|>", "<|im_end|>"]\n[objective]\nid = "chat"\n'), [], []),
    "classes": (recipe(data=CLASSES, more='[objective]\nid = "classification"\n[head]\nid = "classifier"\n[tokenizer]\n'
                                          'add_roles = {pad = "[PAD]"}\n'), [], []),
    "preferences": (recipe(FROM, '[teacher]\nfrom = "text/out"\n[data]\ntrain = "pairs.jsonl"\nvalid = "pairs.jsonl"\n',
                           more='[objective]\nid = "dpo"\n'), [], ["text"]),
    "features": (recipe(FROM, CLASSES, train='freeze = ["body"]\n',
                        more='[objective]\nid = "classification"\n[head]\nid = "classifier"\n[tokenizer]\n'
                             'add_roles = {pad = "[PAD]"}\n'), [], ["text"]),
    "adapter": (recipe(FROM, more='[adapter]\nid = "lora"\nr = 2\n'), [], ["text"]),
    "prefix": (recipe(FROM, more='[adapter]\nid = "prefix_tuning"\nnum_virtual_tokens = 2\n'), [], ["text"]),
    "routed": (recipe(FROM, ROWS + 'columns = {prompt = "q", completion = "a"}\n',
                      more='[objective]\nid = "completion"\n[adapter]\nid = "lora"\nr = 2\nnames = ["a", "b"]\n'
                           'route_by = "who"\n'), [], ["text"]),
    "combined": (recipe(FROM, more='[adapters.x]\nid = "lora"\nr = 2\n[adapters.y]\nfrom = "adapter/out"\ntrain = true\n'
                                  "[combine]\nhow = 'stack(x, y)'\n"), [], ["text", "adapter"]),
    "ppo": (recipe(FROM, '[reference]\nfrom = "text/out"\n[value]\nfrom = "text/out"\n[objective]\nid = "ppo"\n'
                         "num_ppo_epochs = 1\nptx_coef = 0.5\n" + PPO + 'pretrain = "a.txt"\n'), [], ["text"]),
    "grpo": (recipe(FROM, '[reference]\nfrom = "text/out"\n[objective]\nid = "grpo"\nbeta = 0.1\n' + GRPO),
             [], ["text"]),
    "masked": (recipe(more='[prune]\nfrom_mask = "mask.safetensors"\n'), [], ["text"]),
    "two-ranks": (recipe(train="gradient_accumulation_steps = 2\n", more="[distributed]\nparts = 2\n"), ["--devices", "0,0"], []),
    "one-of-two": (recipe(train="gradient_accumulation_steps = 2\n", more="[distributed]\nparts = 2\n"), [], []),
    "ranks-in-16-bits": (recipe(train="gradient_accumulation_steps = 2\n",
                                more='[distributed]\nparts = 2\nexchange = "bf16"\n'), ["--devices", "0,0"], []),
    "islands": (recipe(more='[distributed]\nmode = "diloco"\ninner_steps = 2\n'), ["--devices", "0,0"], []),
    "rollouts-on-ranks": (recipe(FROM, '[reference]\nfrom = "text/out"\n[objective]\nid = "grpo"\nbeta = 0.1\n'
                                 + GRPO, train="gradient_accumulation_steps = 2\n",
                                 more="[distributed]\nparts = 2\n"), ["--devices", "0,0"], ["text"]),
}


def write_data(place):
    for name, offset in (("a.txt", 0), ("b.txt", 77)):
        numbers = [(i + offset) * 7919 % 1000 for i in range(150)]
        lines = [f"line {n} of a text: {n}+1={n + 1}, and {['no', 'one', 'two'][n % 3]} more." for n in numbers]
        (place / name).write_text("".join(line + ("\n\n" if i % 10 == 9 else "\n") for i, line in enumerate(lines)))
    with open(place / "rows.jsonl", "w") as out:
        for i in range(40):
            print(json.dumps({"q": f"{i}+1", "a": str(i + 1), "who": "ab"[i % 2]}), file=out)
    with open(place / "pairs.jsonl", "w") as out:
        for i in range(24):
            print(json.dumps({"prompt": f"{i}+1=", "chosen": str(i + 1), "rejected": "no"}), file=out)
    with open(place / "prompts.jsonl", "w") as out:
        for i in range(24):
            print(json.dumps({"prompt": f"{i}+"}), file=out)
    with open(place / "talks.jsonl", "w") as out:
        for i in range(24):
            print(json.dumps({"messages": [{"role": "user", "content": f"{i}+1"},
                                           {"role": "assistant", "content": str(i + 1)}]}), file=out)
    with open(place / "classes.csv", "w") as out:
        print("text,label", file=out)
        for i in range(40):
            print(f"line {i * 37 % 100},{['no', 'yes'][i % 3 == 0]}", file=out)


def write_mask(place):
    """Prunes every third weight of the matrices of the case "text"."""
    content = (place / "text" / "out" / "model.safetensors").read_bytes()
    size = int.from_bytes(content[:8], "little")
    header, values = {}, b""
    for name, tensor in json.loads(content[8:8 + size]).items():
        if name == "__metadata__" or len(tensor["shape"]) < 2 or "h." not in name:
            continue
        count = tensor["shape"][0] * tensor["shape"][1]
        header[name] = {"dtype": "U8", "shape": tensor["shape"], "data_offsets": [len(values), len(values) + count]}
        values += bytes(0 if i % 3 == 0 else 1 for i in range(count))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (place / "mask.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + values)


def without_measurements(value):
    if isinstance(value, dict):
        return {key: without_measurements(item) for key, item in value.items() if not MEASURED.search(key)}
    if isinstance(value, list):
        return [without_measurements(item) for item in value]
    return value


def hash_of(file):
    content = file.read_bytes()
    if file.suffix == ".jsonl":
        lines = [without_measurements(json.loads(line)) for line in content.decode().splitlines()]
        content = json.dumps(lines, sort_keys=True).encode()
    elif file.name in ("kernels.json", "MANIFEST.json"):
        return None  # measured; hashes of the others
    elif file.suffix == ".json":
        content = json.dumps(without_measurements(json.loads(content)), sort_keys=True).encode()
    elif file.suffix in (".svg", ".html") or file.name == ".lock":
        return None
    return hashlib.sha256(content).hexdigest()[:24]


class Failed(Exception):
    pass


def run(hekla, place, *arguments):
    ended = subprocess.run([hekla, *arguments], cwd=place, capture_output=True, text=True)
    if ended.returncode != 0:
        raise Failed(f"hekla {' '.join(arguments)}: exit status {ended.returncode}: {ended.stderr[-500:]}")
    return ended.stdout


def killed(hekla, place, arguments, when):
    """Kills a training as soon as `when` exists."""
    process = subprocess.Popen([hekla, *arguments], cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not when.exists():
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()


def hashes_of(hekla, place, name):
    text, arguments, _ = CASES[name]
    folder = place / name
    folder.mkdir()
    if name == "masked":
        write_mask(place)
    (place / f"{name}.toml").write_text(text)
    train = ["train", f"{name}.toml", f"output.dir={name}/out", *arguments]
    run(hekla, place, *train)
    found = {}
    out = folder / "out"
    for file in sorted(out.rglob("*")):
        if file.is_file() and "cache" not in file.relative_to(out).parts and (value := hash_of(file)) is not None:
            found[str(file.relative_to(out))] = value
    # Killed after the first checkpoint and continued: the last checkpoint's tensors are the same.
    again = [f"output.dir={name}/killed" if part.startswith("output.dir=") else part for part in train]
    killed(hekla, place, again, folder / "killed" / "checkpoint-2")
    run(hekla, place, *again)
    for file in sorted(out.glob("checkpoint-*/*.safetensors")):
        other = folder / "killed" / file.relative_to(out)
        if other.exists() and other.read_bytes() != file.read_bytes():
            raise Failed(f"{name}: {file.relative_to(out)} differs after a kill and a resume")
    plan = run(hekla, place, *train, "--plan-for", "desktop", "train.max_steps=7")
    found["plan"] = hashlib.sha256(plan.encode()).hexdigest()[:24]
    found["eval"] = hashlib.sha256(json.dumps(without_measurements(json.loads(
        run(hekla, place, "eval", f"{name}.toml", f"output.dir={name}/out", "--json"))), sort_keys=True)
        .encode()).hexdigest()[:24]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hekla", help="the program, build/bin/hekla")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--store", metavar="FILE", help="write the hashes to FILE")
    group.add_argument("--compare", metavar="FILE", help="compare with the hashes in FILE")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="; ".join(CASES))
    given = parser.parse_intermixed_args()
    for name in given.cases:
        if name not in CASES:
            parser.error(f"no case '{name}'; known are {', '.join(CASES)}")
    wanted = list(given.cases or CASES)
    for name in list(wanted):
        wanted = [needed for needed in CASES[name][2] if needed not in wanted] + wanted
    hekla = os.path.abspath(given.hekla)
    stored = json.loads(pathlib.Path(given.compare).read_text()) if given.compare else {}
    if given.store and os.path.exists(given.store):
        stored = json.loads(pathlib.Path(given.store).read_text())
    problems = 0
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        write_data(place)
        for name in [name for name in CASES if name in wanted]:
            try:
                found = hashes_of(hekla, place, name)
            except Failed as failure:
                print(f"{name}: failed: {failure}", flush=True)
                problems += 1
                continue
            if given.store:
                stored[name] = found
                pathlib.Path(given.store).write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
                print(f"{name}: {len(found)} hashes", flush=True)
                continue
            if name not in stored:
                print(f"{name}: {given.compare} has no hashes of it", flush=True)
                problems += 1
                continue
            different = sorted(key for key in found.keys() | stored[name].keys() if found.get(key) != stored[name].get(key))
            problems += bool(different)
            print(f"{name}: " + ("same" if not different else "different: " + ", ".join(different)), flush=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
