#!/usr/bin/env python3
"""The tables of README.md, from what `results` measured: out/results/*.json, and baselines.jsonl there (baselines.py).

    apps/recipes/baselines.py data >out/results/baselines.jsonl
    apps/recipes/tables.py out/results apps/recipes/README.md

Puts each table between its marks in the file, "<!-- NAME -->" and "<!-- end -->", where what was not measured this time stays
as it is; without a file, prints them all.
"""
import json
import pathlib
import statistics
import sys

folder = pathlib.Path()
NOT_RUN = "not measured"


def load(name: str):
    file = folder / f"{name}.json"
    return json.loads(file.read_text()) if file.exists() else None


def score(name: str, key: str, scale: float = 1.0, digits: int = 4) -> str:
    """A score; over seeds with its deviation, as "0.8012 ± 0.0031"."""
    found = load(name)
    if found is None:
        return NOT_RUN
    if "scores" in found:
        one = found["scores"].get(key)
        if one is None:
            return "-"
        return f"{one['mean'] * scale:.{digits}f} ± {one['deviation'] * scale:.{digits}f}"
    return f"{found[key] * scale:.{digits}f}" if key in found else "-"


def table(head, rows) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def baseline(task: str, key: str, scale: float = 1.0, digits: int = 4) -> str:
    file = folder / "baselines.jsonl"
    for line in file.read_text().splitlines() if file.exists() else []:
        one = json.loads(line)
        if one["task"] == task:
            return f"{one[key] * scale:.{digits}f}"
    return NOT_RUN


