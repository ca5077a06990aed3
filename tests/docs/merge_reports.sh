#!/usr/bin/env bash
# Tests tools/merge_reports: the table of docs/gpus.md, and in a copy new reports, the newest of a card, and wrong ones.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/merge_reports --check
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tools" "$work/docs/gpus"
cp tools/merge_reports "$work/tools"
cp docs/gpus.md "$work/docs"
fail() { printf 'merge_reports: %s\n' "$*" >&2; exit 1; }
row() { grep -F "| Card X |" "$work/docs/gpus.md" || true; }

report() { # KIND DATE STAGES...
  printf '{"report":"%s","format":1,"hekla":"0.1.0","date":"%s"}\n' "$1" "$2"
  printf '{"stage":"device","ok":true,"result":{"device":{"name":"Card X","driver":"radv","driver_info":"Mesa 26"}}}\n'
  shift 2
  printf '%s\n' "$@"
}
report test 2026-12-01 '{"stage":"models","ok":false,"result":{"f32":{"right":4,"of":4},"f16":{"right":3,"of":4}}}' \
  '{"stage":"training","ok":true,"result":{}}' '{"stage":"generation","ok":false,"problem":"lost"}' >"$work/test.jsonl"
report lab 2026-12-02 '{"stage":"memory","ok":true,"result":{"copy_gb_per_s":812.4}}' \
  '{"stage":"units","ok":true,"result":{"peak_flops":{"f32":50e12,"f16":111e12}}}' \
  '{"stage":"cases","ok":true,"result":{"cases":[{"case":"gpt2-124m","dtype":"f16","tokens_per_s":98765.4}]}}' '{"stage":"oth' \
  >"$work/lab.jsonl"
"$work/tools/merge_reports" "$work/test.jsonl" "$work/lab.jsonl"
expected='| Card X | radv Mesa 26 | f32 4/4 f16 3/4 | equal | FAIL | 50 | 111 | 812 | 98,765 (f16) | - | 2026-12-02 | [test](gpus/card-x-radv-mesa-26.test.jsonl), [lab](gpus/card-x-radv-mesa-26.lab.jsonl) |'
[ "$(row)" = "$expected" ] || fail "the row is: $(row)"
"$work/tools/merge_reports" --check
# A newer report of the same kind takes the place of the older one.
sed -e 's/2026-12-01/2026-12-03/' -e 's/"ok":false,"problem":"lost"/"ok":true,"result":{}/' "$work/test.jsonl" >"$work/newer.jsonl"
"$work/tools/merge_reports" "$work/newer.jsonl"
case $(row) in *'| equal | equal |'*'| 2026-12-03 |'*) ;; *) fail "the row of a newer report is: $(row)" ;; esac
# A table that was changed, and reports that are not reports.
sed -i 's/98,765/99,999/' "$work/docs/gpus.md"
! "$work/tools/merge_reports" --check 2>/dev/null || fail "a changed table was not noticed"
refused() { # TEXT MESSAGE
  printf '%s\n' "$1" >"$work/wrong.jsonl"
  if "$work/tools/merge_reports" "$work/wrong.jsonl" 2>"$work/error"; then fail "accepted: $1"; fi
  grep -qF "$2" "$work/error" || fail "the message is: $(cat "$work/error")"
}
refused '{"healthy":true}' 'wrong.jsonl:1: expected the first line of a report'
refused "$(report lab 2026-12-02 '{"stage":"x","problem":"open /home/name/file failed"}')" 'wrong.jsonl:3: has the path of a file'
refused '{"report":"lab","format":1}' 'has no device that can be used'
[ ! -e "$work"/docs/gpus/*wrong* ] || fail "a wrong report was added"
