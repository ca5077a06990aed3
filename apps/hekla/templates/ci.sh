#!/bin/sh
# Builds the plugin, tests it, and writes build/%NAME%-VERSION.zip, the archive that `hekla plugin install` takes: sh ci.sh.
# The environment may set HEKLA (default: the folder Hekla was installed to).
set -eu
cd "$(dirname "$0")"
: "${HEKLA:=%PREFIX%}"
export HEKLA
%BUILD_IN_CI%
"$HEKLA/bin/hekla" --plugin-path build/plugins plugin check build/plugins/%NAME%.so --level 2
version=$(sed -n 's/.*"version": *"\([^"]*\)".*/\1/p' manifest.json | head -n 1)
platform=$(uname -s | tr A-Z a-z)-$(uname -m) # the archive may hold libraries of several, each in its folder
rm -rf build/archive
mkdir -p "build/archive/$platform"
cp build/plugins/%NAME%.so build/plugins/%NAME%.json "build/archive/$platform/"
cp manifest.json recipe.toml README.md %SOURCE% %BUILD_FILE% build/archive/
(cd build/archive && cmake -E tar cf "../%NAME%-$version.zip" --format=zip -- *)
printf '%s\n' "build/%NAME%-$version.zip"
