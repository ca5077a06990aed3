#!/usr/bin/env bash
# Tests `hekla plugin dev` in an installed tree: a version is built, checked, described and briefly trained; the next
# one reports changes of the graph and the loss and keeps the weights; a failed build leaves the last version unchanged;
# a watched folder is built again when a source, the manifest or the recipe changes, until Ctrl+C.
#   plugin_dev.sh BUILD_FOLDER
set -euo pipefail
build=$(cd "$1" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$build" --prefix "$place/hekla" >"$place/install.log"
hekla=$place/hekla/bin/hekla
export XDG_CACHE_HOME=$build/tests_cache XDG_DATA_HOME=$place/data
cd "$place"
for i in $(seq 200); do printf 'line %d of a text that says %d things\n' "$i" $((i * 7919 % 1000)); done >text.txt
"$hekla" plugin new --kind architecture mixer >new.log
sed -i "s#^train = .*#train = \"$place/text.txt\"#" mixer/recipe.toml
source_file=mixer/mixer.cpp

expect() { # expect FILE PATTERN...
  local file=$1 pattern
  shift
  for pattern; do
    grep -q -- "$pattern" "$file" || { printf 'expected in %s: %s\n' "$file" "$pattern"; cat "$file"; exit 1; }
  done
}
once() { "$hekla" plugin dev mixer --once --steps 2 "$@" >dev.log 2>&1; }
number() { sed -n 's/.*"number":\([0-9]*\).*/\1/p' mixer/build/dev/last.json; }

once || { cat dev.log; exit 1; }
expect dev.log 'quick tests pass' '^the graph has [0-9]* lines' ' *2  *- '
[ -e mixer/build/dev/loss.svg ] && [ "$(number)" = 1 ]

once || { cat dev.log; exit 1; }
expect dev.log '^the graph is the same' "tensors keep the last version's weights" 'version-\|loss.svg'
read -r kept all < <(sed -n "s/^\([0-9]*\) of \([0-9]*\) tensors keep.*/\1 \2/p" dev.log)
[ "$kept" = "$all" ] && [ "$(number)" = 2 ]

# Another activation: the changed lines of the graph are shown, every weight is kept.
cp "$source_file" right.source
sed -i 's/silu(/tanh(/' "$source_file"
if cmp -s "$source_file" right.source; then printf 'the template has no silu( to change\n'; exit 1; fi
once || { cat dev.log; exit 1; }
expect dev.log '^the graph changed:' '^-.*silu' '^+.*tanh'
[ "$(number)" = 3 ]
cp right.source "$source_file"

# A compile error ends the version and names the line; the last version stays.
printf 'this is no C++\n' >>"$source_file"
if once; then cat dev.log; exit 1; fi
expect dev.log "mixer.cpp:$(grep -n 'this is no C++' "$source_file" | cut -d: -f1)"
[ "$(number)" = 3 ]
cp right.source "$source_file"

# A plugin that fails its tests is not trained.
sed -i 's/g.offer("hidden"/g.offer("hiden"/' "$source_file"
if once; then cat dev.log; exit 1; fi
expect dev.log 'FAILED' 'again: ' 'not trained, since tests fail'
[ "$(number)" = 3 ]
cp right.source "$source_file"

# Watching: a change starts another version, Ctrl+C ends it and leaves no files.
"$hekla" plugin dev mixer --steps 2 >watch.log 2>&1 &
watcher=$!
watching() { # watching COUNT: waits until it has printed "watching" this often
  for _ in $(seq 600); do
    [ "$(grep -c '^watching' watch.log || true)" -ge "$1" ] && return
    kill -0 "$watcher" 2>/dev/null || { cat watch.log; exit 1; }
    sleep 0.5
  done
  cat watch.log
  exit 1
}
watching 1
# The output of editors, builds and runs starts no version, otherwise the count below would be wrong.
mkdir -p mixer/run mixer/build/other
for noise in mixer/notes.txt mixer/.mixer.cpp.swp mixer/mixer.cpp~ 'mixer/#mixer.cpp#' mixer/data.json mixer/run/train_log.jsonl \
    mixer/run/config.json mixer/build/other/made.cpp; do printf 'x\n' >"$noise"; done
sleep 2
sed -i 's/silu(/tanh(/' "$source_file"
watching 2
expect watch.log '^+.*tanh'
printf '# another recipe\n' >>mixer/recipe.toml
watching 3
kill -INT "$watcher"
wait "$watcher" || { printf 'Ctrl+C ended with status %s\n' "$?"; cat watch.log; exit 1; }
[ "$(number)" = 6 ]
if pgrep -f "$place/hekla" >/dev/null; then pgrep -af "$place/hekla"; exit 1; fi
printf 'versions built, checked, compared, watched\n'
