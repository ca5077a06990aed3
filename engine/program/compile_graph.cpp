// Program::compile() of a graph: lowers it, with kernels measured if the runtime measures them.
#include "program/lowering/lower.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/program_bench.hpp"
#include "program/runtime.hpp"
#include "program/tuning.hpp"

#include <algorithm>

namespace hekla::program {

namespace {

// Returns whether a store's kernels are sufficient; otherwise a compiler is needed, which generates any.
bool has_kernels(const Lowering& lowering, const ParameterStore& store) {
    return store.kernels() == nullptr || std::ranges::all_of(lowering.dispatches, [&](const Dispatch& dispatch) {
               return dispatch.source.empty() || store.kernels()->shaders.contains(dispatch.shader);
           });
}

} // namespace

Result<std::unique_ptr<Program>> Program::compile(Runtime& runtime, const graph::Graph& graph, ParameterStore& store,
                                                  const CompileOptions& options) {
    CompileOptions with_store = options;
    with_store.parameters = store.stored_otherwise();
    Limits limits = runtime.limits(store.kernels());
    HK_ASSIGN(Lowering lowering, lower(graph, limits, with_store));
    if (limits.generated_shaders && !has_kernels(lowering, store)) {
        limits.generated_shaders = false; // the bits are the same
        runtime.gpu().device->log().info("no exported kernels match this device; using the built-in kernels (slower)");
        HK_ASSIGN(lowering, lower(graph, limits, with_store));
    }
    if (runtime.options().measure_kernels == Measure::always && !lowering.problems.empty()) {
        runtime.tuning().choose(tuning_benches(runtime), lowering.problems, with_store.kernel_choices);
        HK_ASSIGN(lowering, lower(graph, limits, with_store));
    }
    return compile(runtime, lowering, store, options);
}

} // namespace hekla::program
