#!/usr/bin/env bash
# Tests the workflow of a plugin author: with an installed Hekla in an empty folder, a plugin of every kind and language
# that `plugin new` supports is created, built, found, trained with and resumed. The graphs of the three languages are
# equal, and so are their trained weights, bit for bit. Rust is skipped with a message if rustc is missing.
#   new_plugins.sh BUILD_FOLDER short|long
# short: those in C and Rust are only built, and their graphs compared.
set -euo pipefail
build=$(cd "$1" && pwd)
mode=$2
[[ $mode = short || $mode = long ]] || { printf 'new_plugins.sh: %s is neither short nor long\n' "$mode" >&2; exit 2; }
source=$(cd "$(dirname "$0")/../.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$build" --prefix "$place/hekla" >"$place/install.log"
hekla=$place/hekla/bin/hekla
export XDG_CACHE_HOME=$build/tests_cache XDG_DATA_HOME=$place/data
cd "$place"
for i in $(seq 200); do printf 'line %d of a text that says %d things\n' "$i" $((i * 7919 % 1000)); done >text.txt
for i in $(seq 60); do printf 'a %s film, number %d\t%s\n' "$([ $((i % 2)) = 0 ] && echo good || echo bad)" "$i" $((i % 2)); done >rows.tsv

# The model that adapters and combiners act on.
cat >body.toml <<'TOML'
[model]
architecture = "gpt2"
n_layer = 1
n_head = 2
n_embd = 32
n_positions = 32
[data]
train = "text.txt"
[tokenizer]
kind = "char"
[train]
max_steps = 2
context_length = 32
per_device_train_batch_size = 4
eval_steps = 0
[output]
dir = "body"
TOML

languages='cpp c'
left_out=''
if command -v rustc >/dev/null; then languages="$languages rust"; else left_out=' (no Rust: rustc is not installed)'; fi

logged() { # logged FILE COMMAND...: prints the output of the command if it fails
  local file=$1
  shift
  "$@" >"$file" 2>&1 || { cat "$file"; exit 1; }
}
train() { # train FOLDER KIND OUTPUT KEY=VALUE...
  local folder=$1 kind=$2 output=$3
  shift 3
  logged train.log "$hekla" --plugin-path "$folder/build/plugins" train "$folder/recipe.toml" \
    data.train="$([ "$kind" = head ] && echo rows.tsv || echo text.txt)" train.lr_scheduler_type=constant "output.dir=$output" "$@"
  [ -e "$output/model.safetensors" ] || { cat train.log; exit 1; }
}

build() { # build FOLDER
  if [ -e "$1/build.sh" ]; then
    logged build.log sh "$1/build.sh"
  else
    logged build.log cmake -S "$1" -B "$1/build" -DCMAKE_PREFIX_PATH="$place/hekla"
    logged build.log cmake --build "$1/build"
  fi
}

for language in $languages; do
  trains=1
  [[ $mode = long || $language = cpp ]] || trains=0
  for kind in architecture objective head operation; do
    name=my-$kind
    folder=$language/$kind
    logged new.log "$hekla" plugin new --lang "$language" --kind "$kind" "$name" -o "$folder"
    build "$folder"
    exported=$(nm -D --defined-only "$folder/build/plugins/$name.so" | awk '{print $3}')
    [ "$exported" = hekla_plugin_entry ] || { printf '%s exports: %s\n' "$folder" "$exported"; exit 1; }
    if readelf -d "$folder/build/plugins/$name.so" | grep -q TEXTREL; then printf '%s has text relocations\n' "$folder"; exit 1; fi
    "$hekla" --plugin-path "$folder/build/plugins" plugin list >list.log
    grep -q "^  $name " list.log || { printf '%s is not listed\n' "$folder"; exit 1; }
    [ $trains = 0 ] || logged check.log "$hekla" --plugin-path "$folder/build/plugins" plugin check "$folder/build/plugins/$name.so" --level 2 \
      --patience 5
    case $kind in
      architecture) said=("$name" --set vocab_size=50 --set dropout=0.1 --head lm --objective clm) ;;
      objective) said=(gpt2 --set n_layer=1 --head lm --objective "$name") ;;
      head) said=(bert --set num_hidden_layers=1 --head "$name" --objective classification) ;;
      operation) said=("$name" --set vocab_size=50 --head lm --objective clm) ;;
    esac
    logged describe.log "$hekla" --plugin-path "$folder/build/plugins" describe "${said[@]}" --backward -o "$folder/graph.txt"
    cmp "$folder/graph.txt" "cpp/$kind/graph.txt"
    [ $trains = 1 ] || continue
    train "$folder" "$kind" "$folder/whole" train.max_steps=4 train.eval_steps=2
    cmp "$folder/whole/model.safetensors" "cpp/$kind/whole/model.safetensors"
  done
  for kind in adapter combiner; do
    name=my-$kind
    folder=$language/$kind
    logged new.log "$hekla" plugin new --lang "$language" --kind "$kind" "$name" -o "$folder"
    build "$folder"
    [ $trains = 1 ] || continue
    logged check.log "$hekla" --plugin-path "$folder/build/plugins" plugin check "$folder/build/plugins/$name.so" --level 2 \
      --patience 5
    [ -e body/model.safetensors ] || logged body.log "$hekla" train body.toml
    train "$folder" "$kind" "$folder/whole" model.from=body train.max_steps=4 train.eval_steps=2
    cmp "$folder/whole/model.safetensors" "cpp/$kind/whole/model.safetensors"
  done
  folder=$language/optimizer
  logged new.log "$hekla" plugin new --lang "$language" --kind optimizer my-optimizer -o "$folder"
  build "$folder"
  [ $trains = 1 ] || continue
  logged check.log "$hekla" --plugin-path "$folder/build/plugins" plugin check "$folder/build/plugins/my-optimizer.so" --level 2 \
    --patience 5
  train "$folder" optimizer "$folder/whole" train.max_steps=4 train.eval_steps=2
  cmp "$folder/whole/model.safetensors" cpp/optimizer/whole/model.safetensors
  logged merge.log "$hekla" --plugin-path "$language/adapter/build/plugins" adapter merge \
    "$language/adapter/whole" -o "$language/merged"
  # A run that was stopped resumes with the same bits.
  for kind in architecture objective operation optimizer; do
    train "$language/$kind" "$kind" "$language/$kind/parts" train.max_steps=2 train.eval_steps=2
    train "$language/$kind" "$kind" "$language/$kind/parts" train.max_steps=4 train.eval_steps=2
    cmp "$language/$kind/whole/model.safetensors" "$language/$kind/parts/model.safetensors"
  done
  "$hekla" --plugin-path "$language/architecture/build/plugins" generate "$language/architecture/parts" --prompt line --greedy \
    --max-new-tokens 12 >"$language/text" 2>/dev/null
  cmp "$language/text" cpp/text
  "$hekla" --plugin-path "$language/head/build/plugins" predict "$language/head/whole" --text 'a good film' >"$language/said" 2>/dev/null
  grep -q '"label"' "$language/said"

  # A folder is converted with the names in its architecture's manifest; missing ones are named.
  if "$hekla" --plugin-path "$language/architecture/build/plugins" convert "$language/architecture/whole" converted >/dev/null 2>err.log; then exit 1; fi
  grep -q '"classes": \[{"class": "MyModelForTask", "head": "lm", "objective": "clm"}\]' err.log || { cat err.log; exit 1; }

  # A custom operation appears in lists and graphs, its kernel matches its reference, and for an error in the GLSL the
  # compiler's message names the line in the author's source.
  operation=("$hekla" --plugin-path "$language/operation/build/plugins")
  "${operation[@]}" plugin list >list.log
  grep -q '^operations' list.log && grep -q '^  my-operation.gate ' list.log
  grep -q '^operation my-operation.gate/1(float x, float gate; real sharpness = 1) -> y local 0 glsl$' "$language/operation/graph.txt"
  logged check.log "${operation[@]}" plugin check "$language/operation/build/plugins/my-operation.so" --patience 5 --only train.device \
    --only operation.float32 --only operation.order
  # The exported file contains the operation's kernel: it runs without the plugin and generates the same text, with the
  # same bits.
  logged export.log "${operation[@]}" export "$language/operation/whole" "$language/operation/model.hekla"
  for more in "--greedy --max-new-tokens 8" "--seed 3 --max-new-tokens 12"; do
    read -ra more <<<"$more"
    "${operation[@]}" generate "$language/operation/whole" --prompt line --json "${more[@]}" >folder.json 2>err.log || { cat err.log; exit 1; }
    "$hekla" generate "$language/operation/model.hekla" --prompt line --json "${more[@]}" >file.json 2>err.log || { cat err.log; exit 1; }
    cmp <(grep -v '"tokens_per_s"' folder.json) <(grep -v '"tokens_per_s"' file.json)
  done
  "${operation[@]}" embed "$language/operation/whole" line --port logits >folder.txt 2>err.log || { cat err.log; exit 1; }
  "$hekla" embed "$language/operation/model.hekla" line --port logits >file.txt 2>err.log || { cat err.log; exit 1; }
  cmp folder.txt file.txt
  source_file=$(ls "$language"/operation/my-operation.*)
  cp "$source_file" right.source
  sed -i 's/squashed(sharpness/squished(sharpness/' "$source_file"
  build "$language/operation"
  if "${operation[@]}" train "$language/operation/recipe.toml" data.train=text.txt output.dir=bad >err.log 2>&1; then exit 1; fi
  line=$(grep -n squished "$source_file" | cut -d: -f1)
  grep -q "${source_file##*/}:$line: error: 'squished'" err.log || { cat err.log; exit 1; }
  cp right.source "$source_file"
  build "$language/operation"
