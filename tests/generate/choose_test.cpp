// The kernel generate/choose chooses the same tokens as Sampler.
#include "generate/device_choice.hpp"
#include "generate/sampler.hpp"
#include "program/lowering/choose.hpp"
#include "program/parameter_store.hpp"
#include "program/runtime.hpp"

#include "support.hpp"

#include "../program/harness.hpp"
#include "base/philox.hpp"
#include "graph/builder.hpp"

#include <algorithm>
#include <limits>

using namespace hekla;
using namespace hekla::generate;
using namespace hekla::test;
namespace kernels = hekla::program::kernels::generate;

namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

// A step whose scores are a field: they are the same in every replay. Tokens, start and count are outputs too.
graph::Graph step_graph(int64_t rows, int64_t width) {
    graph::Builder b;
    const auto keep = [&](const char* name, const Shape& shape) {
        b.output(fmt::format("{}.read", name),
                 b(Op::add, {b.input(name, Kind::int32, shape), b.fill(Kind::int32, {}, 0)}));
    };
    keep("tokens", Shape{rows, 1});
    keep("start", Shape{rows});
    keep("count", Shape{rows});
    const graph::ValueId scores = b.input("scores", Kind::float_, Shape{rows, 1, width});
    b.output("logits", b(Op::add, {scores, b.fill(Kind::float_, {}, 0)}));
    auto graph = b.finish();
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    return graph.take();
}

// Rows of a kind each: random, with many equal scores, decreasing steeply, with forbidden tokens.
std::vector<float> random_scores(int64_t rows, int64_t width, RandomStream& random) {
    std::vector<float> scores;
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = 0; i < width; ++i) {
            const double x = random.next_normal();
            switch (row % 4) {
            case 0: scores.push_back(static_cast<float>(3 * x)); break;
            case 1: scores.push_back(static_cast<float>(std::round(x))); break;
            case 2: scores.push_back(static_cast<float>(-0.7 * static_cast<double>(i))); break;
            default: scores.push_back(x > 1.5 && i > 0 ? kForbidden : static_cast<float>(x * 20)); break;
            }
        }
    return scores;
}

struct RowText {
    Ids ids;
    int64_t made = 0;
};

class Chooser {
public:
    Chooser(program::Runtime& runtime, int64_t rows, int64_t width) : rows_(rows), width_(width) {
        const graph::Graph graph = step_graph(rows, width);
        auto store = program::ParameterStore::create(runtime, {});
        REQUIRE_MESSAGE(store.ok(), store.message());
        store_ = store.take();
        program::CompileOptions options;
        options.outputs = {"logits", "tokens.read", "start.read", "count.read"};
        options.choose = program::ChooseFields{"tokens", "start", "count"};
        auto program = program::Program::compile(runtime, graph, *store_, options);
        REQUIRE_MESSAGE(program.ok(), program.message());
        program_ = program.take();
        const Status ordered = program_->check_ordering();
        CHECK_MESSAGE(ordered.ok(), ordered.message());
    }

    // The tokens [rows][steps], and what the last step has read.
    std::vector<Ids> choose(const std::vector<float>& scores, const kernels::ChooseOptions& options,
                            const std::vector<kernels::ChooseRow>& rows, uint32_t steps) {
        const Ids tokens(static_cast<std::size_t>(rows_), 1), start(tokens.size(), 10), count(tokens.size(), 1);
        set("tokens", std::as_bytes(std::span(tokens)));
        set("start", std::as_bytes(std::span(start)));
        set("count", std::as_bytes(std::span(count)));
        set("scores", std::as_bytes(std::span(scores)));
        set(program::kChooseOptions, std::as_bytes(std::span(&options, 1)));
        set(program::kChooseRows, std::as_bytes(std::span(rows)));
        const program::Replay replay{program_.get(), {}, steps};
        const Status run = program::Program::submit(std::span(&replay, 1));
        REQUIRE_MESSAGE(run.ok(), run.message());
        const auto read = program_->read_output(program::kChosen);
        REQUIRE_MESSAGE(read.ok(), read.message());
        std::vector<Ids> chosen;
        for (std::size_t row = 0; row < tokens.size(); ++row) {
            const auto first = read.value().ints().begin() + static_cast<std::ptrdiff_t>(row * kernels::kChosenSlots);
            chosen.emplace_back(first, first + steps);
        }
        return chosen;
    }
    Ids read(const char* name) {
        const auto tensor = program_->read_output(name);
        REQUIRE_MESSAGE(tensor.ok(), tensor.message());
        return Ids(tensor.value().ints().begin(), tensor.value().ints().end());
    }
    std::vector<float> logits() {
        std::vector<float> logits(static_cast<std::size_t>(rows_ * width_));
        REQUIRE(program_->read_floats("logits", logits).ok());
        return logits;
    }

private:
    void set(const char* field, std::span<const std::byte> bytes) {
        const Status status = program_->set_input(field, bytes);
        REQUIRE_MESSAGE(status.ok(), status.message());
    }
    int64_t rows_, width_;
    std::unique_ptr<program::ParameterStore> store_;
    std::unique_ptr<program::Program> program_;
};

