#!/usr/bin/env python3
"""Make random tokenizer.json files with tokenizers, and what it encodes and decodes with them.

Usage: random_tokenizers.py OUT_DIR COUNT [SEED]

Every folder of OUT_DIR gets tokenizer.json and cases.jsonl ("text", "ids", "ids_with_special", "offsets" in code points,
"decoded", "decoded_plain"). Then

    HEKLA_TOKENIZER_FOLDERS=OUT_DIR HEKLA_TOKENIZERS_MAY_BE_REFUSED=1 build/bin/test_text -tc='*HEKLA_TOKENIZER_FOLDERS*'

compares: ids and ranges are equal, or the file is refused by the name of a component.
"""
import json, pathlib, random, sys
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

MARK = "\u2581"
WORDS = ["the", "cat", "sat", "Hello", "WORLD", "caf\u00e9", "cafe\u0301", "na\u00efve", "\u4e2d\u6587", "\u65e5\u672c", "12", "3456", "x1", "don't", "we'll", "\u0416\u0443\u043a", "\u0645\u0631\u062d\u0628\u0627",
         "\ud55c\uad6d\uc5b4", "\u1100\u1161\u11a8", "\ufb01n", "\u00bd", "\u2460", "\u24b6", "\U0001f600", "\U0001f468\u200d\U0001f469", "e\u0323\u0301", "\u00e1\u0323", "\u0344", "\u1e9b\u0323", "_under_", "a-b", "f(x)", "[MASK]", "<s>", "</s>", "<unk>", "\u0130stanbul",
         "stra\u00dfe", "\u0928\u093f", "\u0915\u094d\u0937", "\u0e01\u0e33", "\ud7a3\u11a8", "\u212b", "\u00a0nb", "\u3000", "...", "!?", "#", "\u201cq\u201d", "\u2581", "\u2581\u2581", "`` ''", "\ufeff", "\u200b", "\u0000", "\u0085", "\t", "\r\n", "\n\n", "\u2028"]
SPACES = [" ", " ", " ", " ", "  ", "\n", "\t", "", "", "   "]


def text(r, n):
    return "".join(r.choice(WORDS) + r.choice(SPACES) for _ in range(r.randrange(n)))


def normalizer(r, depth=0):
    N = normalizers
    pick = r.randrange(15 if depth < 2 else 14)
    if pick == 0: return N.NFC()
    if pick == 1: return N.NFD()
    if pick == 2: return N.NFKC()
    if pick == 3: return N.NFKD()
    if pick == 4: return N.Lowercase()
    if pick == 5: return N.StripAccents()
    if pick == 6: return N.Strip(r.random() < .5, r.random() < .5)
    if pick == 7: return N.Replace(r.choice(["a", " ", "e\u0301", "``", "\u4e2d", "at"]), r.choice(["", "b", MARK, "xy", " "]))
    if pick == 8: return N.Replace(Regex(r.choice([" {2,}", r"\s+", r"[aeiou]+", r"\p{N}", r"(?i:CAT)", r"\d+", r"[^\x00-\x7f]"])), r.choice(["", " ", "_", MARK, "ab"]))
    if pick == 9: return N.Prepend(r.choice([MARK, "x", " "]))
    if pick == 10: return N.Nmt()
    if pick == 11: return N.BertNormalizer(r.random() < .7, r.random() < .7, r.choice([None, True, False]), r.random() < .5)
    if pick == 12: return N.ByteLevel() if r.random() < .3 else N.NFKC()
    if pick == 13: return N.Replace(" ", MARK)
    return N.Sequence([normalizer(r, depth + 1) for _ in range(r.randrange(4))])


