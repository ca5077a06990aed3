#include "base/stopwatch.hpp"
#include "graph/builder.hpp"
#include "graph/gradient.hpp"
#include "graph/reference.hpp"
#include "lab/kernel.hpp"
#include "program/lowering/half.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::lab {
namespace {

// Causal attention and its gradients: parameters q, k and v, and a field that weights the result. halves: q, k, v and
// the gradient of the result are computed, so that they can be stored in 16 bits.
Result<graph::Graph> attention_graph(int64_t batch, int64_t heads, int64_t length, int64_t width, bool halves) {
    graph::Builder b;
    const graph::Shape shape{batch, heads, length, width};
    const auto stored = [&](graph::ValueId x) { return halves ? b(graph::Op::mul, {x, b.scalar(1.0)}) : x; };
    const auto parameter = [&](const char* name) { return stored(b.parameter(name, shape, 0, 0.0, 0.0, 0)); };
    const graph::ValueId q = parameter("q"), k = parameter("k"), v = parameter("v");
    const graph::ValueId y = b(graph::Op::attention, {q, k, v}, {{"causal", int64_t{1}}});
    const graph::ValueId weighted = b(graph::Op::mul, {stored(y), b.input("w", graph::Kind::float32, shape)});
    const graph::ValueId flat = b(graph::Op::reshape, {weighted}, {{"shape", std::vector<int64_t>{shape.elements()}}});
    b.output("y", y);
    b.loss("sum", b(graph::Op::sum, {flat}, {{"axes", std::vector<int64_t>{0}}}), b.scalar(1.0), 1.0);
    HK_ASSIGN(graph::Graph graph, b.finish());
    return graph::differentiate(std::move(graph));
}

program::CompileOptions options_of(program::Storage precision) {
    program::CompileOptions options;
    options.outputs = {"y"};
    options.precision = precision;
    return options;
}

graph::Tensor tensor_of(const graph::Shape& shape, program::Storage storage, uint64_t stream) {
    graph::Tensor tensor{graph::Kind::float32, shape, {}};
    const std::vector<std::byte> numbers = random_numbers(shape.elements(), storage, stream);
    for (int64_t i = 0; i < shape.elements(); ++i)
        tensor.data.push_back(number_at(numbers, storage, static_cast<uint64_t>(i)));
    return tensor;
}

std::vector<float> floats_of(const graph::Tensor& tensor) { return {tensor.data.begin(), tensor.data.end()}; }

// A small attention in float64 and by kernels. Returns what is wrong.
Result<std::string> check(program::Runtime& runtime, program::Storage precision,
                          const std::map<std::string, std::string>& choices, const graph::Graph& graph,
                          const graph::Feeds& feeds, const std::map<std::string, graph::Tensor>& expected) {
    HK_ASSIGN(const auto store,
              program::ParameterStore::create(runtime, program::parameter_table(graph), {.gradients = true}));
    for (const auto& [name, tensor] : feeds.parameters) HK_TRY(store->upload(name, floats_of(tensor)));
    program::CompileOptions options = options_of(precision);
    options.kernel_choices = choices;
    HK_ASSIGN(const auto program, program::Program::compile(runtime, graph, *store, options));
    const std::vector<float> weights = floats_of(feeds.fields.at("w"));
    HK_TRY(program->set_input("w", std::as_bytes(std::span(weights))));
    HK_TRY(program->run());
    const double tolerance = precision == program::Storage::f32   ? 1e-5
                             : precision == program::Storage::f16 ? 0x1p-8
                                                                  : 0x1p-5;
    for (const auto& [name, want] : expected) {
        std::vector<float> got;
        if (name == "y") {
            HK_ASSIGN(const program::HostTensor y, program->read_output("y"));
            got.assign(y.floats().begin(), y.floats().end());
        } else {
            HK_ASSIGN(const ResourceArray<float> gradient, store->download(name, program::StoreArena::gradients));
            got.assign(gradient.begin(), gradient.end());
        }
        double largest = 0, worst = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
            largest = std::max(largest, std::abs(want.data[i]));
            const double difference = std::abs(static_cast<double>(got[i]) - want.data[i]);
            worst = difference <= worst ? worst : difference;
        }
        if (!(worst <= tolerance * largest))
            return fmt::format("{} differs from float64 by {:.1e} of its largest element; {:.1e} was expected",
                               name == "y" ? "the result" : "the gradient of " + name, worst / largest, tolerance);
    }
    return std::string();
}

