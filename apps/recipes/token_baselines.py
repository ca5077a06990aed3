#!/usr/bin/env python3
"""What stands beside masked-token accuracy: the most frequent token, and the best guess from the left neighbor alone.

    token_baselines.py TOKENIZER TRAIN.txt VALID.txt [HEKLA]

TOKENIZER is a folder with a tokenizer; HEKLA the program (build/bin/hekla). Each line is a text of its own; the guess from
the left is the token that most often follows the one before it in TRAIN, at a line's beginning the token that most often
begins one. One line of JSON.
"""
import collections
import json
import subprocess
import sys


def encoded(hekla: str, tokenizer: str, file: str):
    """The ids of every line: the whole file is encoded at once, and cut where its lines end."""
    text = open(file, encoding="utf-8").read()
    said = json.loads(subprocess.run([hekla, "tokenize", "encode", tokenizer, file, "--json"], check=True,
                                     stdout=subprocess.PIPE).stdout)
    ends, at = [], 0
    for line in text.split("\n"):
        at += len(line.encode()) + 1
        ends.append(at)
    rows, line = [[]], 0
    for token, (begin, _) in zip(said["ids"], said["bytes"]):
        while begin >= ends[line]:
            line += 1
            rows.append([])
        rows[-1].append(token)
    return [row for row in rows if row]


def main() -> None:
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    hekla = sys.argv[4] if len(sys.argv) == 5 else "build/bin/hekla"
    alone, after = collections.Counter(), collections.defaultdict(collections.Counter)
    for row in encoded(hekla, sys.argv[1], sys.argv[2]):
        alone.update(row)
        for left, token in zip([None] + row, row):
            after[left][token] += 1
    most = alone.most_common(1)[0][0]
    guess = {left: counts.most_common(1)[0][0] for left, counts in after.items()}
    count = frequent = neighbor = 0
    for row in encoded(hekla, sys.argv[1], sys.argv[3]):
        for left, token in zip([None] + row, row):
            count += 1
            frequent += token == most
            neighbor += token == guess.get(left, most)
    print(json.dumps({"tokens": count, "most_frequent": frequent / count, "from_the_left": neighbor / count}))


if __name__ == "__main__":
    main()
