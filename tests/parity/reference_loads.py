"""Do the folders that `hekla convert` writes load in transformers, and compute the same?

Usage: reference_loads.py FIXTURES CONVERTED [FOLDER_OF_seq2seq_reference.py]

CONVERTED/NAME is FIXTURES/NAME converted. Each is opened with the class that its own config.json names, nothing may be
missing, left over or misshapen, and its outputs for the fixture's batch, in float64, are compared with the fixture's.
Prints one line a folder; exit status 1 if any differs. tests/parity/reference_loads runs it.
"""
import json, pathlib, sys, warnings

warnings.filterwarnings("ignore")
import torch
import transformers
from safetensors.torch import load_file

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()
fixtures, converted = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
own = None
if len(sys.argv) > 3:
    sys.path.insert(0, sys.argv[3])
    import seq2seq_reference as own


def load(folder):
    config = json.loads((folder / "config.json").read_text())
    name = config["architectures"][0]
    if own is not None and hasattr(own, name):
        model = getattr(own, name)(config)
        model.load_state_dict(load_file(folder / "model.safetensors"))
        return name, model, ""
    if config.get("legacy") is False:  # version 5.12 cannot open its own folders of DeBERTa with this head
        model = getattr(transformers, name)(transformers.AutoConfig.from_pretrained(folder))
        left = model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
        missing = [k for k in left.missing_keys if not k.endswith("lm_head.weight")]  # tied
        return name, model, f"missing {missing}, left over {left.unexpected_keys}" if missing or left.unexpected_keys else ""
    model, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True, attn_implementation="eager")
    missing = {k for k in info["missing_keys"] if not (name.startswith("Marian") and k.endswith("embed_positions.weight"))}
    wrong = [f"{k}: {sorted(map(str, v))}" for k, v in (("missing", missing), ("left over", info["unexpected_keys"]), ("misshapen", info["mismatched_keys"])) if v]
    return name, model, "; ".join(wrong)


def flat(outputs):
    named = {}
    for key, value in outputs.items():
        if torch.is_tensor(value):
            named[key] = value
        elif isinstance(value, (tuple, list)) and value and torch.is_tensor(value[0]):
            named.update({f"{key}.{i}": v for i, v in enumerate(value)})
    return named


failed = 0
folders = sorted(p for p in converted.iterdir() if (p / "config.json").exists())
for folder in folders:
    inputs = load_file(fixtures / folder.name / "inputs.safetensors")
    recorded = load_file(fixtures / folder.name / "expected.safetensors")
    expected = {k[4:]: v for k, v in recorded.items() if k.startswith("out.")}
    try:
        name, model, problem = load(folder)
        if name.startswith("Marian"):  # no file contains its position tables; the fixture's are random like its weights
            for key, table in recorded.items():
                if key.endswith("embed_positions.weight"):
                    model.state_dict()[key.removeprefix("adamw.")].copy_(table)
        if name == "XLNetLMHeadModel":  # its table of positions is always float32
            table = model.transformer.relative_positional_encoding
            model.transformer.relative_positional_encoding = lambda *a, **k: table(*a, **k).double()
        model = model.double().eval()
        batch = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
        if own is None or not hasattr(own, name):
            batch.update(output_hidden_states=True, return_dict=True)
        with torch.no_grad():
            outputs = flat(model(**batch))
        worst, compared = 0.0, 0
        for key, value in expected.items():
            if key not in outputs:
                continue
            compared += 1
            worst = max(worst, (outputs[key].double() - value.double()).abs().max().item() / max(value.abs().max().item(), 1e-30))
        problem = problem or ("" if compared else "no output to compare") or ("" if worst <= 1e-5 else "differs")
    except Exception as error:
        name, worst, compared, problem = "?", float("nan"), 0, f"{type(error).__name__}: {error}"
    failed += bool(problem)
    print(f"{folder.name:28} {name:34} {compared} outputs, error {worst:.1e} {problem or 'equal'}")
print(f"{len(folders) - failed} of {len(folders)} load and agree")
sys.exit(failed > 0)