def tables() -> dict:
    percent = dict(scale=100.0, digits=1)
    made = {}
    made["sst2"] = table(["model", "right, %"], [
        ["most frequent label", baseline("SST-2, accuracy", "majority", **percent)],
        ["bag of words", baseline("SST-2, accuracy", "bag_of_words", **percent)],
        ["BERT from random weights", score("sst2-random", "accuracy", **percent)],
        ["BERT pre-trained, frozen: a head on the mean of its features", score("sst2-frozen", "accuracy", **percent)],
        ["BERT pre-trained, frozen: a head on [CLS]", score("sst2-frozen-first", "accuracy", **percent)],
        ["BERT pre-trained, all of it trained", score("sst2", "accuracy", **percent)],
        ["GPT pre-trained, read at [EXTRACT]", score("sst2-gpt", "accuracy", **percent)]])
    names = {"bert-short": "BERT", "roberta": "RoBERTa", "spanbert": "SpanBERT", "albert": "ALBERT", "deberta": "DeBERTa",
             "xlnet": "XLNet", "distilbert": "DistilBERT, taught by the BERT above",
             "distilbert-alone": "the same student without a teacher"}
    made["relatives"] = table(["form", "masked tokens that are right, %", "tags that are right, %"], [
        [title, score(name, "masked_accuracy", **percent), score(f"tagging-{name}", "accuracy", **percent)]
        for name, title in names.items()])
    made["cola"] = table(["model", "Matthews"], [
        ["most frequent label", baseline("CoLA, Matthews", "majority")],
        ["bag of words", baseline("CoLA, Matthews", "bag_of_words")],
        ["BERT from random weights", score("cola-random", "matthews")], ["BERT pre-trained", score("cola", "matthews")]])
    made["sick"] = table(["model", "entailment, right, %", "relatedness, Pearson"], [
        ["most frequent label", baseline("SICK entailment, accuracy", "majority", **percent), "-"],
        ["bag of words", baseline("SICK entailment, accuracy", "bag_of_words", **percent),
         baseline("SICK relatedness", "bag_of_words_pearson")],
        ["BERT from random weights", score("entailment-sick-random", "accuracy", **percent),
         score("relatedness-sick-random", "pearson")],
        ["BERT pre-trained", score("entailment-sick", "accuracy", **percent), score("relatedness-sick", "pearson")],
        ["GPT pre-trained, [DELIM] between the two", score("entailment-sick-gpt", "accuracy", **percent), "-"]])
    made["tagging"] = table(["model", "tags that are right, %"], [
        ["BERT from random weights", score("tagging-ewt-random", "accuracy", **percent)],
        ["BERT pre-trained", score("tagging-ewt", "accuracy", **percent)],
        ["word vectors (skip-gram), frozen", score("tagging-ewt-vectors", "accuracy", **percent)],
        ["the word vectors of ELMo's language model, frozen", score("tagging-ewt-elmo-words", "accuracy", **percent)],
        ["ELMo's features, frozen", score("tagging-ewt-elmo", "accuracy", **percent)]])
    left = load("flaubert-baselines")
    made["french"] = table(["what", "right, %"], [
        ["masked tokens: the most frequent one", f"{left['most_frequent'] * 100:.1f}" if left else NOT_RUN],
        ["masked tokens: the best guess from the left neighbor",
         f"{left['from_the_left'] * 100:.1f}" if left else NOT_RUN],
        ["masked tokens: FlauBERT's form", score("flaubert", "masked_accuracy", **percent)],
        ["parts of speech on Sequoia, fine-tuned", score("tagging-sequoia", "accuracy", **percent)]])
    made["translation"] = translations({"translation-rnn-none": "RNN", "translation-rnn": "RNN with attention",
                                        "translation-transformer": "Transformer"})
    made["transfer"] = translations({"translation-t5-random": "T5 from random weights",
                                     "translation-t5": "T5 after span corruption",
                                     "translation-bart-random": "BART from random weights",
                                     "translation-bart": "BART after denoising"})
    made["vectors"] = table(["vectors", "Pearson", "Spearman"], [
        [title, score(f"likeness-{name}", "pearson"), score(f"likeness-{name}", "spearman")]
        for name, title in {"vectors-random": "random", "skip-gram": "skip-gram", "glove": "GloVe"}.items()])
    made["neighbors"] = neighbors()
    made["samples"] = samples()
    # Parameters are % of all of the tagger's (1,836,177).
    made["houlsby"] = table(["what is trained", "parameters, %", "tags that are right, %"], [
        [title, share, score(name, "accuracy", **percent)] for name, title, share in [
            ("tagging-ewt", "all of it", "100"),
            ("tagging-ewt-adapter", "bottlenecks, norms, head", "3.9"),
            ("tagging-ewt-lora", "LoRA of rank 8, norms, head", "4.3"),
            ("tagging-ewt-frozen", "the head", "0.1")]])
    made["fusion"] = table(["what is trained", "EWT, tags that are right", "SICK, entailment that is right"], [
        [title, score(f"{own}tagging-ewt{fused}", "accuracy", **percent),
         score(f"{own}entailment-sick{fused}", "accuracy", **percent)]
        for own, fused, title in [("few-", "", "the own adapter"), ("", "-fusion", "fusion with three others")]])
    made["tickets"] = tickets()
    made["in-context"] = in_context()
    made["parity"] = table(["what is trained", "right, %"], [
        ["the answer at once", score("parity-once", "exact_match", **percent)],
        ["the parity after every bit, all of them right", score("parity-steps", "exact_match", **percent)]])
    made["grpo"] = sums()
    made["reviews-pairs"] = pairs()
    made["reviews"] = frontier()
    made["reviews-tax"] = tax()
    made["ladder"] = targets()
    made["ladder-laws"] = laws()
    return made


def spread(values) -> str:
    """Mean and sample deviation, as "0.801 ± 0.003"."""
    if len(values) < 2:
        return f"{values[0]:.3f}" if values else NOT_RUN
    return f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}"


