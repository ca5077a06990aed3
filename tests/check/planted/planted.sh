#!/usr/bin/env bash
# planted.sh HEKLA FOLDER [--all]: every fault of faults.txt is found by the test that it lists first, with its message, and
# the plugins without a fault pass. With --all, by exactly the tests that it lists, of all tests of level 2 (of an operation's
# kernel: of the tests of operations).
set -euo pipefail
hekla=$1 folder=$2 mode=${3:-}
table=$(dirname "$0")/faults.txt
report=$(mktemp)
trap 'rm -f "$report"' EXIT
wrong=0 count=0

check() { # check PLUGIN OPTION...: the outcome is in $report
  local plugin=$1
  shift
  "$hekla" plugin check "$folder/$plugin.so" --patience 5 "$@" >"$report" 2>&1
}
for plugin in planted_network planted_operation planted_adapter planted_optimizer; do
  level=2
  [ "$plugin" != planted_operation ] || level=3
  check "$plugin" --level "$level" || { printf '%s has findings without a fault:\n' "$plugin"; cat "$report"; wrong=1; }
done
planted=$(grep -oh 'fault("[a-z0-9_]*")' "$(dirname "$0")"/*.cpp | sed 's/fault("//; s/")//' | sort -u)
listed=$(awk -F ' *[|] *' '!/^#/ && NF > 1 { print $2 }' "$table" | sort)
[ "$planted" = "$listed" ] || { printf 'faults.txt and the sources differ:\n'; diff <(echo "$planted") <(echo "$listed") || true; wrong=1; }

while IFS='|' read -r plugin fault tests message; do
  case $plugin in '#'* | '') continue ;; esac
  plugin=$(echo $plugin) fault=$(echo $fault) tests=$(echo $tests) message=${message# }
  count=$((count + 1))
  export HEKLA_FAULT=$fault
  options=(--level 2)
  case $tests in *operation.float32*) options=(--level 3 --only operation.) ;; esac
  if [ -n "$mode" ]; then
    check "$plugin" "${options[@]}" || true
    found=$(awk '$1 == "FAILED" { print $2 }' "$report" | sort | tr '\n' ' ')
    expected=$(printf '%s\n' $tests | sort | tr '\n' ' ')
    [ "$found" = "$expected" ] || { printf '%s: found by %sexpected %s\n' "$fault" "$found" "$expected"; cat "$report"; wrong=1; }
  elif check "$plugin" --level 3 --only "${tests%% *}"; then
    printf '%s: not found by %s\n' "$fault" "${tests%% *}"
    wrong=1
  fi
  if ! grep -qF -- "$message" "$report"; then
    printf '%s: found, but not with "%s":\n' "$fault" "$message"
    cat "$report"
    wrong=1
  fi
done <"$table"
[ "$count" -ge 50 ] || { printf '%s faults are too few\n' "$count"; wrong=1; }
[ "$wrong" = 0 ] && printf '%s planted faults, each found by the test for it\n' "$count"
exit "$wrong"
