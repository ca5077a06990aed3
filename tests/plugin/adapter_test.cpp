// The draft interface for adapters: what the body uses in place of its parameters, and what is rejected.
#include "graph/reference.hpp"
#include "graph/text.hpp"
#include "hekla/plugin/draft/adapter.h"
#include "plugin/compose.hpp"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <set>

namespace adapter_test {

using namespace hekla;
using namespace hekla::plugin;
using nlohmann::json;

namespace {

Registry adapters(Processes::Describe how = Processes::Describe::in_process) {
    Registry registry = Registry::scan({HEKLA_PLUGIN_FOLDER, HEKLA_ADAPTERS_FOLDER});
    Processes processes;
    processes.describe = how;
    processes.program = HEKLA_DESCRIBE_PROGRAM;
    registry.set_processes(processes);
    return registry;
}

CompositionSpec small_gpt2(const std::string& adapter, const json& config = json::object()) {
    CompositionSpec spec;
    spec.architecture = "gpt2";
    spec.config = {{"vocab_size", 11}, {"n_positions", 11}, {"n_embd", 8}, {"n_layer", 2}, {"n_head", 2}};
    spec.adapter = adapter;
    spec.adapter_config = config;
    spec.head = "lm";
    spec.objective = "clm";
    return spec;
}

Result<graph::Graph> described(const Registry& registry, const CompositionSpec& spec, int32_t mode = HK_MODE_EVALUATE) {
    HK_ASSIGN(const std::unique_ptr<Composition> composition, Composition::create(registry, spec, nullptr));
    HK_ASSIGN(const std::vector<BatchField> fields, composition->batch_fields(2, 5));
    const std::vector<std::string> ports{"logits"};
    return composition->build(mode, fields, ports);
}

std::set<std::string> of_adapter(const graph::Graph& graph) {
    std::set<std::string> names;
    for (const auto& [name, value] : graph.parameters())
        if (name.starts_with(kAdapter)) names.insert(name);
    return names;
}

// Returns logits, with parameter values that depend only on the parameters' names; `up`: the values of LoRA's second
// matrix.
std::vector<double> logits_of(const graph::Graph& graph, double up) {
    graph::Feeds feeds;
    for (const auto& [name, value] : graph.parameters()) {
        graph::Tensor tensor{graph::Kind::float32, graph.shape(value), {}};
        std::size_t state = std::hash<std::string>{}(name);
        for (int64_t i = 0; i < tensor.shape.elements(); ++i) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            const bool second = name.ends_with("lora_up");
            tensor.data.push_back(second ? up : static_cast<double>(state >> 40) / (1 << 24) - 0.5);
        }
        feeds.parameters[name] = std::move(tensor);
    }
    feeds.fields["input_ids"] = {graph::Kind::int32, graph::Shape{2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}};
    feeds.fields["next_ids"] = {graph::Kind::int32, graph::Shape{2, 5}, {2, 3, 4, 5, 6, 7, 8, 9, 10, 0}};
    const std::vector<graph::ValueId> wanted{graph.outputs.at("logits")};
    auto values = graph::evaluate(graph, feeds, wanted);
    REQUIRE_MESSAGE(values.ok(), values.message());
    return values.value()[0].data;
}

struct Fault {
    explicit Fault(const char* name) { ::setenv("HEKLA_FAULT", name, 1); }
    ~Fault() { ::unsetenv("HEKLA_FAULT"); }
    Fault(const Fault&) = delete;
    Fault& operator=(const Fault&) = delete;
};

} // namespace

