#!/usr/bin/env python3
"""The pictures of README.md, from what `results` measured: curves of the runs' logs, and the alignment maps of its reports.

    apps/recipes/pictures.py out apps/recipes/pictures

A picture of nothing is not written.
"""
import json
import math
import pathlib
import re
import sys

COLOURS = ["#0b6e99", "#c2571a", "#3a7d2c", "#7a4fa3", "#a3303f", "#7a6a1f", "#444c55", "#2a9d8f"]


def tidy(span: float, count: int) -> float:
    """1, 2 or 5 times a power of ten, so that about `count` of it fill `span`."""
    rough = span / count
    power = 10.0 ** math.floor(math.log10(rough))
    return next((f * power for f in (1, 2, 5) if f * power >= rough), 10 * power)


def chart(title: str, axes, curves) -> str:
    """curves: (name, [(x, y)...], whether it is dashed)."""
    width, height, left, right, top, bottom = 820, 400, 60, 190, 40, 44
    xs = [x for _, points, _ in curves for x, _ in points]
    ys = [y for _, points, _ in curves for _, y in points]
    low_x, high_x, low, high = min(xs), max(xs), min(ys), max(ys)
    margin = (high - low) * 0.05 or 1.0
    low, high = low - margin, high + margin

    def x(value):
        return left + (value - low_x) / ((high_x - low_x) or 1) * (width - left - right)

    def y(value):
        return top + (high - value) / (high - low) * (height - top - bottom)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{left}" y="22" font-size="15" fill="#222">{title}</text>']
    step = tidy(high - low, 6)
    for k in range(math.ceil(low / step), math.floor(high / step) + 1):
        at = y(k * step)
        out.append(f'<path d="M{left} {at:.1f}H{width - right}" stroke="#e4e4e4"/>')
        out.append(f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end" fill="#555">{k * step:.6g}</text>')
    step = tidy((high_x - low_x) or 1, 8)
    for k in range(math.ceil(low_x / step), math.floor(high_x / step) + 1):
        out.append(f'<text x="{x(k * step):.1f}" y="{height - bottom + 18}" text-anchor="middle" fill="#555">'
                   f'{k * step:.6g}</text>')
    out.append(f'<text x="{(left + width - right) / 2}" y="{height - 8}" text-anchor="middle" fill="#555">{axes[0]}</text>')
    out.append(f'<text transform="translate(14,{(top + height - bottom) / 2}) rotate(-90)" text-anchor="middle" '
               f'fill="#555">{axes[1]}</text>')
    for n, (name, points, dashed) in enumerate(curves):
        colour = COLOURS[n % len(COLOURS)]
        path = "M" + "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in points)
        out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.7" stroke-linejoin="round"'
                   + (' stroke-dasharray="5 4"' if dashed else "") + "/>")
        at = top + 10 + 20 * n
        out.append(f'<path d="M{width - right + 14} {at}h20" stroke="{colour}" stroke-width="2.5"'
                   + (' stroke-dasharray="5 4"' if dashed else "") + "/>")
        out.append(f'<text x="{width - right + 40}" y="{at + 4}" fill="#222">{name}</text>')
    return "\n".join(out + ["</svg>", ""])


def logged(run: pathlib.Path, key: str):
    """[(step, value)], in order; of steps that a run took twice, the last."""
    log = run / "train_log.jsonl"
    found = {}
    for line in log.read_text().splitlines() if log.exists() else []:
        record = json.loads(line)
        if isinstance(record.get(key), (int, float)):
            found[record["step"]] = record[key]
    return sorted(found.items())


def smooth(points, count: int = 120):
    """So many means of neighboring points."""
    size = max(1, len(points) // count)
    groups = [points[i : i + size] for i in range(0, len(points) - size + 1, size)]
    return [(sum(a for a, _ in g) / len(g), sum(b for _, b in g) / len(g)) for g in groups]


def losses(out: pathlib.Path, names):
    curves = [(title, smooth(logged(out / name, "loss")), False) for name, title in names.items()]
    return [curve for curve in curves if len(curve[1]) > 1]


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    out, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    axes = ("step", "training loss, nats a token")
    charts = {
        "pretraining": ("Pre-training", {"bert-mlm": "BERT: masked", "flaubert": "FlauBERT: masked", "gpt": "GPT: next",
                                         "bilm": "biLM: next and last", "t5-spans": "T5: spans",
                                         "bart-denoising": "BART: noise"}),
        "relatives": ("BERT's relatives, a sixteenth of the steps", {"bert-short": "BERT", "roberta": "RoBERTa",
                                                                   "albert": "ALBERT", "deberta": "DeBERTa",
                                                                   "xlnet": "XLNet: permutation",
                                                                   "spanbert": "SpanBERT: two terms",
                                                                   "distilbert-alone": "DistilBERT, alone"}),
        "translation": ("English to French", {"translation-rnn-none": "RNN", "translation-rnn": "RNN with attention",
                                              "translation-transformer": "Transformer"}),
        "transfer": ("Text to text: English to French", {"translation-t5-random": "T5, random",
                                                         "translation-t5": "T5, after spans",
                                                         "translation-bart-random": "BART, random",
                                                         "translation-bart": "BART, after noise"}),
    }
    for name, (title, runs) in charts.items():
        if curves := losses(out, runs):
            (folder / f"{name}.svg").write_text(chart(title, axes, curves))
    curves = []
    for family in ("table", "shift", "order"):
        said = {}
        for scored in sorted((out / "results").glob(f"in-context-{family}-[0-9].json")):
            for key, value in json.loads(scored.read_text()).items():
                if key.startswith("right where demonstrations = "):
                    said.setdefault(int(key.split(" = ")[1]), []).append(value)
        if said:
            curves.append((family, [(k, sum(v) / len(v)) for k, v in sorted(said.items())], False))
            if family == "table":
                curves.append(("table, the best there is", [(k, 1 - (5 / 6) ** (k + 1)) for k in sorted(said)], True))
    if curves:
        (folder / "in-context.svg").write_text(
            chart("Learning in context", ("demonstrations in the prompt", "share of right answers"), curves))
    runs = sorted(out.glob("grpo-[0-9]"))
    if curves := [(f"seed {run.name[5:]}", points, False) for run in runs if len(points := logged(run, "eval_reward")) > 1]:
        (folder / "grpo.svg").write_text(
            chart("Sums that were never trained on, by GRPO", ("step", "share of right answers"), curves))
    if (drawn := out / "ladder" / "scaling.svg").exists():
        (folder / "ladder.svg").write_text(drawn.read_text())
    if drawn := sorted(out.glob("reviews-frontier-[0-9]/frontier.svg")):
        (folder / "reviews-frontier.svg").write_text(re.sub(r"(Reward and distance: )[^\s<]*/", r"\1", drawn[0].read_text()))
    for name in ("translation-rnn", "translation-transformer"):
        report = out / "results" / f"{name}.html"
        found = re.search(r'<svg class="alignment".*?</svg>', report.read_text(), re.S) if report.exists() else None
        if found:
            (folder / f"alignment-{name.split('-')[1]}.svg").write_text(found[0] + "\n")


if __name__ == "__main__":
    main()
