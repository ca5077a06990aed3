#include "measured_case.hpp"

#include "base/host.hpp"
#include "base/philox.hpp"
#include "base/stopwatch.hpp"
#include "generate/decoder_program.hpp"
#include "generate/generator.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/program_bench.hpp"
#include "program/runtime.hpp"
#include "train/start/initialize.hpp"
#include "train/step/loss_counts.hpp"
#include "train/step/step_runner.hpp"
#include "train/step/training_graph.hpp"
#include "train/update/optimizer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>
#include <span>
#include <tuple>

namespace hekla::app {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kCaseSeed = 1337;

double median(std::vector<double> values) {
    std::ranges::sort(values);
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

Status upload_initial(program::ParameterStore& store, const graph::Graph& graph) {
    for (const graph::Node& node : graph.nodes)
        if (node.op == graph::Op::parameter)
            HK_TRY(store.upload(node.text("name"), train::initial_values(node, kCaseSeed)));
    return {};
}

// One fixed batch of random tokens.
Result<data::Batch> fixed_batch(const BenchCase& c, const graph::Graph& described,
                                const std::vector<plugin::BatchField>& fields) {
    RandomStream random(kCaseSeed, 4);
    std::vector<int32_t> tokens(static_cast<std::size_t>(c.batch * (c.context + 1)));
    for (int32_t& token : tokens) token = static_cast<int32_t>(random.next_below(static_cast<uint64_t>(c.vocabulary)));
    data::Batch batch;
    batch.length = c.context;
    for (const plugin::BatchField& field : fields) {
        std::vector<int32_t> values;
        if (field.name == "input_ids" || field.name == "next_ids") {
            const std::size_t shift = field.name == "next_ids" ? 1 : 0;
            for (int64_t row = 0; row < c.batch; ++row)
                for (int64_t i = 0; i < c.context; ++i)
                    values.push_back(tokens[static_cast<std::size_t>(row * (c.context + 1) + i) + shift]);
        } else if (field.name == plugin::kAdapterRows) {
            for (const double slot : slot_fields(c, c.batch).at(plugin::kAdapterRows).data)
                values.push_back(static_cast<int32_t>(slot));
        } else {
            return internal_error(fmt::format("the objective has an unexpected field '{}'", field.name));
        }
        batch.fields.push_back({field.name, data::FieldKind::int32, field.shape.vector(),
                                ResourceArray<std::byte>(std::as_bytes(std::span(values)))});
    }
    HK_ASSIGN(batch.loss_counts, train::loss_counts(described, batch.fields));
    return batch;
}

int64_t count_parameters(const program::ParameterStore& store) {
    int64_t count = 0;
    for (const program::ParameterEntry& entry : store.table()) count += entry.shape.elements();
    return count;
}

// Returns the device's time of a step by kernels: a row per kernel and size of a dispatch, longest first. Every
// dispatch waits for the one before it, so that the sum is more than the time of a step.
Result<ordered_json> profile_step(program::Runtime& runtime, const graph::Graph& differentiated,
                                  program::ParameterStore& store, program::CompileOptions options,
                                  const data::Batch& batch) {
    options.timings = true;
    HK_ASSIGN(const auto timed, program::Program::compile(runtime, differentiated, store, options));
    HK_TRY(train::set_fields(*timed, batch));
    for (int i = 0; i < 3; ++i) HK_TRY(timed->run()); // the first two warm up
    struct Row {
        std::string kernel;
        int64_t dispatches = 0;
        double seconds = 0.0, flops = 0.0, bytes = 0.0;
    };
    std::map<std::tuple<std::string, double, double>, Row> rows;
    double sum = 0.0;
    for (const program::DispatchTiming& timing : timed->timings()) {
        Row& row = rows[{timing.shader, timing.flops, timing.bytes}];
        row.kernel = timing.shader;
        ++row.dispatches;
        row.seconds += timing.seconds;
        row.flops += timing.flops;
        row.bytes += timing.bytes;
        sum += timing.seconds;
    }
    std::vector<Row> sorted;
    for (auto& [key, row] : rows) sorted.push_back(std::move(row));
    std::ranges::stable_sort(sorted, std::greater<>(), &Row::seconds);
    ordered_json list = ordered_json::array();
    for (const Row& row : sorted)
        list.push_back({{"kernel", row.kernel},
                        {"dispatches", row.dispatches},
                        {"ms", rounded(row.seconds * 1e3, 1000.0)},
                        {"percent", rounded(100.0 * row.seconds / sum, 10.0)},
                        {"gflops", rounded(row.flops / row.seconds / 1e9, 1.0)},
                        {"gb_per_s", rounded(row.bytes / row.seconds / 1e9, 10.0)}});
    return list;
}

} // namespace

double rounded(double value, double per_unit) { return std::round(value * per_unit) / per_unit; }

const char* long_name(program::Storage storage) {
    return storage == program::Storage::f16 ? "float16" : storage == program::Storage::bf16 ? "bfloat16" : "float32";
}

Status add_share_of_peak(ordered_json& j, program::Runtime& runtime, program::Storage storage,
                         double flops_per_second) {
    HK_ASSIGN(const program::Peak peak, program::peak_of(runtime, storage));
    if (peak.flops <= 0.0) return {};
    j["peak_gflops"] = rounded(peak.flops / 1e9, 10.0);
    j["peak_of"] = peak.matrix_units ? "matrix units" : "float32";
    j["percent_of_peak"] = rounded(100.0 * flops_per_second / peak.flops, 10.0);
    return {};
}

Result<ordered_json> measure_training(program::Runtime& runtime, const plugin::Registry& registry, const Log& log,
                                      const BenchCase& c, const CaseOptions& a) {
    const program::Storage precision = storage_named(a.type);
    // LoRA is measured as it is used where memory is short.
    std::vector<std::string> recompute = a.recompute;
    if (recompute.empty() && c.lora()) recompute = {"blocks"};
    const auto again = [&](const char* what) { return std::ranges::count(recompute, what) > 0; };
    HK_ASSIGN(const auto composition, compose_case(registry, c, log, again("blocks")));
    HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition->batch_fields(c.batch, c.context));
    HK_ASSIGN(const graph::Graph described, composition->build(HK_MODE_TRAIN, fields));
    const std::set<std::string, std::less<>> frozen = frozen_of(c, described);
    HK_ASSIGN(const graph::Graph differentiated,
              train::training_graph(described, frozen, {.norms = again("norms"), .activations = again("activations")}));
    std::vector<program::ParameterEntry> table = program::parameter_table(described);
    program::keep_readable_in_16_bits(table, differentiated);
    HK_ASSIGN(const auto store, program::ParameterStore::create(runtime, std::move(table),
                                                                {.gradients = true,
                                                                 .moments = program::kAdamMoments,
                                                                 .weights = storage_named(a.frozen_type),
                                                                 .frozen = frozen}));
    HK_TRY(upload_initial(*store, described));
    program::CompileOptions options;
    options.outputs = {"loss"};
    options.state_outputs = {{"loss", train::kLossState}};
    options.precision = precision;
    const Clock::time_point compiling = Clock::now();
    HK_ASSIGN(const auto program, program::Program::compile(runtime, differentiated, *store, options));
    HK_ASSIGN(const auto optimizer,
              train::Optimizer::create(runtime, *store, case_settings(), program->gradient_names(),
                                       {.no_decay = train::without_decay(described)}));
    const double compile_seconds = seconds_since(compiling);
    std::vector<data::Batch> micro(1);
    HK_ASSIGN(micro[0], fixed_batch(c, described, fields));
    train::StepRunnerOptions settings;
    settings.seed = kCaseSeed;
    settings.rows = c.batch;
    settings.program_of = [&](int64_t) -> program::Program& { return *program; };
    train::StepRunner runner(described, *optimizer, std::move(settings));

