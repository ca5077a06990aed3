#!/usr/bin/env python3
"""Make the table of the ids that texts become: family of tokenizer x use x writer, as transformers has them.

Usage: ids_table.py OUT_DIR [--store FOLDER] [--trained FOLDER|FILE=FOLDER ...] [--gguf FILE=FOLDER ...]

OUT_DIR gets a folder for each family (tokenizer and configuration as transformers saves them) and table.json. --trained adds
folders that `hekla train`, `hekla convert` or `hekla export` wrote, which AutoTokenizer reads, too. --store writes the small
table of the default tests. Then

    HEKLA_IDS_TABLE=OUT_DIR/table.json build/bin/test_infer -tc='*HEKLA_IDS_TABLE*'

compares. --gguf compares the ids of llama-server with those of AutoTokenizer for the folder that the file was made of.
"""
import argparse, json, os, pathlib, random, shutil, subprocess, sys, time, urllib.request, warnings

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
warnings.filterwarnings("ignore")
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
import transformers
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerFast

MARK = "▁"
WORDS = "the quick brown fox jumps over a lazy dog while small cats sleep near old stones and birds sing café".split()
TEXTS = ["the quick fox", " the  fox ", "Café, naïve 中文 \U0001f600 12", "the\n\nfox\t1.5", "x"]
CHAT = ("{% for m in messages %}{{ bos_token if loop.first and bos_token else '' }}[{{ m['role'] }}] {{ m['content'] }}"
        "{{ eos_token }}\n{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}")


def corpus():
    r = random.Random(1)
    return [" ".join(r.choice(WORDS) for _ in range(8)) for _ in range(300)]


def bytes_bpe(special, size, prefix=False):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    m = json.loads(t.to_str())["model"]
    return m["vocab"], [tuple(x) for x in m["merges"]]


def letters_bpe(special, size, fallback=True):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    if fallback: special = special + ["<0x%02X>" % i for i in range(256)]
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=size + (256 if fallback else 0), special_tokens=special, show_progress=False))
    m = json.loads(t.to_str())["model"]
    return m["vocab"], [tuple(x) for x in m["merges"]]


def pieces(special, size):
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(corpus(), trainers.UnigramTrainer(vocab_size=size, special_tokens=special, unk_token=special[-1], show_progress=False))
    return [tuple(x) for x in json.loads(t.to_str())["model"]["vocab"]]


def wordpieces(special, size):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(corpus(), trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False))
    return json.loads(t.to_str())["model"]["vocab"]


def framed(tokenizer, single, pair, special, **roles):
    tokenizer.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles)


def byte_tokenizer(special, size):
    vocab, merges = bytes_bpe(special, size)
    t = Tokenizer(models.BPE(vocab, merges))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    return t


