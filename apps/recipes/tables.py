#!/usr/bin/env python3
"""The tables of README.md, from what `results` measured: out/results/*.json, and baselines.jsonl there (baselines.py).

    apps/recipes/baselines.py data >out/results/baselines.jsonl
    apps/recipes/tables.py out/results
"""
import json
import pathlib
import sys

folder = pathlib.Path()


def load(name: str):
    file = folder / f"{name}.json"
    return json.loads(file.read_text()) if file.exists() else None


def score(name: str, key: str, scale: float = 1.0, digits: int = 4) -> str:
    """A score with its spread over seeds, as "0.8012 ± 0.0031 (3)"."""
    found = load(name)
    if found is None:
        return "not run"
    if "scores" in found:
        one = found["scores"].get(key)
        if one is None:
            return "-"
        return f"{one['mean'] * scale:.{digits}f} ± {one['deviation'] * scale:.{digits}f} ({len(one['values'])})"
    return f"{found[key] * scale:.{digits}f}" if key in found else "-"


def table(title: str, head, rows) -> None:
    print(f"\n### {title}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + " --- |" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def baselines():
    file = folder / "baselines.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return {one["task"]: one for one in map(json.loads, lines)}


def main() -> None:
    global folder
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    base = baselines()

    def of(task: str, key: str) -> str:
        return f"{base[task][key]:.4f}" if task in base else "not run"

    percent = dict(scale=100.0, digits=1)
    table("Film reviews (SST-2), accuracy on the test split", ["model", "accuracy, %"], [
        ["most frequent label", of("SST-2, accuracy", "majority")],
        ["bag of words", of("SST-2, accuracy", "bag_of_words")],
        ["BERT from random weights", score("sst2-random", "accuracy", **percent)],
        ["BERT pre-trained, frozen", score("sst2-frozen", "accuracy", **percent)],
        ["BERT pre-trained, fine-tuned", score("sst2", "accuracy", **percent)],
        ["GPT pre-trained, read at [EXTRACT]", score("sst2-gpt", "accuracy", **percent)]])
    names = {"bert-1000": "BERT", "roberta": "RoBERTa", "spanbert": "SpanBERT", "albert": "ALBERT", "deberta": "DeBERTa",
             "xlnet": "XLNet", "distilbert": "half the BERT, taught by it", "distilbert-alone": "half the BERT, alone"}
    table("The relatives after 1,000 steps each", ["form", "validation loss", "SST-2, %"], [
        [title, score(name, "loss"), score(f"sst2-{name}", "accuracy", **percent)] for name, title in names.items()])
    table("Grammar (CoLA), Matthews' correlation on the out-of-domain sentences", ["model", "Matthews"], [
        ["most frequent label", of("CoLA, Matthews", "majority")], ["bag of words", of("CoLA, Matthews", "bag_of_words")],
        ["BERT from random weights", score("cola-random", "matthews")], ["BERT pre-trained", score("cola", "matthews")]])
    table("Two sentences (SICK), test split", ["model", "entailment, accuracy %", "relatedness, Pearson"], [
        ["most frequent label", of("SICK entailment, accuracy", "majority"), "-"],
        ["bag of words", of("SICK entailment, accuracy", "bag_of_words"), of("SICK relatedness", "bag_of_words_pearson")],
        ["BERT from random weights", score("entailment-sick-random", "accuracy", **percent),
         score("relatedness-sick-random", "pearson")],
        ["BERT pre-trained", score("entailment-sick", "accuracy", **percent), score("relatedness-sick", "pearson")],
        ["GPT pre-trained, [DELIM] between them", score("entailment-sick-gpt", "accuracy", **percent), "-"]])
    table("Parts of speech (English EWT), share of tags that are right on the test split", ["model", "tags, %"], [
        ["BERT from random weights", score("tagging-ewt-random", "accuracy", **percent)],
        ["BERT pre-trained", score("tagging-ewt", "accuracy", **percent)],
        ["ELMo's features, frozen", score("tagging-ewt-elmo", "accuracy", **percent)],
        ["word vectors, frozen", score("tagging-ewt-vectors", "accuracy", **percent)]])
    left = load("flaubert-baselines")
    table("French (FlauBERT's form)", ["what", "score"], [
        ["most frequent token", f"{left['most_frequent']:.4f}" if left else "not run"],
        ["best guess from the left neighbour", f"{left['from_the_left']:.4f}" if left else "not run"],
        ["masked tokens, accuracy", score("flaubert", "masked_accuracy")],
        ["parts of speech on Sequoia, %", score("tagging-sequoia", "accuracy", **percent)]])
    table("English to French (Tatoeba's test split)", ["model", "BLEU", "chrF", "exact"], [
        [title, score(name, "bleu", digits=2), score(name, "chrf", digits=2), score(name, "exact_match", **percent)]
        for name, title in {"translation-rnn-none": "RNN", "translation-rnn": "RNN with attention",
                            "translation-transformer": "Transformer", "translation-t5-random": "T5 from random weights",
                            "translation-t5": "T5 after span corruption",
                            "translation-bart-random": "BART from random weights",
                            "translation-bart": "BART after denoising"}.items()])
    table("Word vectors and SICK's relatedness (cosine of two sentences' means)", ["vectors", "Pearson", "Spearman"], [
        [title, score(f"likeness-{name}", "pearson"), score(f"likeness-{name}", "spearman")]
        for name, title in {"vectors-random": "random", "skip-gram": "skip-gram", "glove": "GloVe"}.items()])
    shown = load("in-context-examples")
    prefix = "right where demonstrations = "
    table("Learning in context", ["demonstrations", "right", "the best there is"], [
        [key[len(prefix):], f"{value:.3f}", f"{1 - (7 / 8) ** (int(key[len(prefix):]) + 1):.3f}"]
        for key, value in (shown or {}).items() if key.startswith(prefix)])


if __name__ == "__main__":
    main()