    double first_loss = 0.0, loss = 0.0;
    std::vector<double> times;
    uint64_t submits = 0; // of the last step
    constexpr int64_t kWarm = 3;
    HK_TRY(program::raise_clock(runtime));
    Clock::time_point begin = Clock::now();
    for (int64_t step = 0; step < kWarm + 5 || seconds_since(begin) < a.seconds; ++step) {
        if (step == kWarm) begin = Clock::now();
        const Clock::time_point one = Clock::now();
        submits = runtime.gpu().queue->submits();
        HK_TRY(runner.begin_update(micro, step, 1e-3));
        submits = runtime.gpu().queue->submits() - submits;
        HK_ASSIGN(const train::TakenStep taken, runner.end_update());
        if (step >= kWarm) times.push_back(seconds_since(one));
        loss = taken.loss.total;
        if (step == 0) first_loss = loss;
        if (taken.outcome.skipped)
            return internal_error(fmt::format("step {}: loss {} or gradient norm {} is not finite", step, loss,
                                              taken.outcome.gradient_norm));
    }
    // The loss of one repeated batch must fall; otherwise the steps did nothing.
    if (!(loss < first_loss))
        return internal_error(
            fmt::format("the loss went from {} to {} on one fixed batch; nothing was learned", first_loss, loss));
    HK_TRY(runtime.save_caches());