def families():
    """Yields name, a tokenizer, model_type, sizes."""
    T = transformers
    gpt = dict(n_layer=1, n_head=2, n_embd=8, n_positions=32)
    usual = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, max_position_embeddings=32)
    seq = dict(d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
               encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=32)
    v, m = bytes_bpe(["<|endoftext|>"], 270)
    yield "gpt2", T.GPT2Tokenizer(v, m), "gpt2", gpt
    t = byte_tokenizer(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], 272)
    yield "llama3", framed(t, "<|begin_of_text|> $A", "<|begin_of_text|> $A <|begin_of_text|> $B:1",
                           [("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))], bos_token="<|begin_of_text|>",
                           eos_token="<|end_of_text|>", pad_token="<|eot_id|>", chat_template=CHAT), "llama", usual
    v, m = letters_bpe(["<unk>", "<s>", "</s>"], 60)
    yield "llama", T.LlamaTokenizer(v, m, add_bos_token=True, chat_template=CHAT), "llama", usual
    v, m = letters_bpe(["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"], 60)
    yield "gemma", T.GemmaTokenizer(v, m), "llama", usual
    t = byte_tokenizer(["<|endoftext|>", "<|im_start|>", "<|im_end|>"], 272)
    yield "qwen-embedding", framed(t, "$A <|endoftext|>", "$A <|endoftext|> $B:1 <|endoftext|>:1", [("<|endoftext|>", t.token_to_id("<|endoftext|>"))],
                                   eos_token="<|im_end|>", pad_token="<|endoftext|>", padding_side="left"), "llama", usual
    yield "t5", T.T5Tokenizer(pieces(["<pad>", "</s>", "<unk>"], 50), extra_ids=4), "t5", dict(d_model=8, d_kv=4, d_ff=16, num_layers=1, num_heads=2)
    t = Tokenizer(models.Unigram(pieces(["</s>", "<pad>", "<unk>"], 50), unk_id=2))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    yield "marian", framed(t, "$A </s>", "$A $B </s>", [("</s>", 0)], eos_token="</s>", pad_token="<pad>", unk_token="<unk>"), "marian", seq
    v = wordpieces(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], 90)
    yield "bert", T.BertTokenizer(v), "bert", usual
    yield "distilbert", T.BertTokenizer(v, model_input_names=["input_ids", "attention_mask"]), "distilbert", dict(dim=8, n_layers=1, n_heads=2, hidden_dim=16, max_position_embeddings=32)
    t = byte_tokenizer(["<s>", "<pad>", "</s>", "<unk>", "<mask>"], 275)
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)  # transformers' class passes names
    t = PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>", pad_token="<pad>", unk_token="<unk>", mask_token="<mask>")
    yield "roberta", t, "roberta", usual
    yield "bart", t, "bart", seq
    p = pieces(["<pad>", "[CLS]", "[SEP]", "[MASK]", "<unk>"], 50)
    yield "albert", T.AlbertTokenizer(p), "albert", dict(usual, embedding_size=4)
    p = pieces(["<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>", "<unk>"], 56)
    yield "xlnet", T.XLNetTokenizer(p, unk_id=8), "xlnet", dict(d_model=8, n_layer=1, n_head=2, d_inner=16)
    p = pieces(["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"], 50)
    yield "deberta-v2", T.DebertaV2Tokenizer(p, unk_id=4), "deberta-v2", usual
    v, m = bytes_bpe(["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"], 275)
    yield "deberta", T.DebertaTokenizer(v, m), "deberta", usual
    t = Tokenizer(models.BPE(end_of_word_suffix="</w>", unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=70, special_tokens=["<unk>", "<s>", "</s>", "<pad>"], end_of_word_suffix="</w>", show_progress=False))
    s = json.loads(t.to_str())["model"]
    yield "openai-gpt", T.OpenAIGPTTokenizer(s["vocab"], [tuple(x) for x in s["merges"]]), "openai-gpt", gpt
    t.normalizer = normalizers.BertNormalizer()
    t.decoder = decoders.BPEDecoder()
    yield "suffix-bpe", framed(t, "<s> $A </s>", "<s> $A </s> $B </s>", [("<s>", 1), ("</s>", 2)], bos_token="<s>", cls_token="<s>", sep_token="</s>",
                               unk_token="<unk>", pad_token="<pad>"), "flaubert", dict(emb_dim=8, n_layers=1, n_heads=2, max_position_embeddings=32)
    t = Tokenizer(models.WordLevel({w: i for i, w in enumerate(["[UNK]", "[PAD]", "[BOS]", "[EOS]"] + WORDS)}, unk_token="[UNK]"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    yield "words", PreTrainedTokenizerFast(tokenizer_object=t, unk_token="[UNK]", pad_token="[PAD]", bos_token="[BOS]", eos_token="[EOS]"), "gpt2", gpt


def reads(t, text):
    """Whether the tokenizer has ids for the text: one of characters without an unknown token refuses others, as Hekla does."""
    try:
        t(text)
        return True
    except Exception:
        return False


def cases(t, config):
    """The uses that the model of this configuration has, with transformers' ids."""
    out = []
    kind = config.model_type
    encodes = bool(getattr(config, "is_encoder_decoder", False))
    decodes = kind in ("gpt2", "llama", "openai-gpt", "gpt_neox", "qwen3", "xlnet") and kind != "xlnet"
    special = [x for x in (t.eos_token, t.sep_token, t.bos_token) if x]
    texts = TEXTS + (["the " + special[0] + "fox " + special[-1]] if special else [])
    texts = [x for x in texts if reads(t, x)]
    ids = lambda x, **k: t(x, **k).input_ids
    plain = lambda x: ids(x, add_special_tokens=False)
    begin = []  # what begins a text of a language model
    if decodes and t.cls_token is None:
        whole, alone = ids("fox"), plain("fox")
        begin = whole[: len(whole) - len(alone)] if whole[-1:] == alone[-1:] else []
    end = [t.eos_token_id] if t.eos_token_id is not None else []
    for x in texts:
        out.append({"use": "features", "text": x, "expected": ids(x)})
        if not plain(x): continue
        if decodes:
            typed = plain(x)[: len(begin)] == begin
            out.append({"use": "prompt", "text": x, "expected": plain(x) if typed else begin + plain(x)})
        if encodes: out.append({"use": "source", "text": x, "expected": ids(x)})
    if decodes:
        if begin or t.bos_token_id is not None: out.append({"use": "prompt", "text": "", "expected": begin or [t.bos_token_id]})
        # lm-evaluation-harness: both together, cut after as many tokens as the context has
        whole = begin + plain("the quick fox")
        out.append({"use": "task", "text": "the quick", "continuation": " fox", "expected": {"source": [], "ids": whole, "from": len(begin + plain("the quick"))}})
    if encodes:
        out.append({"use": "task", "text": "the quick", "continuation": " fox", "expected": {"source": ids("the quick"), "ids": plain(" fox"), "from": 0}})
    a, b = "the quick " + special[0] if special else "the quick", "old fox"
    if not encodes:
        both = t(a, b, return_token_type_ids=True)
        for row, x in (({"text": a, "label": "a"}, t(a, return_token_type_ids=True)), ({"text": a, "text_b": b, "label": "b"}, both)):
            expected = {"input_ids": [x.input_ids]}
            if kind in ("bert", "albert", "xlnet"): expected["token_type_ids"] = [x.token_type_ids]
            out.append({"use": "classification", "row": row, "expected": expected})
        out.append({"use": "contrastive", "row": {"text": a, "text_b": b}, "expected": {"input_ids": [ids(a), ids(b)]}})
        around = lambda x: ids("fox")[: before] + x + ids("fox")[before + len(plain("fox")):]
        before = next(i for i in range(9) if ids("fox")[i:][: len(plain("fox"))] == plain("fox"))
        prompt, answers = "the quick", [plain(" fox"), plain(" old dog")]
        out.append({"use": "reward", "row": {"prompt": prompt, "chosen": " fox", "rejected": " old dog"},
                    "expected": {"input_ids": [around(plain(prompt) + x) for x in answers]}})
    if decodes:
        p, c = plain("the quick"), plain(" fox")
        row = begin + p + c + end
        scored = [-100] * (len(begin + p) - 1) + c + end
        out.append({"use": "completion", "row": {"prompt": "the quick", "completion": " fox"}, "expected": {"input_ids": [row[:-1]], "next_ids": [scored]}})
        for use, given in (("dpo", {"chosen": " fox", "rejected": " old dog"}), ("orpo", {"chosen": " fox", "rejected": " old dog"})):
            out.append({"use": use, "row": {"prompt": prompt, **given},
                        "expected": {"input_ids": [(begin + plain(prompt) + x + end)[:-1] for x in answers]}})
    if encodes:
        out.append({"use": "seq2seq", "row": {"source": a, "target": b}, "expected": {"input_ids": [ids(a)]}})
    if t.chat_template and decodes:
        talk = [{"role": "user", "content": "the fox"}, {"role": "assistant", "content": "old " + special[0] + "dog"}]
        whole = t.apply_chat_template(talk, tokenize=True, return_dict=False)
        out.append({"use": "chat", "row": {"messages": talk}, "expected": {"input_ids": [whole[:-1]]}})
    return out


def table_of(folder):
    config = AutoConfig.from_pretrained(str(folder))
    return cases(AutoTokenizer.from_pretrained(str(folder)), config)


def llama_server(file, folder):
    t = AutoTokenizer.from_pretrained(str(folder))
    port = 18000 + os.getpid() % 1000
    server = subprocess.Popen(["llama-server", "-m", str(file), "--port", str(port), "-ngl", "0", "-c", "32"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    different = 0
    try:
        texts = [x for x in TEXTS + [t.eos_token or "x"] if reads(t, x)]
        for x in texts:
            body = json.dumps({"content": x, "add_special": True, "parse_special": True}).encode()
            for attempt in range(100):
                try:
                    request = urllib.request.Request(f"http://127.0.0.1:{port}/tokenize", body, {"Content-Type": "application/json"})
                    made = json.loads(urllib.request.urlopen(request).read())["tokens"]
                    break
                except OSError:
                    time.sleep(0.2)
            else:
                sys.exit(f"{file}: llama-server does not answer")
            if made != t(x).input_ids:
                different += 1
                print(f"{file}: {x!r}: llama.cpp {made}, transformers {t(x).input_ids}")
    finally:
        server.terminate()
        server.wait()
    return different


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--store", type=pathlib.Path)
    parser.add_argument("--trained", nargs="*", default=[])
    parser.add_argument("--gguf", nargs="*", default=[])
    a = parser.parse_args()
    table = {}
    if not a.trained and not a.gguf:
        for name, tokenizer, kind, sizes in families():
            folder = a.out / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            tokenizer.save_pretrained(folder)
            ids = {k: getattr(tokenizer, k) for k in ("bos_token_id", "eos_token_id", "pad_token_id") if getattr(tokenizer, k) is not None}
            config = AutoConfig.for_model(kind, vocab_size=len(tokenizer), **{**ids, **sizes})
            written = config.to_diff_dict()
            if kind in ("gpt2", "llama"): transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
            (folder / "config.json").write_text(json.dumps({k: v for k, v in written.items() if k != "transformers_version"}, indent=1))
            table[name] = table_of(folder)
    for given in a.trained:
        path, _, folder = given.partition("=")  # an exported file, and the folder that it was made of
        made = table_of(pathlib.Path(folder or path))
        table[str(pathlib.Path(path).resolve())] = [x for x in made if not folder or "text" in x]
    if table:
        a.out.mkdir(parents=True, exist_ok=True)
        (a.out / "table.json").write_text(json.dumps(table, ensure_ascii=False))
    if a.store:
        shutil.rmtree(a.store, ignore_errors=True)
        a.store.mkdir(parents=True)
        for name in table:
            (a.store / name).mkdir()
            for file in ("config.json", "tokenizer_config.json", "tokenizer.json", "chat_template.jinja"):
                if (a.out / name / file).exists():
                    text = (a.out / name / file).read_text()
                    if file.endswith(".json"): text = json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")) + "\n"
                    (a.store / name / file).write_text(text)
        lines = [json.dumps(k) + ": [\n  " + ",\n  ".join(json.dumps(x, ensure_ascii=False) for x in v) + "]" for k, v in table.items()]
        (a.store / "table.json").write_text("{" + ",\n".join(lines) + "}\n")
    different = sum(llama_server(*pair.split("=")) for pair in a.gguf)
    print(f"{sum(map(len, table.values()))} cases of {len(table)} folders, {len(a.gguf)} GGUF files, {different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
