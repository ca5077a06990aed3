// Several adapters on one body: the text of a combination, what combiners describe, and what they must not do.
#include "adapter_case.hpp"

#include "plugin/composition/combination.hpp"

#include <cmath>
#include <fmt/format.h>
#include <tuple>

namespace combiner_test {

using namespace adapter_case;

namespace {

const std::vector<std::string> kNames{"a", "b", "c-1"};

std::string problem_of(const std::string& text) { return parse_combination(text, kNames).message(); }

// Three LoRAs in this combination.
CompositionSpec combined(const std::string& how, const json& config = json::object()) {
    CompositionSpec spec = small_gpt2("");
    for (const std::string& name : kNames)
        spec.adapters.push_back({name, {"lora", {{"r", name == "b" ? 3 : 2}, {"target_modules", {"c_attn"}}}}});
    spec.combination = how;
    spec.combination_config = config;
    return spec;
}

// The values of a port per row of weights, from the interpreter.
std::vector<double> port_of(const Registry& registry, const CompositionSpec& spec, const std::string& port,
                            int32_t mode = HK_MODE_EVALUATE, const std::vector<double>& rows = {0, 0}) {
    const auto composition = Composition::create(registry, spec, nullptr);
    REQUIRE_MESSAGE(composition.ok(), composition.message());
    const auto fields = composition.value()->batch_fields(2, 5).value();
    const std::vector<std::string> ports{port};
    const auto graph = composition.value()->build(mode, fields, ports);
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    const std::vector<graph::ValueId> wanted{graph->outputs.at(port)};
    graph::Feeds feeds = feeds_of(graph.value(), 0.2);
    feeds.fields["adapter_rows"] = {graph::Kind::int32, graph::Shape{2}, rows};
    auto values = graph::evaluate(graph.value(), feeds, wanted);
    REQUIRE_MESSAGE(values.ok(), values.message());
    return values.value()[0].data;
}

} // namespace

TEST_CASE("combination: names of adapters and combiners, each adapter once") {
    const auto parsed = parse_combination(" stack( a,fuse(b , c-1) ) ", kNames);
    REQUIRE_MESSAGE(parsed.ok(), parsed.message());
    CHECK(parsed->combiner == "stack");
    CHECK(parsed->text == "stack(a,fuse(b,c-1))");
    CHECK(parsed->place == "combine");
    REQUIRE(parsed->parts.size() == 2);
    CHECK(parsed->parts[0].is_adapter());
    CHECK(parsed->parts[1].combiner == "fusion");
    CHECK(parsed->parts[1].place == "combine.1");
    CHECK(parsed->parts[1].parts[1].adapter == 2);
    CHECK(parsed->combiners() == std::vector<std::string>{"fusion"});
    const std::pair<const char*, const char*> wrong[] = {
        {"", "character 1: expected the name"},
        {"a", "the adapter 'b' is not used"},
        {"stack(a, b, c-1", "character 16: expected ',' or ')'"},
        {"stack(a, b, c-1))", "character 17: unexpected ')'"},
        {"stack(a, b, c-1) a", "unexpected 'a'"},
        {"stack(a,, b)", "character 9: expected the name"},
        {"stack()", "character 7: expected the name"},
        {"stack(a, a, b)", "character 10: the adapter 'a' is used twice"},
        {"stack(a, b, c1)", "'c1' is not an adapter, did you mean 'c-1'?"},
        {"s(s(s(s(s(s(s(s(s(a)))))))))", "more than 8 combiners"},
    };
    for (const auto& [text, reason] : wrong) {
        const std::string message = problem_of(text);
        CAPTURE(message);
        CHECK(message.find(reason) != std::string::npos);
    }
    CHECK(problem_of(std::string(5000, 'a')).find("expected 4096 or fewer") != std::string::npos);
    CHECK(check_adapter_name("sst2_v-1").ok());
    for (const char* name : {"", "combine", "a.b", "a b", "\xc3\xa4"}) CHECK_FALSE(check_adapter_name(name).ok());
}

TEST_CASE("combiners: parameters have the adapter's name, or the place of the combiner") {
    const Registry registry = adapters();
    const auto made = described(registry, combined("stack(a, soft(b, c-1))"));
    REQUIRE_MESSAGE(made.ok(), made.message());
    std::set<std::string> names;
    for (const std::string& name : of_adapter(made.value()))
        if (name.find("h.0.") != std::string::npos) names.insert(name);
    const std::string site = "transformer.h.0.attn.c_attn.";
    CHECK(names == std::set<std::string>{
                       "adapter.a." + site + "lora_A.weight", "adapter.a." + site + "lora_B.weight",
                       "adapter.b." + site + "lora_A.weight", "adapter.b." + site + "lora_B.weight",
                       "adapter.c-1." + site + "lora_A.weight", "adapter.c-1." + site + "lora_B.weight",
                       "adapter.combine.1." + site + "router.weight", "adapter.combine.1." + site + "router.bias"});
}

TEST_CASE("combiners: a stack is the sum, an average of one is the adapter, hard routing with all is soft to the bit") {
    const Registry registry = adapters();
    const std::vector<double> plain = logits_of(described(registry, small_gpt2("")).value(), 0.2);
    const std::vector<double> stack = port_of(registry, combined("stack(a, b, c-1)"), "logits");
    const std::vector<double> total =
        port_of(registry, combined("average(a, b, c-1)", {{"weights", {1, 1, 1}}, {"normalize", false}}), "logits");
    REQUIRE(stack.size() == total.size());
    double difference = 0.0, change = 0.0;
    for (std::size_t i = 0; i < stack.size(); ++i) {
        difference = std::max(difference, std::abs(stack[i] - total[i]));
        change = std::max(change, std::abs(stack[i] - plain[i]));
    }
    CHECK(difference < 1e-12);
    CHECK(change > 1e-3);
    CompositionSpec one = combined("");
    one.adapters.resize(1);
    one.combination = "average(a)";
    const std::vector<double> average = port_of(registry, one, "logits");
    one.combination = "a";
    CHECK(average == port_of(registry, one, "logits"));
    CHECK(port_of(registry, combined("hard(a, b, c-1)", {{"top_k", 3}}), "logits") ==
          port_of(registry, combined("soft(a, b, c-1)"), "logits"));
}

TEST_CASE("combiners: weights of a router are a port, which is a distribution over the adapters") {
    const Registry registry = adapters();
    const std::string port = "routing.transformer.h.1.attn.c_attn";
    const std::vector<double> soft = port_of(registry, combined("soft(a, b, c-1)", {{"temperature", 0.1}}), port);
    REQUIRE(soft.size() == 2 * 5 * 3);
    const std::vector<double> hard = port_of(registry, combined("hard(a, b, c-1)", {{"temperature", 0.1}}), port);
    const std::vector<double> two = port_of(registry, combined("hard(a, b, c-1)", {{"top_k", 2}}), port);
    for (std::size_t token = 0; token < 10; ++token) {
        double sum = 0.0, sum_of_two = 0.0;
        std::size_t best = 0, chosen = 0, zeros = 0;
        for (std::size_t i = 0; i < 3; ++i) {
            sum += soft[token * 3 + i];
            sum_of_two += two[token * 3 + i];
            zeros += two[token * 3 + i] == 0.0 ? 1 : 0;
            if (soft[token * 3 + i] > soft[token * 3 + best]) best = i;
            if (hard[token * 3 + i] == 1.0) chosen = i;
        }
        CHECK(sum == doctest::Approx(1.0));
        CHECK(sum_of_two == doctest::Approx(1.0));
        CHECK(zeros == 1);
        CHECK(chosen == best);
        CHECK(hard[token * 3 + (best + 1) % 3] == 0.0);
    }
    // One row for all tokens.
    CHECK(port_of(registry, combined("soft(a, b, c-1)", {{"per", "row"}}), port).size() == 2 * 3);
    // By the mean of the tokens so far: a row's first token decides by itself, the last one by all of them.
    const std::string first_site = "routing.transformer.h.0.attn.c_attn";
    const auto by = [&](const char* per) {
        return port_of(registry, combined("soft(a, b, c-1)", {{"per", per}, {"temperature", 0.1}}), first_site);
    };
    const std::vector<double> tokens = by("token"), prefixes = by("prefix"), rows = by("row");
    REQUIRE(prefixes.size() == 2 * 5 * 3);
    for (std::size_t row = 0; row < 2; ++row)
        for (std::size_t i = 0; i < 3; ++i) {
            CHECK(prefixes[row * 15 + i] == doctest::Approx(tokens[row * 15 + i]).epsilon(1e-12));
            CHECK(std::abs(prefixes[row * 15 + 3 + i] - tokens[row * 15 + 3 + i]) > 1e-6);
            CHECK(prefixes[row * 15 + 12 + i] == doctest::Approx(rows[row * 3 + i]).epsilon(1e-12));
        }
    // Two at a site, one in the other.
    CHECK(port_of(registry, combined("soft(soft(a, b), c-1)", {{"per", "prefix"}}), "logits").size() > 0);
}

TEST_CASE("combiners: fixed routing gives each row the values of its adapter, to the bit") {
    const Registry registry = adapters();
    const auto chosen = [&](double first, double second, const json& config = json::object()) {
        return port_of(registry, combined("fixed(a, b, c-1)", config), "logits", HK_MODE_EVALUATE, {first, second});
    };
    const std::vector<double> all[] = {chosen(-1, -1), chosen(0, 0), chosen(1, 1), chosen(2, 2)};
    CHECK(all[0] == port_of(registry, small_gpt2(""), "logits"));
    for (const auto& [first, second] : {std::pair{0, 2}, {1, -1}, {-1, 0}}) {
        const std::vector<double> mixed = chosen(first, second);
        const auto half = static_cast<std::ptrdiff_t>(mixed.size() / 2);
        const std::vector<double>&of_first = all[first + 1], &of_second = all[second + 1];
        CHECK(std::equal(mixed.begin(), mixed.begin() + half, of_first.begin()));
        CHECK(std::equal(mixed.begin() + half, mixed.end(), of_second.begin() + half));
        CHECK_FALSE(std::equal(mixed.begin(), mixed.begin() + half, of_second.begin()));
    }
    CHECK(chosen(0, 1, {{"weights", {1, 0, 1}}}) != chosen(0, 1));
    CHECK(chosen(1, 1, {{"weights", {1, 0, 1}}}) == all[0]);
}

TEST_CASE("combiners: arrow compares a token with what each LoRA's change makes longest") {
    const Registry registry = adapters();
    const auto composition = Composition::create(registry, combined("arrow(a, b, c-1)", {{"top_k", 2}}), nullptr);
    REQUIRE_MESSAGE(composition.ok(), composition.message());
    BuildRequest request;
    request.mode = HK_MODE_EVALUATE;
    request.fields = composition.value()->batch_fields(2, 5).value();
    request.ports = {"routing.transformer.h.0.attn.c_attn"};
    request.initial = true;
    const auto made = composition.value()->describe(request);
    REQUIRE_MESSAGE(made.ok(), made.message());
    const std::string site = "transformer.h.0.attn.c_attn", own = "adapter.combine." + site + ".prototypes";
    graph::Feeds feeds = feeds_of(made->graph, 0.0);
    for (auto& [name, tensor] : feeds.parameters) // b's B has one column alone
        for (std::size_t i = 0; name.ends_with("lora_B.weight") && i < tensor.data.size(); ++i)
            if (!name.starts_with("adapter.b.") || i % 3 == 1)
                tensor.data[i] = std::sin(static_cast<double>(i * i + name.size()));
    const std::vector<graph::ValueId> wanted{made->graph.outputs.at(kInitial + own)};
    const auto prototypes = graph::evaluate(made->graph, feeds, wanted);
    REQUIRE_MESSAGE(prototypes.ok(), prototypes.message());
    const graph::Tensor& found = prototypes.value()[0];
    REQUIRE(found.shape == graph::Shape{3, 8});
    for (std::size_t branch = 0; branch < 3; ++branch) {
        const std::string prefix = fmt::format("adapter.{}.{}.", kNames[branch], site);
        const graph::Tensor &a = feeds.parameters.at(prefix + "lora_A.weight"),
                            &b = feeds.parameters.at(prefix + "lora_B.weight");
        const auto rank = static_cast<std::size_t>(a.shape[0]);
        std::vector<double> v{1, -0.5, 0.25, 2, 0.1, 0.7, -1, 0.3}; // power iteration with the whole matrix
        for (int step = 0; step < 5000; ++step) {
            std::vector<double> next(8);
            for (std::size_t out = 0; out < 24; ++out) {
                double y = 0.0;
                for (std::size_t k = 0; k < rank; ++k)
                    for (std::size_t in = 0; in < 8; ++in) y += b.data[out * rank + k] * a.data[k * 8 + in] * v[in];
                for (std::size_t k = 0; k < rank; ++k)
                    for (std::size_t in = 0; in < 8; ++in) next[in] += b.data[out * rank + k] * a.data[k * 8 + in] * y;
            }
            double length = 0.0;
            for (const double x : next) length += x * x;
            for (std::size_t in = 0; in < 8; ++in) v[in] = next[in] / std::sqrt(length);
        }
        const auto largest = std::ranges::max_element(v, {}, [](double x) { return std::abs(x); });
        const double sign = *largest > 0.0 ? 1.0 : -1.0;
        for (std::size_t in = 0; in < 8; ++in) CHECK(std::abs(found.data[branch * 8 + in] - sign * v[in]) < 1e-9);
    }
    // They are not trained, and two adapters act on each token.
    CHECK((made->graph.producer(made->graph.find_leaf(graph::Op::parameter, own)).integer("flags") &
           HK_INITIAL_FIXED) != 0);
    feeds.parameters.at(own) = found;
    const std::vector<graph::ValueId> port{made->graph.outputs.at(request.ports[0])};
    const auto weights = graph::evaluate(made->graph, feeds, port);
    REQUIRE_MESSAGE(weights.ok(), weights.message());
    for (std::size_t token = 0; token < 10; ++token) {
        const auto of = weights.value()[0].data.begin() + static_cast<std::ptrdiff_t>(token * 3);
        CHECK(std::count(of, of + 3, 0.0) == 1);
        CHECK(std::abs(of[0] + of[1] + of[2] - 1.0) < 1e-12);
    }
}

TEST_CASE("combiners: the loss is that of training alone") {
    const Registry registry = adapters();
    const auto losses = [&](const CompositionSpec& spec, int32_t mode) {
        const auto graph = described(registry, spec, mode);
        REQUIRE_MESSAGE(graph.ok(), graph.message());
        std::vector<std::string> names;
        for (const graph::LossTerm& loss : graph->losses) names.push_back(loss.name);
        return names;
    };
    const std::size_t before = losses(combined("soft(a, b, c-1)"), HK_MODE_TRAIN).size();
    CHECK(losses(combined("fusion(a, b, c-1)"), HK_MODE_TRAIN).size() == before + 1);
    CHECK(losses(combined("fusion(a, b, c-1)", {{"regularization", 0}}), HK_MODE_TRAIN).size() == before);
    CHECK(losses(combined("fusion(a, b, c-1)"), HK_MODE_EVALUATE).size() == before);
    CHECK(losses(combined("hard(a, b, c-1)"), HK_MODE_TRAIN).back() == "combine");
}

TEST_CASE("combiners: out of process they describe the same graph") {
    const Registry here = adapters(), apart = adapters(Processes::Describe::child);
    for (const char* how :
         {"fusion(a, b, c-1)", "stack(a, hard(b, c-1))", "arrow(a, b, c-1)", "total(a, average(b, c-1))"}) {
        CAPTURE(how);
        const auto one = described(here, combined(how), HK_MODE_TRAIN);
        const auto other = described(apart, combined(how), HK_MODE_TRAIN);
        REQUIRE_MESSAGE(one.ok(), one.message());
        REQUIRE_MESSAGE(other.ok(), other.message());
        CHECK(graph::print(one.value()) == graph::print(other.value()));
    }
}

TEST_CASE("combiners: a merge is possible for a stack alone") {
    const Registry registry = adapters();
    for (const bool stack : {true, false}) {
        const auto composition =
            Composition::create(registry, combined(stack ? "stack(a, b, c-1)" : "soft(a, b, c-1)"), nullptr);
        REQUIRE_MESSAGE(composition.ok(), composition.message());
        BuildRequest request;
        request.mode = HK_MODE_EVALUATE;
        request.fields = composition.value()->batch_fields(2, 5).value();
        request.objective = false;
        request.merged = true;
        const auto made = composition.value()->describe(request);
        CHECK(made.ok() == stack);
        if (!stack) CHECK(made.message().find("'soft(a,b,c-1)' cannot be merged") != std::string::npos);
    }
}

TEST_CASE("combiners: what is wrong in a combination is one error that names it") {
    const Registry registry = adapters();
    const auto refusal = [&](const CompositionSpec& spec) { return described(registry, spec).message(); };
    const std::tuple<const char*, json, const char*> wrong[] = {
        {"", json::object(), "the adapters a, b, c-1 need a combination, such as \"average(a, b, c-1)\""},
        {"stack(a, b)", json::object(), "the combination: 'stack(a, b)': the adapter 'c-1' is not used"},
        {"mean(a, b, c-1)", json::object(), "mean"},
        {"soft(a, b, c-1)", {{"tempreature", 2}}, "did you mean 'temperature'?"},
        {"soft(a, b, c-1)", {{"temperature", 0}}, "temperature is not above 0"},
        {"soft(a, b, c-1)", {{"per", "word"}}, "per is 'word'; expected"},
        {"stack(a, b, c-1)", {{"top_k", 2}}, "has no combiner with the key 'top_k'"},
        {"soft(a, hard(b, c-1))", {{"top", 2}}, "none of the combiners soft, hard knows the key 'top'"},
        {"hard(a, b, c-1)", {{"top_k", 0}}, "top_k is 0, expected 1 or more"},
        {"average(a, b, c-1)", {{"weights", {1, 2}}}, "weights has 2 numbers; expected one for each of the 3"},
        {"average(a, b, c-1)", {{"weights", {1, -1, 0}}}, "the sum of weights is not finite, or 0"},
        {"fixed(a, b, c-1)", {{"weights", {1.0}}}, "weights has 1 numbers; expected one for each of the 3"},
        {"arrow(a, b, c-1)", {{"top_k", 0}}, "top_k is 0, expected 1 or more"},
        {"arrow(a, b, c-1)", {{"router_temperature", 0}}, "router_temperature is not above 0"},
        {"arrow(a, b, c-1)", {{"use_gks", true}}, "does not know the key 'use_gks'"},
        {"arrow(a, stack(b, c-1))", json::object(), "'stack(b,c-1)' at 'transformer.h.0.attn.c_attn' has none"},
        {"fusion(a, b, c-1)", {{"query", false}}, "query = false needs values as wide as the result of"},
    };
    for (const auto& [how, config, reason] : wrong) {
        const std::string message = refusal(combined(how, config));
        CAPTURE(how);
        CAPTURE(message);
        CHECK(message.find(reason) != std::string::npos);
    }
    CompositionSpec spec = combined("stack(a, b, c-1)");
    spec.adapters[1].name = "a";
    CHECK(refusal(spec).find("two adapters have the name 'a'") != std::string::npos);
    spec.adapters[1].name = "combine";
    CHECK(refusal(spec).find("'combine' is not the name of an adapter") != std::string::npos);
    spec = combined("soft(a, b, c-1)");
    spec.adapters[2].part = {"prompt_tuning", {{"num_virtual_tokens", 2}}};
    CHECK(refusal(spec).find("adapter 'c-1' (prompt_tuning) has virtual tokens, which a combiner cannot weigh") !=
          std::string::npos);
    spec.combination = "stack(a, b, c-1)";
    CHECK(refusal(spec).empty());
    spec.adapters[1].part = spec.adapters[2].part;
    CHECK(refusal(spec).find("both have virtual tokens") != std::string::npos);
    spec = combined("arrow(a, b, c-1)");
    for (const PartSpec& other :
         {PartSpec{"bottleneck", {{"reduction_factor", 2}}}, PartSpec{"ia3", json::object()},
          PartSpec{"lora", {{"use_dora", true}}}, PartSpec{"lora", {{"alora_invocation_tokens", {1}}}},
          PartSpec{"lora", {{"target_modules", {"wte"}}}}}) {
        spec.adapters[1].part = other;
        const std::string message = refusal(spec);
        CAPTURE(message);
        CHECK(message.find("arrow compares LoRA's matrices at linear layers, and 'b' at") != std::string::npos);
    }
    spec = combined("average(a, b, c-1)");
    spec.adapters[1].part = {"bottleneck", {{"preset", "adapter_plus"}, {"reduction_factor", 2}}};
    CHECK(refusal(spec).find("'b' replaces the residual sum, which cannot be combined") != std::string::npos);
}

TEST_CASE("combiners: a faulty one is named, in this process and in another") {
    const CompositionSpec spec = combined("total(a, b, c-1)");
    const std::pair<const char*, const char*> faults[] = {
        {"combiner_throws_in_create", "combiner 'total': it does not want to"},
        {"combiner_throws", "an exception"},
        {"combiner_gives_nothing", "it gives no value"},
        {"combiner_shape", "expected float"},
        {"combiner_weights", "its weights are float"},
        {"combiner_loss", "it gives float"},
        {"combiner_foreign_value", "another graph"},
        {"combiner_offers", "it offers a port or adds a loss"},
        {"combiner_open_scope", "a scope or region is still open"},
        {"throws_out_of_combine", "thrown by combine"},
    };
    for (const auto how : {Processes::Describe::in_process, Processes::Describe::child})
        for (const auto& [name, reason] : faults) {
            const Fault fault(name);
            const Registry registry = adapters(how);
            const auto made = described(registry, spec, HK_MODE_TRAIN);
            CAPTURE(name);
            CAPTURE(made.message());
            CHECK_FALSE(made.ok());
            CHECK(made.message().find("combiner 'total'") != std::string::npos);
            CHECK(made.message().find(reason) != std::string::npos);
        }
}

} // namespace combiner_test
