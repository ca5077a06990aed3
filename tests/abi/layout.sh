#!/usr/bin/env bash
# Checks the released layouts: for each golden/*.txt the description still has everything at its place, and the headers
# compile with asserts of every size, offset, type and constant, as C11, C17, C++17 and C++20, for the target of that
# release and for the newest. All of them detect a small change of a layout.
#   layout.sh REPOSITORY GENERATE_ABI CC CXX
set -euo pipefail
root=$1 generate=$2 cc=$3 cxx=$4
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
newest=$(sed -n 's/^#define HK_ABI_MINOR //p' "$root/engine/include/hekla/plugin/abi.h")

compile() { # compile STANDARD MINOR FILE
  local compiler=$cc language=c
  case $1 in *++*) compiler=$cxx language=c++ ;; esac
  "$compiler" -x "$language" -std="$1" -pedantic -Wall -Wextra -Werror -fsyntax-only -DHK_TARGET_ABI_MINOR="$2" -I"$root/engine/include" "$3"
}

count=0
for golden in "$root"/tests/abi/golden/*.txt; do
  minor=$(basename "$golden" .txt)
  minor=${minor#*.}
  "$generate" compare "$root" "$golden"
  "$generate" asserts "$golden" >"$place/asserts.c"
  for standard in c11 c17 c++17 c++20; do
    for target in "$minor" "$newest"; do compile "$standard" "$target" "$place/asserts.c"; done
  done
  # Each of these breaks must be detected: two functions swapped, a member moved, a type changed, a constant changed.
  while IFS= read -r change; do
    sed -E "$change" "$golden" >"$place/changed.txt"
    if cmp -s "$golden" "$place/changed.txt"; then printf '%s changes nothing in %s\n' "$change" "$golden"; exit 1; fi
    if "$generate" compare "$root" "$place/changed.txt" 2>/dev/null; then printf 'compare did not see: %s\n' "$change"; exit 1; fi
    "$generate" asserts "$place/changed.txt" >"$place/changed.c"
    for standard in c11 c++20; do
      if compile "$standard" "$minor" "$place/changed.c" 2>/dev/null; then printf '%s did not see: %s\n' "$standard" "$change"; exit 1; fi
    done
  done <<'CHANGES'
/^struct hk_architecture/,/write_config/ { s/ build$/ swapped/; s/ destroy$/ build/; s/ swapped$/ destroy/ }
s/^  24 8 (.* integer)$/  32 8 \1/
s/uint64_t part_count$/int64_t part_count/
s/^(constant HK_CORRUPT int32_t) 7/\1 8/
s/^(interface HK_HEAD_INTERFACE) hekla.head/\1 hekla.heads/
CHANGES
  count=$((count + 1))
done
[ "$count" -gt 0 ]

# A released version has a golden layout; the one that is open has none yet.
open=$(sed -n 's/^"open": true,$/yes/p' "$root/engine/plugin/abi.json")
for minor in $(seq 0 "$newest"); do
  if [ "$minor" = "$newest" ] && [ -n "$open" ]; then
    [ ! -e "$root/tests/abi/golden/1.$minor.txt" ] || { printf '1.%d is open, and has a golden layout\n' "$minor"; exit 1; }
  else
    [ -e "$root/tests/abi/golden/1.$minor.txt" ] || { printf '1.%d has no golden layout\n' "$minor"; exit 1; }
  fi
done

# Declarations newer than the target are hidden.
for minor in $(seq 1 "$newest"); do
  name=$(sed -nE "s/^ .* @$minor .* ([a-z_]+)$/\1/p; s/^constant ([A-Z_0-9]+) .* @$minor$/\1/p" "$root/engine/plugin/abi_layout.txt" | sed -n 1p)
  [ -n "$name" ] || continue
  printf '#include "hekla/plugin/plugin.h"\n' | "$cc" -x c -E -dD -DHK_TARGET_ABI_MINOR=$((minor - 1)) -I"$root/engine/include" - >"$place/older.i"
  if grep -Eq "(#define $name |\* $name\))" "$place/older.i"; then printf '%s is declared for minor %d\n' "$name" $((minor - 1)); exit 1; fi
done
printf '#include "hekla/plugin/plugin.h"\n' >"$place/all.c"
if compile c11 $((newest + 1)) "$place/all.c" 2>"$place/newer.log"; then printf 'a target that these headers do not have compiles\n'; exit 1; fi
grep -q 'abi_minor_needed in the manifest' "$place/newer.log"
printf '%d layouts hold\n' "$count"