done

# A shape error names the author's line, and a configuration error shows the author's own message.
if [ -z "$left_out" ]; then
  sed -i 's/linear(g.ask("hidden"), self.words(g))/linear(g.ask("hidden"), g.parameter("w", \&[3, 7], zeros()))/' rust/architecture/my-architecture.rs
  line=$(grep -n '"w", &\[3, 7\]' rust/architecture/my-architecture.rs | cut -d: -f1)
  logged build.log sh rust/architecture/build.sh
  if "$hekla" --plugin-path rust/architecture/build/plugins describe my-architecture --set vocab_size=50 --head lm --objective clm >err.log 2>&1; then exit 1; fi
  grep -q "linear: .*(my-architecture.rs:$line)" err.log || { cat err.log; exit 1; }
fi

# So it does in C++: for an operation, for an operator, and for a function in block.hpp that uses several.
wrong_line() { # wrong_line FOLDER ID PATTERN REPLACEMENT MESSAGE: describe's error names the line with PATTERN
  local file line
  file=$(ls "$1"/my-*.cpp)
  cp "$file" right.source
  line=$(grep -nF -- "$3" "$file" | cut -d: -f1)
  [ -n "$line" ] || { printf '%s is not in %s\n' "$3" "$file"; exit 1; }
  sed -i "${line}s/.*/$4/" "$file"
  build "$1"
  if "$hekla" --plugin-path "$1/build/plugins" describe "$2" --set vocab_size=50 --head lm --objective clm >err.log 2>&1; then exit 1; fi
  grep -q "$5.*(${file##*/}:$line)" err.log || { printf 'line %s was expected\n' "$line"; cat err.log; exit 1; }
  cp right.source "$file"
}
wrong_line cpp/architecture my-architecture 'linear(g.ask("hidden"), words(g))' 'g.offer("logits", linear(g.ask("hidden"), g.parameter("w", {3, 7})));' 'linear: '
wrong_line cpp/architecture my-architecture 'y = gate * convolution' 'y = gate * g.parameter("w", {3, 7}) * convolution(g, value, layer);' 'mul: '
wrong_line cpp/operation my-operation 'return layer_of(merge_heads(y)' 'return layer_of(merge_heads(split_heads(y, 7)), "out", s_.width);' ''
build cpp/architecture
build cpp/operation

