#!/usr/bin/env python3
"""A family of tasks that is learnt anew from demonstrations in the prompt.

    apps/recipes/make_demonstrations.py data

Every line has a task of its own: a table that gives each of six letters one of six digits, drawn at random. The line shows
entries of the table, letters drawn with replacement: "c5a2c5f1". A letter's digit can be known only where it was shown
before, so that with k demonstrations the best there is is 1 - (5/6)^(k + 1) of the answers: seen, or guessed right.

demonstrations.txt, demonstrations_valid.txt: lines of 13 entries to train a language model on.
demonstrations_test.jsonl: prompts with k = 0 to 12 demonstrations and a question, 200 of each, over other tables.
"""
import json
import pathlib
import random
import sys

LETTERS = "abcdef"
DIGITS = "123456"
ENTRIES = 13


def line(draw: random.Random) -> list[str]:
    table = {letter: draw.choice(DIGITS) for letter in LETTERS}
    return [f"{letter}{table[letter]}" for letter in draw.choices(LETTERS, k=ENTRIES)]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    for name, lines in (("demonstrations.txt", 40000), ("demonstrations_valid.txt", 500)):
        (folder / name).write_text("".join("".join(line(draw)) + "\n" for _ in range(lines)))
    with (folder / "demonstrations_test.jsonl").open("w") as test:
        for shown in range(ENTRIES):
            for _ in range(200):
                entries = line(draw)[: shown + 1]
                prompt = "\n" + "".join(entries)[:-1]
                test.write(json.dumps({"prompt": prompt, "completion": entries[-1][-1], "demonstrations": shown}) + "\n")


if __name__ == "__main__":
    main()
