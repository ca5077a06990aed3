#!/usr/bin/env bash
# An author's evening, shortened: from an installed Hekla in an empty folder, a plugin of every kind that `plugin new` knows is
# made, built, found and trained with; and once more built by one compiler call with what pkg-config says.
#   new_plugins.sh BUILD_FOLDER
set -euo pipefail
build=$(cd "$1" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$build" --prefix "$place/hekla" >"$place/install.log"
hekla=$place/hekla/bin/hekla
export XDG_CACHE_HOME=$place/cache XDG_DATA_HOME=$place/data
cd "$place"
for i in $(seq 200); do printf 'line %d of a text that says %d things\n' "$i" $((i * 7919 % 1000)); done >text.txt
for i in $(seq 60); do printf 'a %s film, number %d\t%s\n' "$([ $((i % 2)) = 0 ] && echo good || echo bad)" "$i" $((i % 2)); done >rows.tsv

for kind in architecture objective head operation; do
  name=my-$kind
  "$hekla" plugin new --kind "$kind" "$name" >new.log
  cmake -S "$name" -B "$name/build" -DCMAKE_PREFIX_PATH="$place/hekla" >"$kind.log" 2>&1 || { cat "$kind.log"; exit 1; }
  cmake --build "$name/build" >>"$kind.log" 2>&1 || { cat "$kind.log"; exit 1; }
  exported=$(nm -D --defined-only "$name/build/plugins/$name.so" | awk '{print $3}')
  [ "$exported" = hekla_plugin_entry ] || { printf '%s exports: %s\n' "$name" "$exported"; exit 1; }
  "$hekla" --plugin-path "$name/build/plugins" plugin list >list.log
  grep -q "^  $name " list.log || { printf '%s is not listed\n' "$name"; exit 1; }
  "$hekla" --plugin-path "$name/build/plugins" train "$name/recipe.toml" data.train="$([ "$kind" = head ] && echo rows.tsv || echo text.txt)" \
    train.max_steps=4 train.eval_steps=2 "output.dir=$name/out" >"$kind.log" 2>&1 || { cat "$kind.log"; exit 1; }
  [ -e "$name/out/model.safetensors" ] || { cat "$kind.log"; exit 1; }
done
"$hekla" --plugin-path my-architecture/build/plugins generate my-architecture/out --prompt line --max-new-tokens 8 >/dev/null 2>&1
"$hekla" --plugin-path my-head/build/plugins predict my-head/out --text 'a good film' >said.log 2>/dev/null
grep -q label said.log

grep -q '^operations' list.log && grep -q '^  my-operation.gate ' list.log
"$hekla" --plugin-path my-operation/build/plugins generate my-operation/out --prompt line --max-new-tokens 8 >/dev/null 2>&1

# A run that was stopped goes on with the same bits.
run() {
  "$hekla" --plugin-path "my-$1/build/plugins" train "my-$1/recipe.toml" data.train=text.txt \
    train.lr_scheduler_type=constant "${@:2}" >run.log 2>&1 || { cat run.log; exit 1; }
}
for kind in architecture operation; do
  run $kind train.max_steps=6 output.dir=whole-$kind
  run $kind train.max_steps=3 output.dir=parts-$kind
  run $kind train.max_steps=6 output.dir=parts-$kind
  cmp whole-$kind/model.safetensors parts-$kind/model.safetensors
done

# What an author of an operation sees: its place in the graph, and the compiler's message with the line of the source.
"$hekla" --plugin-path my-operation/build/plugins describe my-operation --set vocab_size=16 --head lm --objective clm >graph.txt
grep -q '^operation my-operation.gate/1(float x, float gate; real sharpness = 1) -> y local 0 glsl$' graph.txt
grep -q '= my-operation.gate/1(.*gradient 1 .*# block.0' graph.txt
sed -i 's/squashed(sharpness/squished(sharpness/' my-operation/my-operation.cpp
cmake --build my-operation/build >operation.log 2>&1 || { cat operation.log; exit 1; }
if "$hekla" --plugin-path my-operation/build/plugins train my-operation/recipe.toml data.train=text.txt output.dir=bad >err.log 2>&1; then exit 1; fi
line=$(grep -n squished my-operation/my-operation.cpp | cut -d: -f1)
grep -q "my-operation.cpp:$line: error: 'squished'" err.log || { cat err.log; exit 1; }

# Refused: a name that cannot be one, a folder with something in it.
if "$hekla" plugin new --kind head 'No Name' >/dev/null 2>err.log; then exit 1; fi
grep -q "small letters" err.log
if "$hekla" plugin new --kind head my-head >/dev/null 2>err.log; then exit 1; fi
grep -q "is there and not empty" err.log

if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$place/hekla/lib/pkgconfig
  mkdir one
  # shellcheck disable=SC2046
  c++ -std=c++20 -O1 -Wall -Wextra -Werror -fPIC -shared -DHK_TARGET_ABI_MINOR=3 $(pkg-config --cflags hekla-plugin) my-objective/my-objective.cpp \
    $(pkg-config --libs hekla-plugin) -o one/my-objective.so
  cp my-objective/manifest.json one/my-objective.json
  "$hekla" --plugin-path one plugin list >list.log
  grep -q '^  my-objective ' list.log
fi
printf 'four plugins made, built, trained with\n'
