#!/usr/bin/env bash
# window.sh BUILD [PICTURES]: performs the eight tasks of apps/observatory/README.md in a real window, under Xvfb, with
# the mouse (xdotool) and the validation layer. PICTURES: a folder for screenshots before and after each task. Exit
# status 77 if xdotool, Xvfb or ImageMagick are missing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/tiny.sh"
for program in Xvfb xdotool import; do
  if ! command -v "$program" >/dev/null; then
    printf 'window.sh: %s is missing, so nothing was tried: run third_party/install --observatory\n' "$program"
    exit 77
  fi
done
programs=$(cd "$1" && pwd)/bin
observatory=$programs/observatory
pictures=${2:-}
[ -z "$pictures" ] || { mkdir -p "$pictures" && pictures=$(cd "$pictures" && pwd); }
work=$(mktemp -d)
server='' app=''
cleanup() {
  [ -z "$app" ] || kill "$app" 2>/dev/null || true
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
cd "$work"
make_recipe 60

Xvfb -displayfd 3 -screen 0 1600x1000x24 -nolisten tcp 3>display 2>xvfb.log &
server=$!
for _ in $(seq 100); do [ -s display ] && break; sleep 0.1; done
[ -s display ] || fail "Xvfb did not start: $(cat xvfb.log)"
export DISPLAY=:$(cat display)
: >controls
"$observatory" --controls controls --validate --budget 500000 2>said &
app=$!

# until_true SECONDS WHAT COMMAND...: fails the test if the command does not succeed in time.
until_true() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    kill -0 "$app" 2>/dev/null || fail "the window is gone: $(cat said)"
    [ $SECONDS -lt $end ] || fail "$what: $(cat controls 2>/dev/null | grep value)"
    sleep 0.2
  done
}
is() { [ "$(value controls "$1")" = "$2" ]; }
is_not() { [ "$(value controls "$1")" != "$2" ]; }
at_least() { awk -v a="$(value controls "$1")" -v b="$2" 'BEGIN { exit !(a != "" && a + 0 >= b + 0) }'; }
is_there() { awk -F '\t' -v name="$1" '$1 == "control" && $2 == name { found = 1 } END { exit !found }' controls; }
# place NAME [X Y]: prints the pixel at a point of the control, by default its center; X and Y from 0 to 1.
place() {
  awk -F '\t' -v name="$1" -v x="${2:-0.5}" -v y="${3:-0.5}" \
    '$1 == "control" && $2 == name { printf "%d %d\n", $3 + ($5 - $3) * x, $4 + ($6 - $4) * y }' controls
}
# Waits until the window has drawn frames, so that it has processed the mouse input and updated the file.
frames() {
  local now=$(value controls frame)
  until_true 60 'the window draws no more' at_least frame $((${now:-0} + $1))
}
press() { xdotool mousedown 1 && frames 2; }
release() { xdotool mouseup 1 && frames 3; }
move() { until_true 60 "there is no $1" is_there "$1" && xdotool mousemove $(place "$@") && frames 3; }
click() { move "$@" && press && release; }
drag() { # drag NAME X0 Y0 X1 Y1
  move "$1" "$2" "$3" && press
  local i x y
  for i in 1 2 3 4; do
    x=$(awk "BEGIN { print $2 + ($4 - $2) * $i / 4 }") y=$(awk "BEGIN { print $3 + ($5 - $3) * $i / 4 }")
    xdotool mousemove $(place "$1" "$x" "$y") && frames 2
  done
  release
}
away() { xdotool mousemove 900 4 && frames 3; } # away from anything with a tooltip
picture() { [ -z "$pictures" ] || import -window root "$pictures/$1.png"; }

until_true 60 'the window is not there' is_there 'open model'
frames 3

# 1. Train: a recipe from the browser, its loss as it falls.
picture 1-before
click training/choose
click browser/tiny.toml
click browser/Open
click training/start
until_true 600 'the training made no steps' at_least training/step 40
away
picture 1-after
until_true 600 'the training does not end' is training/state done

