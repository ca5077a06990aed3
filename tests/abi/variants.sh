#!/usr/bin/env bash
# Builds one plugin in several ways that change a library's internals. Each is loaded by the program and trained with,
# together with another plugin. Variants whose compiler or library is missing are skipped with a message.
#   variants.sh REPOSITORY HEKLA
set -euo pipefail
root=$(cd "$1" && pwd) hekla=$2
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export XDG_CACHE_HOME=$(dirname "$hekla")/../tests_cache XDG_DATA_HOME=$place/data
cd "$place"
for i in $(seq 60); do printf 'line %d of a text that says %d things\n' "$i" $((i * 7919 % 1000)); done >text.txt
include=(-DHK_TARGET_ABI_MINOR=0 -I"$root/engine/include" -I"$root/plugins/sdk" -fPIC -shared)
map=(-Wl,--version-script="$root/plugins/sdk/plugin.map" -Wl,--no-undefined)
for kind in architecture objective; do
  for extension in c cpp; do sed 's/%NAME%/variant/g; s/%CLASS%/Variant/g' "$root/apps/hekla/templates/$kind.$extension" >$kind.$extension; done
  sed 's/%NAME%/variant/g; s/%ABI_MAJOR%/1/; s/%ABI_OLDEST%/0/' "$root/apps/hekla/templates/$kind.json" >$kind.json
  sed 's/%NAME%/variant/g' "$root/apps/hekla/templates/$kind.toml" >$kind.toml
done
done_='' left_out=''
try() { # try NAME KIND COMPILER...: builds it, trains two steps, keeps the weights
  local name=$1 kind=$2
  shift 2
  mkdir "$name"
  "$@" -o "$name/variant.so" || { printf '%s does not compile\n' "$name"; exit 1; }
  cp $kind.json "$name/variant.json"
  # Without the version script, the standard library's template instances for the author's types stay visible.
  nm -D --defined-only "$name/variant.so" | awk '{print $3}' >exports
  grep -qx hekla_plugin_entry exports
  case $* in *version-script*) [ "$(wc -l <exports)" = 1 ] || { printf '%s has other exports\n' "$name"; exit 1; } ;; esac
  "$hekla" --plugin-path "$name" train $kind.toml data.train=text.txt train.max_steps=2 train.eval_steps=2 train.eval_batches=1 \
    train.per_device_train_batch_size=2 "output.dir=$name/out" >said.log 2>&1 || { printf '%s:\n' "$name"; cat said.log; exit 1; }
  done_="$done_ $name"
}
same() { cmp "$1/out/model.safetensors" "$2/out/model.safetensors"; }

try plain architecture g++ -std=c++20 -O2 "${include[@]}" "${map[@]}" architecture.cpp
try static-libstdc++ architecture g++ -std=c++20 -O2 -static-libstdc++ -static-libgcc "${include[@]}" "${map[@]}" architecture.cpp
try short-enums architecture gcc -std=c11 -O2 -fshort-enums "${include[@]}" "${map[@]}" architecture.c -lm
try no-version-script architecture g++ -std=c++20 -O2 -fvisibility=hidden -fvisibility-inlines-hidden "${include[@]}" architecture.cpp
try unoptimized architecture g++ -std=c++20 -O0 -g -D_GLIBCXX_ASSERTIONS "${include[@]}" "${map[@]}" architecture.cpp
try no-exceptions objective gcc -std=c++17 -O2 -fno-exceptions -fno-rtti "${include[@]}" "${map[@]}" "$root/tests/abi/no_exceptions.cpp" -lm
others='static-libstdc++ short-enums no-version-script unoptimized'
# clang with its own C++ library, in the newest installed version.
clang=$(command -v clang-19 || command -v clang || true)
if [ -n "$clang" ]; then
  clangxx=${clang/clang/clang++}
  try clang architecture "$clang" -std=c11 -O2 "${include[@]}" "${map[@]}" architecture.c -lm
  try clang-short-enums architecture "$clang" -std=c11 -O2 -fshort-enums "${include[@]}" "${map[@]}" architecture.c -lm
  others="$others clang clang-short-enums"
  printf '#include <string>\nint main() { return std::string().size(); }\n' >libc++.cpp
  if "$clangxx" -std=c++20 -stdlib=libc++ libc++.cpp -o libc++ 2>/dev/null; then
    try clang-libc++ architecture "$clangxx" -std=c++20 -O2 -stdlib=libc++ "${include[@]}" "${map[@]}" architecture.cpp
    try clang-libc++-hidden architecture "$clangxx" -std=c++20 -O2 -stdlib=libc++ -fvisibility=hidden -fvisibility-inlines-hidden \
      "${include[@]}" "${map[@]}" architecture.cpp
    others="$others clang-libc++ clang-libc++-hidden"
  else
    left_out=" (left out: ${clangxx##*/} with libc++, which is not installed)"
  fi
else
  left_out=' (left out: clang and libc++, which are not installed)'
fi
for other in $others; do same plain "$other"; done
printf 'built, loaded and trained with:%s%s\n' "$done_" "$left_out"