def in_context() -> str:
    """The share of right answers of each family by the number of demonstrations, over seeds."""
    found = {}
    for family in ("table", "shift", "order"):
        for seed in range(1, 10):
            for key, value in (load(f"in-context-{family}-{seed}") or {}).items():
                if key.startswith("right where demonstrations = "):
                    found.setdefault(int(key.split(" = ")[1]), {}).setdefault(family, []).append(value)
    if not found:
        return NOT_RUN
    return table(["demonstrations", "table", "the best there is", "shift", "order"], [
        [str(k), spread(of.get("table", [])), f"{1 - (5 / 6) ** (k + 1):.3f}"] +
        [spread(of[family]) if family in of else "" for family in ("shift", "order")]
        for k, of in sorted(found.items())])


def sums() -> str:
    """The share of right sums before, within and after GRPO, for each seed."""
    names = {"tuned": "0", "200": "200", "400": "400"}
    columns = {"greedy": "most likely", "pass@1": "drawn", "vote": "vote of 16", "pass@4": "best of 4", "pass@16": "best of 16"}
    rows = []
    for seed in range(1, 10):
        for step, title in names.items():
            if found := load(f"grpo-{step}-{seed}"):
                rows.append([str(seed), title] + [f"{found[key]:.3f}" for key in columns])
    return table(["seed", "step"] + list(columns.values()), rows) if rows else NOT_RUN


def each(name: str):
    """What `results` measured of each seed."""
    return [found for seed in range(1, 10) if (found := load(f"{name}-{seed}"))]


def pairs() -> str:
    found = [one["accuracy"] for one in each("reviews-reward")]
    return f"Right: {spread(found)}." if found else NOT_RUN


def frontier() -> str:
    """KL divergence, the words' reward and the reward model's of each way, over seeds."""
    ways = {}
    for found in each("reviews-frontier"):
        for series in found["series"]:
            points = series["points"]
            if series["kind"] == "best_of":
                for point in points:
                    name = f"best of {point['n']}" if point["n"] > 1 else "fine-tuned"
                    ways.setdefault(name, []).append(point)
                continue
            ways.setdefault(series["name"], []).append(points[-1])
            if series["name"] == "PPO without KL":
                ways.setdefault("PPO without KL, where the words' reward is highest", []).append(
                    max(points, key=lambda point: point["gold"]))
    return table(["", "KL, nats", "words (gold)", "reward model"], [
        [name] + [spread([point[key] for point in points]) for key in ("kl", "gold", "trained")]
        for name, points in sorted(ways.items(), key=lambda way: way[0] != "fine-tuned")]) if ways else NOT_RUN


def tax() -> str:
    """What the models can do besides, before and after, over seeds."""
    names = {"tuned": "fine-tuned", "ppo": "PPO", "free": "PPO without KL", "dpo": "DPO"}
    columns = {("wikitext", "bits_per_byte,none"): "Wikipedia, bits a byte", ("reviews", "acc,none"): "endings, right",
               ("reviews", "brier_score,none"): "Brier", ("reviews", "ece,none"): "ECE",
               ("sst2", "acc,none"): "SST-2, right", ("cola", "acc,none"): "CoLA, right"}
    rows = [[title] + [spread([one["results"][task][key] for one in found]) for task, key in columns]
            for name, title in names.items() if (found := each(f"reviews-{name}"))]
    return table(["", *columns.values()], rows) if rows else NOT_RUN


def targets() -> str:
    """The held-out runs of the ladder, as predicted by the law that is best in the backtest, and by others."""
    found = load("ladder")
    if not found:
        return NOT_RUN
    return table(["run", "parameters", "bytes", "FLOPs", "predicted", "95 %", "measured", "error, %"], [
        [one["name"].split("-")[0], f"{point['parameters']:,.0f}", f"{point['tokens']:,.0f}", f"{point['flops']:.2g}",
         f"{one['predicted']:.4f}", f"{one['low']:.3f} to {one['high']:.3f}", f"{one['loss']:.4f}", f"{one['error'] * 100:+.2f}"]
        for one in found["held_out"] for point in found["points"] if point["name"] == one["name"]])


