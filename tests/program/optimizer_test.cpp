// The optimizer's dispatches against plain arithmetic on the host: AdamW, SGD, clipping, groups, skipped steps.
#include "graph/gradient/backward.hpp"
#include "program/harness.hpp"
#include "program/lowering/optimizer.hpp"
#include "program/lowering/optimizer_state.hpp"
#include "program/parameter_store.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace optimizer_test {

using namespace hekla;
using namespace hekla::test;
using program::OptimizerKind;
using program::OptimizerPlan;
using program::OptimizerState;
using program::StoreArena;

namespace {

struct Model {
    std::vector<program::ParameterEntry> table{{"w", {37, 11}}, {"b", {5}}, {"frozen", {300}}, {"v", {600}}};
    std::vector<std::vector<double>> p, m, v;
    int applied = 0;

    explicit Model(Random& random) {
        for (const auto& entry : table) {
            p.emplace_back();
            for (int64_t i = 0; i < entry.shape.elements(); ++i)
                p.back().push_back(static_cast<double>(random.normal()));
            m.emplace_back(p.back().size(), 0.0);
            v.emplace_back(p.back().size(), 0.0);
        }
    }

    // One step as PyTorch defines it, in float64. Returns the norm before clipping.
    double step(const OptimizerPlan& plan, const std::vector<std::vector<float>>& gradients, double lr, double scale) {
        double squares = 0;
        for (const auto& g : gradients)
            for (const float x : g) squares += static_cast<double>(x) * x;
        const double norm = std::sqrt(squares) * scale;
        double factor = scale;
        if (plan.max_norm > 0 && norm > plan.max_norm) factor *= plan.max_norm / (norm + 1e-6);
        ++applied;
        for (std::size_t t = 0; t < table.size(); ++t) {
            if (plan.group_of[t] < 0) continue;
            const auto& group = plan.groups[static_cast<std::size_t>(plan.group_of[t])];
            const double rate = lr * static_cast<double>(group.learning_rate_factor);
            const double decay = static_cast<double>(group.weight_decay);
            for (std::size_t i = 0; i < p[t].size(); ++i) {
                double g = static_cast<double>(gradients[t][i]) * factor;
                double &x = p[t][i], &first = m[t][i], &second = v[t][i];
                if (plan.kind == OptimizerKind::adamw) {
                    const double beta1 = static_cast<double>(plan.beta1), beta2 = static_cast<double>(plan.beta2);
                    x *= 1 - rate * decay;
                    first = beta1 * first + (1 - beta1) * g;
                    second = beta2 * second + (1 - beta2) * g * g;
                    const double c1 = 1 - std::pow(beta1, applied), c2 = 1 - std::pow(beta2, applied);
                    x -= rate / c1 * first / (std::sqrt(second / c2) + static_cast<double>(plan.epsilon));
                } else {
                    const double momentum = static_cast<double>(plan.momentum);
                    g += decay * x;
                    if (momentum != 0) {
                        first = applied == 1 ? g : momentum * first + g;
                        g = plan.nesterov ? g + momentum * first : first;
                    }
                    x -= rate * g;
                }
            }
        }
        return norm;
    }
};

OptimizerState read_state(program::ParameterStore& store) {
    auto bytes = store.download_state(program::kOptimizerState);
    REQUIRE_MESSAGE(bytes.ok(), bytes.message());
    OptimizerState state;
    REQUIRE(bytes.value().size() == sizeof state);
    std::memcpy(&state, bytes.value().data(), sizeof state);
    return state;
}

// frozen: parameters that the plan leaves unchanged have no gradients and moments in the store.
void check_plan(const OptimizerPlan& plan, uint64_t max_chunk_bytes = 0, bool frozen = false,
                program::Moments moments = program::kAdamMoments) {
    Bench bench;
    Random random(5);
    Model model(random);
    program::StoreOptions options{.gradients = true, .moments = moments, .max_chunk_bytes = max_chunk_bytes};
    for (std::size_t t = 0; frozen && t < model.table.size(); ++t)
        if (plan.group_of[t] < 0) options.frozen.insert(model.table[t].name);
    auto store = program::ParameterStore::create(*bench, model.table, options);
    REQUIRE_MESSAGE(store.ok(), store.message());
    program::ParameterStore& s = *store.value();
    if (max_chunk_bytes > 0) CHECK(s.chunks().size() > 2);
    model.table = s.table();
    const auto is_pruned = [&](std::size_t t, std::size_t i) {
        return !plan.kept.empty() && !plan.kept[t].empty() && plan.kept[t][i] == 0;
    };
    for (std::size_t t = 0; t < model.table.size(); ++t) {
        for (std::size_t i = 0; i < model.p[t].size(); ++i)
            if (is_pruned(t, i)) model.p[t][i] = 0;
        const std::vector<float> values(model.p[t].begin(), model.p[t].end());
        REQUIRE(s.upload(model.table[t].name, values).ok());
    }
    auto lowering = program::lower_optimizer(plan, s.table(), s.chunks(), bench->limits());
    REQUIRE_MESSAGE(lowering.ok(), lowering.message());
    auto compiled = program::Program::compile(*bench, lowering.take(), s);
    REQUIRE_MESSAGE(compiled.ok(), compiled.message());
    program::Program& optimizer = *compiled.value();

    const auto run = [&](const std::vector<std::vector<float>>& gradients, double lr, double scale, float loss) {
        for (std::size_t t = 0; t < model.table.size(); ++t)
            CHECK(s.upload(model.table[t].name, gradients[t], StoreArena::gradients).ok() == model.table[t].trained);
        REQUIRE(optimizer.set_scalar(program::kLearningRate, static_cast<float>(lr)).ok());
        REQUIRE(optimizer.set_scalar(program::kGradientScale, static_cast<float>(scale)).ok());
        REQUIRE(optimizer.set_scalar(program::kLoss, loss).ok());
        const Status status = optimizer.run({});
        REQUIRE_MESSAGE(status.ok(), status.message());
    };
    const auto gradients = [&](double size) {
        std::vector<std::vector<float>> g;
        for (const auto& entry : model.table) {
            g.emplace_back();
            for (int64_t i = 0; i < entry.shape.elements(); ++i)
                g.back().push_back(entry.trained ? random.normal(size) : 0.0f);
        }
        return g;
    };
    const auto compare = [&] {
        for (std::size_t t = 0; t < model.table.size(); ++t) {
            CAPTURE(model.table[t].name);
            auto values = s.download(model.table[t].name);
            REQUIRE_MESSAGE(values.ok(), values.message());
            double worst = 0;
            for (std::size_t i = 0; i < values.value().size(); ++i)
                worst = std::max(worst, std::abs(static_cast<double>(values.value()[i]) - model.p[t][i]));
            CHECK(worst < 4e-6);
            for (const StoreArena arena : {StoreArena::parameters, StoreArena::moment1, StoreArena::moment2}) {
                if (plan.kept.empty() || !s.has(arena) || !model.table[t].trained) continue;
                auto kept = s.download(model.table[t].name, arena);
                REQUIRE_MESSAGE(kept.ok(), kept.message());
                std::size_t not_zero = 0;
                for (std::size_t i = 0; i < kept.value().size(); ++i)
                    if (is_pruned(t, i) && std::bit_cast<uint32_t>(kept.value()[i]) != 0) ++not_zero;
                CHECK(not_zero == 0);
            }
        }
    };
    uint32_t skipped = 0;
    for (int step = 0; step < 6; ++step) {
        CAPTURE(step);
        auto g = gradients(step == 2 ? 3.0 : 0.01);
        const double lr = 0.01 * (step + 1);
        if (step == 3 || step == 4) {
            const float bad = std::numeric_limits<float>::quiet_NaN();
            if (step == 3) g[0][17] = std::numeric_limits<float>::infinity();
            run(g, lr, 0.5, step == 4 ? bad : 1.0f);
            ++skipped;
            const OptimizerState state = read_state(s);
            CHECK(state.skip == 1);
            CHECK(state.skipped == skipped);
            CHECK(state.skipped_in_row == skipped);
            CHECK(state.applied == 3);
        } else {
            if (is_pruned(0, 3)) g[0][3] = step == 5 ? std::numeric_limits<float>::quiet_NaN() : 1e30f;
            run(g, lr, 0.5, 1.0f);
            for (std::size_t t = 0; t < g.size(); ++t)
                for (std::size_t i = 0; i < g[t].size(); ++i)
                    if (is_pruned(t, i)) g[t][i] = 0;
            const double norm = model.step(plan, g, lr, 0.5);
            const OptimizerState state = read_state(s);
            CHECK(state.skip == 0);
            CHECK(state.skipped_in_row == 0);
            CHECK(state.applied == static_cast<uint32_t>(model.applied));
            CHECK(std::abs(static_cast<double>(state.norm) - norm) < 1e-5 * norm);
        }
        compare();
    }
}

} // namespace

