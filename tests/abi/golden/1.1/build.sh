#!/usr/bin/env bash
# Builds the golden plugins of ABI 1.1: adapters, combiners and optimizers as `hekla plugin new` writes them, and the examples
# with buffers and states. 1.1 is open: its tables may still grow at their ends, so that binaries of today need not fit the release, and
# tests/abi/golden.sh builds them with every run. To close the version, build them once with the compilers of Debian 12 (gcc 12.2,
# rustc 1.63), commit the files, and never build them again:
#   tests/abi/golden/1.1/build.sh . tests/abi/golden/1.1
# golden.sh then uses the files. (1.1.txt and 1.1.abi: see layout.sh and abidiff.sh.)
#   build.sh REPOSITORY OUTPUT_FOLDER
set -euo pipefail
root=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
include=(-DHK_TARGET_ABI_MINOR=1 -I"$root/engine/include" -I"$root/plugins/sdk")
link=(-shared -fPIC -fvisibility=hidden -Wl,--version-script="$root/plugins/sdk/plugin.map" -Wl,--no-undefined -Wl,-s -lm)
: "${RUSTC:=$(command -v rustc || true)}"
languages='c cpp'
if [ -n "$RUSTC" ]; then
  languages="$languages rust"
  "$RUSTC" --edition 2021 -C opt-level=s --cfg 'hekla_minor="1"' --crate-type rlib --crate-name hekla_plugin \
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
for kind in adapter combiner optimizer convnet small_scan; do
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
        "$RUSTC" --edition 2021 -C opt-level=s -C panic=unwind -C strip=symbols --crate-type cdylib --crate-name golden \
          --extern hekla_plugin="$place/libhekla_plugin.rlib" "$place/$name.rs" -o "$out/$name.so" ;;
    esac
    filled $kind json "$name" >"$out/$name.json"
  done
done
