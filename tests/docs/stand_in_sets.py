"""Small data sets in the forms of the published ones, and a small model in the place of a downloaded one.

Sentences are drawn from the words of this repository's documents, with a seed, so that every run has the same ones.
"""
import gzip
import json
import pathlib
import random
import re
import subprocess
import zipfile

CHARACTERS = 1_150_000  # of each text that make_corpora takes a megabyte and a tenth of


class Sentences:
    """Different sentences of 8 to 14 words."""

    def __init__(self, source: pathlib.Path) -> None:
        text = " ".join(file.read_text() for file in sorted(source.glob("docs/*.md")))
        # The last three are words that a recipe asks the nearest ones of.
        self.words = sorted(set(re.findall(r"\b[a-z]{2,12}\b", text)) | {"good", "king", "water"})
        self.draw = random.Random(1)

    def one(self, words: int | None = None) -> str:
        """A sentence of all words, or of the first `words`."""
        return " ".join(self.draw.choices(self.words[:words], k=self.draw.randint(8, 14))) + "."

    def many(self, count: int, words: int | None = None) -> list[str]:
        return [self.one(words) for _ in range(count)]


def conllu(sentences: Sentences, count: int) -> str:
    tags = ["NOUN", "VERB", "ADJ", "ADV"]
    out = []
    for sentence in sentences.many(count):
        lines = [f"# text = {sentence}"]
        for n, word in enumerate(sentence.rstrip(".").split(), 1):
            tag = tags[len(word) % len(tags)]
            lines.append(f"{n}\t{word}\t{word}\t{tag}\t{tag[:2]}\t_\t0\troot\t_\t_")
        out.append("\n".join(lines) + "\n\n")
    return "".join(out)


def long_text(sentences: Sentences) -> str:
    """Speeches, as in a play; more of them are repetitions."""
    lines = [f"SPEAKER {n % 7}:\n{text}\n\n" for n, text in enumerate(sentences.many(2000))]
    text = "".join(lines)
    return text * (CHARACTERS // len(text) + 1)


def write_sets(folder: pathlib.Path, source: pathlib.Path) -> None:
    """Writes the sets that apps/recipes/make_corpora reads."""
    sentences = Sentences(source)

    def write(path: str, content: str) -> None:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        data = content.encode()
        file.write_bytes(gzip.compress(data, mtime=0) if path.endswith(".gz") else data)

    for split, rows in (("train", 160), ("dev", 40), ("test", 24)):
        # Few words, so that make_reviews.py finds each often enough to weigh it.
        lines = [f"{text}\t{n % 2}\n" for n, text in enumerate(sentences.many(rows, words=200))]
        write(f"sst2/{split}.tsv", "".join(lines))
    for split in ("in_domain_train", "in_domain_dev", "out_of_domain_dev"):
        write(f"cola/{split}.tsv", "".join(f"gj04\t{n % 2}\t*\t{text}\n" for n, text in enumerate(sentences.many(32))))
    classes = ["ENTAILMENT", "NEUTRAL", "CONTRADICTION"]
    for split in ("SICK_train", "SICK_trial", "SICK_test_annotated"):
        rows = [f"{n}\t{sentences.one()}\t{sentences.one()}\t{1 + n % 5}.5\t{classes[n % 3]}\n" for n in range(32)]
        write(f"sick/{split}.txt", "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n" + "".join(rows))
    for split, ending in (("train", ".gz"), ("dev", ""), ("test", "")):
        write(f"ud_english_ewt/en_ewt-ud-{split}.conllu{ending}", conllu(sentences, 32))
        write(f"french/ud_french_sequoia/fr_sequoia-ud-{split}.conllu", conllu(sentences, 32))
    for split in ("train", "val", "test_2016_flickr"):
        for language in ("en", "fr"):
            write(f"multi30k/{split}.{language}.gz", "\n".join(sentences.many(64)) + "\n")
    for split, rows in (("train", 64), ("val", 16), ("test", 16)):
        write(f"tatoeba_fra_eng/{split}.tsv", "".join(f"{sentences.one()}\t{sentences.one()}\n" for _ in range(rows)))
    with zipfile.ZipFile(folder / "tatoeba_fra_eng/fra-eng.zip", "w") as archive:
        archive.writestr("fra.txt", "".join(f"{sentences.one()}\t{sentences.one()}\tCC-BY\n" for _ in range(2000)))
    write("wikitext2_raw/wiki.valid.raw", " = Title = \n\n" + "".join(f" {text} \n" for text in sentences.many(500)))
    write("tinyshakespeare/input.txt", long_text(sentences))
    for book in ("14155-8", "5711-8"):
        write(f"french/gutenberg/{book}.utf8.txt", long_text(sentences))


def write_downloads(folder: pathlib.Path, source: pathlib.Path) -> None:
    """Writes what readers download besides the sets: rows of Alpaca and UltraChat, a text, a tokenizer's folder."""
    sentences = Sentences(source)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    rows = [{"instruction": sentences.one(), "input": sentences.one() if n % 2 else "", "output": sentences.one()} for n in range(300)]
    (folder / "alpaca_data.json").write_text(json.dumps(rows))
    turns = [[{"role": "user", "content": sentences.one()}, {"role": "assistant", "content": sentences.one()}] for _ in range(300)]
    (folder / "data/ultrachat.jsonl").write_text("".join(json.dumps({"messages": turn * 2}) + "\n" for turn in turns))
    texts = folder / "data/openwebtext"
    texts.mkdir()
    (texts / "0.txt").write_text("\n".join(sentences.many(20000)))


STAND_IN_RECIPE = """
[model]
architecture = "llama"
hidden_size = 32
intermediate_size = 64
num_hidden_layers = 2
num_attention_heads = 4
max_position_embeddings = 2048
[data]
train = "text.txt"
[tokenizer]
kind = "bpe"
vocab_size = 400
[train]
max_steps = 1
context_length = 32
per_device_train_batch_size = 2
[output]
dir = "out"
"""
CHATML = ("{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def make_model(place: pathlib.Path, hekla: str, source: pathlib.Path) -> pathlib.Path:
    """Makes the folder of a small Llama with a chat template, as if it had been downloaded."""
    place.mkdir()
    (place / "recipe.toml").write_text(STAND_IN_RECIPE)
    (place / "text.txt").write_text("\n".join(Sentences(source).many(2000)))
    added = 'tokenizer.add=["<|im_start|>","<|im_end|>"]'
    subprocess.run([hekla, "train", "recipe.toml", added], cwd=place, check=True, capture_output=True)
    model = place / "out"
    config = json.loads((model / "config.json").read_text())
    config.pop("hekla")
    (model / "config.json").write_text(json.dumps(config))
    tokenizer = json.loads((model / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").write_text(json.dumps(tokenizer | {"chat_template": CHATML, "eos_token": "<|im_end|>"}))
    return model