REGEXES = [r"\s+", r"\w+|[^\w\s]+", r"\p{L}+", r"\p{N}{1,3}", r"[A-Z]", r"[^\s]+", r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", r"(?i:'s|'t|'re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
           r"[\u4e00-\u9fa5]+", r" ?[^(\s|[.,!?])]+", r"\b", r"(?<=a)t", r"\d", r"[[:alpha:]]+", r"[\p{L}&&[^a-m]]+", r"\p{Han}", r"\W", r"^.", r".$", r"x*", r"[^\S\n]+", r"\h+", r"\p{^Lu}", r"[\w-]+", r"a{2}|\n{1,}", r"(t|a)+?"]


def split(r):
    p = r.choice([" ", "a", "at", MARK, "-"]) if r.random() < .3 else Regex(r.choice(REGEXES))
    return pre_tokenizers.Split(p, r.choice(["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]), r.random() < .25)


def pre_tokenizer(r, depth=0):
    P = pre_tokenizers
    pick = r.randrange(13 if depth < 2 else 11)
    if pick in (0, 1): return P.ByteLevel(add_prefix_space=r.random() < .5, use_regex=r.random() < .5)
    if pick in (2, 3): return split(r)
    if pick == 4: return P.Digits(individual_digits=r.random() < .5)
    if pick == 5: return P.Punctuation(r.choice(["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]))
    if pick == 6: return P.Whitespace()
    if pick == 7: return P.WhitespaceSplit()
    if pick == 8: return P.Metaspace(replacement=r.choice([MARK, MARK, "_"]), prepend_scheme=r.choice(["always", "first", "never"]), split=r.random() < .5)
    if pick == 9: return P.BertPreTokenizer()
    if pick == 10: return r.choice([P.CharDelimiterSplit(r.choice("a- ")), P.FixedLength(r.randrange(1, 6))])
    return P.Sequence([pre_tokenizer(r, depth + 1) for _ in range(r.randrange(4))])


def corpus_words(t, texts):
    seen = []
    for s in texts:
        n = t.normalizer.normalize_str(s) if t.normalizer else s
        seen += [w for w, _ in t.pre_tokenizer.pre_tokenize_str(n)] if t.pre_tokenizer else [n]
    return [w for w in seen if w]


def model(r, words):
    letters = sorted({c for w in words for c in w})
    kept = [c for c in letters if r.random() < .9] or ["a"]
    kind = r.choice(["bpe", "bpe", "bpe", "unigram", "wordpiece", "wordlevel"])
    if kind == "wordlevel":
        vocab = ["<unk>"] + sorted({w for w in words if r.random() < .7})
        return models.WordLevel({w: i for i, w in enumerate(dict.fromkeys(vocab))}, unk_token="<unk>")
    if kind == "wordpiece":
        prefix = r.choice(["##", "##", "@", ""])
        vocab = ["[UNK]"]
        for w in words:
            a = r.randrange(len(w)); b = r.randrange(a, len(w)) + 1
            vocab.append((prefix if a else "") + w[a:b])
        vocab += kept + [prefix + c for c in kept]
        return models.WordPiece({w: i for i, w in enumerate(dict.fromkeys(v for v in vocab if v))}, unk_token="[UNK]", max_input_chars_per_word=r.choice([5, 20, 100]), continuing_subword_prefix=prefix)
    fallback = r.random() < .4
    as_bytes = [f"<0x{b:02X}>" for b in range(256)] if fallback or r.random() < .1 else []
    if kind == "unigram":
        vocab = {"<unk>": 0.0, **{b: -20.0 for b in as_bytes}}
        for c in kept: vocab[c] = -r.randrange(5, 12) * 1.0
        for w in words:
            a = r.randrange(len(w)); b = min(len(w), a + r.randrange(1, 5))
            vocab.setdefault(w[a:b], -r.randrange(3, 15) * r.choice([1.0, 0.5, 0.7]))
        return models.Unigram(list(vocab.items()), unk_id=0, byte_fallback=fallback)
    prefix = r.choice([None, None, None, "##"]); suffix = r.choice([None, None, None, "</w>"])
    vocab = ["<unk>"] + as_bytes + kept
    if prefix: vocab += [prefix + c for c in kept]
    if suffix: vocab += [c + suffix for c in kept] + [(prefix or "") + c + suffix for c in kept]
    vocab = list(dict.fromkeys(vocab)); known = set(vocab); merges = []
    for _ in range(60):
        w = r.choice(words)
        s = [(prefix if prefix and i else "") + c + (suffix if suffix and i == len(w) - 1 else "") for i, c in enumerate(w)]
        i = 0
        for a, b in [tuple(m) for m in merges]:
            i = 0
            while i + 1 < len(s):
                if s[i] == a and s[i + 1] == b: s[i:i + 2] = [a + b[len(prefix or ""):]]
                i += 1
        pairs = [p for p in zip(s, s[1:]) if p[0] in known and p[1] in known and list(p) not in merges]
        if not pairs: continue
        a, b = r.choice(pairs)
        made = a + b[len(prefix or ""):]
        merges.append([a, b])
        if made not in known: known.add(made); vocab.append(made)
    if r.random() < .3: vocab += [w for w in dict.fromkeys(words) if w not in known and r.random() < .3]
    return models.BPE({w: i for i, w in enumerate(dict.fromkeys(vocab))}, [tuple(m) for m in merges], unk_token=r.choice(["<unk>", "<unk>", None]), fuse_unk=r.random() < .5,
                      byte_fallback=fallback, ignore_merges=r.random() < .3, continuing_subword_prefix=prefix, end_of_word_suffix=suffix)


def decoder(r, depth=0):
    D = decoders
    pick = r.randrange(12 if depth < 1 else 9)
    if pick == 0: return D.ByteLevel()
    if pick == 1: return D.Metaspace(prepend_scheme=r.choice(["always", "first", "never"]))
    if pick == 2: return D.WordPiece(prefix="##", cleanup=r.random() < .5)
    if pick == 3: return D.BPEDecoder()
    if pick == 4: return D.Replace(r.choice([MARK, "a", "at"]), r.choice([" ", "", "b"]))
    if pick == 5: return D.ByteFallback()
    if pick == 6: return D.Fuse()
    if pick == 7: return D.Strip(" ", r.randrange(2), 0)
    if pick == 8: return D.CTC(pad_token="<s>", word_delimiter_token="|", cleanup=r.random() < .5)
    if pick == 9: return None
    return D.Sequence([d for d in (decoder(r, 1) for _ in range(r.randrange(1, 5))) if d])


def post_processor(r, special):
    P = processors
    pick = r.randrange(6)
    a, b = special
    if pick == 0: return None
    if pick == 1: return P.ByteLevel(trim_offsets=r.random() < .7, add_prefix_space=r.random() < .5)
    if pick == 2: return P.RobertaProcessing((b, 1), (a, 0), trim_offsets=r.random() < .7, add_prefix_space=r.random() < .5)
    if pick == 3: return P.BertProcessing((b, 1), (a, 0))
    t = P.TemplateProcessing(single=r.choice([f"{a} $A", f"$A {b}", f"{a} $A {b}"]), pair=None, special_tokens=[(a, 0), (b, 1)])
    return t if pick == 4 else P.Sequence([P.ByteLevel(trim_offsets=r.random() < .7), t])


def make(r):
    t = Tokenizer(models.BPE())
    if r.random() < .7: t.normalizer = normalizer(r)
    if r.random() < .9: t.pre_tokenizer = pre_tokenizer(r)
    texts = [text(r, 12) for _ in range(12)]
    words = corpus_words(t, texts) or ["abc"]
    t.model = model(r, words)
    d = decoder(r)
    if d: t.decoder = d
    for _ in range(r.randrange(5)):
        content = r.choice(["<s>", "</s>", "[MASK]", "the", "cat", "  ", "Hello", "a-b", MARK, "caf\u00e9", "12", "<x>", "s", " sat", "WORLD"])
        token = AddedToken(content, single_word=r.random() < .2, lstrip=r.random() < .3, rstrip=r.random() < .3, normalized=r.random() < .5)
        (t.add_special_tokens if r.random() < .5 else t.add_tokens)([token])
    return t, texts + [text(r, 30) for _ in range(8)] + ["", " ", "  the  cat "]


def main():
    out, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    r = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    made = failed = 0
    while made < count:
        try:
            t, texts = make(r)
            if r.random() < .5:
                special = ["<cls>", "<sep>"]
                t.add_special_tokens(special)
                j = json.loads(t.to_str())
                ids = {a["content"]: a["id"] for a in j["added_tokens"]}
                p = json.loads(json.dumps(None))
                pp = post_processor(r, special)
                if pp is not None:
                    t.post_processor = pp
                    s = t.to_str()
                    j = json.loads(s)
                    def fix(v):
                        if isinstance(v, dict):
                            if v.get("type") in ("RobertaProcessing", "BertProcessing"): v["cls"][1], v["sep"][1] = ids["<cls>"], ids["<sep>"]
                            for k, w in (v.get("special_tokens") or {}).items() if isinstance(v.get("special_tokens"), dict) else []: w["ids"] = [ids[k]]
                            for w in v.values(): fix(w)
                        if isinstance(v, list):
                            for w in v: fix(w)
                    fix(j["post_processor"])
                    t = Tokenizer.from_str(json.dumps(j))
            t = Tokenizer.from_str(t.to_str())
            lines = []
            for s in texts:
                e, f = t.encode(s, add_special_tokens=False), t.encode(s)
                line = {"text": s, "ids": e.ids, "ids_with_special": f.ids, "offsets": [list(o) for o in e.offsets]}
                if f.ids: line["decoded"], line["decoded_plain"] = t.decode(e.ids, skip_special_tokens=False) if e.ids else "", t.decode(f.ids, skip_special_tokens=True)
                lines.append(json.dumps(line))
        except BaseException as error:                          # tokenizers itself fails: some of its errors are panics
            if isinstance(error, KeyboardInterrupt): raise
            failed += 1
            continue
        folder = out / f"{made:05d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(json.dumps(json.loads(t.to_str()), ensure_ascii=False) + "\n")
        (folder / "cases.jsonl").write_text("\n".join(lines) + "\n")
        made += 1
    print(f"{made} made; tokenizers failed for {failed} others")


if __name__ == "__main__":
    main()
