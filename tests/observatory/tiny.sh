# Shared by the scripts in this folder: a working folder with a text and a recipe that a software driver trains in
# seconds.

fail() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# make_recipe STEPS: writes text.txt and tiny.toml, which trains into run/, in the current folder.
make_recipe() {
  local i
  for i in $(seq 400); do echo "line $((i * i % 97)) of the text, and some more of it"; done >text.txt
  cat >tiny.toml <<RECIPE
[model]
architecture = "gpt2"
n_embd = 32
n_layer = 2
n_head = 2
n_positions = 64
[objective]
id = "clm"
[head]
id = "lm"
[tokenizer]
kind = "bpe"
vocab_size = 320
[data]
train = "text.txt"
valid_fraction = 0.1
[train]
max_steps = $1
learning_rate = 1e-2
warmup_steps = 5
context_length = 24
per_device_train_batch_size = 4
eval_steps = 20
eval_batches = 2
save_steps = 0
[output]
dir = "run"
RECIPE
}

# make_translator: writes pairs.tsv and translator.toml, which trains an encoder-decoder into translator/.
make_translator() {
  local i
  for i in $(seq 200); do printf 'line %d\tligne %d\n' "$i" "$i"; done >pairs.tsv
  cat >translator.toml <<RECIPE
[model]
architecture = "attention_seq2seq"
embedding_size = 32
hidden_size = 32
[objective]
id = "seq2seq"
[head]
id = "lm"
[tokenizer]
kind = "char"
[data]
format = "tsv"
train = "pairs.tsv"
valid_fraction = 0.1
columns = ["source", "target"]
[train]
max_steps = 60
learning_rate = 1e-2
context_length = 16
per_device_train_batch_size = 16
eval_steps = 0
save_steps = 0
[output]
dir = "translator"
RECIPE
}

# value FILE NAME: prints the value of NAME in the window's --controls file; nothing if there is none.
value() { awk -F '\t' -v name="$2" '$1 == "value" && $2 == name { print $3 }' "$1"; }

# make_adapters HEKLA: trains LoRA adapters of run/ into a/ and b/, an IA3 adapter into ia3/, an adapter of another model
# into foreign/, and a router of a and b into routed/.
make_adapters() {
  local i hekla=$1
  sed '/^\[tokenizer\]/,/^vocab_size/d' tiny.toml >adapter.toml
  for i in $(seq 100); do echo 'some text, and more of the text'; done >a.txt
  for i in $(seq 100); do echo 'line 9 of the line, and it'; done >b.txt
  learn() { "$hekla" train "$@" train.eval_steps=0 train.max_steps=150 >trained 2>&1 || fail "hekla train $*: $(cat trained)"; }
  learn adapter.toml model.from=run data.train=a.txt adapter.id=lora adapter.r=2 'adapter.target_modules="all-linear"' output.dir=a
  learn adapter.toml model.from=run data.train=b.txt adapter.id=lora adapter.r=5 'adapter.target_modules="all-linear"' output.dir=b
  learn adapter.toml model.from=run data.train=b.txt adapter.id=ia3 output.dir=ia3
  learn adapter.toml model.from=run 'adapters.a="a"' 'adapters.b="b"' 'combine.how="soft(a, b)"' output.dir=routed
  learn tiny.toml train.seed=7 output.dir=another
  learn adapter.toml model.from=another adapter.id=lora output.dir=foreign
}
