#include "base/host.hpp"
#include "base/json.hpp"
#include "batch/collate.hpp"
#include "batch/drawn_example.hpp"
#include "check/probe.hpp"
#include "check/tests.hpp"
#include "data/batcher.hpp"
#include "graph/shape.hpp"
#include "graph/text.hpp"
#include "hekla/plugin/architecture.h"
#include "hekla/plugin/combiner.h"
#include "hekla/plugin/head.h"
#include "plugin/composition/compose.hpp"
#include "plugin/host/joint.hpp"
#include "plugin/trace/trace.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <thread>

namespace hekla::check {
namespace {

using nlohmann::json;

Result<graph::Graph> describe(const Small& small, int32_t mode, int64_t batch, int64_t length) {
    HK_ASSIGN(const std::vector<plugin::BatchField> fields, small.composition->batch_fields(batch, length));
    return small.composition->build(mode, fields);
}

Result<std::unique_ptr<plugin::Composition>> another(const Trial& trial, const Small& small,
                                                     const plugin::CompositionSpec& spec) {
    return plugin::Composition::create(trial.registry(), spec, small.tokenizer.get());
}

// Returns the first line in which two texts differ, from each.
std::string difference(const std::string& a, const std::string& b) {
    std::size_t at = 0;
    while (at < std::min(a.size(), b.size()) && a[at] == b[at]) ++at;
    const auto line = [&](const std::string& text) {
        const std::size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
        return text.substr(begin, text.find('\n', at) - begin);
    };
    return fmt::format("'{}' and '{}'", line(a), line(b));
}

// Returns the part of the network's configuration that belongs to what is tested.
json& config_of(plugin::CompositionSpec& spec, const plugin::Provided& provided) {
    return provided.interface_id == HK_ARCHITECTURE_INTERFACE ? spec.config
           : provided.interface_id == HK_HEAD_INTERFACE       ? spec.head_config
           : provided.interface_id == HK_ADAPTER_INTERFACE    ? spec.adapters.at(0).part.config
           : provided.interface_id == HK_COMBINER_INTERFACE   ? spec.combination_config
                                                              : spec.objective_config;
}

} // namespace

Status test_many_instances(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const Small small, small_network(trial, provided));
        trial.doing(
            fmt::format("{}: eight instances, destroyed in another order than they were created", name_of(provided)));
        std::vector<std::unique_ptr<plugin::Composition>> all;
        for (int i = 0; i < 8; ++i) {
            HK_ASSIGN(auto one, another(trial, small, small.spec));
            all.push_back(std::move(one));
        }
        HK_ASSIGN(const std::vector<plugin::BatchField> fields, small.composition->batch_fields(2, small.length));
        HK_ASSIGN(const graph::Graph first, all[5]->build(HK_MODE_TRAIN, fields));
        for (const std::size_t i : {3u, 0u, 7u, 1u, 6u}) all[i].reset();
        HK_ASSIGN(const graph::Graph still, all[5]->build(HK_MODE_TRAIN, fields));
        if (graph::print(first) != graph::print(still))
            trial.fail(fmt::format("{}: describes another graph after other instances were destroyed: {}",
                                   name_of(provided), difference(graph::print(first), graph::print(still))));
    }
    return {};
}

Status test_same_graph(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const Small small, small_network(trial, provided));
        for (const int32_t mode : {HK_MODE_TRAIN, HK_MODE_EVALUATE}) {
            trial.doing(fmt::format("{}: described repeatedly", name_of(provided)));
            HK_ASSIGN(const graph::Graph first, describe(small, mode, 3, small.length));
            HK_TRY(describe(small, mode, 1, 7).status()); // another shape in between
            HK_ASSIGN(const graph::Graph second, describe(small, mode, 3, small.length));
            HK_ASSIGN(const auto other, another(trial, small, small.spec));
            HK_ASSIGN(const std::vector<plugin::BatchField> fields, other->batch_fields(3, small.length));
            HK_ASSIGN(const graph::Graph third, other->build(mode, fields));
            for (const graph::Graph* again : {&second, &third})
                if (graph::print(first) != graph::print(*again)) {
                    trial.fail(fmt::format("{}: the same configuration and fields give two graphs: {}",
                                           name_of(provided), difference(graph::print(first), graph::print(*again))));
                    break;
                }
        }
    }
    return {};
}

