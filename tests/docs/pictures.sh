#!/usr/bin/env bash
# Parses every picture (SVG) of the checkout. Skipped without xmllint.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v xmllint >/dev/null || { printf 'skipped: xmllint, which parses the pictures, is not installed\n'; exit 77; }
pictures=()
while IFS= read -r file; do pictures+=("$file"); done < <(find . -name '*.svg' -not -path './build*' -not -path './out/*' | sort)
[ "${#pictures[@]}" -ge 10 ] || { printf '%d pictures, expected 10 or more\n' "${#pictures[@]}"; exit 1; }
xmllint --noout "${pictures[@]}"
printf '%d pictures\n' "${#pictures[@]}"