// Returns the speed of the preferred kernel on a trial of at most `flops` operations; 0: it cannot be run.
double probed_attention_speed(program::Runtime& runtime, const program::KernelProblem& kernels, double flops) {
    const program::KernelTrial trial = kernels.trial(std::max(1e5, flops), int64_t{1} << 24);
    const auto run = [&]() -> Result<double> {
        HK_ASSIGN(const auto bench, make_bench(runtime));
        uint64_t stream = 0;
        for (const program::TrialTensor& tensor : trial.inputs)
            HK_TRY(bench->upload(tensor.name, random_numbers(tensor.elements, tensor.storage, ++stream)));
        program::Lowering lowering;
        lowering.limits = runtime.limits();
        lowering.trial = program::KernelChoice{.kernel = kernels.kernels.front().kernel};
        trial.lower(lowering);
        HK_ASSIGN(const std::size_t dispatches, bench->add(lowering));
        HK_ASSIGN(const double seconds, bench->run(dispatches));
        return seconds > 0 ? trial.flops / seconds : 0.0;
    };
    const Result<double> speed = run();
    return speed.ok() ? speed.value() : 0.0; // the same error is reported where the kernel is measured
}

bool can_compute(const program::KernelProblem& problem, const std::string& kernel) {
    return std::ranges::count(problem.kernels, kernel, &program::KernelOption::kernel) > 0 ||
           std::ranges::count(problem.forms, kernel) > 0;
}

