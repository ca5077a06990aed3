// Every rule that a trace can check is broken once by a plugin of plain C tables; also tests the format of a trace.
#include "plugin/trace/trace.hpp"

#include "base/file.hpp"
#include "plugin/host/host_config.hpp"
#include "plugin/host/host_error.hpp"
#include "plugin/host/host_graph.hpp"
#include "plugin/host/host_tokenizer.hpp"
#include "support/test_folder.hpp"

#include "hekla/plugin/architecture.h"
#include "hekla/plugin/combiner.h"
#include "hekla/plugin/draft/reward.h"
#include "hekla/plugin/draft/rollout.h"
#include "hekla/plugin/head.h"
#include "hekla/plugin/objective.h"
#include "hekla/plugin/operation.h"
#include "hekla/plugin/optimizer.h"

#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <functional>
#include <limits>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace trace_test {

using namespace hekla;
using namespace hekla::test;

namespace {

hk_string words(const char* s) { return {s, std::strlen(s)}; }

// The functions of the plugin; set by each case.
struct Doing {
    std::function<int32_t(hk_builder*, hk_error*)> build = [](hk_builder*, hk_error*) { return HK_OK; };
    std::function<int32_t(void**, hk_error*)> create = [](void** self, hk_error*) {
        *self = self;
        return HK_OK;
    };
    std::function<void(void (*)(void*, const hk_field*), void*)> fields = [](auto...) {};
    int rows = 0;
    uint64_t invocations = 0;
    std::string name = "x";
};
Doing& doing() {
    static Doing now;
    return now;
}

int32_t create(const hk_config*, void** self, hk_error* error) { return doing().create(self, error); }
int32_t create_objective(const hk_config*, const hk_tokenizer*, void** self, hk_error* error) {
    return doing().create(self, error);
}
int32_t build(void*, hk_builder* builder, hk_error* error) { return doing().build(builder, error); }
const hk_architecture kArchitecture = {create, [](void*) {}, build,
                                       [](void*, hk_builder*, hk_string, hk_error*) { return HK_NOT_FOUND; },
                                       [](void*, hk_config_writer*, hk_error*) { return HK_OK; }};
const hk_objective kObjective = {
    create_objective,
    [](void*) {},
    [](void*) { return HK_EXAMPLE_WINDOW; },
    [](void*, int64_t length) { return length; },
    nullptr,
    nullptr,
    [](void*, int64_t, int64_t, void (*push)(void*, const hk_field*), void* context, hk_error*) {
        doing().fields(push, context);
        return HK_OK;
    },
    build,
    nullptr};
const hk_head kHead = {create, [](void*) {}, build, nullptr,
                       [](void*, const hk_decode_input*, void (*push)(void*, hk_string), void* context, hk_error*) {
                           for (int row = 0; row < doing().rows; ++row) push(context, words("{}"));
                           return HK_OK;
                       }};
// Uses half of each result.
const hk_combiner kCombiner = {
    create,
    [](void*) {},
    [](void*, hk_builder* builder, const hk_adapter_site*, const hk_site_values*, const hk_branch* branches,
       uint32_t count, hk_combined* combined, hk_error*) {
        const auto& g = *static_cast<const hk_graph_interface*>(
            plugin::traced_host_table(HK_GRAPH_INTERFACE, plugin::host_graph_interface()));
        const hk_value inputs[] = {branches[0].delta, branches[count - 1].delta};
        return g.emit(builder, words("add"), 1, inputs, 2, nullptr, 0, &combined->delta, 1);
    },
};
const hk_optimizer kOptimizer = {
    create,
    [](void*) {},
    [](void*, const hk_optimized*, int32_t*, hk_error*) { return HK_OK; },
    [](void*, hk_builder*, const hk_optimized*, const hk_update_values*, hk_value*, hk_error*) { return HK_OK; },
};
const hk_rollout_use kRolloutUse = {
    create,
    [](void*) {},
    [](void*, hk_rollout_needs*, hk_error*) { return HK_OK; },
    [](void*, const hk_rollouts*, const hk_rollout_sink*, hk_error*) { return HK_OK; },
    nullptr,
};
const hk_reward kReward = {
    create,
    [](void*) {},
    nullptr,
    [](void*, const hk_scored_text*, uint64_t, double*, hk_error*) { return HK_OK; },
};
const hk_adapter kAdapter = {create,
                             [](void*) {},
                             [](void*, const hk_adapter_site*, int32_t* wanted, hk_error*) -> int32_t {
                                 *wanted = 1;
                                 return HK_OK;
                             },
                             nullptr,
                             nullptr,
                             [](void*, hk_builder* builder, const hk_adapter_site*, const hk_site_values* values,
                                hk_site_answer* answer, hk_error*) {
                                 const auto& g = *static_cast<const hk_graph_interface*>(
                                     plugin::traced_host_table(HK_GRAPH_INTERFACE, plugin::host_graph_interface()));
                                 const hk_value inputs[] = {values->y, g.fill(builder, HK_KIND_FLOAT, nullptr, 0, 0.5)};
                                 answer->kind = HK_ANSWER_VALUE;
                                 return g.emit(builder, words("mul"), 1, inputs, 2, nullptr, 0, &answer->value, 1);
                             },
                             nullptr,
                             nullptr};
const hk_operation kOperation = {
    []() -> const hk_operation_description* {
        static hk_operation_input input;
        static hk_operation_description description;
        input = {sizeof input, HK_KIND_FLOAT, {doing().name.data(), doing().name.size()}};
        description = {};
        description.struct_size = sizeof description;
        description.input_count = 1;
        description.inputs = &input;
        description.local_size = 8;
        return &description;
    },
    [](const hk_operation_use*, hk_operation_cost* cost, hk_error*) {
        cost->invocations = doing().invocations;
        return HK_OK;
    },
    [](hk_builder* builder, const hk_operation_gradient*, hk_error* error) { return doing().build(builder, error); },
    [](const hk_operation_use*, hk_error*) { return HK_OK; }};

// Starts the trace of this test program on first use.
const std::filesystem::path& trace_file() {
    static const TestFolder folder;
    static const std::filesystem::path file = [] {
        const std::filesystem::path path = folder.path() / "trace.txt";
        REQUIRE(plugin::start_trace({.file = path, .json = false}).ok());
        CHECK(plugin::start_trace({.file = path, .json = false}).code() == Code::failed_precondition);
        return path;
    }();
    return file;
}

template<class T>
const T& host(const char* id, const T* table) {
    return *static_cast<const T*>(plugin::traced_host_table(id, table));
}
template<class T>
const T& wrapped(const char* id, const T& table) {
    return *static_cast<const T*>(plugin::traced_plugin_table("fake", id, "a", &table));
}

// Returns the rules that f broke.
std::set<std::string> broken_by(const std::function<void()>& f) {
    trace_file();
    const auto before = plugin::trace_summary().broken;
    doing() = Doing();
    f();
    std::set<std::string> rules;
    for (const auto& [rule, times] : plugin::trace_summary().broken)
        if (const auto was = before.find(rule); was == before.end() || was->second < times) rules.insert(rule);
    return rules;
}

// Calls f with a graph in the architecture's build function.
std::set<std::string> built(const std::function<int32_t(const hk_graph_interface&, hk_builder*)>& f) {
    return broken_by([&] {
        plugin::Joint joint;
        hk_builder view(joint, 1);
        const hk_graph_interface& graph = host(HK_GRAPH_INTERFACE, plugin::host_graph_interface());
        doing().build = [&](hk_builder* builder, hk_error*) { return f(graph, builder); };
        hk_error error;
        wrapped(HK_ARCHITECTURE_INTERFACE, kArchitecture).build(nullptr, &view, &error);
    });
}

using Rules = std::set<std::string>;

constexpr int64_t kFour[] = {4}, kNegative[] = {-1};
constexpr char kLatin[] = {'\xe9', 0};
constexpr const hk_tokenizer* kNoTokenizer = nullptr;

// Creates an object of a plugin. before: arguments between the configuration and the object.
template<class T>
void create_object(const T& table, auto... before) {
    void* self = nullptr;
    hk_error error;
    table.create(nullptr, before..., &self, &error);
}

void create_null() {
    doing().create = [](void** self, hk_error*) {
        *self = nullptr;
        return HK_OK;
    };
}

const hk_operation& operation() { return wrapped(HK_OPERATION_INTERFACE, kOperation); }

// What breaks a rule and no other: calls of a graph in the architecture's build function, or any.
const std::vector<std::pair<const char*, std::function<int32_t(const hk_graph_interface&, hk_builder*)>>> kOfGraphs{
    {"abi.1",
     [](auto& g, hk_builder* b) {
         g.scope_begin(b, words(kLatin));
         g.scope_end(b);
         return HK_OK;
     }},
    {"abi.5",
     [](auto& g, hk_builder* b) {
         hk_attribute a{};
         a.struct_size = 8;
         hk_value y = 0;
         g.emit(b, words("neg"), 1, nullptr, 0, &a, 1, &y, 1);
         return HK_OK;
     }},
    {"abi.8",
     [](auto& g, hk_builder* b) {
         g.parameter(b, words("w"), kFour, 1, HK_INITIALIZE_CONSTANT, 0, 0, 128);
         return HK_OK;
     }},
    {"abi.9",
     [](auto& g, hk_builder* b) {
         std::thread([&] { g.mode(b); }).join();
         return HK_OK;
     }},
    {"graph.3",
     [](auto& g, hk_builder* b) {
         int64_t dims[HK_MAX_RANK];
         uint32_t rank = 0;
         g.shape(b, 12345, dims, &rank);
         return HK_OK;
     }},
    {"graph.4",
     [](auto& g, hk_builder* b) {
         g.fill(b, HK_KIND_FLOAT, kNegative, 1, 0.0);
         return HK_OK;
     }},
    {"graph.5",
     [](auto& g, hk_builder* b) {
         g.parameter(b, words(""), kFour, 1, HK_INITIALIZE_CONSTANT, 0, 0, 0);
         return HK_OK;
     }},
    {"graph.6",
     [](auto& g, hk_builder* b) {
         const double values[] = {0, 1, std::numeric_limits<double>::quiet_NaN(), 3};
         g.constant(b, HK_KIND_FLOAT, kFour, 1, values);
         return HK_OK;
     }},
    {"graph.7",
     [](auto& g, hk_builder* b) {
         g.scope_begin(b, words("left open"));
         return HK_OK;
     }},
};
const std::vector<std::pair<const char*, std::function<void()>>> kOfCalls{
    {"graph.8",
     [] {
         const hk_graph_interface& g = host(HK_GRAPH_INTERFACE, plugin::host_graph_interface());
         plugin::Joint joint;
         hk_builder view(joint, 1);
         hk_error error;
         wrapped(HK_ARCHITECTURE_INTERFACE, kArchitecture).build(nullptr, &view, &error);
         CHECK(g.fill(&view, HK_KIND_FLOAT, kFour, 1, 0.0) == 0); // the call does not reach the host
         CHECK(view.values.size() == 1);
     }},
    {"tokenizer.1", [] { host(HK_TOKENIZER_INTERFACE, plugin::host_tokenizer_interface()).vocabulary_size(nullptr); }},
    {"architecture.1",
     [] {
         create_null();
         create_object(wrapped(HK_ARCHITECTURE_INTERFACE, kArchitecture));
     }},
    {"objective.1",
     [] {
         create_null();
         create_object(wrapped(HK_OBJECTIVE_INTERFACE, kObjective), kNoTokenizer);
     }},
    {"head.1",
     [] {
         create_null();
         create_object(wrapped(HK_HEAD_INTERFACE, kHead));
     }},
    {"adapter.1",
     [] {
         create_null();
         create_object(wrapped(HK_ADAPTER_INTERFACE, kAdapter));
     }},
    {"rollout.1",
     [] {
         create_null();
         create_object(wrapped(HK_ROLLOUT_DRAFT, kRolloutUse));
     }},
    {"reward.1",
     [] {
         create_null();
         create_object(wrapped(HK_REWARD_DRAFT, kReward));
     }},
    {"combiner.1",
     [] {
         create_null();
         create_object(wrapped(HK_COMBINER_INTERFACE, kCombiner));
     }},
    {"optimizer.1",
     [] {
         create_null();
         create_object(wrapped(HK_OPTIMIZER_INTERFACE, kOptimizer));
     }},
    {"error.1",
     [] {
         doing().create = [](void**, hk_error*) { return HK_UNSUPPORTED; };
         create_object(wrapped(HK_ARCHITECTURE_INTERFACE, kArchitecture));
     }},
    {"abi.2",
     [] {
         doing().create = [](void**, hk_error*) { return 4711; };
         create_object(wrapped(HK_ARCHITECTURE_INTERFACE, kArchitecture));
     }},
    {"abi.4",
     [] {
         doing().create = [](void**, hk_error*) -> int32_t { throw std::runtime_error("out of create()"); };
         CHECK_THROWS(create_object(wrapped(HK_ARCHITECTURE_INTERFACE, kArchitecture)));
     }},
    {"objective.3",
     [] {
         doing().fields = [](auto push, void* context) {
             hk_field field{};
             field.struct_size = sizeof field;
             field.kind = 9;
             field.name = words("f");
             push(context, &field);
         };
         int pushed = 0;
         hk_error error;
         wrapped(HK_OBJECTIVE_INTERFACE, kObjective)
             .fields(
                 nullptr, 1, 1, [](void* count, const hk_field*) { ++*static_cast<int*>(count); }, &pushed, &error);
         CHECK(pushed == 1);
     }},
    {"objective.4",
     [] {
         plugin::Joint joint;
         hk_builder view(joint, 1);
         hk_error error;
         wrapped(HK_OBJECTIVE_INTERFACE, kObjective).build(nullptr, &view, &error);
     }},
    {"head.2",
     [] {
         doing().rows = 1;
         hk_decode_input input{};
         input.struct_size = sizeof input;
         input.row_count = 2;
         hk_error error;
         wrapped(HK_HEAD_INTERFACE, kHead)
             .decode(
                 nullptr, &input, [](void*, hk_string) {}, nullptr, &error);
     }},
    {"operation.4",
     [] {
         doing().name = "Two Words";
         operation().describe();
     }},
    {"operation.5",
     [] {
         operation().describe();
         doing().invocations = 9;
         hk_operation_use use{};
         hk_operation_cost cost{};
         use.struct_size = sizeof use;
         cost.struct_size = sizeof cost;
         hk_error error;
         operation().shape(&use, &cost, &error);
     }},
    {"operation.7",
     [] {
         plugin::Joint joint;
         hk_builder view(joint, 1);
         const hk_graph_interface& g = host(HK_GRAPH_INTERFACE, plugin::host_graph_interface());
         doing().build = [&](hk_builder* b, hk_error*) {
             g.parameter(b, words("w"), kFour, 1, HK_INITIALIZE_CONSTANT, 0, 0, 0);
             return HK_OK;
         };
         hk_operation_gradient use{};
         use.struct_size = sizeof use;
         hk_error error;
         operation().gradient(&view, &use, &error);
     }},
};

} // namespace