TEST_CASE("AdamW with groups, clipping, a frozen parameter and skipped steps") {
    OptimizerPlan plan;
    plan.groups = {{1.0f, 0.1f}, {0.5f, 0.0f}};
    plan.group_of = {0, 1, -1, 0};
    plan.max_norm = 1.0f;
    check_plan(plan);
}

TEST_CASE("parameters of more than one allocation, and frozen ones without gradients and moments") {
    OptimizerPlan plan;
    plan.groups = {{1.0f, 0.1f}, {0.5f, 0.0f}};
    plan.group_of = {0, 1, -1, 0};
    plan.max_norm = 1.0f;
    uint64_t largest = 0;
    Random random(5);
    for (const auto& entry : Model(random).table)
        largest = std::max(largest, (static_cast<uint64_t>(entry.shape.elements()) + 255) / 256 * 1024);
    check_plan(plan, largest);
    check_plan(plan, 0, true);
    check_plan(plan, largest, true);
    Bench bench;
    const auto refused = program::ParameterStore::create(*bench, {{"too.large", {3, 100}}}, {.max_chunk_bytes = 1024});
    CHECK(refused.code() == Code::out_of_memory);
    CHECK(refused.message().find("'too.large' [3, 100] takes 2048 bytes; one allocation of this device holds 1024") !=
          std::string::npos);
}