// Measures the kernels of each pass in one precision. with_forms: other forms of those for matrix units, too.
Status measure(const Input& input, program::Storage precision, bool with_forms, report::Line& rows,
               std::string& problem) {
    program::Runtime& runtime = input.runtime;
    HK_ASSIGN(const double peak,
              peak_of(input, runtime.device_limits().matrix_unit(precision) ? precision : program::Storage::f32));
    // Checked at a size with a part of a tile, measured at that of GPT-2 124M.
    constexpr int64_t kHeads = 2, kLength = 72, kWidth = 64;
    HK_ASSIGN(const graph::Graph small,
              attention_graph(1, kHeads, kLength, kWidth, precision != program::Storage::f32));
    HK_ASSIGN(const graph::Graph large, attention_graph(16, 12, 1024, kWidth, precision != program::Storage::f32));
    graph::Feeds feeds;
    const graph::Shape shape{1, kHeads, kLength, kWidth};
    uint64_t stream = 10;
    for (const char* name : {"q", "k", "v"}) feeds.parameters.emplace(name, tensor_of(shape, precision, ++stream));
    feeds.fields.emplace("w", tensor_of(shape, precision, ++stream));
    std::map<std::string, graph::Tensor> expected;
    for (const auto& [name, output] :
         {std::pair("y", "y"), std::pair("q", "grad.q"), std::pair("k", "grad.k"), std::pair("v", "grad.v")}) {
        const graph::ValueId wanted[] = {small.outputs.at(output)};
        HK_ASSIGN(std::vector<graph::Tensor> value, graph::evaluate(small, feeds, wanted));
        expected.emplace(name, std::move(value[0]));
    }
    HK_ASSIGN(const program::Lowering of_small, program::lower(small, runtime.limits(), options_of(precision)));
    HK_ASSIGN(const program::Lowering of_large, program::lower(large, runtime.limits(), options_of(precision)));
    if (of_large.problems.empty()) { // one kernel for each pass
        HK_ASSIGN(const std::string wrong, check(runtime, precision, {}, small, feeds, expected));
        if (!wrong.empty()) problem = fmt::format("attention in {}: {}", program::storage_name(precision), wrong);
        return {};
    }
    for (std::size_t i = 0; i < of_large.problems.size(); ++i) {
        const program::KernelProblem& kernels = of_large.problems[i];
        HK_TRY(warm_up(runtime));
        const double probed = probed_attention_speed(runtime, kernels, peak / 64 * kMeasured);
        const program::KernelTrial trial = kernels.trial(
            std::max(1e6, 0.5 * (probed > 0 ? std::min(peak, 2 * probed) : peak) * kMeasured), int64_t{1} << 27);
        HK_ASSIGN(const auto bench, make_bench(runtime));
        stream = 0;
        for (const program::TrialTensor& tensor : trial.inputs)
            HK_TRY(bench->upload(tensor.name, random_numbers(tensor.elements, tensor.storage, ++stream)));
        report::Line row{{"pass", kernels.key.substr(10, kernels.key.find('[') - 11)},
                         {"factors", program::storage_name(precision)},
                         {"peak_flops", rounded(peak)},
                         {"preferred", kernels.kernels.front().kernel},
                         {"kernels", report::Line::array()},
                         {"forms", report::Line::array()}};
        const auto measure_kernel = [&](const std::string& name, const char* where) -> Status {
            report::Line one{{"kernel", name}};
            const auto run = [&]() -> Status {
                if (i < of_small.problems.size() && can_compute(of_small.problems[i], name)) {
                    HK_ASSIGN(const std::string wrong,
                              check(runtime, precision, {{of_small.problems[i].key, name}}, small, feeds, expected));
                    if (!wrong.empty()) {
                        one["problem"] = wrong;
                        problem = fmt::format("attention {} in {}: {}", name, program::storage_name(precision), wrong);
                        return {};
                    }
                }
                program::Lowering lowering;
                lowering.limits = runtime.limits();
                lowering.trial = program::KernelChoice{.kernel = name};
                trial.lower(lowering);
                HK_ASSIGN(const std::size_t dispatches, bench->add(lowering));
                HK_ASSIGN(const double seconds, bench->run(dispatches));
                one["flops"] = rounded(seconds > 0 ? trial.flops / seconds : 0.0);
                if (peak > 0 && seconds > 0) one["of_peak"] = rounded(trial.flops / seconds / peak);
                return {};
            };
            if (const Status ran = run(); !ran.ok()) {
                if (ran.code() == Code::device_lost) return ran;
                one["problem"] = ran.message();
            }
            row[where].push_back(std::move(one));
            return {};
        };
        for (const program::KernelOption& option : kernels.kernels) HK_TRY(measure_kernel(option.kernel, "kernels"));
        if (with_forms)
            for (const std::string& form : kernels.forms) HK_TRY(measure_kernel(form, "forms"));
        rows.push_back(std::move(row));
    }
    return {};
}

} // namespace

Result<report::Outcome> attention(const Input& input) {
    const auto begin = std::chrono::steady_clock::now();
    const program::Limits& limits = input.runtime.device_limits();
    std::vector<program::Storage> storages{program::Storage::f32};
    for (const program::Storage storage : {program::Storage::f16, program::Storage::bf16})
        if (limits.matrix_unit(storage)) storages.insert(storages.begin(), storage);
    report::Outcome outcome;
    report::Line rows = report::Line::array();
    for (const program::Storage precision : storages)
        if (seconds_since(begin) < input.seconds)
            HK_TRY(measure(input, precision, precision == storages.front(), rows, outcome.problem));
    std::vector<std::string> texts;
    for (const report::Line& row : rows) {
        double best = 0;
        for (const char* of : {"kernels", "forms"})
            for (const report::Line& kernel : row[of]) best = std::max(best, kernel.value("flops", 0.0));
        texts.push_back(fmt::format("{} {:.4g}", row.value("pass", ""), best / 1e12));
    }
    outcome.result = {{"passes", rows}};
    outcome.text = texts.empty() ? std::string("one kernel for each pass, equal to float64")
                                 : fmt::format("best kernels, TFLOP/s: {}", fmt::join(texts, ", "));
    return outcome;
}

} // namespace hekla::lab