Status test_own_configuration(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        if (provided.interface_id != HK_ARCHITECTURE_INTERFACE) continue;
        HK_ASSIGN(const Small small, small_network(trial, provided));
        trial.doing(fmt::format("{}: created from the output of write_config()", name_of(provided)));
        HK_ASSIGN(const std::string written, small.composition->write_config());
        plugin::CompositionSpec spec = small.spec;
        HK_ASSIGN(spec.config, parse_json_object(written, "the config that write_config gave"));
        for (const char* key : {"hekla", "architectures"}) spec.config.erase(key); // keys for the host, not the model
        spec.refuse_unknown_keys = false;
        HK_ASSIGN(const auto again, another(trial, small, spec));
        HK_ASSIGN(const std::vector<plugin::BatchField> fields, small.composition->batch_fields(2, small.length));
        for (const int32_t mode : {HK_MODE_TRAIN, HK_MODE_EVALUATE}) {
            HK_ASSIGN(const graph::Graph first, small.composition->build(mode, fields));
            HK_ASSIGN(const graph::Graph second, again->build(mode, fields));
            if (graph::print(first) == graph::print(second)) continue;
            trial.fail(fmt::format("{}: created from the output of write_config() it describes another graph: {}",
                                   name_of(provided), difference(graph::print(first), graph::print(second))));
            break;
        }
    }
    return {};
}

Status test_odd_shapes(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const Small small, small_network(trial, provided));
        for (const int64_t batch : {1, 2, 3})
            for (const int64_t length : {5, 7, 11, 13, 16, 24}) {
                const std::string what = fmt::format("{}: {} rows of {} tokens", name_of(provided), batch, length);
                trial.doing(what);
                trial.require(describe(small, HK_MODE_TRAIN, batch, length).status(), what);
            }
        // Rows too short for the special tokens may be refused, with a message.
        for (const int64_t length : {1, 2, 3}) {
            const std::string what = fmt::format("{}: a row of {} tokens", name_of(provided), length);
            trial.doing(what);
            const Result<graph::Graph> graph = describe(small, HK_MODE_TRAIN, 1, length);
            if (const std::string bad = bad_refusal(graph.status()); !bad.empty())
                trial.fail(fmt::format("{}: {}", what, bad));
        }
    }
    return {};
}

Status test_strange_configurations(Trial& trial) {
    const std::vector<json> strange{nullptr,
                                    0,
                                    -1,
                                    1,
                                    3,
                                    int64_t{1} << 40,
                                    std::numeric_limits<int64_t>::max(),
                                    std::numeric_limits<int64_t>::min(),
                                    0.5,
                                    -1e300,
                                    1e300,
                                    true,
                                    "",
                                    "x",
                                    std::string(100000, 'a'),
                                    "\xff\xfe",
                                    json::array(),
                                    json::array({1, 2, 3}),
                                    json::array({nullptr, "x", -1}),
                                    json::object(),
                                    {{"a", {{"b", 1}}}}};
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const Small small, small_network(trial, provided));
        for (const std::string_view key : provided.parameters)
            for (const json& value : strange) {
                plugin::CompositionSpec spec = small.spec;
                config_of(spec, provided)[key] = value;
                const std::string shown = value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 40);
                trial.doing(fmt::format("{}: {} = {}", name_of(provided), key, shown));
                const auto say = [&](const Status& status) {
                    if (const std::string bad = bad_refusal(status); !bad.empty())
                        trial.fail(fmt::format("{}: {} = {}: {}", name_of(provided), key, shown, bad));
                };
                const auto made = another(trial, small, spec);
                say(made.status());
                if (!made.ok()) continue;
                const auto fields = made.value()->batch_fields(2, small.length);
                say(fields.status());
                if (fields.ok()) say(made.value()->build(HK_MODE_TRAIN, fields.value()).status());
            }
    }
    return {};
}

Status test_strange_fields(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const Small small, small_network(trial, provided));
        HK_ASSIGN(const std::vector<plugin::BatchField> fields, small.composition->batch_fields(2, small.length));
        const auto attempt = [&](const std::string& what, std::vector<plugin::BatchField> other) {
            trial.doing(fmt::format("{}: {}", name_of(provided), what));
            const auto graph = small.composition->build(HK_MODE_TRAIN, other);
            if (const std::string bad = bad_refusal(graph.status()); !bad.empty())
                trial.fail(fmt::format("{}: {}: {}", name_of(provided), what, bad));
        };
        attempt("no fields", {});
        for (std::size_t i = 0; i < fields.size(); ++i) {
            std::vector<plugin::BatchField> other = fields;
            other.erase(other.begin() + static_cast<std::ptrdiff_t>(i));
            attempt(fmt::format("without the field '{}'", fields[i].name), other);
            other = fields;
            other[i].shape = graph::Shape{};
            attempt(fmt::format("'{}' a scalar", fields[i].name), other);
            other[i].shape = graph::Shape{2, 3, 4, 5};
            attempt(fmt::format("'{}' of four dimensions", fields[i].name), other);
            other[i].shape = graph::Shape{7, 1};
            attempt(fmt::format("'{}' of other sizes than the rest", fields[i].name), other);
            other = fields;
            other[i].kind = fields[i].kind == graph::Kind::int32 ? graph::Kind::float32 : graph::Kind::int32;
            attempt(fmt::format("'{}' of the other kind", fields[i].name), other);
        }
    }
    return {};
}

