#!/usr/bin/env bash
# Reads the headers with Debian's bindgen. Its output must compile, pass its own layout tests and name every struct and
# slot.
#   bindgen.sh REPOSITORY
set -euo pipefail
root=$1
for tool in bindgen rustc; do
  command -v "$tool" >/dev/null || { printf 'skipped: %s is not installed\n' "$tool"; exit 77; }
done
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
newest=$(sed -n 's/^#define HK_ABI_MINOR //p' "$root/engine/include/hekla/plugin/abi.h")
bindgen "$root/engine/include/hekla/plugin/plugin.h" --allowlist-type 'hk_.*' --allowlist-var 'HK_.*' -o "$place/bound.rs" -- \
  -I"$root/engine/include" -DHK_TARGET_ABI_MINOR="$newest"
while read -r word name rest; do
  case $word in
    struct) grep -q "pub struct $name " "$place/bound.rs" || { printf 'bindgen did not see %s\n' "$name"; exit 1; } ;;
    [0-9]*)
      slot=${rest##* }
      case $slot in type | in) slot=${slot}_ ;; esac # words of Rust
      grep -q "pub $slot:" "$place/bound.rs" || { printf 'bindgen did not see the member %s\n' "$slot"; exit 1; } ;;
  esac
done < <(grep -v '^#' "$root/engine/plugin/abi_layout.txt")
rustc --test --edition 2021 -A warnings "$place/bound.rs" -o "$place/bound"
"$place/bound" >"$place/tests.log" || { cat "$place/tests.log"; exit 1; }
grep '^test result' "$place/tests.log"
