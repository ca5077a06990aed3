#!/usr/bin/env python3
"""The comparisons of examples.sh, without packages.

    learns RUN SHARE             the last loss is below SHARE of the first
    teacher RUN DECAY            the averages in checkpoints follow the recursion of the weights
    greedy RUN TEXT LOGITS N     each character of TEXT after the first N has the largest logit of the row before it
    twin RUN TWIN                losses and weights are those of make.py, to 1e-5
"""
import json
import pathlib
import struct
import sys


def tensors(path):
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    found = {}
    for name, one in json.loads(data[8:8 + size]).items():
        if name != "__metadata__" and one["dtype"] == "F32":
            begin, end = one["data_offsets"]
            found[name] = struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin:8 + size + end])
    return found


def losses(run):
    lines = [json.loads(line) for line in (pathlib.Path(run) / "train_log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def farthest(a, b):
    assert len(a) == len(b), (len(a), len(b))
    return max(abs(x - y) for x, y in zip(a, b))


def learns(run, share):
    found = losses(run)
    assert found[-1] < float(share) * found[0], f"the loss goes from {found[0]} to {found[-1]}"
    print(f"loss {found[0]:.4f} to {found[-1]:.4f}")


def teacher(run, decay):
    decay, steps, worst = float(decay), 0, 0.0
    states = [tensors(pathlib.Path(run) / f"checkpoint-{step}" / "model.safetensors") for step in range(1, 13)]
    for before, after in zip(states, states[1:]):
        for name in ("words", "up", "down"):
            expected = [decay * t + (1 - decay) * w for t, w in zip(before["average." + name], before[name + ".weight"])]
            worst = max(worst, farthest(after["average." + name], expected))
            steps += 1
    assert steps == 33 and worst < 1e-6, f"{steps} averages, which differ by {worst}"
    assert farthest(states[-1]["average.up"], states[-1]["up.weight"]) > 1e-3, "the teacher is the student"
    print(f"{steps} averages, greatest difference {worst:.1e}")


def greedy(run, text, logits, first):
    vocabulary = json.loads((pathlib.Path(run) / "tokenizer.json").read_text())["model"]["vocab"]
    parallel = json.loads(pathlib.Path(logits).read_text())
    content, rows = parallel["text"], parallel["embedding"]
    assert pathlib.Path(text).read_text().rstrip("\n") == content, f"the text is not {content!r}"
    assert len(rows) == len(content) > int(first) + 8, f"{len(rows)} rows of logits for {len(content)} characters"
    for at in range(int(first), len(content)):
        row = rows[at - 1]
        best = max(range(len(row)), key=row.__getitem__)
        assert best == vocabulary[content[at]], f"character {at} of {content!r} is not what the whole row says"
    print(f"{len(content) - int(first)} characters as the whole row says: {content!r}")


def twin(run, path):
    expected = json.loads(pathlib.Path(path).read_text())
    found, weights = losses(run), tensors(pathlib.Path(run) / "model.safetensors")
    assert len(found) == 20, f"{len(found)} losses"
    worst_loss = farthest(found, expected["losses"])
    worst = max(farthest(weights[name], values) for name, values in expected["weights"].items())
    assert worst_loss < 1e-5 and worst < 1e-5, f"losses differ by {worst_loss}, weights by {worst}"
    print(f"twenty steps: losses differ by {worst_loss:.1e}, weights by {worst:.1e} from PyTorch's")


{"learns": learns, "teacher": teacher, "greedy": greedy, "twin": twin}[sys.argv[1]](*sys.argv[2:])