// The sampler's tokens of a row, up to its end or an error.
Ids sampled(const Options& options, std::size_t row, RowText state, std::span<const float> scores, uint32_t steps) {
    const Sampler sampler(options);
    Ids tokens;
    while (tokens.size() < steps) {
        std::vector<float> own(scores.begin(), scores.end());
        const auto prompt = static_cast<int64_t>(state.ids.size()) - state.made;
        sampler.process({state.ids, prompt, {}}, own);
        const auto token = sampler.choose(row, state.ids.size(), own);
        if (!token.ok()) break;
        tokens.push_back(token.value());
        state.ids.push_back(token.value());
        if (++state.made == options.max_new_tokens ||
            std::ranges::find(options.eos, token.value()) != options.eos.end())
            break;
    }
    return tokens;
}

std::vector<Options> cases(int64_t width) {
    std::vector<Options> all(1);
    const auto add = [&](auto change) {
        Options o;
        o.sample = true;
        o.seed = 0x123456789ABCDEFull + all.size();
        o.max_new_tokens = 40;
        change(o);
        all.push_back(o);
    };
    all[0].max_new_tokens = 3;
    add([](Options&) {});
    add([](Options& o) { o.temperature = 0.7; });
    add([](Options& o) { o.top_k = 1; });
    add([](Options& o) {
        o.top_k = 5;
        o.temperature = 1.3;
    });
    add([](Options& o) { o.top_p = 0.9; });
    add([](Options& o) { o.top_p = 1e-6; });
    add([](Options& o) {
        o.top_p = 0.5;
        o.top_k = 50;
        o.temperature = 2.5;
    });
    add([&](Options& o) {
        o.logit_bias = {{static_cast<int32_t>(width - 1), 7.5f}, {0, kForbidden}, {static_cast<int32_t>(width), 1.0f}};
        o.temperature = 1.5;
    });
    add([&](Options& o) {
        o.sample = false;
        for (int32_t i = 0; i < std::min<int64_t>(width - 1, 124); ++i)
            o.logit_bias.push_back({static_cast<int32_t>(width) - 1 - i, static_cast<float>(i % 7) - 2.25f});
        o.eos = {static_cast<int32_t>(width / 2)};
        o.suppress = {static_cast<int32_t>(width - 1)};
        o.min_new_tokens = 5;
        o.forced_eos = {0};
        o.max_new_tokens = 6;
    });
    add([](Options& o) { o.min_p = 0.05; });
    add([](Options& o) { o.min_p = 1.0; });
    add([](Options& o) {
        o.min_p = 0.01;
        o.top_p = 0.95;
        o.top_k = 40;
        o.temperature = 1.7;
    });
    add([&](Options& o) {
        o.eos = {static_cast<int32_t>(width / 2), static_cast<int32_t>(width - 1)};
        o.suppress = {0, static_cast<int32_t>(width + 7)};
        o.min_new_tokens = 5;
        o.max_new_tokens = 6;
    });
    add([&](Options& o) {
        o.sample = false;
        o.forced_eos = {static_cast<int32_t>(width - 1), 0};
        o.suppress = {0};
        o.max_new_tokens = 4;
    });
    return all;
}

