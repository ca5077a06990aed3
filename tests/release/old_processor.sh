#!/usr/bin/env bash
# Runs a release on a processor without AVX, which qemu-user emulates: old_processor.sh FILES
# The device is lavapipe, whose compiler looks at the emulated processor too. Skipped (77) without qemu-x86_64 or a release.
set -euo pipefail
files=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'old_processor.sh: %s\n' "$*" >&2; exit 1; }
skip() { printf 'skipped: %s\n' "$*"; exit 77; }
command -v qemu-x86_64 >/dev/null || skip 'qemu-x86_64 is not installed: third_party/install --packages'
[ -e "$files/SHA256SUMS" ] || skip "$files has no release: the test release_twice makes it"
cd "$work"
old=(qemu-x86_64 -cpu Nehalem)

# The emulated processor has no AVX: a program with it ends by SIGILL.
printf '#include <immintrin.h>\nint main(int n, char** v) {\n    const __m256 x = _mm256_set1_ps((float)n);\n    return _mm256_movemask_ps(_mm256_add_ps(x, x)) + (v == 0);\n}\n' >avx.c
cc -O1 -mavx avx.c -o avx
status=0
bash -c '"$@"; exit $?' - "${old[@]}" ./avx >/dev/null 2>&1 || status=$? # bash reports the signal to /dev/null
[ $status = 132 ] || fail "the emulated processor runs AVX (status $status), so this test would prove nothing"

tar -xzf "$files"/hekla-*.tar.gz
cd hekla-*/
export XDG_CACHE_HOME=$work/cache LP_NUM_THREADS=1
"${old[@]}" bin/hekla --version | grep '^hekla [0-9]' >/dev/null || fail 'hekla --version'
"${old[@]}" bin/hekla doctor --list | grep llvmpipe >/dev/null || fail 'doctor --list shows no device'
# Children of an emulated process run on the machine's own processor, so hekla-describe is emulated below.
"${old[@]}" bin/hekla train share/hekla/recipes/quickstart.toml 'data.train=share/hekla/recipes/*.toml' train.max_steps=1 \
  train.eval_steps=0 tokenizer.vocab_size=300 model.n_layer=1 model.n_embd=32 2>log || fail "train: $(cat log)"
"${old[@]}" bin/hekla generate out/quickstart --prompt 'int' --max-new-tokens 4 >text 2>log || fail "generate: $(cat log)"
grep -q '^int' text || fail "generate: $(cat text)"
# What the program starts, and the library.
"${old[@]}" bin/hekla --help >/dev/null || fail 'hekla --help'
status=0
"${old[@]}" libexec/hekla-describe 2>log || status=$? # only the program starts it; people are told so
[ $status = 2 ] && grep -q 'hekla describe' log || fail "hekla-describe: status $status, $(cat log)"
printf 'every program runs without AVX\n'
