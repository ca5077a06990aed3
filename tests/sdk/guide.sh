#!/usr/bin/env bash
# Tests the guide for plugin authors: its files are written and its commands run, in order, in an empty folder with an
# installed Hekla. A code block names its file after the language; a block of commands is marked sh. Rust is skipped
# with a message if rustc is missing. Then tests the page on debugging: a trace, and a broken rule.
#   guide.sh BUILD_FOLDER
set -euo pipefail
build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/../.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$build" --prefix "$place/hekla" >"$place/install.log"
export XDG_CACHE_HOME=$build/tests_cache XDG_DATA_HOME=$place/data PATH=$place/hekla/bin:$PATH
guide=$place/hekla/share/doc/hekla/plugins/README.md
cmp "$guide" "$source/plugins/README.md"
rust=yes
command -v rustc >/dev/null || rust=''
mkdir "$place/evening"
cd "$place/evening"
awk -v rust="$rust" '
  /^```/ && inside { inside = 0; if (file != "") close(file); next }
  /^```[a-z]+ *[^ ]*$/ {
    inside = 1; file = ""; script = 0
    language = substr($1, 4)
    if (language == "sh") script = ($2 != "rust" || rust != "")
    else if ($2 != "") file = $2
    else { printf "a block of %s names no file\n", language > "/dev/stderr"; exit 1 }
    next
  }
  inside && file != "" { print > file }
  inside && script { print > "commands" }
' "$guide"
[ -s commands ] && [ -s pairs.cpp ] && [ -s smooth.c ] && [ -s first.rs ] && [ -s bump.cpp ] && [ -s recipe.toml ]
c++ -std=c++20 -fsyntax-only -I"$place/hekla/include" -I"$place/hekla/include/hekla/sdk" pairs.cpp # its first version
{
  printf '#include "block.hpp"\nusing namespace hekla::plugin;\n'
  awk '/^```cpp$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$place/hekla/share/doc/hekla/plugins/GRAPHS.md"
} >graphs.cpp
grep -q running_average graphs.cpp
c++ -std=c++20 -fsyntax-only -DHK_TARGET_ABI_MINOR=1 -I"$place/hekla/include" -I"$place/hekla/include/hekla/sdk" graphs.cpp
sed -i "s#/opt/hekla#$place/hekla#g" commands
bash -euo pipefail commands >run.log 2>&1 || { cat run.log; exit 1; }
grep -q '^operation bump.squash/1(float x; real strength = 1) -> y' run.log || { cat run.log; exit 1; }
grep -q ' 0 failed' run.log
[ -e out/model.safetensors ]
[ -z "$rust" ] || grep -q '"label"' run.log

# A shape error names the same line as the guide.
line=$(grep -n 'concat({before, x}, 2)' pairs.cpp | cut -d: -f1)
grep -q "concat: ... (pairs.cpp:$line)" "$guide" || { printf 'the guide names another line than %s\n' "$line"; exit 1; }
sed 's/concat({before, x}, 2)/concat({before, g.fill({1, 2}, 0.0)}, 2)/' pairs.cpp >wrong.cpp
mv pairs.cpp right.cpp && cp wrong.cpp pairs.cpp
cmake --build build >build.log
if hekla --plugin-path build/plugins describe pairs --set vocab_size=16 --head lm --objective smooth >said.log 2>&1; then exit 1; fi
grep -q "concat: .*(pairs.cpp:$line)" said.log || { cat said.log; exit 1; }

# In C too: of nested calls the one that failed.
grep -q 'hk_sum_all(g, hk_cross_entropy(' smooth.c
cp smooth.c right.c
sed 's/hk_sum_all(g, hk_cross_entropy(hk.graph, g, logits, labels, &options))/hk_sum_all(g,\n        hk_cross_entropy(hk.graph, g, labels, labels, \&options))/' right.c >smooth.c
line=$(grep -n 'g, labels, labels' smooth.c | cut -d: -f1)
cmake --build build >build.log
if hekla --plugin-path build/plugins describe gpt2 --set n_layer=1 --head lm --objective smooth >said.log 2>&1; then exit 1; fi
grep -q "cross_entropy: .*(smooth.c:$line)" said.log || { printf 'expected line %s\n' "$line"; cat said.log; exit 1; }
cp right.c smooth.c && rm right.c

# A trace contains every call, and names the rule that a plugin breaks.
cp right.cpp pairs.cpp
cmake --build build >build.log
hekla --plugin-path build/plugins plugin trace -o calls.txt -- train recipe.toml train.max_steps=1 train.eval_steps=1 output.dir=traced >said.log 2>&1 ||
  { cat said.log; tail -n 50 calls.txt; exit 1; }
grep -q 'no broken rules' said.log || { cat said.log; exit 1; }
for call in "> pairs init" "> pairs architecture 'pairs'.create(" '. pairs graph.emit(name: "embedding"' "> smooth objective 'smooth'.collate(" \
  "> bump operation 'bump.squash'.gradient(" '. bump graph.emit(name: "mul"' "< pairs architecture 'pairs'.build = HK_OK"; do
  grep -qF -- "$call" calls.txt || { printf 'the trace has no line with: %s\n' "$call"; head -n 60 calls.txt; exit 1; }
done
hekla --plugin-path build/plugins plugin trace --json -o calls.json -- describe pairs --set vocab_size=16 --head lm --objective smooth >/dev/null 2>said.log
if command -v python3 >/dev/null; then python3 -c 'import json, sys; [json.loads(line) for line in open("calls.json")]'; fi
grep -q '"call":"graph.emit"' calls.json
sed 's/static_cast<int>(0)/0/; s/        g.offer("hidden", x +/        g.scope_begin("left open");\n&/' right.cpp >pairs.cpp
cmake --build build >build.log
if hekla --plugin-path build/plugins plugin trace -o calls.txt -- describe pairs --set vocab_size=16 --head lm --objective smooth >/dev/null 2>said.log; then exit 1; fi
grep -q 'rules broken: graph.7 (1 time)' said.log || { cat said.log; exit 1; }
grep -q "^BROKEN \[graph.7\] pairs in architecture 'pairs'.build: " calls.txt
printf 'the guide works as it stands%s\n' "$([ -n "$rust" ] || echo ' (no Rust: rustc is not installed)')"
