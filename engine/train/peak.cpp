#include "train/peak.hpp"

#include "graph/builder.hpp"

#include <chrono>

namespace hekla::train {

double measure_peak_flops(program::Runtime& runtime) {
    constexpr int64_t N = 512;
    const auto measured = [&]() -> Result<double> {
        graph::Builder b;
        const graph::ValueId x = b.parameter("a", {N, N}, 0, 0.0, 0.0, 0), y = b.parameter("b", {N, N}, 0, 0.0, 0.0, 0);
        b.output("y", b(graph::Op::matmul, {x, y}));
        HK_ASSIGN(const graph::Graph graph, b.finish());
        HK_ASSIGN(const auto store, program::ParameterStore::create(runtime, program::parameter_table(graph)));
        program::CompileOptions options;
        options.outputs = {"y"};
        HK_ASSIGN(const auto program, program::Program::compile(runtime, graph, *store, options));
        HK_TRY(program->run()); // warm-up
        double best = 1e30;
        for (int i = 0; i < 5; ++i) {
            const auto begin = std::chrono::steady_clock::now();
            HK_TRY(program->run());
            best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        }
        return 2.0 * N * N * N / best;
    }();
    return measured.ok() ? measured.value() : 0.0;
}

} // namespace hekla::train
