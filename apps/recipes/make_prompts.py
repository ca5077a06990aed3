#!/usr/bin/env python3
"""Prompts for reinforcement learning whose right answers are known.

    apps/recipes/make_prompts.py data

echo.jsonl, echo_valid.jsonl: four letters and ">", to be repeated: {"prompt": "cafe>", "answer": "cafe"}.
sums.jsonl, sums_valid.jsonl: sums of two numbers from 10 to 99: {"prompt": "37+85=", "completion": "122"}. Every pair occurs
once, and those of sums_valid.jsonl are not in sums.jsonl.
parity_once.jsonl, parity_steps.jsonl, their _valid.jsonl and _test.jsonl: whether 10 to 16 bits, in the last of 16 places, have an odd
number of ones, as one digit or with the parity after every bit: {"prompt": "......1101000110>", "completion":
"......1001111100"}. The same bits in both; those of the valid and test files are in no other.
"""
import itertools
import json
import pathlib
import random
import sys

LETTERS = "abcdef"


def write(file: pathlib.Path, rows: list[dict]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def parities(draw: random.Random, count: int) -> list[tuple[str, str]]:
    """Bits, all different, and the parity after each of them."""
    found = {}
    while len(found) < count:
        bits = "".join(draw.choice("01") for _ in range(draw.randint(10, 16)))
        found[bits] = "".join(str(bits[: i + 1].count("1") % 2) for i in range(len(bits)))
    return [(bits.rjust(16, "."), steps.rjust(16, ".")) for bits, steps in found.items()]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    words = ["".join(letters) for letters in itertools.product(LETTERS, repeat=4)]
    sums = [(a, b) for a in range(10, 100) for b in range(10, 100)]
    for name, all_rows in (
        ("echo", [{"prompt": f"{word}>", "answer": word} for word in words]),
        ("sums", [{"prompt": f"{a}+{b}=", "completion": str(a + b)} for a, b in sums]),
    ):
        draw.shuffle(all_rows)
        held_out = 200 if name == "echo" else 500
        write(folder / f"{name}_valid.jsonl", all_rows[:held_out])
        write(folder / f"{name}.jsonl", all_rows[held_out:])
    rows = parities(draw, 21000)
    for name, first in (("once", -1), ("steps", 0)):
        all_rows = [{"prompt": f"{bits}>", "completion": steps[first:]} for bits, steps in rows]
        write(folder / f"parity_{name}_valid.jsonl", all_rows[:500])
        write(folder / f"parity_{name}_test.jsonl", all_rows[500:1000])
        write(folder / f"parity_{name}.jsonl", all_rows[1000:])


if __name__ == "__main__":
    main()
