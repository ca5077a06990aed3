#!/usr/bin/env python3
"""Film reviews to finish, and a judge of what was written that can be computed.

    apps/recipes/make_corpora SETS data
    apps/recipes/make_reviews.py data

reviews.jsonl, reviews_valid.jsonl: sentences of data/sst2/train.tsv and dev.tsv with 8 words or more, cut after 4 to 8 of them:
{"prompt": "a gorgeous , witty", "completion": " , seductive movie"}.
reviews_endings.jsonl: the validation rows, each with the endings of three others that are about as long, for
apps/tasks/reviews.toml.
reviews_words.tsv: words of the training sentences that occur three times or more, and the log odds that a sentence with the word is
positive (naive Bayes with one more of each). The sum over the words of a text is its log odds, for the reward `lexicon`. Its accuracy
on data/sst2/test.tsv is printed.
"""
import collections
import json
import math
import pathlib
import random
import re
import sys

WORD = re.compile(r"[\w']+")


def sentences(file: pathlib.Path) -> list[tuple[str, int]]:
    rows = (line.split("\t") for line in file.read_text().splitlines())
    return [(text, int(label)) for text, label in rows]


def log_odds(rows: list[tuple[str, int]]) -> dict[str, float]:
    counts = (collections.Counter(), collections.Counter())
    for text, label in rows:
        counts[label].update(set(WORD.findall(text)))
    texts = [sum(label == side for _, label in rows) for side in (0, 1)]
    often = sorted(word for word in counts[0] | counts[1] if counts[0][word] + counts[1][word] >= 3)
    return {word: math.log((counts[1][word] + 1) / (texts[1] + 2) * (texts[0] + 2) / (counts[0][word] + 1)) for word in often}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    draw = random.Random(1)
    for split, name in (("train", "reviews"), ("dev", "reviews_valid")):
        rows = []
        for text, _ in sentences(folder / "sst2" / f"{split}.tsv"):
            words = text.split(" ")
            if len(words) < 8:
                continue
            cut = draw.randint(4, min(8, len(words) - 2))
            rows.append({"prompt": " ".join(words[:cut]), "completion": " " + " ".join(words[cut:])})
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    endings = []
    for n, row in enumerate(rows):
        length = len(row["completion"])
        alike = sorted((other for other in range(len(rows)) if other != n), key=lambda m: abs(len(rows[m]["completion"]) - length))
        others = draw.sample(alike[:12], 3)
        place = draw.randrange(4)
        choices = [rows[other]["completion"].strip() for other in others]
        choices.insert(place, row["completion"].strip())
        endings.append({"prompt": row["prompt"], "endings": choices, "right": place})
    (folder / "reviews_endings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in endings))
    odds = log_odds(sentences(folder / "sst2" / "train.tsv"))
    (folder / "reviews_words.tsv").write_text("".join(f"{word}\t{value:.4f}\n" for word, value in odds.items()))
    test = sentences(folder / "sst2" / "test.tsv")
    right = sum((sum(odds.get(word, 0.0) for word in WORD.findall(text)) > 0) == label for text, label in test)
    print(f"{len(odds)} words tell {right / len(test):.3f} of {len(test)} sentences right")


if __name__ == "__main__":
    main()