TEST_CASE("trace: valid calls pass through without a report") {
    const auto good = [](const hk_graph_interface& g, hk_builder* b) {
        g.scope_begin(b, words("block.0"));
        const hk_value x = g.fill(b, HK_KIND_FLOAT, kFour, 1, 1.0);
        const hk_value inputs[] = {x};
        hk_value y = 0;
        g.emit(b, words("neg"), 1, inputs, 1, nullptr, 0, &y, 1);
        int64_t dims[HK_MAX_RANK];
        uint32_t rank = 0;
        CHECK(g.shape(b, y, dims, &rank) == HK_KIND_FLOAT);
        CHECK(rank == 1);
        g.scope_end(b);
        return g.status(b, nullptr);
    };
    CHECK(built(good) == Rules{});
    CHECK(broken_by([&] {
              plugin::Joint joint;
              hk_builder view(joint, 1);
              const hk_value given =
                  plugin::handle_of(&view, joint.builder.parameter("w", graph::Shape{2, 3}, 0, 0.0, 0.0, 0));
              const hk_adapter_site site{
                  sizeof(hk_adapter_site), HK_SITE_LINEAR, words("w"), words("w.weight"), words(""), 3, 2, 0, 0, 0};
              const hk_site_values values{sizeof(hk_site_values), 0, given, 0, 0, 0, 0};
              hk_site_answer answer{sizeof(hk_site_answer), HK_ANSWER_NONE, 0, 0, 0, 0, 0, 0};
              hk_error error;
              CHECK(wrapped(HK_ADAPTER_INTERFACE, kAdapter).adapt(nullptr, &view, &site, &values, &answer, &error) ==
                    HK_OK);
              CHECK(answer.value != 0);
          }).empty());
    CHECK(broken_by([&] {
              plugin::Joint joint;
              hk_builder view(joint, 1);
              const hk_value given =
                  plugin::handle_of(&view, joint.builder.parameter("w", graph::Shape{2, 3}, 0, 0.0, 0.0, 0));
              const hk_adapter_site site{
                  sizeof(hk_adapter_site), HK_SITE_LINEAR, words("w"), words("w.weight"), words(""), 3, 2, 0, 0, 0};
              const hk_site_values values{sizeof(hk_site_values), given, given, 0, 0, 0, 0};
              const hk_branch branch{sizeof(hk_branch), 0, words("a"), given, given, 0, 0};
              hk_combined combined{sizeof(hk_combined), 0, 0, 0, 0};
              hk_error error;
              CHECK(wrapped(HK_COMBINER_INTERFACE, kCombiner)
                        .combine(nullptr, &view, &site, &values, &branch, 1, &combined, &error) == HK_OK);
              CHECK(combined.delta != 0);
          }).empty());
}

