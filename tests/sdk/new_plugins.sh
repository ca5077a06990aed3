#!/usr/bin/env bash
# An author's evening, shortened: from an installed Hekla in an empty folder, a plugin of every kind and language that `plugin
# new` knows is made, built, found, trained with and resumed. The three languages say the same: their graphs are equal, and so
# are the bits that they learn. Rust is left out, and said so, where there is no rustc.
#   new_plugins.sh BUILD_FOLDER
set -euo pipefail
build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/../.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$build" --prefix "$place/hekla" >"$place/install.log"
hekla=$place/hekla/bin/hekla
export XDG_CACHE_HOME=$place/cache XDG_DATA_HOME=$place/data
cd "$place"
for i in $(seq 200); do printf 'line %d of a text that says %d things\n' "$i" $((i * 7919 % 1000)); done >text.txt
for i in $(seq 60); do printf 'a %s film, number %d\t%s\n' "$([ $((i % 2)) = 0 ] && echo good || echo bad)" "$i" $((i % 2)); done >rows.tsv

languages='cpp c'
left_out=''
if command -v rustc >/dev/null; then languages="$languages rust"; else left_out=' (no Rust: rustc is not installed)'; fi

logged() { # logged FILE COMMAND...: says what the command said if it fails
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

for language in $languages; do
  for kind in architecture objective head; do
    name=my-$kind
    folder=$language/$kind
    logged new.log "$hekla" plugin new --lang "$language" --kind "$kind" "$name" -o "$folder"
    if [ "$language" = rust ]; then
      logged build.log sh "$folder/build.sh"
    else
      logged build.log cmake -S "$folder" -B "$folder/build" -DCMAKE_PREFIX_PATH="$place/hekla"
      logged build.log cmake --build "$folder/build"
    fi
    exported=$(nm -D --defined-only "$folder/build/plugins/$name.so" | awk '{print $3}')
    [ "$exported" = hekla_plugin_entry ] || { printf '%s exports: %s\n' "$folder" "$exported"; exit 1; }
    if readelf -d "$folder/build/plugins/$name.so" | grep -q TEXTREL; then printf '%s has text relocations\n' "$folder"; exit 1; fi
    "$hekla" --plugin-path "$folder/build/plugins" plugin list >list.log
    grep -q "^  $name " list.log || { printf '%s is not listed\n' "$folder"; exit 1; }
    logged check.log "$hekla" --plugin-path "$folder/build/plugins" plugin check "$folder/build/plugins/$name.so" --level 2 \
      --patience 5
    case $kind in
      architecture) said=("$name" --set vocab_size=50 --set dropout=0.1 --head lm --objective clm) ;;
      objective) said=(gpt2 --set n_layer=1 --head lm --objective "$name") ;;
      head) said=(bert --set num_hidden_layers=1 --head "$name" --objective classification) ;;
    esac
    logged describe.log "$hekla" --plugin-path "$folder/build/plugins" describe "${said[@]}" --backward -o "$folder/graph.txt"
    cmp "$folder/graph.txt" "cpp/$kind/graph.txt"
    train "$folder" "$kind" "$folder/whole" train.max_steps=4 train.eval_steps=2
    cmp "$folder/whole/model.safetensors" "cpp/$kind/whole/model.safetensors"
  done
  # A run that was stopped goes on with the same bits.
  train "$language/architecture" architecture "$language/parts" train.max_steps=2 train.eval_steps=2
  train "$language/architecture" architecture "$language/parts" train.max_steps=4 train.eval_steps=2
  cmp "$language/architecture/whole/model.safetensors" "$language/parts/model.safetensors"
  "$hekla" --plugin-path "$language/architecture/build/plugins" generate "$language/parts" --prompt line --greedy \
    --max-new-tokens 12 >"$language/text" 2>/dev/null
  cmp "$language/text" cpp/text
  "$hekla" --plugin-path "$language/head/build/plugins" predict "$language/head/whole" --text 'a good film' >"$language/said" 2>/dev/null
  grep -q '"label"' "$language/said"
done

# A shape error names the author's line, and where a configuration is wrong it is the author's own words that are read.
if [ -z "$left_out" ]; then
  sed -i 's/linear(g.ask("hidden"), self.words(g))/linear(g.ask("hidden"), g.parameter("w", \&[3, 7], zeros()))/' rust/architecture/my-architecture.rs
  line=$(grep -n '"w", &\[3, 7\]' rust/architecture/my-architecture.rs | cut -d: -f1)
  logged build.log sh rust/architecture/build.sh
  if "$hekla" --plugin-path rust/architecture/build/plugins describe my-architecture --set vocab_size=50 --head lm --objective clm >err.log 2>&1; then exit 1; fi
  grep -q "linear: .*(my-architecture.rs:$line)" err.log || { cat err.log; exit 1; }
fi

# A host of the oldest minor runs what asks for no more.
minor=$(sed -n 's/.*"abi_minor_needed": *\([0-9]*\).*/\1/p' cpp/architecture/manifest.json)
cc -std=c11 -DHK_TARGET_ABI_MINOR="$minor" -I"$place/hekla/include" "$source/tests/abi/mock_host.c" -o host -ldl
for language in c cpp; do
  logged host.log ./host "$language/architecture/build/plugins/my-architecture.so" my-architecture
done

