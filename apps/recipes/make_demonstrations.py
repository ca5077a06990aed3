#!/usr/bin/env python3
"""Three families of tasks that are learnt anew from demonstrations in the prompt.

    apps/recipes/make_demonstrations.py data

Every line has a task of its own, drawn at random, and shows examples of it.

table: each of six letters has one of six digits: "c5a2c5f1". A letter's digit can be known only where it was shown before, so
  that with k demonstrations the best there is is 1 - (5/6)^(k + 1) of the answers: seen, or guessed right.
shift: a digit from 1 to 6 is followed by the digit that comes so many places later, after 6 again 1: "144763..". One
  demonstration tells the number of places.
order: three different letters are followed by the same ones in another order: "uvwwvuxyzzyx". One demonstration tells which of
  the six orders.

demonstrations.txt, demonstrations_valid.txt: lines of 26 characters of all families to train a language model on.
demonstrations_FAMILY_test.jsonl: prompts with k demonstrations and a question, 200 of each k, of other lines.
"""
import itertools
import json
import pathlib
import random
import sys

LETTERS = "abcdef"
DIGITS = "123456"
OTHERS = "uvwxyz"
LENGTH = 26  # characters of a line


# Each family returns the examples of a line: questions with their answers.
def table(draw: random.Random) -> list[tuple[str, str]]:
    entries = {letter: draw.choice(DIGITS) for letter in LETTERS}
    return [(letter, entries[letter]) for letter in draw.choices(LETTERS, k=13)]


def shift(draw: random.Random) -> list[tuple[str, str]]:
    places = draw.randrange(6)
    return [(DIGITS[i], DIGITS[(i + places) % 6]) for i in draw.choices(range(6), k=13)]


def order(draw: random.Random) -> list[tuple[str, str]]:
    places = draw.choice(list(itertools.permutations(range(3))))
    words = ["".join(draw.sample(OTHERS, 3)) for _ in range(4)]
    return [(word, "".join(word[i] for i in places)) for word in words]


FAMILIES = (table, shift, order)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    for name, lines in (("demonstrations.txt", 90000), ("demonstrations_valid.txt", 900)):
        with (folder / name).open("w") as text:
            for _ in range(lines):
                text.write("".join(q + a for q, a in draw.choice(FAMILIES)(draw)).ljust(LENGTH, ".") + "\n")
    for family in FAMILIES:
        with (folder / f"demonstrations_{family.__name__}_test.jsonl").open("w") as test:
            for shown in range(len(family(draw))):
                for _ in range(200):
                    *examples, (question, answer) = family(draw)[: shown + 1]
                    prompt = "\n" + "".join(q + a for q, a in examples) + question
                    test.write(json.dumps({"prompt": prompt, "completion": answer, "demonstrations": shown}) + "\n")


if __name__ == "__main__":
    main()
