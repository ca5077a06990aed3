#!/usr/bin/env bash
# How the plugins beside this script were built, once, when the plugin ABI became 1.0: what `hekla plugin new` wrote then, for
# x86-64, with the compilers of Debian 12 (gcc 12.2, rustc 1.63) and plain flags. They are never built again: that they are old
# is their use, and tests/abi/golden.sh trains with them. A later minor version gets a folder of its own.
#   build.sh REPOSITORY OUTPUT_FOLDER
set -euo pipefail
root=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
include=(-I"$root/engine/include" -I"$root/plugins/sdk")
link=(-shared -fPIC -fvisibility=hidden -Wl,--version-script="$root/plugins/sdk/plugin.map" -Wl,--no-undefined -Wl,-s -lm)
: "${RUSTC:=/usr/bin/rustc}"
"$RUSTC" --edition 2021 -O --cfg 'hekla_minor="0"' --crate-type rlib --crate-name hekla_plugin "$root/plugins/sdk/rust/hekla_plugin.rs" -o "$place/libhekla_plugin.rlib"

filled() { # filled TEMPLATE NAME
  sed "s/%NAME%/$2/g; s/%CLASS%/Golden/g; s/%SOURCE%/$2/g; s/%ABI_MAJOR%/1/g; s/%ABI_OLDEST%/0/g; s|%PROGRAM%|hekla|g" "$root/apps/hekla/templates/$1"
}
for kind in architecture objective head operation; do
  for language in c cpp rust; do
    # Rust brings its standard library into every file: two say it, and that of the operation has an architecture too.
    if [ $language = rust ] && { [ $kind = architecture ] || [ $kind = head ]; }; then continue; fi
    name=golden-$language-$kind
    case $language in
      c)
        filled $kind.c "$name" >"$place/$name.c"
        gcc -std=c11 -O2 -DHK_TARGET_ABI_MINOR=0 "${include[@]}" "$place/$name.c" "${link[@]}" -o "$out/$name.so" ;;
      cpp)
        filled $kind.cpp "$name" >"$place/$name.cpp"
        g++ -std=c++20 -O2 -DHK_TARGET_ABI_MINOR=0 "${include[@]}" "$place/$name.cpp" "${link[@]}" -o "$out/$name.so" ;;
      rust)
        filled $kind.rs "$name" >"$place/$name.rs"
        "$RUSTC" --edition 2021 -C opt-level=s -C panic=unwind -C strip=symbols --crate-type cdylib --crate-name golden \
          --extern hekla_plugin="$place/libhekla_plugin.rlib" "$place/$name.rs" -o "$out/$name.so" ;;
    esac
    filled $kind.json "$name" >"$out/$name.json"
  done
done
