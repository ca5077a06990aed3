#!/usr/bin/env bash
# headless.sh BUILD: runs the Observatory without a window: trains a model, then shows it in each panel. The
# validation layer must stay silent, all pictures must be written, and errors must have exit status 1 or 2.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/tiny.sh"
observatory=$(cd "$1" && pwd)/bin/observatory
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
make_recipe 40

# show NAME ARGUMENTS...: writes one picture, without validation messages.
show() {
  local name=$1
  shift
  "$observatory" "$@" --headless --screenshot "$name.png" --controls "$name.txt" --validate --width 1200 --height 760 \
    --seconds 200 2>"$name.log" || fail "$name: $(cat "$name.log")"
  [ ! -s "$name.log" ] || fail "$name says $(cat "$name.log")"
  [ "$(head -c 4 "$name.png" | tail -c 3)" = PNG ] || fail "$name.png is no picture"
  [ "$(stat -c %s "$name.png")" -gt 15000 ] || fail "$name.png is too small to show anything"
}

show training --recipe tiny.toml --train --budget 200000
[ "$(value training.txt training/step)" = 40 ] || fail "the training ended at step $(value training.txt training/step)"
[ "$(value training.txt training/state)" = done ] || fail "the training is $(value training.txt training/state)"
show log --log run
[ "$(value log.txt 'training/log step')" = 40 ] || fail "the log ends at step $(value log.txt 'training/log step')"
show attention run --panel attention --text 'line 9 of the text'
[ "$(value attention.txt text/tokens)" -gt 3 ] || fail "the text has $(value attention.txt text/tokens) tokens"
grep -q 'attention/1/1' attention.txt || fail "there is no map of layer 1, head 1"
show lens run --panel lens --text 'line 9 of the text'
[ -n "$(value lens.txt next/0)" ] || fail "nothing follows the text"
make_translator
show writer --recipe translator.toml --train --budget 200000
show alignment translator --panel attention --text 'line 9'
[ -n "$(value alignment.txt text/written)" ] || fail "the translator writes nothing"
grep -q 'attention/0/0' alignment.txt || fail "there is no map of where the translator looks"
show embeddings run --panel embeddings
show weights run --panel weights
[ "$(value weights.txt weights/count)" = 28 ] || fail "there are $(value weights.txt weights/count) histograms"
show gradients --panel weights --recipe tiny.toml --override output.dir=other --train --budget 200000
[ "$(value gradients.txt weights/count)" = 28 ] || fail "there are $(value gradients.txt weights/count) parameters that train"
[ "$(value gradients.txt weights/step)" -ge 1 ] || fail "no step's gradients were counted"
show write run --panel write --write --budget 100000
[ "$(value write.txt write/tokens)" -gt 20 ] || fail "only $(value write.txt write/tokens) tokens were written"
show plan --panel plan --recipe tiny.toml --override output.dir=planned --plan
[ "$(value plan.txt plan/characters)" -gt 200 ] || fail "the plan has $(value plan.txt plan/characters) characters"

# refused STATUS WORD ARGUMENTS...
refused() {
  local status=$1 word=$2 got=0
  shift 2
  "$observatory" "$@" >said 2>&1 || got=$?
  [ "$got" = "$status" ] || fail "'$*' ends with $got, expected $status: $(cat said)"
  grep -q -- "$word" said || fail "'$*' does not say '$word': $(cat said)"
}
refused 2 --screenshot --headless
refused 2 attention --panel other
refused 1 nowhere nowhere --panel lens --headless --screenshot no.png
refused 1 train_log.jsonl --log nowhere --headless --screenshot no.png
refused 1 'no device is called' --device NoSuchDevice --headless --screenshot no.png
refused 1 nowhere.toml --recipe nowhere.toml --train --headless --screenshot no.png
"$observatory" --help | grep -q 'Examples:' || fail "--help has no examples"
