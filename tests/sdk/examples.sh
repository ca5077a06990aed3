#!/usr/bin/env bash
# Tests the examples for plugin authors with an installed Hekla: runs every command of plugins/EXAMPLES.md in an empty folder,
# for C++, C and Rust, and compares what the page promises. Rust is skipped with a message if rustc is missing.
#   examples.sh BUILD_FOLDER
set -euo pipefail
build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/../.." && pwd)
command -v python3 >/dev/null || { printf 'skipped: python3, which compares numbers, is not installed\n'; exit 77; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$build" --prefix "$place/hekla" >"$place/install.log"
export XDG_CACHE_HOME=$build/tests_cache XDG_DATA_HOME=$place/data PATH=$place/hekla/bin:$PATH
page=$place/hekla/share/doc/hekla/plugins/EXAMPLES.md
cmp "$page" "$source/plugins/EXAMPLES.md"
awk '/^```/ && inside { inside = 0; next } /^```sh$/ { inside = 1; next } inside' "$page" | sed "s#/opt/hekla#$place/hekla#g" >"$place/commands"
[ "$(grep -c '^hekla ' "$place/commands")" -ge 8 ] || { printf 'the page has too few commands\n'; exit 1; }
languages='cpp c'
left_out=''
if command -v rustc >/dev/null; then languages="$languages rust"; else left_out=' (no Rust: rustc is not installed)'; fi

logged() { # logged FILE COMMAND...: prints the output of the command if it fails
  local file=$1
  shift
  "$@" >"$file" 2>&1 || { printf '%s\n' "$*"; cat "$file"; exit 1; }
}
mkdir "$place/trial"
cd "$place/trial"
for language in $languages; do
  rm -rf out start
  language=$language logged run.log bash -euo pipefail "$place/commands"
  [ "$(grep -c ' 0 failed' run.log)" = 6 ] || { cat run.log; exit 1; }
  plugins=build/$language
  # The same graphs and the same bits in every language.
  for run in convnet experts dense taught with_muon small_scan small_slstm; do
    mkdir -p "first/$run"
    [ $language != cpp ] || cp "out/$run/model.safetensors" "first/$run/"
    cmp "out/$run/model.safetensors" "first/$run/model.safetensors" || { printf '%s: %s trains to other bits\n' "$language" $run; exit 1; }
  done
  # The image net learns; the teacher follows its recursion; the text is what whole rows say.
  logged numbers.log python3 "$source/tests/sdk/examples_numbers.py" learns out/convnet 0.5
  logged numbers.log python3 "$source/tests/sdk/examples_numbers.py" teacher out/taught 0.9
  for run in small_scan small_slstm experts; do
    hekla --plugin-path $plugins generate out/$run --prompt 12 --greedy --max-new-tokens 16 >text 2>err.log || { cat err.log; exit 1; }
    logged embed.log hekla --plugin-path $plugins embed out/$run "$(cat text)" --port logits --pooling none -o logits.jsonl
    logged numbers.log python3 "$source/tests/sdk/examples_numbers.py" greedy out/$run text logits.jsonl 2
  done
  # Twenty steps as in PyTorch.
  cp -r "$source/tests/sdk/muon/start" "$source/tests/sdk/muon/twin.txt" .
  logged muon.log hekla --plugin-path $plugins train examples/own_muon/recipe.toml data.valid=twin.txt data.order=shuffle
  logged numbers.log python3 "$source/tests/sdk/examples_numbers.py" twin out/own_muon "$source/tests/sdk/muon/twin.json"
  cat numbers.log
done
printf 'the examples work as the page says in: %s%s\n' "$languages" "$left_out"
