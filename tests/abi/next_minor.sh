#!/usr/bin/env bash
# Simulates the next minor version: the description with one more member in every struct that is used in arrays, one
# more function in a host struct, and a constant. It must keep all guarantees of the golden layouts, hide the additions
# from older targets, and its host, whose structs are larger, must run the golden plugins. Plugins built with its
# headers for the older version must run on the older host, and those that request the newer one must be rejected there.
#   next_minor.sh REPOSITORY GENERATE_ABI CC
set -euo pipefail
root=$(cd "$1" && pwd) generate=$2 cc=$3
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
minor=$(sed -n 's/^#define HK_ABI_MINOR //p' "$root/engine/include/hekla/plugin/abi.h")
next=$((minor + 1))
mkdir -p "$place/next/engine/plugin" "$place/next/engine/graph" "$place/next/engine/api"
cp "$root/engine/api/host_api.json" "$place/next/engine/api/"
cp "$root/engine/graph/operations.json" "$place/next/engine/graph/"
grown=0
member="{\"is\": \"uint64_t later\", \"about\": \"of the rehearsal\", \"since\": $next}"
cp "$root/engine/plugin/abi.json" "$place/abi.json"
grow() { # grow TYPE: adds a member at the end of a struct
  awk -v type="\"type\": \"$1\"" -v member="$member" '
    index($0, type ",") { inside = 1 }
    inside && /\]\}(,|\])/ && !/"type"/ { sub(/\]\}/, ",\n    " member "]}"); inside = 0; done = 1 }
    { print }
    END { exit !done }' "$place/abi.json" >"$place/grown.json"
  mv "$place/grown.json" "$place/abi.json"
  grown=$((grown + 1))
}
for type in hk_attribute hk_field hk_column hk_example hk_output hk_operation_input hk_operation_tensor; do grow $type; done
sed -E -e "s/^\"minor\": $minor,/\"minor\": $next,/" \
  -e "s/(otherwise null is replaced by the default\.\"\})\]/\1,\n    {\"is\": \"int32_t later(const hk_config* config)\", \"thread\": \"describe\", \"about\": \"Of the rehearsal.\", \"since\": $next}]/" \
  -e "s/(\{\"name\": \"HK_COLUMN_NUMBERS\", \"value\": 4, [^}]*\},)/\1\n    {\"name\": \"HK_COLUMN_LATER\", \"value\": 99, \"since\": $next},/" \
  "$place/abi.json" >"$place/next/engine/plugin/abi.json"
"$generate" write "$place/next" "$place/next"
include=$place/next/engine/include
[ "$(grep -c ' later$' "$place/next/engine/plugin/abi_layout.txt")" = $((grown + 1)) ] || { printf 'the rehearsal did not grow everything\n'; exit 1; }

# The released layouts hold, including the host's minimum struct sizes.
for golden in "$root"/tests/abi/golden/1.*.txt; do
  "$generate" compare "$place/next" "$golden"
  "$generate" asserts "$golden" >"$place/asserts.c"
  for target in "$minor" "$next"; do
    "$cc" -std=c11 -pedantic -Wall -Wextra -Werror -fsyntax-only -DHK_TARGET_ABI_MINOR="$target" -I"$include" "$place/asserts.c"
  done
done
cmp "$root/engine/plugin/host/first_sizes.inc" "$place/next/engine/plugin/host/first_sizes.inc"

# The additions are hidden from older targets.
printf '#include "hekla/plugin/plugin.h"\n' >"$place/all.c"
"$cc" -std=c11 -E -dD -DHK_TARGET_ABI_MINOR="$minor" -I"$include" "$place/all.c" >"$place/older.i"
"$cc" -std=c11 -E -dD -DHK_TARGET_ABI_MINOR="$next" -I"$include" "$place/all.c" >"$place/newer.i"
if grep -Eq '\blater\b|HK_COLUMN_LATER' "$place/older.i"; then printf 'something newer than the target is declared\n'; exit 1; fi
grep -q 'HK_COLUMN_LATER' "$place/newer.i" && grep -Eq '\blater\)' "$place/newer.i"

# A host of the next version with the golden plugins; C plugins of its headers, for either version, on either host.
flags=(-std=c11 -Wall -Wextra -Werror)
"$cc" "${flags[@]}" -DHK_TARGET_ABI_MINOR="$next" -I"$include" "$root/tests/abi/mock_host.c" -o "$place/next_host" -ldl
"$cc" "${flags[@]}" -DHK_TARGET_ABI_MINOR="$minor" -I"$root/engine/include" "$root/tests/abi/mock_host.c" -o "$place/this_host" -ldl
ran=0
run() { # run HOST LIBRARY KIND ID
  "$@" >"$place/said.log" 2>&1 || { printf '%s\n' "$*"; cat "$place/said.log"; exit 1; }
  ran=$((ran + 1))
}
if [ "$(uname -m)" = x86_64 ]; then
  for library in "$root"/tests/abi/golden/1.*/*.so; do
    name=$(basename "$library" .so)
    kind=${name##*-}
    case $kind in
      operation) run "$place/next_host" "$library" operation "$name.gate" ;;
      adapter | combiner | optimizer | convnet) ;; # not of the mock host; golden.sh trains with them
      small_*) run "$place/next_host" "$library" architecture "$name" ;;
      *) run "$place/next_host" "$library" "$kind" "$name" ;;
    esac
  done
fi
for kind in architecture objective head operation; do
  sed "s/%NAME%/p/g; s/%SOURCE%/p.c/" "$root/apps/hekla/templates/$kind.c" >"$place/p.c"
  id=p
  [ $kind = operation ] && id=p.gate
  for target in "$minor" "$next"; do
    "$cc" -std=c11 -O1 -fPIC -shared -DHK_TARGET_ABI_MINOR="$target" -I"$include" -I"$root/plugins/sdk" "$place/p.c" -o "$place/p.$target.so" -lm
    run "$place/next_host" "$place/p.$target.so" $kind $id
  done
  run "$place/this_host" "$place/p.$minor.so" $kind $id
  if "$place/this_host" "$place/p.$next.so" $kind $id >"$place/said.log" 2>&1; then printf 'a plugin of a newer version was not refused\n'; exit 1; fi
  grep -q 'asks for a newer host' "$place/said.log"
done

# What is real of a newer minor version: plugins of 1.1 do not compile for 1.0, and a host of 1.0 refuses them.
"$cc" "${flags[@]}" -DHK_TARGET_ABI_MINOR=0 -I"$root/engine/include" "$root/tests/abi/mock_host.c" -o "$place/first_host" -ldl
for kind in adapter combiner optimizer; do
  sed "s/%NAME%/p/g" "$root/apps/hekla/templates/$kind.c" >"$place/p.c"
  for target in 0 1; do
    compile() {
      "$cc" -std=c11 -O1 -fPIC -shared -DHK_TARGET_ABI_MINOR=$target -I"$root/engine/include" -I"$root/plugins/sdk" "$place/p.c" -o "$place/p.so" -lm
    }
    if [ $target = 1 ]; then compile; continue; fi
    if compile 2>"$place/said.log"; then printf 'the %s of 1.1 compiles for 1.0\n' $kind; exit 1; fi
    grep -q "hk_$kind\|HK_SITE" "$place/said.log"
  done
  if "$place/first_host" "$place/p.so" $kind p >"$place/said.log" 2>&1; then printf 'the %s of 1.1 was not refused\n' $kind; exit 1; fi
  grep -q 'asks for a newer host' "$place/said.log"
done
printf 'the next minor version keeps every promise: %d plugins ran\n' "$ran"