Status test_failing_host(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const Small small, small_network(trial, provided));
        HK_ASSIGN(const std::vector<plugin::BatchField> fields, small.composition->batch_fields(2, small.length));
        constexpr int64_t kMost = 100000;
        int64_t call = 0;
        for (;; ++call) {
            trial.doing(fmt::format("{}: call {} of the graph runs out of memory", name_of(provided), call + 1));
            const auto graph = small.composition->build(HK_MODE_TRAIN, fields, {}, false, call);
            if (graph.ok() || call == kMost) break;
            if (graph.status().code() != Code::out_of_memory) {
                trial.fail(fmt::format("{}: if call {} of the graph runs out of memory, the error is: {}",
                                       name_of(provided), call + 1, graph.message()));
                break;
            }
        }
        if (call == kMost) trial.skip(fmt::format("{}: more than {} calls", name_of(provided), kMost));
    }
    return {};
}

Status test_used_abi(Trial& trial) {
    HK_TRY(plugin::start_trace({.file = "/dev/null"}));
    for (const plugin::Provided& provided : trial.manifest().provides) {
        trial.doing(name_of(provided) + ": all calls, traced");
        HK_ASSIGN(const Small small, small_network(trial, provided));
        for (const int32_t mode : {HK_MODE_TRAIN, HK_MODE_EVALUATE})
            HK_TRY(describe(small, mode, 2, small.length).status());
        HK_TRY(small.composition->write_config().status());
        HK_TRY(batch_of(small, std::span(small.examples).first(1), 2, small.length, 1).status());
    }
    HK_TRY(operation_probes(trial).status());
    uint32_t newest = 0;
    std::string all;
    for (const auto& [name, minor] : plugin::trace_summary().used) {
        newest = std::max(newest, minor);
        std::string_view part = name; // "hk_graph_interface", "operation cumprod"
        if (part.starts_with("hk_")) {
            part.remove_prefix(std::string_view("hk_").size());
            part.remove_suffix(std::string_view("_interface").size());
        }
        all += fmt::format("{}{} {}.{}", all.empty() ? "" : ", ", part, HK_ABI_MAJOR, minor);
    }
    const uint32_t asked = trial.manifest().abi_minor_needed;
    trial.note(
        fmt::format("the oldest host that it needs, as far as seen, has plugin ABI {}.{} ({}); its manifest asks "
                    "for {}.{}",
                    HK_ABI_MAJOR, newest, all, trial.manifest().abi_major, asked));
    if (asked > newest)
        trial.note(fmt::format("if nothing newer is used elsewhere, \"abi_minor_needed\": {} lets older hosts load it",
                               newest));
    return {};
}

Status test_leaks(Trial& trial) {
    share_one_heap(); // one count for all threads
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const Small small, small_network(trial, provided));
        const auto cycle = [&]() -> Status {
            HK_ASSIGN(const auto one, another(trial, small, small.spec));
            HK_ASSIGN(const std::vector<plugin::BatchField> fields, one->batch_fields(2, small.length));
            HK_TRY(one->build(HK_MODE_TRAIN, fields).status());
            std::vector<batch::DrawnExample> drawn{{small.examples.front(), 0}};
            std::vector<data::Field> made;
            return batch::make_fields(*one, drawn, &small.data.train().examples(), 1, 2, small.length, made);
        };
        trial.doing(fmt::format("{}: created, described and destroyed repeatedly", name_of(provided)));
        // Memory that grows only once is not a leak, so the smallest growth of three windows counts. Each window is a
        // thread, because the end of a thread frees malloc's per-thread cache, which counts as used.
        constexpr std::size_t kCycles = 100, kLeak = kCycles * 8;
        std::size_t least = SIZE_MAX;
        for (int window = 0; window < 4; ++window) {
            const std::size_t before = heap_bytes();
            Status ran;
            std::thread([&] {
                for (std::size_t i = 0; i < kCycles && ran.ok(); ++i) ran = cycle();
            }).join();
            HK_TRY(ran);
            const std::size_t after = heap_bytes();
            if (window > 0) least = std::min(least, after > before ? after - before : 0);
        }
        if (least >= kLeak)
            trial.fail(fmt::format("{}: leaks {} bytes each time it is created, describes, makes a batch and is "
                                   "destroyed",
                                   name_of(provided), least / kCycles));
    }
    return {};
}

} // namespace hekla::check