TEST_CASE("SGD, with and without momentum") {
    OptimizerPlan plan;
    plan.kind = OptimizerKind::sgd;
    plan.groups = {{1.0f, 0.01f}};
    plan.group_of = {0, 0, -1, 0};
    check_plan(plan, 0, false, {.count = 0});
    plan.momentum = 0.9f;
    check_plan(plan, 0, false, {.count = 1});
    plan.nesterov = true;
    plan.max_norm = 0.5f;
    check_plan(plan);
}

TEST_CASE("pruned weights stay zero: neither norm, clipping, decay nor a gradient that is not finite changes them") {
    Random random(5);
    const Model model(random);
    std::vector<std::vector<uint8_t>> masks;
    for (const auto& entry : model.table) {
        masks.emplace_back(static_cast<std::size_t>(entry.shape.elements()));
        for (std::size_t i = 0; i < masks.back().size(); ++i) masks.back()[i] = i % 3 != 0 && i % 32 != 31 ? 1 : 0;
    }
    masks[0][17] = 1; // its gradient is infinite in a step that is skipped
    masks[1].clear();
    OptimizerPlan plan;
    plan.groups = {{1.0f, 0.1f}, {0.5f, 0.0f}};
    plan.group_of = {0, 1, -1, 0};
    plan.max_norm = 1.0f;
    plan.kept = {masks[0], masks[1], {}, masks[3]};
    check_plan(plan);
    uint64_t largest = 0;
    for (const auto& entry : model.table)
        largest = std::max(largest, (static_cast<uint64_t>(entry.shape.elements()) + 255) / 256 * 1024);
    check_plan(plan, largest, true);
    plan.kind = OptimizerKind::sgd;
    plan.momentum = 0.9f;
    check_plan(plan, 0, false, {.count = 1});
    plan.nesterov = true;
    check_plan(plan, 0, false, {.count = 1});
    plan.momentum = 0;
    plan.nesterov = false;
    check_plan(plan, 0, false, {.count = 0});

    std::vector<program::StoreChunk> chunks{{1024}};
    const std::vector<program::ParameterEntry> table{{"w", {4}}};
    plan.group_of = {0};
    plan.kept = {masks[0]};
    CHECK(program::lower_optimizer(plan, table, chunks, {}).message() ==
          "parameter 'w' has 4 elements, and its mask has 407");
    plan.kept = {{}, {}};
    CHECK(program::lower_optimizer(plan, table, chunks, {}).code() == Code::invalid_argument);
}