void compare_with_sampler(Bench& bench, std::span<const int64_t> widths) {
    RandomStream random(5, 0);
    for (const int64_t width : widths) {
        CAPTURE(width);
        constexpr int64_t kRows = 5;
        constexpr uint32_t kSteps = 6;
        Chooser chooser(*bench, kRows, width);
        for (const Options& options : cases(width)) {
            CAPTURE(options.temperature);
            CAPTURE(options.top_k);
            CAPTURE(options.top_p);
            CAPTURE(options.min_p);
            CAPTURE(options.suppress.size());
            CAPTURE(options.logit_bias.size());
            const std::vector<float> scores = random_scores(kRows, width, random);
            std::vector<RowText> states;
            std::vector<kernels::ChooseRow> rows;
            for (int64_t row = 0; row < kRows; ++row) {
                RowText state{Ids(static_cast<std::size_t>(3 + row), 0), row % 3};
                kernels::ChooseRow own;
                own.left = static_cast<uint32_t>(options.max_new_tokens - state.made);
                own.required = static_cast<uint32_t>(std::max<int64_t>(0, options.min_new_tokens - state.made));
                own.position = static_cast<uint32_t>(state.ids.size());
                states.push_back(state);
                rows.push_back(own);
            }
            const auto chosen = chooser.choose(scores, *device_choice(options), rows, kSteps);
            const Ids start = chooser.read("start.read"), count = chooser.read("count.read");
            const Ids tokens = chooser.read("tokens.read");
            for (std::size_t row = 0; row < kRows; ++row) {
                CAPTURE(row);
                const std::span<const float> own =
                    std::span(scores).subspan(row * static_cast<std::size_t>(width), static_cast<std::size_t>(width));
                const Ids expected = sampled(options, row, states[row], own, kSteps);
                const bool ended = expected.size() < kSteps;
                CHECK(Ids(chosen[row].begin(), chosen[row].begin() + static_cast<std::ptrdiff_t>(expected.size())) ==
                      expected);
                // The last step has read what the one before it wrote.
                CHECK(count[row] == (ended ? 0 : 1));
                CHECK(start[row] == (ended ? 0 : 10 + static_cast<int>(kSteps) - 1));
                if (!ended) CHECK(tokens[row] == expected[kSteps - 2]);
            }
        }
    }
}

} // namespace

TEST_CASE("choice of tokens on the device: the same tokens as the sampler's") {
    Bench bench;
    const int64_t widths[] = {1, 2, 5, 8, 65, 257, 5003};
    compare_with_sampler(bench, widths);
}

TEST_CASE("choice of tokens on the device: with kernels of GPUs") {
    GpuKernelsBench bench;
    const int64_t widths[] = {1, 7, 65, 1031, 6007};
    compare_with_sampler(bench, widths);
}

TEST_CASE("choice of tokens on the device: errors in place of tokens, and a kernel that is off") {
    Bench bench;
    Chooser chooser(*bench, 3, 9);
    Options options;
    options.max_new_tokens = 10;
    std::vector<kernels::ChooseRow> rows(3, {.left = 10, .required = 0, .position = 4, .slot = 0});
    std::vector<float> scores(27, 1.0f);
    scores[4] = std::nanf("");
    std::fill_n(scores.begin() + 9, 9, kForbidden);
    const auto chosen = chooser.choose(scores, *device_choice(options), rows, 2);
    CHECK(chosen[0][0] == kernels::kNotFinite);
    CHECK(chosen[1][0] == kernels::kNoTokenAllowed);
    CHECK(chosen[2] == Ids{0, 0});
    CHECK(chooser.read("count.read") == Ids{0, 0, 1});
    CHECK(choice_error(chosen[0][0], 3, 7).message().find("row 3") != std::string::npos);

    options.suppress = {2};
    kernels::ChooseOptions off = *device_choice(options);
    off.on = 0;
    std::ranges::fill(scores, 2.0f);
    static_cast<void>(chooser.choose(scores, off, rows, 2));
    CHECK(chooser.logits() == scores);
    CHECK(chooser.read("start.read") == Ids{10, 10, 10});
    static_cast<void>(chooser.choose(scores, *device_choice(options), rows, 1));
    CHECK(chooser.logits()[2] == kForbidden);
}

TEST_CASE("choice of tokens on the device: options that need a row's text are the sampler's") {
    Options options;
    CHECK(device_choice(options).has_value());
    options.repetition_penalty = 1.2;
    CHECK(!device_choice(options));
    options = {};
    options.no_repeat_ngram_size = 3;
    CHECK(!device_choice(options));
    options = {};
    options.suppress.assign(kernels::kListedIds + 1, 0);
    CHECK(!device_choice(options));
    options.suppress.pop_back();
    CHECK(device_choice(options).has_value());
    options.logit_bias = {{1, 0.5f}};
    CHECK(!device_choice(options));
}