TEST_CASE("adapter: LoRA is added to the selected matrices, and changes nothing before training") {
    const Registry registry = adapters();
    const auto plain = described(registry, small_gpt2(""));
    const auto all = described(registry, small_gpt2("lora", {{"rank", 3}}));
    REQUIRE_MESSAGE(all.ok(), all.message());
    CHECK(of_adapter(plain.value()).empty());
    std::set<std::string> expected;
    for (const char* layer : {"0", "1"})
        for (const char* matrix : {"c_attn", "c_proj"})
            for (const char* which : {"down", "up"})
                expected.insert(fmt::format("adapter.transformer.h.{}.attn.{}.weight.lora_{}", layer, matrix, which));
    CHECK(of_adapter(all.value()) == expected);
    for (const auto& [name, value] : all->parameters()) {
        if (name.ends_with("0.attn.c_attn.weight.lora_down")) CHECK(all->shape(value) == graph::Shape{3, 24});
        if (name.ends_with("0.attn.c_attn.weight.lora_up")) CHECK(all->shape(value) == graph::Shape{8, 3});
    }
    CHECK(logits_of(plain.value(), 0.0) == logits_of(all.value(), 0.0)); // to the last bit
    CHECK(logits_of(plain.value(), 0.0) != logits_of(all.value(), 0.1));
    // The head is tied to the token embedding, and uses the adapted one like the body.
    const auto words = described(registry, small_gpt2("lora", {{"targets", {"*wte.weight"}}}));
    REQUIRE_MESSAGE(words.ok(), words.message());
    CHECK(of_adapter(words.value()).size() == 2);
    std::size_t tables = 0, reads = 0;
    for (const auto& [name, value] : words->parameters()) {
        if (name != "transformer.wte.weight") continue;
        ++tables;
        for (const graph::Node& node : words->nodes)
            reads += static_cast<std::size_t>(std::ranges::count(node.inputs, value));
    }
    CHECK(tables == 1);
    CHECK_MESSAGE(reads == 1, graph::print(words.value())); // only by the adapter
    const auto one = described(registry, small_gpt2("lora", {{"targets", {"*h.1.mlp.c_fc.weight"}}}));
    REQUIRE_MESSAGE(one.ok(), one.message());
    CHECK(of_adapter(one.value()) == std::set<std::string>{"adapter.transformer.h.1.mlp.c_fc.weight.lora_down",
                                                           "adapter.transformer.h.1.mlp.c_fc.weight.lora_up"});
}

TEST_CASE("adapter: out of process it describes the same graph, is named in errors, and its keys are checked") {
    const Registry here = adapters(), apart = adapters(Processes::Describe::child);
    for (const CompositionSpec& spec : {small_gpt2("lora"), small_gpt2("factor")}) {
        const auto one = described(here, spec, HK_MODE_TRAIN), other = described(apart, spec, HK_MODE_TRAIN);
        REQUIRE_MESSAGE(other.ok(), other.message());
        CHECK(graph::print(one.value()) == graph::print(other.value()));
    }
    CHECK(described(here, small_gpt2("lora", {{"rank", 0}}))
              .message()
              .find("adapter 'lora': rank is 0, expected from 1") != std::string::npos);
    CHECK(described(here, small_gpt2("lora", {{"rnak", 4}}))
              .message()
              .find("adapter 'lora' does not know the key 'rnak'; did you mean 'rank'?") != std::string::npos);
    CHECK(described(here, small_gpt2("lorra")).message().find("did you mean 'lora'?") != std::string::npos);
    const auto composition = Composition::create(here, small_gpt2("lora", {{"rank", 3}}), nullptr);
    REQUIRE(composition.ok());
    const json written = json::parse(composition.value()->write_config().value());
    CHECK(written["hekla"]["adapter"] == "lora");
    CHECK(written["hekla"]["adapter_config"] == json{{"rank", 3}});
    Fault kills("kills");
    const std::string died = described(apart, small_gpt2("factor")).message();
    CAPTURE(died);
    CHECK(died.find("plugin 'faulty_adapter'") != std::string::npos);
    CHECK(died.find("adapt") != std::string::npos);
    CHECK(died.find("SIGABRT") != std::string::npos);
    CHECK(died.find("describe gpt2 --config") != std::string::npos);
    CHECK(died.find("--adapter factor") != std::string::npos);
}

TEST_CASE("adapter: what it must not do is rejected, and the error names it") {
    const Registry registry = adapters();
    REQUIRE(described(registry, small_gpt2("factor")).ok());
    const std::pair<const char*, const char*> faults[] = {
        {"throws_in_create", "adapter 'factor': it does not want to"},
        {"throws", "exception"},
        {"refuses", "no factor for this one"},
        {"odd_shape", "it gives float [88], expected float [11, 8]"},
        {"another_kind", "it gives int32 [11, 8], expected float [11, 8]"},
        {"wrong_operation", "matmul"},
        {"foreign_value", "a value of another graph was passed"},
        {"offers", "it offers a port or adds a loss or metric"},
        {"adds_metric", "it offers a port or adds a loss or metric"},
        {"open_scope", "a scope or region is still open after it"},
    };
    for (const auto& [name, reason] : faults) {
        CAPTURE(name);
        const Fault fault(name);
        const auto refused = described(registry, small_gpt2("factor"));
        REQUIRE_FALSE(refused.ok());
        CAPTURE(refused.message());
        CHECK(refused.message().find(reason) != std::string::npos);
        CHECK(refused.message().find("adapter 'factor'") != std::string::npos);
    }
}

} // namespace adapter_test