TEST_CASE("moments in bfloat16 of pruned weights stay zero") {
    Bench bench;
    if (!bench->limits().storage16) return;
    const std::vector<program::ParameterEntry> table{{"w", {512}}};
    auto store = program::ParameterStore::create(
        *bench, table, {.gradients = true, .moments = {.count = 2, .storage = program::Storage::bf16}});
    REQUIRE_MESSAGE(store.ok(), store.message());
    program::ParameterStore& s = *store.value();
    const std::vector<uint8_t> none(512, 0);
    OptimizerPlan plan;
    plan.groups = {{1.0f, 0.1f}};
    plan.group_of = {0};
    plan.moments = program::Storage::bf16;
    plan.kept = {none};
    auto lowering = program::lower_optimizer(plan, s.table(), s.chunks(), bench->limits());
    REQUIRE_MESSAGE(lowering.ok(), lowering.message());
    auto optimizer = program::Program::compile(*bench, lowering.take(), s);
    REQUIRE_MESSAGE(optimizer.ok(), optimizer.message());
    REQUIRE(optimizer.value()->set_scalar(program::kLearningRate, 1e-3f).ok());
    for (int step = 0; step < 20; ++step) {
        REQUIRE(s.upload("w", std::vector<float>(512, 1.0f), StoreArena::gradients).ok());
        REQUIRE(optimizer.value()->run({}).ok());
    }
    for (const StoreArena arena : {StoreArena::parameters, StoreArena::moment1, StoreArena::moment2}) {
        const auto values = s.download("w", arena);
        REQUIRE_MESSAGE(values.ok(), values.message());
        CHECK(std::ranges::all_of(values.value(), [](float x) { return std::bit_cast<uint32_t>(x) == 0; }));
    }
}

TEST_CASE("moments in the host's memory give the same results") {
    OptimizerPlan plan;
    plan.groups = {{1.0f, 0.1f}};
    plan.group_of = {0, 0, 0, 0};
    check_plan(plan, 0, false, {.count = 2, .in_system_memory = true});
}

namespace {

// The means of both moments after many steps with the same gradient, relative to what they should be.
std::pair<double, double> means_of_moments(Bench& bench, program::Storage storage) {
    constexpr int64_t kElements = 5000;
    constexpr int kSteps = 300;
    constexpr float kGradient = 3e-3f;
    const std::vector<program::ParameterEntry> table{{"w", {kElements}}};
    auto store = program::ParameterStore::create(*bench, table,
                                                 {.gradients = true, .moments = {.count = 2, .storage = storage}});
    REQUIRE_MESSAGE(store.ok(), store.message());
    program::ParameterStore& s = *store.value();
    OptimizerPlan plan;
    plan.groups = {{}};
    plan.group_of = {0};
    plan.moments = storage;
    auto lowering = program::lower_optimizer(plan, s.table(), s.chunks(), bench->limits());
    REQUIRE_MESSAGE(lowering.ok(), lowering.message());
    auto optimizer = program::Program::compile(*bench, lowering.take(), s);
    REQUIRE_MESSAGE(optimizer.ok(), optimizer.message());
    REQUIRE(s.upload("w", std::vector<float>(kElements, kGradient), StoreArena::gradients).ok());
    REQUIRE(optimizer.value()->set_scalar(program::kLearningRate, 1e-3f).ok());
    for (int step = 0; step < kSteps; ++step) REQUIRE(optimizer.value()->run({}).ok());
    const auto mean = [&](StoreArena arena) {
        const auto values = s.download("w", arena);
        REQUIRE_MESSAGE(values.ok(), values.message());
        return std::accumulate(values.value().begin(), values.value().end(), 0.0) / kElements;
    };
    const double g = kGradient;
    return {mean(StoreArena::moment1) / (g * (1 - std::pow(0.9, kSteps))),
            mean(StoreArena::moment2) / (g * g * (1 - std::pow(0.999, kSteps)))};
}

} // namespace