# An operation of its own, in C++.
logged new.log "$hekla" plugin new --kind operation my-operation
logged build.log cmake -S my-operation -B my-operation/build -DCMAKE_PREFIX_PATH="$place/hekla"
logged build.log cmake --build my-operation/build
"$hekla" --plugin-path my-operation/build/plugins plugin list >list.log
grep -q '^operations' list.log && grep -q '^  my-operation.gate ' list.log
operation_check=("$hekla" --plugin-path my-operation/build/plugins plugin check my-operation/build/plugins/my-operation.so --patience 5)
logged check.log "${operation_check[@]}" --only network. --only train.device --only graph.same
train my-operation operation whole-operation train.max_steps=6
train my-operation operation parts-operation train.max_steps=3
train my-operation operation parts-operation train.max_steps=6
cmp whole-operation/model.safetensors parts-operation/model.safetensors
"$hekla" --plugin-path my-operation/build/plugins generate whole-operation --prompt line --max-new-tokens 8 >/dev/null 2>&1

# A wrong gradient, and a kernel that computes something else than its reference, are found.
cp my-operation/my-operation.cpp right.cpp
sed -i 's/of_x \* x \* closed/of_x * closed/' my-operation/my-operation.cpp
logged build.log cmake --build my-operation/build
if "${operation_check[@]}" --only network.gradient >check.log; then cat check.log; exit 1; fi
grep -q 'the gradient is off' check.log || { cat check.log; exit 1; }
sed 's/use.output(0)\[i\] = use.input(0)\[i\]/use.output(0)[i] = 2.0 * use.input(0)[i]/' right.cpp >my-operation/my-operation.cpp
logged build.log cmake --build my-operation/build
if "${operation_check[@]}" --only train.device >check.log; then cat check.log; exit 1; fi
grep -q 'on the device is off' check.log || { cat check.log; exit 1; }
cp right.cpp my-operation/my-operation.cpp
logged build.log cmake --build my-operation/build

# What an author of an operation sees: its place in the graph, and the compiler's message with the line of the source.
"$hekla" --plugin-path my-operation/build/plugins describe my-operation --set vocab_size=16 --head lm --objective clm >graph.txt
grep -q '^operation my-operation.gate/1(float x, float gate; real sharpness = 1) -> y local 0 glsl$' graph.txt
grep -q '= my-operation.gate/1(.*gradient 1 .*# block.0' graph.txt
# The same in this process as in one of its own, where it was described until now; its CPU reference runs here.
"$hekla" --describe-in process --plugin-path my-operation/build/plugins describe my-operation --set vocab_size=16 --head lm --objective clm >here.txt
cmp graph.txt here.txt
"$hekla" --plugin-path my-operation/build/plugins generate whole-operation --prompt line --greedy --max-new-tokens 4 --reference >/dev/null 2>&1
# A manifest of another build is refused, with the line to change.
mkdir other
cp my-operation/build/plugins/my-operation.* other
printf 'x' >>other/my-operation.so
if "$hekla" --plugin-path other describe my-operation --set vocab_size=16 --head lm --objective clm >/dev/null 2>err.log; then exit 1; fi
grep -q 'is not the file that its manifest was written for' err.log || { cat err.log; exit 1; }
sed -i 's/squashed(sharpness/squished(sharpness/' my-operation/my-operation.cpp
cmake --build my-operation/build >operation.log 2>&1 || { cat operation.log; exit 1; }
if "$hekla" --plugin-path my-operation/build/plugins train my-operation/recipe.toml data.train=text.txt output.dir=bad >err.log 2>&1; then exit 1; fi
line=$(grep -n squished my-operation/my-operation.cpp | cut -d: -f1)
grep -q "my-operation.cpp:$line: error: 'squished'" err.log || { cat err.log; exit 1; }

# Refused: a name that cannot be one, a folder with something in it.
if "$hekla" plugin new --kind head 'No Name' >/dev/null 2>err.log; then exit 1; fi
grep -q "small letters" err.log
if "$hekla" plugin new --kind head cpp >/dev/null 2>err.log; then exit 1; fi
grep -q "is there and not empty" err.log

# Built by one compiler call with what pkg-config says; and with another target than the manifest's, which is refused.
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$place/hekla/lib/pkgconfig
  mkdir one
  read -ra flags <<<"$(pkg-config --cflags hekla-plugin)"
  read -ra libraries <<<"$(pkg-config --libs hekla-plugin)"
  cp c/objective/manifest.json one/my-objective.json
  cc -std=c11 -O1 -Wall -Wextra -Werror -fPIC -shared -DHK_TARGET_ABI_MINOR="$minor" "${flags[@]}" c/objective/my-objective.c "${libraries[@]}" -o one/my-objective.so
  "$hekla" --plugin-path one describe gpt2 --set n_layer=1 --head lm --objective my-objective >/dev/null
  cc -std=c11 -O1 -fPIC -shared -DHK_TARGET_ABI_MINOR=$((minor + 1)) "${flags[@]}" c/objective/my-objective.c "${libraries[@]}" -o one/my-objective.so
  if "$hekla" --plugin-path one describe gpt2 --set n_layer=1 --head lm --objective my-objective >/dev/null 2>err.log; then exit 1; fi
  grep -q "HK_TARGET_ABI_MINOR=$minor" err.log || { cat err.log; exit 1; }
  [ -e "$(pkg-config --variable=rustdir hekla-plugin)/hekla_plugin.rs" ]
fi
printf 'plugins of every kind made, built, trained with and resumed in: %s%s\n' "$languages" "$left_out"
