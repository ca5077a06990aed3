#!/usr/bin/env bash
# Checks that every rule of the ABI names an existing test that fails if the rule is broken: a test of `hekla plugin
# check`, or a file in tests/. A rule that cannot be tested has a reason.
#   rules.sh REPOSITORY HEKLA
set -euo pipefail
root=$1 hekla=$2
"$hekla" plugin check --list >/dev/null # it runs
names=$("$hekla" plugin check --list)
wrong=0 rules=0 without=0
while IFS=$'\t' read -r rule tests; do
  rules=$((rules + 1))
  case $tests in none:*)
    without=$((without + 1))
    [ ${#tests} -gt 20 ] || { printf '%s says not why nothing can check it\n' "$rule"; wrong=1; }
    continue ;;
  esac
  while IFS= read -r test; do
    case $test in
      'check '*) grep -q "^[0-9] ${test#check } " <<<"$names" || { printf '%s: there is no test %s\n' "$rule" "$test"; wrong=1; } ;;
      *) [ -e "$root/tests/$test" ] || { printf '%s: there is no file tests/%s\n' "$rule" "$test"; wrong=1; } ;;
    esac
  done < <(sed 's/, /\n/g' <<<"$tests")
done < <(sed -nE 's/^\| \[([a-z]+\.[0-9]+)\].*\| ([^|]*) \|$/\1\t\2/p' "$root/plugins/reference/README.md" | tr -d '`')
[ "$rules" -gt 50 ] || { printf 'only %d rules were read\n' "$rules"; exit 1; }
[ "$wrong" = 0 ] && printf '%d rules, %d of which nothing can check\n' "$rules" "$without"
exit "$wrong"
