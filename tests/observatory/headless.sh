#!/usr/bin/env bash
# headless.sh BUILD: runs the Observatory without a window: trains a model, then shows it in each panel. The
# validation layer must stay silent, all pictures must be written, and errors must have exit status 1 or 2.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/tiny.sh"
programs=$(cd "$1" && pwd)/bin
observatory=$programs/observatory
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

# Adapters: side by side, mixed, one that cannot be in a slot; and how a router weighs them.
make_adapters "$programs/hekla"
both=(--adapter a=a --adapter b=b:0.5 --text 'line 9')
# writes NAME LABEL ADAPTER...: the picture's text with that label is what `hekla generate` writes.
writes() {
  local name=$1 label=$2 arguments=() one
  shift 2
  for one in "$@"; do arguments+=(--adapter "$one"); done
  "$programs/hekla" generate run --prompt 'line 9' --greedy --max-new-tokens 80 "${arguments[@]}" >written 2>/dev/null
  python3 - "$(value "$name.txt" "adapters/text/$label")" 'line 9' <<'CHECK' || fail "$name: '$label' writes something else"
import sys
shown, written = sys.argv[2] + sys.argv[1], open("written").read().replace("\n", " ").rstrip()
sys.exit(0 if shown.rstrip() == written and len(written) > 40 else f"{shown}\n{written}")
CHECK
}
show adapters run --panel adapters "${both[@]}" --write --budget 100000
[ "$(value adapters.txt adapters/rows)" = 4 ] || fail "there are $(value adapters.txt adapters/rows) texts side by side"
[ "$(value adapters.txt adapters/a)" = 'lora, rank 2' ] || fail "a is $(value adapters.txt adapters/a)"
[ "$(value adapters.txt adapters/tokens)" = 320 ] || fail "$(value adapters.txt adapters/tokens) tokens were written"
[ "$(value adapters.txt adapters/scales/mix)" = '1.00 a + 0.50 b' ] || fail "the mix is $(value adapters.txt adapters/scales/mix)"
for label in a b mix; do
  [ "$(value adapters.txt "adapters/differ/$label")" -gt 5 ] || fail "'$label' writes what the model alone writes"
done
writes adapters base
writes adapters a a=a
writes adapters b b=b:0.5
writes adapters mix a=a b=b:0.5
show mix run --panel adapters "${both[@]}" --use mix --write --budget 100000
[ "$(value mix.txt adapters/rows)" = 1 ] || fail "the mix has $(value mix.txt adapters/rows) texts"
writes mix mix a=a b=b:0.5
show one run --panel adapters "${both[@]}" --adapter other=ia3:2 --use other --write --budget 100000
[ "$(value one.txt adapters/other)" = 'ia3, rank -' ] || fail "the third adapter is $(value one.txt adapters/other)"
writes one other other=ia3:2
show routing routed --panel routing --text 'line 9 of the text'
[ "$(value routing.txt routing/modules)" = 8 ] || fail "a router weighs at $(value routing.txt routing/modules) modules"
"$programs/hekla" embed routed 'line 9 of the text' --port routing.transformer.h.0.attn.c_attn >weights.json 2>/dev/null
python3 - "$(value routing.txt 'routing/first module/a')" "$(value routing.txt 'routing/first module/b')" <<'CHECK' \
  || fail "the weights of the first module are not those of hekla embed"
import json, sys
shown = [float(x) for x in sys.argv[1:]]
expected = json.loads(open("weights.json").read())["embedding"]
assert len(expected) == 2 and abs(sum(shown) - 1) < 1e-5, (shown, expected)
assert all(abs(a - b) < 1e-5 for a, b in zip(shown, expected)), (shown, expected)
CHECK

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
refused 1 "than those that this adapter was trained with" run --panel adapters --adapter x=foreign --headless --screenshot no.png
refused 1 'is not an adapter' run --panel adapters --adapter x=run --headless --screenshot no.png
refused 1 'expected NAME=FOLDER' run --adapter a --headless --screenshot no.png
refused 1 'expected base, mix, compare or the NAME' run --adapter a=a --use b --headless --screenshot no.png
refused 1 nowhere.toml --recipe nowhere.toml --train --headless --screenshot no.png
"$observatory" --help | grep -q 'Examples:' || fail "--help has no examples"
