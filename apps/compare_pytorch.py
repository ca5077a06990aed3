#!/usr/bin/env python3
"""The PyTorch side of apps/compare_pytorch: the same work as `hekla bench`, one line of JSON per measurement.

  compare_pytorch.py [--device D] matmul
  compare_pytorch.py [--device D] [--seconds S] [--dtype f32|bf16] [--compile] train CASE
  compare_pytorch.py [--device D] generate CASE
  compare_pytorch.py table HEKLA_LINES PYTORCH_LINES     medians of both and their ratio
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

CASES = {  # the cases of `hekla bench train`: vocabulary, layers, width, heads, context, batch
    "shakespeare-char-cpu": (65, 4, 128, 4, 64, 12),
    "shakespeare-char": (65, 6, 384, 6, 256, 4),
    "gpt2-124m-short": (50257, 12, 768, 12, 256, 1),
    "gpt2-124m": (50257, 12, 768, 12, 1024, 16),
}
MEASURES = ("tokens_per_s", "generate_tokens_per_s", "gflops")


def table(hekla_path, pytorch_path):
    def read(path):
        values = {}
        for line in pathlib.Path(path).read_text().splitlines():
            row = json.loads(line)
            measure = next(m for m in MEASURES if m in row)
            values.setdefault((row["case"], measure), []).append(row[measure])
        return values

    hekla, pytorch = read(hekla_path), read(pytorch_path)
    print(f"{'':<46}{'Hekla':>10}{'PyTorch':>10}{'ratio':>8}")
    for key, values in hekla.items():
        mine, theirs = statistics.median(values), statistics.median(pytorch[key])
        print(f"{key[0] + ', ' + key[1]:<46}{mine:>10.0f}{theirs:>10.0f}{mine / theirs:>8.2f}")


def measure(arguments):
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    torch.set_float32_matmul_precision("highest")
    device = arguments.device

    def timed(work, seconds, least):
        """The median time of work(), in seconds."""
        times, begin = [], time.perf_counter()
        while len(times) < least or time.perf_counter() - begin < seconds:
            start = time.perf_counter()
            work()
            if device != "cpu":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    if arguments.what == "matmul":
        a, b = torch.randn(512, 512, device=device), torch.randn(512, 512, device=device)
        timed(lambda: a @ b, 0.0, 3)
        seconds = timed(lambda: a @ b, 1.0, 5)
        return {"case": "matmul 512x512x512", "gflops": 2 * 512**3 / seconds / 1e9}

    torch.manual_seed(0)
    vocabulary, layers, width, heads, context, batch = CASES[arguments.case]
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=vocabulary, n_positions=context, n_embd=width, n_layer=layers, n_head=heads, resid_pdrop=0, embd_pdrop=0,
        attn_pdrop=0, bos_token_id=None, eos_token_id=None, attn_implementation="sdpa")).to(device)
    tokens = torch.randint(0, vocabulary, (batch, context), device=device)
    if arguments.what == "generate":  # one row, one token of prompt, greedy, with the cache
        model.eval()
        count = min(128, context) - 1
        with torch.no_grad():
            seconds = timed(lambda: model.generate(tokens[:1, :1], max_new_tokens=count, min_new_tokens=count,
                                                   do_sample=False, pad_token_id=0), 0.0, 5)
        return {"case": arguments.case, "generate_tokens_per_s": count / seconds}

    model.train()
    if arguments.compile:
        model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=device != "cpu")

    def step():  # forward, backward, clipping, AdamW
        with torch.autocast(device.split(":")[0], torch.bfloat16, enabled=arguments.dtype == "bf16"):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    timed(step, 0.0, 3)
    return {"case": arguments.case, "tokens_per_s": batch * context / timed(step, arguments.seconds, 5)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32", help="precision of a training step")
    parser.add_argument("--compile", action="store_true", help="compile the model of a training step (torch.compile)")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of one measurement of a training step")
    parser.add_argument("what", choices=("matmul", "train", "generate", "table"))
    parser.add_argument("rest", nargs="*", help="a case; for table, two files")
    arguments = parser.parse_args()
    if arguments.what == "table":
        if len(arguments.rest) != 2:
            parser.error("table needs two files: the lines of hekla bench, the lines of this program")
        table(*arguments.rest)
        return
    if arguments.what != "matmul":
        if len(arguments.rest) != 1 or arguments.rest[0] not in CASES:
            parser.error(f"{arguments.what} needs one case of: {', '.join(CASES)}")
        arguments.case = arguments.rest[0]
    try:
        result = measure(arguments)
    except Exception as error:  # a compiler's advice would hide the cause, which doctor --lab takes from the last line
        sys.exit(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
    print(json.dumps(result), flush=True)


main()
