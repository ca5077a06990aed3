#!/usr/bin/env python3
"""What stands beside the tables of README.md: the most frequent answer, and a bag of words.

    baselines.py data

A bag of words: counts of words and of pairs of neighbors into logistic (ridge) regression, whose strength is chosen on the
validation split; for pairs of sentences the words of both, those that both have, and those of one alone. Needs scikit-learn
and SciPy.
"""
import json
import pathlib
import sys

import numpy
import scipy.sparse
import scipy.stats
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, matthews_corrcoef


def table(file: pathlib.Path, columns, header: bool):
    lines = file.read_text(encoding="utf-8").splitlines()[1 if header else 0:]
    return [[line.split("\t")[c] for c in columns] for line in lines]


def words_of(texts):
    vectorizer = CountVectorizer(ngram_range=(1, 2), min_df=1, token_pattern=r"[^ ]+", lowercase=True, binary=True)
    return vectorizer.fit(texts)


def features(vectorizer, rows, pair: bool):
    first = vectorizer.transform([row[0] for row in rows])
    if not pair:
        return first
    second = vectorizer.transform([row[1] for row in rows])
    both = first.multiply(second)
    shares = numpy.asarray(both.sum(1) / (first.sum(1) + second.sum(1) + 1e-9))
    return scipy.sparse.hstack([first + second, both, (first - both), (second - both), scipy.sparse.csr_matrix(shares)]).tocsr()


def classes(name, train, valid, test, pair, score):
    vectorizer = words_of([text for row in train for text in row[:-1]])
    x, y = features(vectorizer, train, pair), [row[-1] for row in train]
    best = max((LogisticRegression(C=c, max_iter=2000).fit(x, y) for c in (0.03, 0.1, 0.3, 1.0, 3.0)),
               key=lambda m: score([row[-1] for row in valid], m.predict(features(vectorizer, valid, pair))))
    truth = [row[-1] for row in test]
    most = max(set(y), key=y.count)
    print(json.dumps({"task": name, "majority": round(score(truth, [most] * len(truth)), 4),
                      "bag_of_words": round(score(truth, best.predict(features(vectorizer, test, pair))), 4)}))


def numbers(name, train, valid, test):
    vectorizer = words_of([text for row in train for text in row[:-1]])
    x, y = features(vectorizer, train, True), [float(row[-1]) for row in train]
    pearson = lambda rows, m: scipy.stats.pearsonr([float(r[-1]) for r in rows], m.predict(features(vectorizer, rows, True)))[0]
    best = max((Ridge(alpha=a).fit(x, y) for a in (1.0, 3.0, 10.0, 30.0)), key=lambda m: pearson(valid, m))
    print(json.dumps({"task": name, "bag_of_words_pearson": round(pearson(test, best), 4)}))


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    data = pathlib.Path(sys.argv[1])
    sst2 = [table(data / "sst2" / f"{part}.tsv", (0, 1), False) for part in ("train", "dev", "test")]
    classes("SST-2, accuracy", *sst2, False, accuracy_score)
    cola = [table(data / "cola" / f"{part}.tsv", (3, 1), False) for part in ("in_domain_train", "in_domain_dev", "out_of_domain_dev")]
    classes("CoLA, Matthews", *cola, False, matthews_corrcoef)
    files = [data / "sick" / f"SICK_{part}.txt" for part in ("train", "trial", "test_annotated")]
    classes("SICK entailment, accuracy", *[table(f, (1, 2, 4), True) for f in files], True, accuracy_score)
    numbers("SICK relatedness", *[table(f, (1, 2, 3), True) for f in files])


if __name__ == "__main__":
    main()