TEST_CASE("moments in bfloat16 are rounded at random: small changes add up") {
    for (const bool as_on_gpus : {false, true}) {
        CAPTURE(as_on_gpus);
        const std::unique_ptr<Bench> bench =
            as_on_gpus ? std::make_unique<GpuKernelsBench>() : std::make_unique<Bench>();
        if (!(*bench)->limits().storage16) return;
        const auto [first, second] = means_of_moments(*bench, program::Storage::bf16);
        // A unit is 2^-8 of a number, and 0.1 percent of the distance is added to the second moment at each step.
        CHECK(std::abs(first - 1) < 2e-3);
        CHECK(std::abs(second - 1) < 2e-3);
        const auto exact = means_of_moments(*bench, program::Storage::f32);
        // GPUs round less often: multiplications and additions are one instruction there.
        const bool on_cpu = (*bench)->gpu().capabilities().type == gpu::DeviceType::cpu;
        CHECK(std::abs(exact.second - 1) < (on_cpu ? 1e-5 : 2e-5));
    }
    Bench bench;
    const auto refused = program::ParameterStore::create(*bench, {{"w", {3}}},
                                                         {.moments = {.count = 2, .storage = program::Storage::f16}});
    CHECK(refused.message().find("float16's range") != std::string::npos);
}

TEST_CASE("the loss scale is halved in skipped steps and doubled after many applied ones") {
    Bench bench;
    const std::vector<program::ParameterEntry> table{{"w", {4}}};
    auto store = program::ParameterStore::create(*bench, table, {.gradients = true, .moments = program::kAdamMoments});
    REQUIRE_MESSAGE(store.ok(), store.message());
    program::ParameterStore& s = *store.value();
    OptimizerPlan plan;
    plan.groups = {{}};
    plan.group_of = {0};
    plan.loss_scaling = true;
    auto lowering = program::lower_optimizer(plan, s.table(), s.chunks(), bench->limits());
    REQUIRE_MESSAGE(lowering.ok(), lowering.message());
    auto compiled = program::Program::compile(*bench, lowering.take(), s);
    REQUIRE_MESSAGE(compiled.ok(), compiled.message());
    const auto step = [&](float gradient) {
        REQUIRE(s.upload("w", std::vector<float>(4, gradient), StoreArena::gradients).ok());
        REQUIRE(compiled.value()->run({}).ok());
        const auto bytes = s.download_state(program::kLossScaleState);
        REQUIRE_MESSAGE(bytes.ok(), bytes.message());
        program::LossScale scale;
        REQUIRE(bytes.value().size() == sizeof scale);
        std::memcpy(&scale, bytes.value().data(), sizeof scale);
        return scale;
    };
    const float bad = std::numeric_limits<float>::infinity();
    CHECK(step(1).scale == program::kFirstLossScale);
    CHECK(step(1).steps_at_it == 2);
    CHECK(step(bad).scale == program::kFirstLossScale / 2);
    CHECK(step(bad).scale == program::kFirstLossScale / 4);
    const program::LossScale nearly{2048, program::kLossScaleSteps - 1};
    REQUIRE(s.upload_state(program::kLossScaleState, std::as_bytes(std::span(&nearly, 1))).ok());
    const program::LossScale doubled = step(1);
    CHECK(doubled.scale == 4096);
    CHECK(doubled.steps_at_it == 0);
    const program::LossScale least{1, 5};
    REQUIRE(s.upload_state(program::kLossScaleState, std::as_bytes(std::span(&least, 1))).ok());
    CHECK(step(bad).scale == 1);
    CHECK(step(1).steps_at_it == 1);
}

TEST_CASE("plans that do not match are rejected") {
    const std::vector<program::ParameterEntry> table{{"w", {4}}};
    std::vector<program::StoreChunk> chunks{{256}};
    program::OptimizerPlan plan;
    CHECK(program::lower_optimizer(plan, table, chunks, {}).code() == Code::invalid_argument);
    plan.group_of = {0};
    CHECK(program::lower_optimizer(plan, table, chunks, {}).code() == Code::invalid_argument);
    plan.groups = {{}};
    CHECK(program::lower_optimizer(plan, table, chunks, {}).ok());
    chunks[0].elements = 255;
    CHECK(program::lower_optimizer(plan, table, chunks, {}).code() == Code::invalid_argument);
    chunks[0] = {256, program::Storage::f32, false};
    CHECK(program::lower_optimizer(plan, table, chunks, {}).message().find("frozen") != std::string::npos);
    chunks[0].trained = true;
    plan.beta2 = 1;
    CHECK(program::lower_optimizer(plan, table, chunks, {}).code() == Code::invalid_argument);
}

} // namespace optimizer_test