TEST_CASE("trace: every broken rule is reported at its place, and no other") {
    for (const auto& [rule, breaks] : kOfGraphs) {
        CAPTURE(rule);
        CHECK(built(breaks) == Rules{rule});
    }
    for (const auto& [rule, breaks] : kOfCalls) {
        CAPTURE(rule);
        CHECK(broken_by(breaks) == Rules{rule});
    }
}

TEST_CASE("trace: every rule that it can check is broken above") {
    Rules broken, traced;
    for (const auto& [rule, breaks] : kOfGraphs) broken.insert(rule);
    for (const auto& [rule, breaks] : kOfCalls) broken.insert(rule);
#define HK_RULE(id, is_traced, text)                                                                                   \
    if (is_traced) traced.insert(id);
#include "plugin/trace/rules.inc"
#undef HK_RULE
    CHECK(broken == traced);
}

TEST_CASE("trace: each call is a line, with the plugin, its arguments and its result") {
    const int64_t dims[] = {2, 3};
    built([&](auto& g, hk_builder* b) {
        const hk_value x = g.parameter(b, words("some.weight"), dims, 2, HK_INITIALIZE_NORMAL, 0, 0.5, 0);
        g.offer(b, words("hidden"), x);
        return g.status(b, nullptr);
    });
    const std::string text = read_file(trace_file()).take();
    const auto has = [&](const std::string& part) {
        CAPTURE(part);
        CHECK(text.find(part) != std::string::npos);
    };
    has("> fake architecture 'a'.build(");
    has(". fake graph.parameter(name: \"some.weight\", dims: [2,3], rank: 2, initializer: 1, a: 0.0, b: 0.5, flags: "
        "0) = ");
    has(". fake graph.offer(port: \"hidden\", value: ");
    has("< fake architecture 'a'.build = HK_OK");
    has("BROKEN [graph.8] ");
    has("the rule: A builder is not kept after the build call that it was given to.");
    has("BROKEN [error.1] fake in architecture 'a'.create: create() fails with HK_UNSUPPORTED and no message");
}

} // namespace trace_test
