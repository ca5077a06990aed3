#!/usr/bin/env bash
# How the plugins beside this script were built, once, when the plugin ABI became 1.1: adapters, combiners and optimizers as
# `hekla plugin new` wrote them then, and examples with buffers, states and loops, for x86-64, with the compilers of Debian 12 (gcc 12.2,
# rustc 1.63). They are never built again: that they are old is their use, and tests/abi/golden.sh trains with them.
#   build.sh REPOSITORY OUTPUT_FOLDER
set -euo pipefail
root=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
include=(-DHK_TARGET_ABI_MINOR=1 "-ffile-prefix-map=$place=." "-ffile-prefix-map=$root=." -I"$root/engine/include" -I"$root/plugins/sdk")
link=(-shared -fPIC -fvisibility=hidden -Wl,--version-script="$root/plugins/sdk/plugin.map" -Wl,--no-undefined -Wl,-s -lm)
: "${RUSTC:=$(command -v rustc || true)}"
languages='c cpp'
if [ -n "$RUSTC" ]; then
  languages="$languages rust"
  "$RUSTC" --edition 2021 -C opt-level=s --remap-path-prefix "$root=." --cfg 'hekla_minor="1"' --crate-type rlib --crate-name hekla_plugin \
    "$root/plugins/sdk/rust/hekla_plugin.rs" -o "$place/libhekla_plugin.rlib"
else
  printf 'without Rust: rustc is not installed\n'
fi

filled() { # filled KIND SUFFIX NAME: a template, or an example under another name
  local template=$root/apps/hekla/templates/$1.$2
  if [ -e "$template" ]; then
    sed "s/%NAME%/$3/g; s/%CLASS%/Golden/g; s/%SOURCE%/$3/g; s/%ABI_MAJOR%/1/g; s|%PROGRAM%|hekla|g" "$template"
  else
    sed "s/$1/$3/g" "$root/plugins/examples/$1/$1.$2"
  fi
}
for kind in adapter combiner optimizer convnet small_scan small_slstm; do
  for language in $languages; do
    name=golden-$language-$kind
    case $language in
      c)
        filled $kind c "$name" >"$place/$name.c"
        gcc -std=c11 -O2 "${include[@]}" "$place/$name.c" "${link[@]}" -o "$out/$name.so" ;;
      cpp)
        filled $kind cpp "$name" >"$place/$name.cpp"
        g++ -std=c++20 -O1 "${include[@]}" "$place/$name.cpp" "${link[@]}" -o "$out/$name.so" ;;
      rust)
        filled $kind rs "$name" >"$place/$name.rs"
        "$RUSTC" --edition 2021 -C opt-level=s --remap-path-prefix "$place=." --remap-path-prefix "$root=." -C panic=unwind -C strip=symbols --crate-type cdylib --crate-name golden \
          --extern hekla_plugin="$place/libhekla_plugin.rlib" "$place/$name.rs" -o "$out/$name.so" ;;
    esac
    filled $kind json "$name" >"$out/$name.json"
  done
done
