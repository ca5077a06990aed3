#!/usr/bin/env bash
# Plugins that were built once for a released version of the ABI and not rebuilt since (golden/VERSION/build.sh
# documents how): each is listed, described, trained with and resumed, and runs in a mock host of its minor version and
# of every later one. Older hosts refuse it. Those of a version that is still open are built here.
#   golden.sh REPOSITORY HEKLA CC
set -euo pipefail
root=$(cd "$1" && pwd) hekla=$2 cc=$3
[ "$(uname -m)" = x86_64 ] || { printf 'skipped: the golden plugins are of x86-64\n'; exit 77; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export XDG_CACHE_HOME=$(dirname "$hekla")/../tests_cache XDG_DATA_HOME=$place/data
newest=$(sed -n 's/^#define HK_ABI_MINOR //p' "$root/engine/include/hekla/plugin/abi.h")
for minor in $(seq 0 "$newest"); do
  "$cc" -std=c11 -DHK_TARGET_ABI_MINOR="$minor" -I"$root/engine/include" "$root/tests/abi/mock_host.c" -o "$place/host.$minor" -ldl
done
cd "$place"
for i in $(seq 60); do printf 'line %d of a text that says %d things\n' "$i" $((i * 7919 % 1000)); done >text.txt
for i in $(seq 24); do printf 'a %s film, number %d\t%s\n' "$([ $((i % 2)) = 0 ] && echo good || echo bad)" "$i" $((i % 2)); done >rows.tsv

# A convolution net's images, and the model that adapters act on.
awk 'BEGIN { for (i = 0; i < 24; ++i) { line = ""; for (p = 0; p < 36; ++p) line = line (i * 7 + p * p) % 3; print line "\t" i % 2 } }' >images.tsv
cat >body.toml <<'TOML'
[model]
architecture = "gpt2"
n_layer = 1
n_head = 2
n_embd = 16
n_positions = 32
[data]
train = "text.txt"
[tokenizer]
kind = "char"
[train]
max_steps = 2
context_length = 32
per_device_train_batch_size = 2
eval_steps = 0
[output]
dir = "body"
TOML

logged() {
  "$@" >said.log 2>&1 || { printf '%s\n' "$*"; cat said.log; exit 1; }
}
count=0
for folder in "$root"/tests/abi/golden/1.*/; do
  version=$(basename "$folder")
  mkdir "$version"
  if compgen -G "$folder/*.so" >/dev/null; then
    cp "$folder"/*.so "$folder"/*.json "$version"
  else
    logged "$folder/build.sh" "$root" "$version"
  fi
  chmod go-w "$version" "$version"/*
  for library in "$version"/*.so; do
    name=$(basename "$library" .so)
    kind=${name##*-}
    # Hosts of all minor versions from the plugin's own on, and those before it.
    for minor in $(seq "${version#*.}" "$newest"); do
      case $kind in
        operation)
          logged "./host.$minor" "$library" operation "$name.gate"
          logged "./host.$minor" "$library" architecture "$name" ;;
        architecture | objective | head) logged "./host.$minor" "$library" "$kind" "$name" ;;
      esac
    done
    for minor in $(seq 0 $((${version#*.} - 1))); do
      if "./host.$minor" "$library" architecture "$name" >said.log 2>&1; then printf 'a host of 1.%s takes %s\n' "$minor" "$name"; exit 1; fi
      grep -q 'asks for a newer host' said.log || { cat said.log; exit 1; }
    done
    data=text.txt more=()
    case $kind in
      head) data=rows.tsv ;;
      convnet) data=images.tsv ;;
      adapter | combiner)
        more=(model.from=body)
        [ -e body/model.safetensors ] || logged "$hekla" train body.toml ;;
    esac
    if [ -e "$root/apps/hekla/templates/$kind.toml" ]; then
      sed "s/%NAME%/$name/g" "$root/apps/hekla/templates/$kind.toml" >recipe.toml
    else
      sed "s/$kind/$name/g" "$root/plugins/examples/$kind/recipe.toml" >recipe.toml
    fi
    train() { # train OUTPUT STEPS
      logged "$hekla" --plugin-path "$version" train recipe.toml "data.train=$data" "${more[@]}" \
        "data.valid=$data" train.lr_scheduler_type=constant train.eval_steps=2 train.eval_batches=1 train.per_device_train_batch_size=2 \
        "train.max_steps=$2" "output.dir=$version/$1"
    }
    train "$name.whole" 4
    train "$name.parts" 2
    train "$name.parts" 4
    cmp "$version/$name.whole/model.safetensors" "$version/$name.parts/model.safetensors"
    count=$((count + 1))
  done
  # The results were equal in all languages then, and still are.
  for kind in architecture operation adapter combiner optimizer convnet small_scan small_slstm; do
    [ -e "$version/golden-c-$kind.whole" ] || continue
    for whole in "$version"/golden-*-"$kind".whole; do cmp "$whole/model.safetensors" "$version/golden-c-$kind.whole/model.safetensors"; done
  done
done
[ "$count" -gt 0 ]
printf '%d golden plugins, loaded, trained with and resumed\n' "$count"