# A host of the oldest minor runs plugins that need no newer one.
minor=$(sed -n 's/.*"abi_minor_needed": *\([0-9]*\).*/\1/p' cpp/architecture/manifest.json)
cc -std=c11 -DHK_TARGET_ABI_MINOR="$minor" -I"$place/hekla/include" "$source/tests/abi/mock_host.c" -o host -ldl
for language in c cpp; do
  logged host.log ./host "$language/architecture/build/plugins/my-architecture.so" my-architecture
done

# A wrong gradient, and a kernel that differs from its reference, are detected.
operation=cpp/operation/my-operation.cpp
operation_check=("$hekla" --plugin-path cpp/operation/build/plugins plugin check cpp/operation/build/plugins/my-operation.so --patience 5)
cp $operation right.cpp
sed -i 's/of_x \* x \* closed/of_x * closed/' $operation
logged build.log cmake --build cpp/operation/build
if "${operation_check[@]}" --only network.gradient >check.log; then cat check.log; exit 1; fi
grep -q 'the gradient is off' check.log || { cat check.log; exit 1; }
sed 's/use.output(0)\[i\] = use.input(0)\[i\]/use.output(0)[i] = 2.0 * use.input(0)[i]/' right.cpp >$operation
logged build.log cmake --build cpp/operation/build
if "${operation_check[@]}" --only train.device >check.log; then cat check.log; exit 1; fi
grep -q 'on the device in float32 is off' check.log || { cat check.log; exit 1; }
# So is one that accesses memory outside of its tensors, even though the accessors prevent harm.
sed 's/load_x(i) \*/load_x(i + 1000000) */' right.cpp >$operation
if cmp -s $operation right.cpp; then printf 'the template does not load x where it was expected\n'; exit 1; fi
logged build.log cmake --build cpp/operation/build
if "${operation_check[@]}" --only device.bounds >check.log; then cat check.log; exit 1; fi
grep -q 'my-operation.gate.* accesses memory outside its tensors: [1-9][0-9]* loads, 0 stores' check.log || { cat check.log; exit 1; }
cp right.cpp $operation
logged build.log cmake --build cpp/operation/build
logged check.log "${operation_check[@]}" --only device.

