#!/usr/bin/env python3
"""Compare the defaults of the architectures' manifests with those of transformers' classes: a key that a config.json does
not have must mean the same in both.

Usage: class_defaults.py PLUGINS      PLUGINS: plugins/architectures

Prints what differs. The exit status is 1 if something does, 77 without transformers.
"""
import json
import pathlib
import sys

try:
    import transformers as T
except ImportError as problem:
    print(f"skipped: {problem}")
    sys.exit(77)

# Keys whose value in a new configuration is not the default of its file, with the reason.
OTHER = {("qwen3", "sliding_window"),  # null, since use_sliding_window is false
         ("t5", "decoder_start_token_id")}  # none, with which the reference fails without decoder_input_ids
NAMES = {"num_labels"}  # of a head


def main():
    if len(sys.argv) != 2: sys.exit(__doc__)
    compared, different = 0, []
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*/manifest.json")):
        for part in json.loads(path.read_text())["provides"]:
            for model_type in part.get("model_types", []):
                if model_type not in T.CONFIG_MAPPING: continue  # of Hekla alone
                config = T.CONFIG_MAPPING[model_type]()
                for parameter in part["parameters"]:
                    key = parameter["key"]
                    if "default" not in parameter or key in NAMES or (model_type, key) in OTHER: continue
                    if not hasattr(config, key): continue  # the model reads it with a default of its own, or never
                    compared += 1
                    if getattr(config, key) != parameter["default"]:
                        different.append(f"{model_type}.{key}: {parameter['default']!r}, transformers {getattr(config, key)!r}")
    print(f"{compared} defaults compared, {len(different)} different")
    for line in different: print(line)
    sys.exit(1 if different or compared < 200 else 0)


if __name__ == "__main__":
    main()