    const int64_t parameters = count_parameters(*store);
    const double step_seconds = median(times), tokens = static_cast<double>(c.batch * c.context);
    const double per_token =
        6.0 * static_cast<double>(parameters) + 6.0 * static_cast<double>(c.layers * c.width * c.context);
    ordered_json j{{"case", c.name},
                   {"parameters", parameters},
                   {"tokens_per_s", std::llround(tokens / step_seconds)},
                   {"ms_per_step", rounded(step_seconds * 1e3, 100.0)}};
    j["effective_gflops"] = rounded(per_token * tokens / step_seconds / 1e9, 10.0);
    HK_TRY(add_share_of_peak(j, runtime, precision, per_token * tokens / step_seconds));
    j["device"] = runtime.gpu().capabilities().device_name;
    j["dtype"] = long_name(precision);
    j["steps"] = times.size();
    j["compile_s"] = rounded(compile_seconds, 100.0);
    j["memory_bytes"] = program->memory_plan().total();
    if (const uint64_t peak = peak_memory_bytes(); peak > 0) j["peak_resident_bytes"] = peak;
    j["recompute"] = recompute;
    if (c.lora()) {
        int64_t trained = 0;
        for (const program::ParameterEntry& entry : store->table())
            if (!frozen.contains(entry.name)) trained += entry.shape.elements();
        j["trained_parameters"] = trained;
        j["frozen_dtype"] = long_name(storage_named(a.frozen_type));
    }
    j["dispatches"] = program->dispatches() + optimizer->programs().front()->dispatches();
    j["command_buffers"] = program->command_buffers() + optimizer->programs().front()->command_buffers();
    j["submits"] = submits;
    if (a.profile) { HK_ASSIGN(j["profile"], profile_step(runtime, differentiated, *store, options, micro[0])); }
    return j;
}

Result<ordered_json> measure_generation(program::Runtime& runtime, const plugin::Registry& registry, const Log& log,
                                        const BenchCase& c, program::Storage weights, int64_t prompt) {
    if (prompt >= c.context)
        return invalid_argument(fmt::format(
            "--prompt {}: the case {} has a context of {} tokens, and some must be left", prompt, c.name, c.context));
    HK_ASSIGN(const auto composition, compose_case(registry, c, log));
    const std::vector<plugin::BatchField> fields{{"input_ids", graph::Kind::int32, {1, 1}},
                                                 {"next_ids", graph::Kind::int32, {1, 1}}};
    HK_ASSIGN(const graph::Graph described, composition->build(HK_MODE_EVALUATE, fields));
    HK_ASSIGN(const auto store, program::ParameterStore::create(runtime, program::parameter_table(described),
                                                                {.weights = weights, .panels = true}));
    HK_TRY(upload_initial(*store, described));
    HK_ASSIGN(const auto decoder, generate::make_program_decoder(runtime, *store, *composition));
    const int64_t rows = std::max<int64_t>(1, c.slots);
    generate::Options options;
    options.max_new_tokens = std::min<int64_t>(127, c.context - prompt);
    generate::Request request;
    request.prompts.assign(static_cast<std::size_t>(rows), std::vector<int32_t>(static_cast<std::size_t>(prompt), 0));
    // With slots in turns: each row with its own adapter, and all rows with one.
    std::vector<double> times, prompt_times, one_adapter;
    for (int i = 0; i < (c.slots > 0 ? 12 : 6); ++i) { // the first iterations compile
        const bool mixed = c.slots == 0 || i % 2 == 0;
        request.fields = slot_fields(c, rows, mixed);
        const Clock::time_point one = Clock::now();
        HK_ASSIGN(const generate::Output output, generate::generate(*decoder, request, options));
        if (static_cast<int64_t>(output.rows.size()) != rows ||
            static_cast<int64_t>(output.rows[0].made) != options.max_new_tokens)
            return internal_error("generation ended before its length");
        if (i < (c.slots > 0 ? 2 : 1)) continue;
        (mixed ? times : one_adapter).push_back(prompt > 1 ? output.statistics.seconds : seconds_since(one));
        if (mixed) prompt_times.push_back(output.statistics.prompt_seconds);
    }
    const double made = static_cast<double>(options.max_new_tokens * rows), fed = static_cast<double>(prompt * rows);
    HK_TRY(runtime.save_caches());
    ordered_json j{{"case", c.name}, {"generate_tokens_per_s", rounded(made / median(times), 10.0)}};
    j["tokens"] = options.max_new_tokens;
    if (c.slots > 0) {
        j["rows"] = rows;
        j["one_adapter_tokens_per_s"] = rounded(made / median(one_adapter), 10.0);
        j["time_over_one_adapter"] = rounded(median(times) / median(one_adapter), 1000.0);
    }
    if (prompt > 1) {
        j["prompt_tokens"] = prompt;
        j["prompt_tokens_per_s"] = rounded(fed / median(prompt_times), 10.0);
    }
    j["device"] = runtime.gpu().capabilities().device_name;
    j["dtype"] = long_name(weights);
    j["weights_bytes"] = store->bytes(program::StoreArena::parameters);
    return j;
}

} // namespace hekla::app
