#!/usr/bin/env bash
# The Rust binding compiles without warnings for every minor, has the released layouts, and turns panics, including
# those in destructors, into errors that name the line.
#   rust.sh REPOSITORY GENERATE_ABI CC
set -euo pipefail
root=$1 generate=$2 cc=$3
command -v rustc >/dev/null || { printf 'skipped: rustc is not installed\n'; exit 77; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
newest=$(sed -n 's/^#define HK_ABI_MINOR //p' "$root/engine/include/hekla/plugin/abi.h")
oldest=$(sed -nE 's/^#define HK_ABI_OLDEST_MINOR ([0-9]+).*/\1/p' "$root/engine/include/hekla/plugin/abi.h")
for minor in $(seq "$oldest" "$newest"); do
  rustc --edition 2021 --crate-type rlib -D warnings --cfg "hekla_minor=\"$minor\"" --crate-name hekla_plugin \
    "$root/plugins/sdk/rust/hekla_plugin.rs" -o "$place/libhekla_plugin.rlib"
done
for golden in "$root"/tests/abi/golden/*.txt; do
  "$generate" rust-asserts "$golden" >"$place/layout.rs"
  rustc --edition 2021 --test --extern hekla_plugin="$place/libhekla_plugin.rlib" "$place/layout.rs" -o "$place/layout"
  "$place/layout" >"$place/layout.log" || { cat "$place/layout.log"; exit 1; }
done

# A plugin that works but panics in the function that MODE names; every instance panics when it is dropped.
cat >"$place/panics.rs" <<'RUST'
use hekla_plugin::*;
const MODE: &str = "none";
struct Panics;
impl Drop for Panics {
    fn drop(&mut self) {
        panic!("from a destructor");
    }
}
impl Architecture for Panics {
    fn new(config: &Config) -> Result<Self> {
        config.integer("width")?;
        Ok(Panics)
    }
    fn build(&self, g: &Graph) -> Result<()> {
        let x = embedding(g.parameter("words", &[4, 4], zeros()), g.input("input_ids"));
        let dims = x.shape();
        if MODE == "build" {
            println!("{}", dims[17 + dims.len()]);
        }
        g.offer("hidden", (0..12).fold(x, |y, _| y + x));
        Ok(())
    }
    fn head(&self, g: &Graph, id: &str) -> Result<bool> {
        if id == "lm" {
            g.offer("logits", g.ask("hidden"));
        }
        Ok(id == "lm")
    }
    fn write(&self, out: &mut ConfigWriter) -> Result<()> {
        if MODE == "write" {
            return Err(Error::unsupported("said no"));
        }
        out.integer("a", 1)?;
        out.real("b", 1.0)?;
        out.text("c", "1")
    }
}
plugin! { architecture "panics": Panics }
RUST
rustc --edition 2021 --crate-type rlib --crate-name hekla_plugin "$root/plugins/sdk/rust/hekla_plugin.rs" -o "$place/libhekla_plugin.rlib"
"$cc" -std=c11 -DHK_TARGET_ABI_MINOR="$oldest" -I"$root/engine/include" "$root/tests/abi/mock_host.c" -o "$place/host" -ldl
hosted() { # hosted MODE STATUS WORDS: checks its output in the host of the oldest minor, without tokenizer and log
  local status=0
  sed "s/MODE: &str = \"none\"/MODE: \&str = \"$1\"/" "$place/panics.rs" >"$place/$1.rs"
  rustc --edition 2021 --crate-type cdylib --extern hekla_plugin="$place/libhekla_plugin.rlib" "$place/$1.rs" -o "$place/$1.so"
  "$place/host" "$place/$1.so" panics >"$place/said.log" 2>&1 || status=$?
  if [ "$status" != "$2" ] || ! tr '\n' ' ' <"$place/said.log" | grep -Eq "$3"; then
    printf 'mode %s: the host ended with %d and said:\n' "$1" "$status"
    cat "$place/said.log"
    exit 1
  fi
}
hosted none 0 'panics: 13 operations' # both instances panicked in destroy(), without any other effect
hosted build 1 'build: panicked at .*index out of bounds.*build.rs:1[0-9]|build: panicked at .*build.rs:1[0-9].*index out of bounds'
hosted write 1 'write_config: said no'
printf 'the Rust binding has the layout, and panics stay inside\n'
