#!/usr/bin/env python3
"""Data for the generated tasks of apps/tasks.

    apps/recipes/make_tasks.py data

Writes data/tasks/NAME.jsonl: 200 rows each, the same ones every time.

arithmetic: sums and differences of numbers of one to three digits.
copying: short sequences of words to be written again.
negation: questions about what an animal can or cannot do, with and without "not".
modus_tollens: a rule and what is observed; whether the conclusion follows.
quote_repetition: a known line of Shakespeare whose last word was changed; the changed line is to be repeated.
"""
import json
import pathlib
import random
import sys

ROWS = 200
WORDS = "apple river stone cloud green seven table light paper winter horse music small bridge yellow garden".split()
ANIMALS = {"bird": ("fly", "bark"), "fish": ("swim", "sing"), "dog": ("bark", "fly"), "cat": ("climb", "talk"),
           "horse": ("gallop", "fly"), "frog": ("jump", "read"), "bee": ("sting", "write"), "snake": ("crawl", "walk")}
RULES = [("it rains", "the street is wet"), ("the alarm rings", "the dog barks"), ("Anna is at home", "the light is on"),
         ("the tank is empty", "the car stops"), ("it is Sunday", "the shop is closed"), ("the oven is on", "the kitchen is warm"),
         ("Tom is ill", "Tom stays in bed"), ("the key is lost", "the door is locked")]
# The line, and the word that takes the place of the last one.
QUOTES = [("To be, or not to be, that is the", "question", "river"), ("All the world's a", "stage", "table"),
          ("If music be the food of love, play", "on", "cards"), ("Now is the winter of our", "discontent", "garden"),
          ("Friends, Romans, countrymen, lend me your", "ears", "horse"), ("Some are born", "great", "green"),
          ("The course of true love never did run", "smooth", "yellow"), ("Shall I compare thee to a summer's", "day", "stone"),
          ("Good night, good night! Parting is such sweet", "sorrow", "music"), ("Cowards die many times before their", "deaths", "bridges"),
          ("The lady doth protest too", "much", "small"), ("Brevity is the soul of", "wit", "paper")]


def arithmetic(draw: random.Random) -> dict:
    digits = draw.randint(1, 3)
    a, b = (draw.randrange(10 ** (digits - 1), 10**digits) for _ in range(2))
    if draw.random() < 0.5:
        return {"question": f"What is {a} plus {b}?", "answer": str(a + b), "digits": digits}
    a, b = max(a, b), min(a, b)
    return {"question": f"What is {a} minus {b}?", "answer": str(a - b), "digits": digits}


def copying(draw: random.Random) -> dict:
    return {"words": " ".join(draw.choices(WORDS, k=draw.randint(2, 8)))}


def negation(draw: random.Random) -> dict:
    animal, (can, cannot) = draw.choice(list(ANIMALS.items()))
    negated = draw.random() < 0.5
    choices = [can, cannot]
    draw.shuffle(choices)
    question = f"Which of these can a {animal} {'not ' if negated else ''}do?"
    return {"question": question, "choices": choices, "answer": cannot if negated else can, "negated": negated}


def modus_tollens(draw: random.Random) -> dict:
    cause, effect = draw.choice(RULES)
    form = draw.choice(["modus tollens", "modus ponens", "affirmed effect", "denied cause"])
    observed, concluded, follows = {
        "modus tollens": (f"It is not true that {effect}", f"It is not true that {cause}", True),
        "modus ponens": (f"It is true that {cause}", f"It is true that {effect}", True),
        "affirmed effect": (f"It is true that {effect}", f"It is true that {cause}", False),
        "denied cause": (f"It is not true that {cause}", f"It is not true that {effect}", False)}[form]
    return {"rule": f"If {cause}, then {effect}", "observed": observed, "concluded": concluded,
            "answer": "Yes" if follows else "No", "form": form}


def quote_repetition(draw: random.Random) -> dict:
    line, known, changed = draw.choice(QUOTES)
    before = " ".join(draw.choices(WORDS, k=3))
    return {"before": before, "line": line, "changed": changed, "known": known}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]) / "tasks"
    folder.mkdir(parents=True, exist_ok=True)
    for make in (arithmetic, copying, negation, modus_tollens, quote_repetition):
        draw = random.Random(make.__name__)
        rows = [json.dumps(make(draw)) for _ in range(ROWS)]
        (folder / f"{make.__name__}.jsonl").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