# 2. Open the model that was trained.
picture 2-before
click 'open model'
click browser/run
click browser/Open
until_true 60 'the model was not opened' is model "$work/run"
click tab/Weights
until_true 60 'there are no histograms' is weights/count 28
away
picture 2-after

# 3. See which tokens a head attends to.
click tab/Attention
until_true 120 'there are no maps' is_there attention/1/1
picture 3-before
click attention/1/1
until_true 30 'the head was not chosen' is attention/head 1
move attention/map 0.1 0.9
until_true 30 'there is no weight under the mouse' is_not attention/weight ''
picture 3-after

# 4. Find tokens that are used similarly: turn, click, read.
click tab/Embeddings
until_true 120 'there are no tokens' is_there embeddings/space
frames 20
picture 4-before
drag embeddings/space 0.4 0.5 0.6 0.55
# A token under the mouse: there are many in the middle.
for x in 0.5 0.48 0.52 0.46 0.54 0.44 0.56 0.42 0.58 0.4 0.6; do
  for y in 0.5 0.45 0.55 0.4 0.6; do
    move embeddings/space $x $y
    if is_not embeddings/hovered ''; then break 2; fi
  done
done
press
release
until_true 30 'no neighbors are listed' at_least embeddings/neighbors 10
picture 4-after

# 5. Generate with the model: the most probable token, twice.
click 'tab/Logit lens'
until_true 120 'nothing follows the text' is_there next/0
picture 5-before
for _ in 1 2; do
  text=$(value controls text)
  click next/0
  until_true 30 'the text was not gone on with' is_not text "$text"
  until_true 120 'nothing follows the text' is_there next/0
done
away
picture 5-after

# 6. Reduce Hekla's budget per frame while it generates.
click tab/Write
picture 6-before
click write/write
until_true 120 'nothing is written' at_least write/tokens 5
before=$(value controls budget)
drag budget 0.8 0.5 0.3 0.5
is_not budget "$before" || fail "the budget is still $before"
away
picture 6-after
until_true 600 'the text does not end' is write/state done

# 7. Mix adapters while the model writes.
make_adapters "$programs/hekla"
click tab/Adapters
for adapter in a b; do
  click adapters/open
  click browser/$adapter
  click browser/Open
  until_true 60 "the adapter $adapter was not opened" is_not adapters/$adapter ', rank -'
  until_true 60 "the adapter $adapter was not opened" is_there adapters/use/$adapter
done
click adapters/use/b
drag budget 0.3 0.5 0.02 0.5 # slowly
drag adapters/tokens 0.3 0.5 0.95 0.5
click adapters/write
until_true 120 'nothing is written' at_least adapters/tokens 5
picture 7-before
click adapters/use/mix
until_true 60 'the mix was not made' is adapters/changes/mix 1
drag adapters/a/scale 0.67 0.5 0.9 0.5
until_true 60 'the mix did not change' at_least adapters/changes/mix 2
scale=$(value controls adapters/a/scale)
at_least adapters/a/scale 1.2 || fail "the scale of a is still $scale"
until_true 60 'the mix did not follow the slider' is adapters/scales/mix "$(printf '%.2f a + 1.00 b' "$scale")"
written=$(value controls adapters/tokens)
until_true 60 'the text does not continue' at_least adapters/tokens $((written + 12))
[ "$(value controls adapters/state)" = writing ] || fail 'the text ended before the mix changed'
away
picture 7-after
click adapters/stop
until_true 600 'the text does not end' is adapters/state 'done'

# 8. Compare: the same prompt, side by side.
drag budget 0.02 0.5 0.8 0.5
drag adapters/tokens 0.2 0.5 0.36 0.5
click adapters/use/compare
picture 8-before
click adapters/write
until_true 600 'the texts do not end' is adapters/state 'done'
[ "$(value controls adapters/rows)" = 4 ] || fail "there are $(value controls adapters/rows) texts"
at_least adapters/differ/a 5 || fail 'the texts do not differ'
away
picture 8-after

kill -INT "$app"
status=0
wait "$app" || status=$?
app=''
[ "$status" = 0 ] || fail "the window ended with $status: $(cat said)"
[ ! -s said ] || fail "it said $(cat said)"
printf 'window.sh: eight tasks were done by mouse\n'
