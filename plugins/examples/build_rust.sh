#!/bin/sh
# Builds every example in Rust: build_rust.sh BUILD writes BUILD/rust/NAME.so with its manifest. The environment may set RUSTC
# (default rustc; 1.63 or newer) and HEKLA (default /opt/hekla, where Hekla is installed).
set -eu
: "${RUSTC:=rustc}" "${HEKLA:=/opt/hekla}"
sources=$(cd "$(dirname "$0")" && pwd) build=$1
mkdir -p "$build/rust"
"$RUSTC" --edition 2021 -O --cfg 'hekla_minor="1"' --crate-type rlib --crate-name hekla_plugin "$HEKLA/share/hekla/rust/hekla_plugin.rs" \
  -o "$build/libhekla_plugin.rlib"
for name in convnet experts own_muon small_scan small_slstm taught; do
  "$RUSTC" --edition 2021 -O --crate-type cdylib -C strip=debuginfo --extern "hekla_plugin=$build/libhekla_plugin.rlib" \
    "$sources/$name/$name.rs" -o "$build/rust/$name.so"
  cp "$sources/$name/$name.json" "$build/rust/"
done
