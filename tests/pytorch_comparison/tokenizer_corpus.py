#!/usr/bin/env python3
"""Encode text files with tokenizer.json files of other programs, for the comparison with what Hekla encodes.

Usage: tokenizer_corpus.py OUT_DIR --tokenizers FOLDER... --texts FILE...

FOLDER has tokenizer.json. FILE is a text or a text compressed with gzip, for example the translated manual pages in
/usr/share/man/de/man1; a text is a whole file. OUT_DIR gets a folder for each tokenizer; then

    HEKLA_TOKENIZER_FOLDERS=OUT_DIR build/bin/test_text -tc='*HEKLA_TOKENIZER_FOLDERS*'

compares ids, ids with special tokens, ranges and decoded texts.
"""
import argparse
import gzip
import json
import pathlib

from tokenizers import Tokenizer


def read(file):
    data = file.read_bytes()
    if data[:2] == b"\x1f\x8b": data = gzip.decompress(data)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=pathlib.Path)
    options.add_argument("--tokenizers", nargs="+", type=pathlib.Path, required=True)
    options.add_argument("--texts", nargs="+", type=pathlib.Path, required=True)
    a = options.parse_args()

    texts = [text for text in map(read, sorted(a.texts)) if text]
    print(f"{len(texts)} texts, {sum(len(text.encode()) for text in texts) / 1e6:.2f} MB")

    for source in a.tokenizers:
        tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        target = a.out / source.name
        target.mkdir(parents=True, exist_ok=True)
        (target / "tokenizer.json").write_bytes((source / "tokenizer.json").read_bytes())
        count = 0
        with open(target / "cases.jsonl", "w") as out:
            for text in texts:
                plain, framed = tokenizer.encode(text, add_special_tokens=False), tokenizer.encode(text)
                case = {"text": text, "ids": plain.ids, "ids_with_special": framed.ids, "offsets": [list(o) for o in plain.offsets]}
                case["decoded"] = tokenizer.decode(plain.ids, skip_special_tokens=False) if plain.ids else ""
                case["decoded_plain"] = tokenizer.decode(framed.ids, skip_special_tokens=True)
                out.write(json.dumps(case) + "\n")
                count += len(plain.ids)
        print(f"{source.name}: {count} ids")


if __name__ == "__main__":
    main()
