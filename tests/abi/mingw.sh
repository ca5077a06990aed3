#!/usr/bin/env bash
# The headers on Windows: asserts of the released layouts compile, the C plugin is built as a .dll with one export, and,
# under wine, a mock host loads it and calls all functions of an architecture.
#   mingw.sh REPOSITORY GENERATE_ABI
set -euo pipefail
root=$1 generate=$2
cc=x86_64-w64-mingw32-gcc
command -v $cc >/dev/null || { printf 'skipped: %s is not installed (Debian: gcc-mingw-w64-x86-64)\n' $cc; exit 77; }
place=$(mktemp -d)
# Wine's server runs a few seconds longer than its programs, and writes its registry when it exits.
clean() {
  for _ in $(seq 60); do
    rm -rf "$place" 2>/dev/null && return
    sleep 1
  done
  printf '%s could not be removed\n' "$place"
}
trap clean EXIT
for golden in "$root"/tests/abi/golden/*.txt; do
  minor=$(basename "$golden" .txt)
  minor=${minor#*.}
  "$generate" asserts "$golden" >"$place/asserts.c"
  $cc -std=c11 -pedantic -Wall -Wextra -Werror -fsyntax-only -DHK_TARGET_ABI_MINOR="$minor" -I"$root/engine/include" "$place/asserts.c"
done
sed 's/%NAME%/mixer/g' "$root/apps/hekla/templates/architecture.c" >"$place/mixer.c"
$cc -std=c11 -Wall -Wextra -Werror -O1 -shared -I"$root/engine/include" -I"$root/plugins/sdk" "$place/mixer.c" -o "$place/mixer.dll"
exported=$(x86_64-w64-mingw32-objdump -p "$place/mixer.dll" | sed -n '/\[Ordinal\/Name Pointer\] Table/,/^$/s/.*\] \(.*\)/\1/p' | grep -v 'Table$')
[ "$exported" = hekla_plugin_entry ] || { printf 'the .dll exports: %s\n' "$exported"; exit 1; }
$cc -std=c11 -Wall -Wextra -Werror -I"$root/engine/include" "$root/tests/abi/mock_host.c" -o "$place/host.exe"
wine=$(command -v wine64 || command -v wine || true)
if [ -z "$wine" ]; then
  printf 'layouts and exports are right; skipped: wine is not installed, so nothing was run\n'
  exit 77
fi
export WINEPREFIX=$place/wine WINEDEBUG=-all
cd "$place"
timeout 300 "$wine" ./host.exe mixer.dll mixer >said.log 2>wine.log || { cat said.log wine.log; exit 1; }
grep -q '^mixer: [0-9]* operations' said.log
printf 'layouts, one export, and the .dll runs under wine\n'