# The graph is the same in this process as in the child process used so far; the CPU reference of an operation runs
# here.
"$hekla" --plugin-path cpp/operation/build/plugins describe my-operation --set vocab_size=16 --head lm --objective clm >graph.txt
"$hekla" --describe-in process --plugin-path cpp/operation/build/plugins describe my-operation --set vocab_size=16 --head lm --objective clm >here.txt
cmp graph.txt here.txt
"$hekla" --plugin-path cpp/operation/build/plugins generate cpp/operation/whole --prompt line --greedy --max-new-tokens 4 --reference >/dev/null 2>&1
# The manifest of another build is rejected, with the line to change.
mkdir other
cp cpp/operation/build/plugins/my-operation.* other
printf 'x' >>other/my-operation.so
if "$hekla" --plugin-path other describe my-operation --set vocab_size=16 --head lm --objective clm >/dev/null 2>err.log; then exit 1; fi
grep -q 'is not the file that its manifest was written for' err.log || { cat err.log; exit 1; }

# Rejected: an invalid name, and a folder that is not empty.
if "$hekla" plugin new --kind head 'No Name' >/dev/null 2>err.log; then exit 1; fi
grep -q "small letters" err.log
if "$hekla" plugin new --kind head cpp >/dev/null 2>err.log; then exit 1; fi
grep -q "exists and is not empty" err.log

# Built by one compiler call with pkg-config's flags; a target that the headers do not have does not compile.
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$place/hekla/lib/pkgconfig
  mkdir one
  read -ra flags <<<"$(pkg-config --cflags hekla-plugin)"
  read -ra libraries <<<"$(pkg-config --libs hekla-plugin)"
  cp c/objective/manifest.json one/my-objective.json
  cc -std=c11 -O1 -Wall -Wextra -Werror -fPIC -shared -DHK_TARGET_ABI_MINOR="$minor" "${flags[@]}" c/objective/my-objective.c "${libraries[@]}" -o one/my-objective.so
  "$hekla" --plugin-path one describe gpt2 --set n_layer=1 --head lm --objective my-objective >/dev/null
  if cc -std=c11 -O1 -fPIC -shared -DHK_TARGET_ABI_MINOR=99 "${flags[@]}" c/objective/my-objective.c "${libraries[@]}" -o one/my-objective.so 2>err.log; then exit 1; fi
  grep -q "abi_minor_needed in the manifest" err.log || { cat err.log; exit 1; }
  [ -e "$(pkg-config --variable=rustdir hekla-plugin)/hekla_plugin.rs" ]
fi
if [ $mode = long ]; then trained=$languages; else trained=cpp; fi
printf 'plugins of every kind made and built in: %s%s; trained with and resumed in: %s\n' "$languages" "$left_out" "$trained"
