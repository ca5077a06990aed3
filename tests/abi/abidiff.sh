#!/usr/bin/env bash
# Compares the library of these headers with the released golden/*.abi by libabigail. The library consists of anchor
# functions, one per struct: without them libabigail does not see the tables, which are passed as void*.
# To create one for a release: abidiff.sh REPOSITORY GENERATE_ABI CC OUTPUT.abi
set -euo pipefail
root=$1 generate=$2 cc=$3 output=${4:-}
for tool in abidiff abidw; do
  command -v "$tool" >/dev/null || { printf 'skipped: %s is not installed (Debian: abigail-tools)\n' "$tool"; exit 77; }
done
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

anchor() { # anchor INCLUDE_FOLDER MINOR OUTPUT
  "$generate" anchor "$root" >"$place/anchor.c"
  (cd "$place" && "$cc" -std=c11 -g -O0 -fPIC -shared -DHK_TARGET_ABI_MINOR="$2" -I"$1" anchor.c -o "$3")
}
newest=$(sed -n 's/^#define HK_ABI_MINOR //p' "$root/engine/include/hekla/plugin/abi.h")
if [ -n "$output" ]; then
  anchor "$root/engine/include" "$newest" "$place/libanchor.so"
  abidw --no-corpus-path --no-comp-dir-path --no-show-locs --type-id-style hash "$place/libanchor.so" --out-file "$output"
  exit
fi

# Structs with two functions swapped, under the same names, as a mistake would.
mkdir -p "$place/swapped"
cp -r "$root/engine/include/hekla" "$place/swapped/"
sed -i 's/ destroy)(void\* self)/ swapped)(void* self)/; s/ build)(void\* self, hk_builder/ destroy)(void* self, hk_builder/; s/ swapped)(/ build)(/' \
  "$place/swapped/hekla/plugin/architecture.h"

for golden in "$root"/tests/abi/golden/*.abi; do
  minor=$(basename "$golden" .abi)
  minor=${minor#*.}
  # A new struct adds a function; everything else must be unchanged.
  anchor "$root/engine/include" "$minor" "$place/libanchor.so"
  abidiff --no-added-syms "$golden" "$place/libanchor.so" || { printf 'the headers are not what was released as %s\n' "$golden"; exit 1; }
  anchor "$place/swapped" "$minor" "$place/libanchor.so"
  if abidiff --no-added-syms "$golden" "$place/libanchor.so" >"$place/said.log"; then printf 'abidiff did not see two swapped functions\n'; exit 1; fi
  grep -q destroy "$place/said.log"
done
printf 'abidiff sees no change, and a swap where there is one\n'
