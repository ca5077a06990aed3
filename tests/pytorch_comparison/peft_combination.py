#!/usr/bin/env python3
"""Compare `hekla adapter combine` with PEFT's add_weighted_adapter, for pairs of random LoRA adapters of the fixtures
lora-gpt2 and lora-llama: the change of every weight, and, for dare, that every element is one of those that PEFT's masks
can make.

Usage: peft_combination.py HEKLA FIXTURES     FIXTURES: tests/fixtures/adapters

Two defects of PEFT before pull requests 3111 and 3449 are corrected here if this PEFT has them: `svd` applies the scale
of an adapter twice, and an adapter made from ones with use_rslora is scaled by the square root of its rank.

Needs PyTorch, transformers, PEFT and safetensors.
"""
import inspect
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import peft
import torch
import transformers
from peft.tuners.lora import LoraModel
from peft.utils import merge_utils

HEKLA, FIXTURES = sys.argv[1], pathlib.Path(sys.argv[2])
TWICE = "target.scaling" in inspect.getsource(LoraModel._svd_generalized_task_arithmetic_weighted_adapter)
KEEPS_RSLORA = "use_rslora=False" not in inspect.getsource(LoraModel.add_weighted_adapter)
WEIGHTS = [2.0, -0.5]


def base(name):
    info = json.loads((FIXTURES / name / "fixture.json").read_text())
    return getattr(transformers, info["class"]).from_pretrained(FIXTURES / name)


def write_pair(name, folder, configs):
    for i, config in enumerate(configs):
        torch.manual_seed(i + 1)
        model = peft.get_peft_model(base(name), peft.LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **config))
        model.save_pretrained(folder / "ab"[i])


def changes(model, adapter):
    return {
        key.replace("base_model.model.", ""): module.get_delta_weight(adapter).double()
        for key, module in model.named_modules()
        if hasattr(module, "lora_A") and adapter in module.lora_A
    }


def pair_model(name, folder):
    model = peft.PeftModel.from_pretrained(base(name), folder / "a", adapter_name="a")
    model.load_adapter(folder / "b", adapter_name="b")
    return model


def combined(name, folder, kind, options):
    """PEFT's model with the adapter c."""
    model = pair_model(name, folder)
    weights = list(WEIGHTS)
    if kind.endswith("svd") and TWICE:
        scales = next(m.scaling for m in model.modules() if hasattr(m, "lora_A") and {"a", "b"} <= m.scaling.keys())
        weights = [w / scales[adapter] for w, adapter in zip(weights, "ab")]
    model.double()  # PEFT would decompose in float32
    model.add_weighted_adapter(["a", "b"], weights, "c", combination_type=kind, **options)
    if KEEPS_RSLORA:
        for module in model.modules():
            if hasattr(module, "lora_A") and "c" in module.lora_A:
                module.scaling["c"] = 1.0
    return model


def run_hekla(name, folder, kind, options, out):
    flags = [part for key, value in options.items() for part in ("--" + key.replace("_", "-"), str(value))]
    weights = ",".join(map(str, WEIGHTS))
    subprocess.run(
        [HEKLA, "adapter", "combine", str(folder / "a"), str(folder / "b"), "--body", str(FIXTURES / name), "--weights", weights,
         "--combination-type", kind, *flags, "-o", str(out)],
        check=True, stdout=subprocess.DEVNULL)
    return peft.PeftModel.from_pretrained(base(name), out, adapter_name="c")


def check_dare(name, folder, kind, options, ours):
    """Every element of A and B is what PEFT makes with one of the four masks, as often as the density says."""
    density, made = options["density"], []
    for masks in itertools.product([0.0, 1.0], repeat=2):
        left = itertools.cycle(masks)
        original, merge_utils.random_pruning = merge_utils.random_pruning, lambda t, d, rescale: t * next(left) / d
        made.append(combined(name, folder, kind, options))
        merge_utils.random_pruning = original
    counts, worst, size = torch.zeros(4), 0.0, 0
    for key, module in ours.named_modules():
        if not (hasattr(module, "lora_A") and "c" in module.lora_A):
            continue
        theirs = [m.get_submodule(key) for m in made]
        if {"a", "b"} - theirs[0].lora_A.keys():  # in one adapter alone: the masks of PEFT are in another order
            continue
        for part in ("lora_A", "lora_B"):
            possible = torch.stack([getattr(t, part)["c"].weight for t in theirs])
            distance, which = (possible - getattr(module, part)["c"].weight).abs().min(dim=0)
            worst = max(worst, float(distance.max()))
            counts += torch.bincount(which.flatten(), minlength=4)
            size += which.numel()
    assert worst < 1e-6, worst
    shares = counts / size
    if kind == "dare_linear":  # with elected signs, masks share results
        expected = [(1 - density) ** 2, density * (1 - density), density * (1 - density), density**2]
        assert all(abs(s - e) < 0.05 for s, e in zip(shares.tolist(), expected)), shares
    print(f"{name:10s} {kind:20s} {options}: every element is one of PEFT's, {worst:.1e}; masks 00 01 10 11:",
          " ".join(f"{s:.3f}" for s in shares.tolist()))


def check(name, configs, kind, options):
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        write_pair(name, folder, configs)
        ours = run_hekla(name, folder, kind, options, folder / "c")
        if kind.startswith("dare") and not kind.endswith("svd"):
            return check_dare(name, folder, kind, options, ours)
        theirs, ours = changes(combined(name, folder, kind, options), "c"), changes(ours, "c")
        assert theirs.keys() == ours.keys(), theirs.keys() ^ ours.keys()
        error = max(float((theirs[k] - ours[k]).abs().max() / theirs[k].abs().max()) for k in theirs)
        assert error < 1e-6, (name, kind, options, error)
        print(f"{name:10s} {kind:20s} {options}: {len(ours)} modules, {error:.1e}")


print(f"PEFT {peft.__version__}: svd scales twice: {TWICE}; keeps use_rslora: {KEEPS_RSLORA}")
for name, first, second in [("lora-gpt2", ["c_attn"], ["c_attn", "c_proj"]),
                            ("lora-llama", ["q_proj", "v_proj"], ["v_proj", "down_proj"])]:
    fan = {"fan_in_fan_out": True} if name == "lora-gpt2" else {}
    equal = [dict(r=4, lora_alpha=16, target_modules=first, **fan), dict(r=4, lora_alpha=16, target_modules=second, **fan)]
    ranks = [dict(equal[0], lora_alpha=8, r=2), dict(equal[1], lora_alpha=24, r=6)]
    stabilized = [dict(one, use_rslora=True) for one in equal]
    check(name, equal, "linear", {})
    check(name, stabilized, "linear", {})
    for pair in (equal, ranks, stabilized):
        check(name, pair, "cat", {})
    for rank in (3, 8):
        check(name, equal, "svd", {"svd_rank": rank})
    for density in (0.2, 0.5):
        check(name, equal, "magnitude_prune", {"density": density})
        check(name, equal, "magnitude_prune_svd", {"density": density, "svd_rank": 4})
        for method in ("total", "frequency"):
            check(name, equal, "ties", {"density": density, "majority_sign_method": method})
            check(name, equal, "ties_svd", {"density": density, "majority_sign_method": method, "svd_rank": 4})
        check(name, equal, "dare_linear", {"density": density})
        check(name, equal, "dare_ties", {"density": density})
