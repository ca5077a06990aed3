#!/usr/bin/env bash
# Checks the headers for host programs: they compile with asserts of every size, offset, type, constant and function of
# engine/api/host_api_layout.txt, as C11, C17, C++17 and C++20, and a small change of the layout does not.
#   host_layout.sh REPOSITORY GENERATE_ABI CC CXX
set -euo pipefail
root=$1 generate=$2 cc=$3 cxx=$4
layout=$root/engine/api/host_api_layout.txt
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

compile() { # compile STANDARD FILE
  local compiler=$cc language=c
  case $1 in *++*) compiler=$cxx language=c++ ;; esac
  "$compiler" -x "$language" -std="$1" -pedantic -Wall -Wextra -Werror -fsyntax-only -I"$root/engine/include" "$2"
}

"$generate" asserts "$layout" >"$place/asserts.c"
for standard in c11 c17 c++17 c++20; do compile "$standard" "$place/asserts.c"; done
# Each of these breaks must be detected: two members swapped, a type, a constant, a function and a callback changed.
while IFS= read -r change; do
  sed -E "$change" "$layout" >"$place/changed.txt"
  if cmp -s "$layout" "$place/changed.txt"; then printf '%s changes nothing\n' "$change"; exit 1; fi
  "$generate" asserts "$place/changed.txt" >"$place/changed.c"
  for standard in c11 c++20; do
    if compile "$standard" "$place/changed.c" 2>/dev/null; then printf '%s did not see: %s\n' "$standard" "$change"; exit 1; fi
  done
done <<'CHANGES'
/^struct hk_generate_options/,/top_p/ { s/ top_k$/ swapped/; s/ beams$/ top_k/; s/ swapped$/ beams/ }
s/uint64_t prompt_count$/int64_t prompt_count/
s/^(constant HK_POOLING_MODEL int32_t) 4/\1 5/
s/^(function hk_session_stop int32_t.*)hk_session/\1hk_context/
s/void\(HK_ABI\*\)\(void\*, uint64_t, hk_string\) text$/void(HK_ABI*)(void*, int64_t, hk_string) text/
s/^(alias hk_vulkan_function) void/\1 int32_t/
s/^(struct hk_advanced) .*/\1 8/
CHANGES
