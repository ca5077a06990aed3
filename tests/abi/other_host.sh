#!/usr/bin/env bash
# A host built with another toolchain: hekla-describe, which loads plugins for the program and runs collate, is built
# with that compiler and C++ library. The golden plugins, and a plugin of that toolchain, are trained with it and with
# the program's own, with bitwise equal results.
#   other_host.sh REPOSITORY HEKLA COMPILER [FLAG...]
set -euo pipefail
root=$(cd "$1" && pwd) hekla=$2
shift 2
[ "$(uname -m)" = x86_64 ] || { printf 'skipped: the golden plugins are of x86-64\n'; exit 77; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export XDG_CACHE_HOME=$place/cache XDG_DATA_HOME=$place/data
cd "$place"
printf '#include <string>\nint main() { return static_cast<int>(std::string().size()); }\n' >probe.cpp
if ! command -v "$1" >/dev/null || ! "$@" -std=c++20 probe.cpp -o probe 2>/dev/null; then
  printf 'skipped: %s does not build a program here (Debian: clang-19 libc++-19-dev libc++abi-19-dev)\n' "$*"
  exit 77
fi

# fmt's library was built with g++; its headers work with any compiler.
flags=(-std=c++20 -O1 -w -fPIC -DFMT_HEADER_ONLY -DHK_TARGET_ABI_MINOR=HK_ABI_MINOR -I"$root/engine" -I"$root/engine/include")
objects=()
for room in base graph text model plugin; do
  find "$root/engine/$room" -name "*.cpp" -not -path "*_module/*" -printf '#include "%p"\n' | sort >$room.cpp
  "$@" "${flags[@]}" -c $room.cpp -o $room.o
  objects+=($room.o)
done
"$@" "${flags[@]}" "$root"/apps/describe/*.cpp "${objects[@]}" -lpcre2-8 -lutf8proc -lpthread -ldl -o hekla-describe
ldd hekla-describe | awk '{print $1}' >needed

for i in $(seq 60); do printf 'line %d of a text that says %d things\n' "$i" $((i * 7919 % 1000)); done >text.txt
for i in $(seq 24); do printf 'a %s film, number %d\t%s\n' "$([ $((i % 2)) = 0 ] && echo good || echo bad)" "$i" $((i % 2)); done >rows.tsv
logged() {
  "$@" >said.log 2>&1 || { printf '%s\n' "$*"; cat said.log; exit 1; }
}
# Plugins built with that toolchain, for the program's own host.
mkdir plugins
cp "$root"/tests/abi/golden/1.0/*.so "$root"/tests/abi/golden/1.0/*.json plugins
for kind in architecture objective head operation; do
  sed "s/%NAME%/other-$kind/g; s/%CLASS%/Other/g" "$root/apps/hekla/templates/$kind.cpp" >$kind.cpp
  "$@" -std=c++20 -O2 -DHK_TARGET_ABI_MINOR=0 -I"$root/engine/include" -I"$root/plugins/sdk" -fPIC -shared -fvisibility=hidden \
    -Wl,--version-script="$root/plugins/sdk/plugin.map" -Wl,--no-undefined $kind.cpp -o plugins/other-$kind.so
  sed "s/%NAME%/other-$kind/g; s/%ABI_MAJOR%/1/; s/%ABI_OLDEST%/0/" "$root/apps/hekla/templates/$kind.json" >plugins/other-$kind.json
done
chmod go-w plugins plugins/*

count=0
for library in plugins/*.so; do
  name=$(basename "$library" .so)
  kind=${name##*-}
  sed "s/%NAME%/$name/g" "$root/apps/hekla/templates/$kind.toml" >recipe.toml
  train() { # train OUTPUT OPTION...
    local output=$1
    shift
    logged "$hekla" --plugin-path plugins "$@" train recipe.toml "data.train=$([ "$kind" = head ] && echo rows.tsv || echo text.txt)" \
      train.lr_scheduler_type=constant data.valid_fraction=0.3 train.eval_steps=2 train.eval_batches=1 train.per_device_train_batch_size=2 train.max_steps=2 \
      "output.dir=out/$name.$output"
  }
  train own --describe-in process
  train other --describe-program "$place/hekla-describe" --isolate-plugins
  cmp "out/$name.own/model.safetensors" "out/$name.other/model.safetensors"
  count=$((count + 1))
done
[ "$count" -gt 4 ]
printf '%s: a host that needs %s, %d plugins, the same bits\n' "$*" "$(grep -o 'libc++\.so[.0-9]*\|libstdc++\.so[.0-9]*' needed | tr '\n' ' ')" "$count"
