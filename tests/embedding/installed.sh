#!/usr/bin/env bash
# Embeds Hekla using only an installed tree: installed.sh BUILD short|long. The examples are copied into an empty folder
# and built with one command each; a CMake project finds the package; the library depends only on the C and C++ runtime
# and exports only hk_*. long: also adapters in slots, agents that learn, and all of it in a host with a decimal comma,
# rounding upward and a signal every millisecond.
set -euo pipefail
build=$(cd "$1" && pwd)
mode=$2
tests=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'installed.sh: %s\n' "$*" >&2; exit 1; }

cmake --install "$build" --prefix "$work/hekla" >"$work/install.log"
library=$work/hekla/lib/libhekla.so
[ -e "$library" ] || fail "there is no libhekla.so"
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | tr '\n' ' ')
for one in $needed; do
  case $one in libstdc++.so.6 | libm.so.6 | libgcc_s.so.1 | libc.so.6 | ld-linux*) ;; *) fail "it needs $one" ;; esac
done
shown=$(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sed 's/@.*//')
others=$(grep -v '^hk_' <<<"$shown" || true)
[ -z "$others" ] || fail "it shows $others"
# All functions in the headers are exported, and no others.
declared=$(sed -n 's/^HK_EXPORT .*\(hk_[a-z_]*\)(.*/\1/p' "$work"/hekla/include/hekla/*.h | sort)
[ "$declared" = "$(sort <<<"$shown")" ] || fail "headers and library differ: $(diff <(echo "$declared") <(sort <<<"$shown"))"

cd "$work" && mkdir app && cd app
cp "$work"/hekla/share/hekla/examples/*.c* .
flags=$(PKG_CONFIG_PATH=$work/hekla/lib/pkgconfig pkg-config --cflags --libs hekla)
for example in embed_minimal embed_inference; do
  # shellcheck disable=SC2086 # several flags
  cc -std=c11 -Wall -Wextra -Wconversion -pedantic -Werror $example.c -o $example $flags -lvulkan
done
# shellcheck disable=SC2086
c++ -std=c++20 -Wall -Wextra -Wconversion -pedantic -Werror learn_in_game.cpp -o learn_in_game $flags -lvulkan
# pkg-config --static links the library into the program. Both libraries are installed in the same folder.
static_flags=$(PKG_CONFIG_PATH=$work/hekla/lib/pkgconfig pkg-config --static --cflags --libs hekla)
# shellcheck disable=SC2086
cc -std=c11 embed_minimal.c -o embed_static $static_flags -lvulkan
[[ $(readelf -d embed_static) != *libhekla* ]] || fail "pkg-config --static links libhekla.so: $static_flags"
[[ $(readelf -d embed_minimal) == *libhekla.so* ]] || fail "pkg-config does not link libhekla.so: $flags"
for standard in 17 20; do
  printf '#include <hekla/hekla.hpp>\nint main() { hk::Error error; return hk::Context::create({}, error) ? 0 : 1; }\n' >in.cpp
  # shellcheck disable=SC2086
  c++ -std=c++$standard -Wall -Wextra -Wconversion -pedantic -Werror in.cpp -o in_cpp $flags && ./in_cpp || fail "C++$standard"
done

# A model to run, trained for a few steps.
for i in $(seq 300); do echo "line $((i * i % 97)) of the text, and some more"; done >text.txt
cat >recipe.toml <<'RECIPE'
[model]
architecture = "gpt2"
n_embd = 32
n_layer = 2
n_head = 2
n_positions = 128
[objective]
id = "clm"
[head]
id = "lm"
[tokenizer]
kind = "char"
[data]
train = "text.txt"
[train]
max_steps = 20
context_length = 32
per_device_train_batch_size = 8
eval_steps = 0
save_steps = 0
[output]
dir = "model"
RECIPE
"$work/hekla/bin/hekla" train recipe.toml 2>train.log || fail "$(cat train.log)"
said=$(./embed_minimal model 'line ')
[[ $said == 'line '* ]] && [ ${#said} -gt 20 ] || fail "embed_minimal said: $said"
./embed_inference model 'line ' 2000 >said 2>table || fail "embed_inference: $(cat table)"
grep -q '^line ' said || fail "embed_inference said: $(cat said)"
grep -q 'the budget is 2000' table || fail "embed_inference has no table: $(cat table)"
# A game ships only one exported file and the library, without plugins.
"$work/hekla/bin/hekla" export model app.hekla >export.log 2>&1 || fail "$(cat export.log)"
"$work/hekla/bin/hekla" export model slots.hekla --adapter-slots 2 --adapter-rank 4 >export.log 2>&1 || fail "$(cat export.log)"
mkdir shipped && cp -P "$work"/hekla/lib/libhekla.so* shipped/
[ "$(LD_LIBRARY_PATH=shipped ./embed_minimal app.hekla 'line ')" = "$said" ] || fail "the exported file writes another text"
LD_LIBRARY_PATH=shipped ./embed_inference app.hekla 'line ' 2000 >exported 2>table || fail "embed_inference: $(cat table)"
cmp -s said exported || fail "a session on the exported file writes another text: $(cat exported)"
LD_LIBRARY_PATH=shipped ./embed_minimal model 'line ' 2>error && fail "without plugins a folder is no error"
if [ "$mode" = long ]; then
  # Adapters in slots, through hekla.hpp: of a folder, and of an exported file without plugins.
  for i in $(seq 200); do echo "line line line of text"; done >other.txt
  "$work/hekla/bin/hekla" train recipe.toml model.from=model tokenizer.from=model data.train=other.txt adapter.id=lora adapter.r=4 \
    train.learning_rate=2e-2 train.max_steps=60 output.dir=adapter 2>train.log || fail "$(cat train.log)"
  for standard in 17 20; do
    # shellcheck disable=SC2086
    c++ -std=c++$standard -Wall -Wextra -Wconversion -pedantic -Werror "$tests/adapters_host.cpp" -o adapters_host $flags
  done
  ./adapters_host model adapter model >rows 2>error || fail "$(cat error)"
  [ "$(wc -l <rows)" = 9 ] || fail "adapters_host said: $(cat rows)"
  LD_LIBRARY_PATH=shipped ./adapters_host slots.hekla adapter model >exported 2>error || fail "an exported file with slots: $(cat error)"
  # shellcheck disable=SC2086
  c++ -std=c++17 -O1 -Wall -Wextra -Wconversion -pedantic -Werror "$tests/adapter_swap_bench.cpp" -o adapter_swap_bench $flags -lvulkan
  ./adapter_swap_bench model adapter 2000 256 >swaps 2>error || fail "adapter_swap_bench: $(cat error)"
  grep -q '^allocations and pipelines: 0 and 0 without swaps, 0 and 0 with 16 swaps$' swaps || fail "swaps: $(cat swaps)"
  cmp -s rows exported || fail "an exported file with slots writes another text: $(cat exported)"
  # Agents learn from the teacher while the game runs.
  ./learn_in_game lessons 200000 agents.ppm >game || fail "learn_in_game: $(cat game)"
  [[ $(tail -n 1 game) =~ in\ [0-9]+\ %\ of\ their\ moves,\ at\ the\ end\ in\ (6|7|8|9|10)[0-9] ]] || fail "the agents learnt nothing: $(cat game)"
  [ "$(head -c 2 agents.ppm)" = P6 ] || fail "learn_in_game drew nothing"

  # Every example again, disturbed: the same results.
  cc -std=gnu11 -Wall -Wextra -Werror -shared -fPIC "$tests/disturbed_host.c" -o disturbed_host.so -lm
  mkdir locales && localedef -i de_DE -f UTF-8 locales/de_DE.UTF-8 || fail "de_DE.UTF-8 cannot be made: install locales"
  disturbed() { # disturbed COMMAND...: its output; errors and the report are in `disturbances`
    LOCPATH=$PWD/locales LD_PRELOAD=$PWD/disturbed_host.so "$@" 2>disturbances || fail "disturbed, $1 fails: $(cat disturbances)"
    [ "$(tail -n 1 disturbances)" = 'disturbed host: signals came, 0 on threads of Hekla; rounding kept; comma kept' ] ||
      fail "disturbed, $1: $(cat disturbances)"
  }
  [ "$(disturbed ./embed_minimal model 'line ')" = "$said" ] || fail "disturbed, embed_minimal writes another text"
  [ "$(disturbed ./embed_static app.hekla 'line ')" = "$said" ] || fail "disturbed, embed_static writes another text"
  for opened in model app.hekla; do
    disturbed ./embed_inference $opened 'line ' 2000 >again
    cmp -s again said || fail "disturbed, embed_inference $opened writes another text: $(cat again)"
  done
  sed 's/"model"/"in_app"/' recipe.toml >in_app.toml
  # Its weights are others: the threads of a CPU driver have the rounding of the thread that made the device, the app's.
  disturbed ./embed_inference in_app.toml train 2000 >again
  [ -s in_app/model.safetensors ] || fail "disturbed, a training in an app has no weights"
  disturbed ./adapters_host model adapter model >again
  cmp -s again rows || fail "disturbed, adapters_host writes another text: $(cat again)"
  disturbed ./learn_in_game lessons-disturbed 200000 >again
  [[ $(tail -n 1 again) =~ in\ [0-9]+\ %\ of\ their\ moves,\ at\ the\ end\ in\ (6|7|8|9|10)[0-9] ]] || fail "disturbed, the agents learnt nothing: $(cat again)"
  # The program that is installed with the library is a host, too. Kernels are not measured: other ones have
  # other bits.
  program=("$work/hekla/bin/hekla" --measure-kernels never train recipe.toml)
  "${program[@]}" output.dir=undisturbed 2>train.log || fail "$(cat train.log)"
  disturbed "${program[@]}" output.dir=disturbed >again
  cmp -s disturbed/model.safetensors undisturbed/model.safetensors || fail "disturbed, a training has other weights"
fi
if ./embed_minimal nowhere 'line ' 2>error; then fail "a model that is not there is no error"; fi
grep -q nowhere error || fail "what is missing is not named: $(cat error)"

# The calls of a host with sessions, replayed by the program.
cat >captured.cpp <<'HOST'
#include <hekla/capture.h>
#include <hekla/hekla.hpp>
#include <cstdio>
int main() {
    hk::Error error;
    const hk::Context context = hk::Context::create({}, error);
    error.take(hk_capture(context.c(), hk::view("calls.jsonl"), error.c()));
    const hk::Training training = context.train({"recipe.toml", {"train.max_steps=4", "output.dir=captured"}, {}, {}, {}}, error);
    hk::GenerationOptions options;
    options.model = "model";
    options.prompts = {"line "};
    const hk::Generation text = context.generate(options, error);
    while (!error && text.state() < hk::State::idle) text.advance(2000, error);
    while (!error && training.state() < hk::State::done) training.advance(2000, error);
    if (error) std::printf("%s\n", error.message().c_str());
    return error ? 1 : 0;
}
HOST
# shellcheck disable=SC2086
c++ -std=c++20 -Wall -Wextra -Wconversion -pedantic -Werror captured.cpp -o captured $flags
./captured || fail "the captured host"
again=$("$work/hekla/bin/hekla" replay-calls calls.jsonl) || fail "the calls made again: $again"
[[ $again == *' 0 differences; '*' frames took '* ]] || fail "the calls made again: $again"

# A context's data is stored in the host's memory; everything else uses operator new, which a program may replace.
cat >counted.cpp <<'HOST'
#include <hekla/hekla.h>
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <new>
static long kept = 0, asked = 0, given = 0;
void* operator new(std::size_t size) {
    void* memory = std::malloc(size);
    if (memory == nullptr) throw std::bad_alloc();
    ++asked;
    kept += static_cast<long>(malloc_usable_size(memory));
    return memory;
}
void operator delete(void* memory) noexcept {
    kept -= static_cast<long>(malloc_usable_size(memory));
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
int main() {
    hk_allocator allocator{};
    allocator.struct_size = sizeof allocator;
    allocator.allocate = [](void*, uint64_t bytes, uint64_t alignment) {
        given += static_cast<long>(bytes);
        return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    };
    allocator.release = [](void*, void* memory, uint64_t bytes, uint64_t) {
        given -= static_cast<long>(bytes);
        std::free(memory);
    };
    hk_string folder = hk_plugin_folder();
    hk_context_options options{};
    options.struct_size = sizeof options;
    options.device_kind = HK_DEVICE_NONE;
    options.plugin_folders = &folder;
    options.plugin_folder_count = 1;
    options.allocator = &allocator;
    hk_context context{};
    if (hk_context_create(&options, &context, nullptr) != HK_OK) return 1;
    std::printf("%ld bytes of the host's, %ld of operator new, which was called %ld times\n", given, kept, asked);
    const bool so = given > 50000 && asked > 1000 && kept < given / 4;
    hk_context_destroy(context);
    return so && given == 0 ? 0 : 1;
}
HOST
# shellcheck disable=SC2086
c++ -std=c++20 -Wall -Wextra -Wconversion -pedantic -Werror counted.cpp -o counted $flags
counted=$(./counted) || fail "memory of a context: $counted"

mkdir project && cd project
cat >CMakeLists.txt <<'PROJECT'
cmake_minimum_required(VERSION 3.20)
project(app C CXX)
find_package(hekla REQUIRED)
find_library(VULKAN vulkan)
add_executable(minimal ../embed_minimal.c)
target_link_libraries(minimal PRIVATE hekla::hekla ${VULKAN})
add_executable(static ../embed_minimal.c)
target_link_libraries(static PRIVATE hekla::static ${VULKAN})
add_executable(counted ../counted.cpp)
target_link_libraries(counted PRIVATE hekla::static)
PROJECT
cmake -S . -B build -DCMAKE_PREFIX_PATH="$work/hekla" >cmake.log && cmake --build build >>cmake.log || fail "$(cat cmake.log)"
[[ $(cd .. && project/build/minimal model 'line ') == 'line '* ]] || fail "the CMake project's program says nothing"
# The static library exports no other symbols either; a program that links it finds plugins relative to the program.
shown_in_archive=$(nm -g --defined-only "$work/hekla/lib/libhekla.a" | awk 'NF == 3 { print $3 }' | sort)
[ "$declared" = "$shown_in_archive" ] || fail "libhekla.a shows $(diff <(echo "$declared") <(echo "$shown_in_archive"))"
cp build/static build/counted ../embed_static "$work/hekla/bin/"
counted=$("$work/hekla/bin/counted") || fail "memory of a context with the static library: $counted"
[[ $("$work/hekla/bin/static" ../model 'line ') == 'line '* ]] || fail "the program with the static library says nothing"
[[ $("$work/hekla/bin/embed_static" ../model 'line ') == 'line '* ]] || fail "the program of pkg-config --static generates nothing"
[[ $(ldd "$work/hekla/bin/static") != *libhekla* ]] || fail "the static program needs libhekla.so"

# The Observatory, if it was built, is a separate component.
[ ! -e "$work/hekla/bin/observatory" ] || fail "the Observatory is installed without being asked for"
if [ -e "$build/bin/observatory" ]; then
  cmake --install "$build" --component observatory --prefix "$work/hekla" >>"$work/install.log"
  (cd "$work/app" && "$work/hekla/bin/observatory" model --headless --screenshot seen.png) || fail "the installed Observatory"
  [ "$(head -c 4 "$work/app/seen.png" | tail -c 3)" = PNG ] || fail "the installed Observatory drew nothing"
fi

# A host with its own copy of volk, using either library.
cd "$work/app"
# shellcheck disable=SC2086
c++ -std=c++20 -Wall -Wextra -Werror -DVOLK_IMPLEMENTATION "$tests/volk_host.cpp" -o volk_host $flags -ldl -pthread
[[ $(./volk_host model 'line ') == 'the same text'* ]] || fail "volk_host with libhekla.so"
# shellcheck disable=SC2086
c++ -std=c++20 -DVOLK_IMPLEMENTATION "$tests/volk_host.cpp" -o "$work/hekla/bin/volk_host" -I"$work/hekla/include" \
  "$work/hekla/lib/libhekla.a" -ldl -pthread
[[ $("$work/hekla/bin/volk_host" model 'line ') == 'the same text'* ]] || fail "volk_host with libhekla.a"
cd project

# The Debian package; tests/release tests what is published.
cpack --config "$build/CPackConfig.cmake" -B "$work/packages" -G DEB >cpack.log 2>&1 || fail "$(tail -n 20 cpack.log)"
deb=$(echo "$work"/packages/hekla_*.deb)
held=$(dpkg-deb -c "$deb") about=$(dpkg-deb -f "$deb" Depends)
[[ $held == *'/usr/lib/libhekla.so ->'* && $held == */usr/include/hekla/session.h* ]] || fail "the package lacks libhekla.so or session.h: $held"
[[ $about == *'libc6 (>= '* ]] || fail "the package depends on no version of the C library: $about"
