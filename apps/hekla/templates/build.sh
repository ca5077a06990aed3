#!/bin/sh
# Builds build/plugins/%NAME%.so, and its manifest next to it: sh build.sh. The environment may set RUSTC (default rustc; 1.63 or
# newer) and HEKLA (default: the folder Hekla was installed to).
set -eu
cd "$(dirname "$0")"
: "${RUSTC:=rustc}" "${HEKLA:=%PREFIX%}"
minor=$(sed -n 's/.*"abi_minor_needed": *\([0-9]*\).*/\1/p' manifest.json) # what the manifest asks for is what the binding gives
mkdir -p build/plugins
"$RUSTC" --edition 2021 -O --cfg "hekla_minor=\"$minor\"" --crate-type rlib --crate-name hekla_plugin \
  "$HEKLA/share/hekla/rust/hekla_plugin.rs" -o build/libhekla_plugin.rlib
"$RUSTC" --edition 2021 -O --crate-type cdylib -C strip=debuginfo --crate-name %CRATE% --extern hekla_plugin=build/libhekla_plugin.rlib \
  %SOURCE% -o build/plugins/%NAME%.so
hash=$(sha256sum build/plugins/%NAME%.so | cut -d ' ' -f 1) # Hekla loads the library that its manifest was written for
sed "s/\(\"library\" *: *\"[^\"]*\"\)/\1, \"sha256\": \"$hash\"/" manifest.json >build/plugins/%NAME%.json
