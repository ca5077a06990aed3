#!/usr/bin/env bash
# Makes the release twice, in different folders, and compares the bytes: twice.sh FILES
# FILES: a folder, which has the release afterwards. Skipped (77) where tools/release refuses: on another system than Debian
# 12, and in a working tree with changes.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
files=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skip() { printf 'skipped: %s\n' "$*"; exit 77; }
fail() { printf 'twice.sh: %s\n' "$*" >&2; exit 1; }
[ "$(. /etc/os-release && printf '%s %s' "$ID" "${VERSION_ID:-}")" = 'debian 12' ] || skip 'releases are made on Debian 12'
[ -z "$(git -C "$root" status --porcelain)" ] || skip 'the working tree has changes that a release would not have'

for time in first second; do
  mkdir "$work/folder-of-the-$time-build"
  TMPDIR=$work/folder-of-the-$time-build "$root/tools/release" --output "$work/$time" || fail "tools/release failed"
done
for file in "$work"/first/*; do
  cmp "$file" "$work/second/${file##*/}" || fail "${file##*/} has other bytes when it is made again"
done
rm -rf "$files"
cp -r "$work/second" "$files"
(cd "$files" && sha256sum --quiet -c SHA256SUMS) || fail 'SHA256SUMS does not match the files'