def laws() -> str:
    """The laws of the ladder: how well each predicts its larger runs from the others, and the targets."""
    found = load("ladder")
    if not found:
        return NOT_RUN
    held = [f"{one['name'].split('-')[0]}, %" for one in found["held_out"]]
    return table(["law", "over parameters", "larger runs of the ladder, %"] + held, [
        [fit["law"], "without embeddings" if fit["without_embeddings"] else "all", f"{fit['backtest'] * 100:.2f}"] +
        [f"{error * 100:+.2f}" for error in fit["held_out_errors"]] for fit in found["fits"]])


def tickets() -> str:
    """Validation losses by share of the weights, over seeds."""
    found = load("tickets")
    if found is None:
        return NOT_RUN
    rounds = {}
    for one in found["rounds"]:
        rounds.setdefault(one["round"], {"share": one["share"]})[one["kind"]] = f"{one['loss']:.3f} ± {one['deviation']:.3f}"
    return table(["weights, %", "the largest, rewound", "the same, new random values", "as many at random, rewound"], [
        [f"{of['share'] * 100:.1f}"] + [of.get(kind, "-") for kind in ("ticket", "random_init", "random_mask")]
        for _, of in sorted(rounds.items())])


def translations(names) -> str:
    percent = dict(scale=100.0, digits=1)
    return table(["model", "BLEU", "chrF", "whole sentences, %"], [
        [title, score(name, "bleu", digits=2), score(name, "chrf", digits=2), score(name, "exact_match", **percent)]
        for name, title in names.items()])


def samples(count: int = 6) -> str:
    """What the three networks made of the first sentences of the test split."""
    rows = {}
    for name, title in {"translation-rnn-none": "RNN", "translation-rnn": "with attention",
                        "translation-transformer": "Transformer"}.items():
        file = folder / f"{name}.jsonl"
        for line in file.read_text().splitlines()[:count] if file.exists() else []:
            one = json.loads(line)
            rows.setdefault((one["source"], one["target"]), {})[title] = one["said"]["text"]
    if not rows:
        return NOT_RUN
    return table(["English", "French", "RNN", "with attention", "Transformer"],
                 [[source, target] + [said.get(title, "") for title in ("RNN", "with attention", "Transformer")]
                  for (source, target), said in rows.items()])


def neighbors() -> str:
    """The words nearest to each of twenty, by both kinds of vectors, as `hekla embed --nearest` wrote them."""
    found = {}
    for name in ("skip-gram", "glove"):
        file = folder / f"neighbors-{name}.jsonl"
        for line in file.read_text().splitlines() if file.exists() else []:
            one = json.loads(line)
            found.setdefault(one["word"], {})[name] = ", ".join(near["token"] for near in one["nearest"])
    if not found:
        return NOT_RUN
    return table(["word", "skip-gram", "GloVe"],
                 [[word, near.get("skip-gram", ""), near.get("glove", "")] for word, near in found.items()])


def keep(old: str, new: str) -> str:
    """`new`, with what `old` says in its rows of the same name where nothing was measured."""
    if new == NOT_RUN:
        return old
    said = {line.split(" | ")[0]: line for line in old.splitlines()}
    lines = []
    for line in new.splitlines():
        cells = line.split(" | ")
        before = said.get(cells[0], line).split(" | ")
        if len(before) == len(cells):
            cells = [b if NOT_RUN in c and NOT_RUN not in b else c for b, c in zip(before, cells)]
        lines.append(" | ".join(cells))
    return "\n".join(lines)


def main() -> None:
    global folder
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    made = tables()
    if len(sys.argv) == 2:
        for name, text in made.items():
            print(f"\n### {name}\n\n{text}")
        return
    page = pathlib.Path(sys.argv[2])
    text = page.read_text(encoding="utf-8")
    for name, content in made.items():
        mark = f"<!-- {name} -->"
        if mark not in text:
            sys.exit(f"tables.py: {page} has no {mark}")
        begin = text.index(mark) + len(mark)
        end = text.index("<!-- end -->", begin)
        text = text[:begin] + "\n" + keep(text[begin:end].strip(), content) + "\n" + text[end:]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
