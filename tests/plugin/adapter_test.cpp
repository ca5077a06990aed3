// The draft interface for adapters: what a model computes at the sites of an adapter, and what is rejected.
#include "adapter_case.hpp"
#include "hang_limit.hpp"

#include <cmath>
#include <fmt/format.h>
#include <map>
#include <tuple>

namespace adapter_test {

using namespace adapter_case;

TEST_CASE("adapter: LoRA acts at the selected modules, and changes nothing before training") {
    const Registry registry = adapters();
    const auto plain = described(registry, small_gpt2(""));
    const auto all = described(registry, small_gpt2("lora", {{"r", 3}}));
    REQUIRE_MESSAGE(all.ok(), all.message());
    CHECK(of_adapter(plain.value()).empty());
    CHECK(of_adapter(all.value()) == std::set<std::string>{"adapter.transformer.h.0.attn.c_attn.lora_A.weight",
                                                           "adapter.transformer.h.0.attn.c_attn.lora_B.weight",
                                                           "adapter.transformer.h.1.attn.c_attn.lora_A.weight",
                                                           "adapter.transformer.h.1.attn.c_attn.lora_B.weight"});
    for (const auto& [name, value] : all->parameters()) {
        if (name.ends_with("0.attn.c_attn.lora_A.weight")) CHECK(all->shape(value) == graph::Shape{3, 8});
        if (name.ends_with("0.attn.c_attn.lora_B.weight")) CHECK(all->shape(value) == graph::Shape{24, 3});
    }
    CHECK(logits_of(plain.value(), 0.0) == logits_of(all.value(), 0.0)); // to the last bit
    CHECK(logits_of(plain.value(), 0.0) != logits_of(all.value(), 0.1));
    const auto names_of = [&](const json& config) {
        const auto graph = described(registry, small_gpt2("lora", config));
        REQUIRE_MESSAGE(graph.ok(), graph.message());
        std::set<std::string> modules;
        for (const std::string& name : of_adapter(graph.value()))
            modules.insert(name.substr(8, name.find(".lora_") - 8));
        return modules;
    };
    // The head is tied to the token embedding, and is another module.
    CHECK(names_of({{"target_modules", {"wte"}}}) == std::set<std::string>{"transformer.wte"});
    CHECK(names_of({{"target_modules", {"lm_head"}}}) == std::set<std::string>{"lm_head"});
    CHECK(names_of({{"target_modules", {"*h.1.mlp.c_fc"}}}) == std::set<std::string>{"transformer.h.1.mlp.c_fc"});
    CHECK(names_of({{"target_modules", "all-linear"}}).size() == 8);
    CHECK(names_of({{"target_modules", "all-linear"}, {"exclude_modules", {"c_proj"}}}).size() == 4);
    CHECK(names_of({{"target_modules", {"c_attn"}}, {"layers_to_transform", {1}}}) ==
          std::set<std::string>{"transformer.h.1.attn.c_attn"});
    CHECK(names_of({{"target_modules", {"c_attn"}}, {"layers_to_transform", {0}}, {"layers_pattern", {"h"}}}) ==
          std::set<std::string>{"transformer.h.0.attn.c_attn"});
}

TEST_CASE("adapter: merging describes the weights with which the plain model computes the same") {
    const Registry registry = adapters();
    for (const CompositionSpec& spec : {small_gpt2("lora", {{"target_modules", "all-linear"}}), small_gpt2("ia3")}) {
        CAPTURE(spec.adapters[0].part.id);
        const auto composition = Composition::create(registry, spec, nullptr);
        REQUIRE_MESSAGE(composition.ok(), composition.message());
        BuildRequest request;
        request.mode = HK_MODE_EVALUATE;
        request.fields = composition.value()->batch_fields(2, 5).value();
        request.ports = {"logits"};
        request.objective = false;
        request.merged = true;
        const auto with = composition.value()->describe(request);
        REQUIRE_MESSAGE(with.ok(), with.message());
        const graph::Feeds feeds = feeds_of(with->graph, 0.3);
        std::vector<graph::ValueId> wanted{with->graph.outputs.at("logits")};
        std::vector<std::string> names;
        for (const auto& [name, value] : with->graph.outputs)
            if (name.starts_with(kMerged)) {
                names.push_back(name.substr(std::string(kMerged).size()));
                wanted.push_back(value);
            }
        CHECK(names.size() ==
              (spec.adapters[0].part.id == "lora" ? 8 : 6)); // IA3: two weights and c_attn's bias, in two layers
        const auto values = graph::evaluate(with->graph, feeds, wanted);
        REQUIRE_MESSAGE(values.ok(), values.message());
        const auto plain = described(registry, small_gpt2(""));
        graph::Feeds merged = feeds_of(plain.value(), 0.0);
        for (std::size_t i = 0; i < names.size(); ++i) merged.parameters.at(names[i]) = values.value()[i + 1];
        const std::vector<graph::ValueId> logits{plain->outputs.at("logits")};
        const auto without = graph::evaluate(plain.value(), merged, logits);
        REQUIRE_MESSAGE(without.ok(), without.message());
        double worst = 0.0;
        for (std::size_t i = 0; i < without.value()[0].data.size(); ++i)
            worst = std::max(worst, std::abs(without.value()[0].data[i] - values.value()[0].data[i]));
        CHECK(worst < 1e-12);
    }
    // A tied table cannot be changed for one of its uses, nor for both in different ways.
    for (const json& modules : {json{"wte"}, json{"lm_head"}, json{"wte", "lm_head"}}) {
        const auto tied = Composition::create(registry, small_gpt2("lora", {{"target_modules", modules}}), nullptr);
        REQUIRE_MESSAGE(tied.ok(), tied.message());
        BuildRequest request;
        request.mode = HK_MODE_EVALUATE;
        request.fields = tied.value()->batch_fields(2, 5).value();
        request.objective = false;
        request.merged = true;
        CHECK(tied.value()->describe(request).message().find("share the parameter 'transformer.wte.weight'") !=
              std::string::npos);
    }
}

TEST_CASE("adapter: DoRA begins with the lengths of the weight's rows, and then changes nothing") {
    const Registry registry = adapters();
    const auto composition = Composition::create(
        registry, small_gpt2("lora", {{"use_dora", true}, {"target_modules", "all-linear"}}), nullptr);
    REQUIRE_MESSAGE(composition.ok(), composition.message());
    BuildRequest request;
    request.mode = HK_MODE_EVALUATE;
    request.fields = composition.value()->batch_fields(2, 5).value();
    request.ports = {"logits"};
    request.initial = true;
    const auto with = composition.value()->describe(request);
    REQUIRE_MESSAGE(with.ok(), with.message());
    graph::Feeds feeds = feeds_of(with->graph, 0.0);
    std::size_t begun = 0;
    for (const auto& [output, value] : with->graph.outputs) {
        if (!output.starts_with(kInitial)) continue;
        const std::vector<graph::ValueId> wanted{value};
        const auto values = graph::evaluate(with->graph, feeds, wanted);
        REQUIRE_MESSAGE(values.ok(), values.message());
        feeds.parameters.at(output.substr(std::string(kInitial).size())) = values.value()[0];
        ++begun;
    }
    CHECK(begun == 8);
    const std::vector<graph::ValueId> logits{with->graph.outputs.at("logits")};
    const auto values = graph::evaluate(with->graph, feeds, logits);
    REQUIRE_MESSAGE(values.ok(), values.message());
    const auto plain = described(registry, small_gpt2(""));
    const std::vector<double> expected = logits_of(plain.value(), 0.0);
    double worst = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i)
        worst = std::max(worst, std::abs(expected[i] - values.value()[0].data[i]));
    CHECK(worst < 1e-12);
}

TEST_CASE("adapter: aLoRA acts from the last invocation in a row on") {
    const Registry registry = adapters();
    const auto logits = [&](const json& config, const std::vector<double>& ids) {
        const auto graph = described(registry, config.is_null() ? small_gpt2("") : small_gpt2("lora", config));
        REQUIRE_MESSAGE(graph.ok(), graph.message());
        graph::Feeds feeds = feeds_of(graph.value(), 0.3);
        feeds.fields["input_ids"].data = ids;
        const std::vector<graph::ValueId> wanted{graph->outputs.at("logits")};
        const auto values = graph::evaluate(graph.value(), feeds, wanted);
        REQUIRE_MESSAGE(values.ok(), values.message());
        return values.value()[0].data;
    };
    // Returns the first token of each row of 5 whose 11 logits are not the body's; 5: none.
    const auto first_changed = [&](const std::vector<int>& invocation, const std::vector<double>& ids) {
        const std::vector<double> with =
            logits({{"alora_invocation_tokens", invocation}, {"target_modules", "all-linear"}}, ids);
        const std::vector<double> without = logits(json(), ids);
        std::vector<std::size_t> first;
        for (std::size_t row = 0; row < 2; ++row) {
            const auto begin = static_cast<std::ptrdiff_t>(row * 55);
            const auto end = with.begin() + begin + 55;
            const auto found = std::mismatch(with.begin() + begin, end, without.begin() + begin).first;
            first.push_back(static_cast<std::size_t>(found - with.begin() - begin) / 11);
        }
        return first;
    };
    using Places = std::vector<std::size_t>;
    CHECK(first_changed({7, 8}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) == Places{5, 1});
    CHECK(first_changed({1, 2}, {1, 2, 1, 2, 5, 1, 2, 1, 1, 1}) == Places{2, 0});
    CHECK(first_changed({2, 2}, {2, 2, 2, 1, 1, 1, 1, 1, 2, 2}) == Places{1, 3});
    CHECK(first_changed({1}, {1, 1, 1, 1, 1, 2, 2, 2, 2, 1}) == Places{4, 4});
    CHECK(first_changed({1, 2, 1, 2, 5}, {1, 2, 1, 2, 5, 2, 1, 2, 5, 1}) == Places{0, 5});
    CHECK(first_changed({1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}) == Places{5, 5}); // longer than a row
    // In decode mode the host names the place.
    const auto decoding =
        Composition::create(registry, small_gpt2("lora", {{"alora_invocation_tokens", {3}}}), nullptr);
    REQUIRE_MESSAGE(decoding.ok(), decoding.message());
    const std::vector<BatchField> step{{"input_ids", graph::Kind::int32, graph::Shape{2, 1}}};
    const auto graph = decoding.value()->build(HK_MODE_DECODE, step);
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    CHECK(graph->shape(graph->find_leaf(graph::Op::input, "adapter_start")) == graph::Shape{2});

    const std::pair<json, const char*> wrong[] = {
        {{{"alora_invocation_tokens", json::array()}},
         "alora_invocation_tokens is []; expected a list of 1 to 1024 token ids"},
        {{{"alora_invocation_tokens", {1, 11}}}, "has the id 11; expected ids from 0 to 10, the body's vocabulary"},
        {{{"alora_invocation_tokens", std::vector<int>(1025, 1)}}, "is a list of 1025; expected a list of 1 to 1024"},
        {{{"alora_invocation_tokens", {-1}}}, "alora_invocation_tokens is [-1]; expected a list"},
        {{{"alora_invocation_tokens", {1.5}}}, "alora_invocation_tokens is [1.5]; expected a list"},
        {{{"alora_invocation_tokens", "one"}}, "alora_invocation_tokens is \"one\"; expected a list"},
        {{{"alora_invocation_tokens", {1}}, {"use_dora", true}}, "needs use_dora = false"},
        {{{"alora_invocation_tokens", {1}}, {"bias", "all"}}, "bias = \"none\""},
        {{{"alora_invocation_tokens", {1}}, {"slots", 2}}, "slots = 0"},
        {{{"alora_invocation_tokens", {1}}, {"target_modules", {"wte"}}}, "'transformer.wte' is an embedding"},
    };
    for (const auto& [config, reason] : wrong) {
        const std::string message = described(registry, small_gpt2("lora", config)).message();
        CAPTURE(message);
        CHECK(message.find(reason) != std::string::npos);
    }
    BuildRequest merged;
    merged.mode = HK_MODE_EVALUATE;
    merged.fields = decoding.value()->batch_fields(2, 5).value();
    merged.merged = true;
    CHECK(decoding.value()->describe(merged).message().find("depends on the place in the row") != std::string::npos);
    CompositionSpec two = small_gpt2("lora", {{"alora_invocation_tokens", {1}}});
    two.adapters[0].name = "a";
    two.adapters.push_back({"b", {"prompt_tuning", {{"num_virtual_tokens", 2}}}});
    two.combination = "stack(a, b)";
    CHECK(described(registry, two).message().find("virtual tokens, which cannot be combined") != std::string::npos);
    CompositionSpec translator = small_gpt2("lora", {{"alora_invocation_tokens", {1}}});
    translator.architecture = "t5";
    translator.config = {{"vocab_size", 11}, {"d_model", 8},    {"d_kv", 4},
                         {"d_ff", 8},        {"num_layers", 1}, {"num_heads", 2}};
    translator.objective = "seq2seq";
    CHECK(described(registry, translator).message().find("is not supported in encoder-decoders") != std::string::npos);
}

TEST_CASE("adapter: Poly gives each row the LoRA of its task, which is merged where all rows have one") {
    const Registry registry = adapters();
    const json config{
        {"r", 2}, {"n_tasks", 3}, {"n_skills", 3}, {"n_splits", 2}, {"target_modules", {"c_attn", "c_fc"}}};
    const auto with = [&](const char* key, const json& value) {
        json changed = config;
        changed[key] = value;
        return small_gpt2("poly", changed);
    };
    const auto logits = [&](const CompositionSpec& spec, const std::vector<double>& rows) {
        const auto graph = described(registry, spec);
        REQUIRE_MESSAGE(graph.ok(), graph.message());
        graph::Feeds feeds = feeds_of(graph.value(), 0.0);
        feeds.fields["adapter_rows"] = {graph::Kind::int32, graph::Shape{2}, rows};
        const std::vector<graph::ValueId> wanted{graph->outputs.at("logits")};
        const auto values = graph::evaluate(graph.value(), feeds, wanted);
        REQUIRE_MESSAGE(values.ok(), values.message());
        return values.value()[0].data;
    };
    const auto same_row = [](std::size_t row, const std::vector<double>& a, const std::vector<double>& b) {
        double worst = 0.0;
        for (std::size_t i = row * 55; i < (row + 1) * 55; ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
        return worst < 1e-12;
    };
    const CompositionSpec by_row = small_gpt2("poly", config);
    const std::vector<double> mixed = logits(by_row, {-1, 2}), body = logits(small_gpt2(""), {});
    CHECK(std::equal(mixed.begin(), mixed.begin() + 55, body.begin())); // -1: the body, to the last bit
    CHECK(same_row(1, mixed, logits(with("task", 2), {})));
    CHECK_FALSE(same_row(1, mixed, logits(with("task", 1), {})));
    CHECK(same_row(0, logits(by_row, {1, 0}), logits(with("task", 1), {})));
    // The weights of skills are drawn in training.
    const auto draws = [&](const CompositionSpec& spec, int32_t mode) {
        const auto graph = described(registry, spec, mode);
        REQUIRE_MESSAGE(graph.ok(), graph.message());
        return std::ranges::any_of(graph->nodes,
                                   [](const graph::Node& node) { return node.op == graph::Op::random_uniform; });
    };
    CHECK(draws(by_row, HK_MODE_TRAIN));
    CHECK_FALSE(draws(by_row, HK_MODE_EVALUATE));
    CompositionSpec plain = with("sample", false);
    plain.config["embd_pdrop"] = plain.config["attn_pdrop"] = plain.config["resid_pdrop"] = 0.0;
    CHECK_FALSE(draws(plain, HK_MODE_TRAIN));
    for (const bool one : {false, true}) {
        const auto composition = Composition::create(registry, one ? with("task", 0) : by_row, nullptr);
        REQUIRE_MESSAGE(composition.ok(), composition.message());
        BuildRequest request;
        request.mode = HK_MODE_EVALUATE;
        request.fields = composition.value()->batch_fields(2, 5).value();
        request.merged = true;
        const auto merged = composition.value()->describe(request);
        CHECK(merged.ok() == one);
        if (!one) CHECK(merged.message().find("several tasks cannot be merged") != std::string::npos);
    }
    for (const auto& [key, value, reason] : {std::tuple{"task", json(3), "task is 3; expected 0 to 2"},
                                             {"task", json(-2), "task is -2, expected -1 or more"},
                                             {"n_splits", json(3), "n_splits = 3 does not divide"},
                                             {"n_skills", json(0), "n_skills is 0, expected from 1"},
                                             {"poly_type", json("c_poly"), "poly_type is 'c_poly'"}}) {
        const std::string message = described(registry, with(key, value)).message();
        CAPTURE(message);
        CHECK(message.find(reason) != std::string::npos);
    }
}

TEST_CASE("adapter: virtual tokens lengthen the rows of body and head, or of the body alone") {
    const Registry registry = adapters();
    for (const bool hidden : {false, true}) {
        const CompositionSpec spec =
            small_gpt2(hidden ? "prefix_tuning" : "prompt_tuning", {{"num_virtual_tokens", 3}});
        const auto composition = Composition::create(registry, spec, nullptr);
        REQUIRE_MESSAGE(composition.ok(), composition.message());
        CHECK(composition.value()->virtual_tokens().count == 3);
        CHECK(composition.value()->virtual_tokens().hidden == hidden);
        const auto graph = described(registry, spec);
        REQUIRE_MESSAGE(graph.ok(), graph.message());
        CHECK(graph->shape(graph->outputs.at("logits")) == graph::Shape{2, hidden ? 5 : 8, 11});
        CHECK(graph->shape(graph->find_leaf(graph::Op::input, "input_ids")) == graph::Shape{2, 5});
        CHECK(of_adapter(graph.value()) ==
              (hidden ? std::set<std::string>{"adapter.prompt_embeddings.0", "adapter.prompt_embeddings.1"}
                      : std::set<std::string>{"adapter.prompt_embeddings"}));
        // A row is the longer by them, so that the model's longest row is shorter.
        BuildRequest request;
        request.mode = HK_MODE_EVALUATE;
        for (const int64_t length : {8, 9}) {
            request.fields = composition.value()->batch_fields(2, length).value();
            CHECK(composition.value()->describe(request).ok() == (length == 8));
        }
        // What cannot be lengthened is refused by name.
        request.fields = {{"input_ids", graph::Kind::int32, graph::Shape{2, 2, 4}}};
        request.objective = false;
        CHECK(composition.value()->describe(request).message().find(
                  "does not support the field 'input_ids' [2, 2, 4]") != std::string::npos);
    }
    CHECK(described(registry, small_gpt2("prompt_tuning", {{"num_virtual_tokens", 0}}))
              .message()
              .find("num_virtual_tokens is 0, expected from 1") != std::string::npos);
    const std::tuple<const char*, json, const char*> wrong[] = {
        {"prompt_tuning", {{"prompt_tuning_init", "SAMPLE_VOCAB"}}, "prompt_tuning_init is 'SAMPLE_VOCAB'; expected"},
        {"prompt_tuning", {{"prompt_tuning_init", "TEXT"}}, "\"TEXT\" needs prompt_tuning_init_text"},
        {"prompt_tuning", {{"prompt_tuning_init_text", "a"}}, "needs prompt_tuning_init = \"TEXT\""},
        {"prompt_tuning", {{"after_embeddings", true}}, "the adapter acts nowhere"},
        {"prefix_tuning", {{"encoder_hidden_size", 3}}, "encoder_hidden_size needs prefix_projection = true"},
        {"prefix_tuning", {{"share_layers", 2}}, "share_layers is of encoder-decoders"},
        {"prefix_tuning", {{"leave_out", {0, 1}}}, "the adapter acts nowhere"},
    };
    for (const auto& [id, config, reason] : wrong) {
        json short_one = config;
        short_one["num_virtual_tokens"] = 2;
        const std::string message = described(registry, small_gpt2(id, short_one)).message();
        CAPTURE(message);
        CHECK(message.find(reason) != std::string::npos);
    }
}

TEST_CASE("adapter: a projected prefix and one without positions leave the rows as they are") {
    const Registry registry = adapters();
    const json config{{"num_virtual_tokens", 3},
                      {"prefix_projection", true},
                      {"encoder_hidden_size", 5},
                      {"leave_out", {0}},
                      {"without_positions", true}};
    const auto composition = Composition::create(registry, small_gpt2("prefix_tuning", config), nullptr);
    REQUIRE_MESSAGE(composition.ok(), composition.message());
    BuildRequest request;
    request.mode = HK_MODE_EVALUATE;
    for (const int64_t length : {5, 11, 12}) { // the virtual tokens take no positions
        request.fields = composition.value()->batch_fields(2, length).value();
        const auto made = composition.value()->describe(request);
        CHECK(made.ok() == (length <= 11));
        if (made.ok())
            CHECK(of_adapter(made->graph) ==
                  std::set<std::string>{"adapter.embedding.weight", "adapter.transform.0.bias",
                                        "adapter.transform.0.weight", "adapter.transform.2.bias.1",
                                        "adapter.transform.2.weight.1"});
    }
}

TEST_CASE(
    "adapter: virtual tokens of encoder-decoders are in the rows of the encoder, or before those of the decoder") {
    const Registry registry = adapters();
    const auto small_bart = [](const std::string& adapter, const json& config) {
        CompositionSpec spec;
        spec.architecture = "bart";
        spec.config = {{"vocab_size", 11},
                       {"d_model", 8},
                       {"encoder_layers", 1},
                       {"encoder_ffn_dim", 8},
                       {"decoder_layers", 3},
                       {"decoder_ffn_dim", 8},
                       {"encoder_attention_heads", 2},
                       {"decoder_attention_heads", 2},
                       {"max_position_embeddings", 8}};
        spec.adapters = {{"", {adapter, config}}};
        spec.head = "lm";
        spec.objective = "seq2seq";
        return spec;
    };
    const auto describe = [&](const CompositionSpec& spec, int64_t source, int64_t target) {
        const auto composition = Composition::create(registry, spec, nullptr);
        REQUIRE_MESSAGE(composition.ok(), composition.message());
        BuildRequest request;
        request.mode = HK_MODE_EVALUATE;
        request.objective = false;
        request.ports = {"logits"};
        request.fields = {{"input_ids", graph::Kind::int32, graph::Shape{2, source}},
                          {"attention_mask", graph::Kind::int32, graph::Shape{2, source}},
                          {"labels", graph::Kind::int32, graph::Shape{2, target}}};
        if (target == 0) request.fields.pop_back();
        return composition.value()->describe(request);
    };
    const json three{{"num_virtual_tokens", 3}};
    // Rows of the encoder have three tokens more, and the decoder's are those of the labels, even if both are as long.
    for (const int64_t source : {4, 5, 6}) {
        const auto made = describe(small_bart("prompt_tuning", three), source, 5);
        CHECK(made.ok() == (source <= 5));
        if (made.ok()) CHECK(made->graph.shape(made->graph.outputs.at("logits")) == graph::Shape{2, 5, 11});
        if (!made.ok()) CHECK(made.message().find("max_position_embeddings = 8") != std::string::npos);
    }
    CHECK(describe(small_bart("prompt_tuning", three), 4, 0).message().find("need a batch with labels of tokens") !=
          std::string::npos);
    // Positions of the decoder begin after them.
    for (const int64_t target : {4, 5, 6}) {
        const auto made = describe(small_bart("prefix_tuning", three), 8, target);
        CHECK(made.ok() == (target <= 5));
        if (!made.ok()) {
            CHECK(made.message().find("with 3 virtual tokens the rows of the decoder take") != std::string::npos);
            continue;
        }
        CHECK(made->graph.shape(made->graph.outputs.at("logits")) == graph::Shape{2, target, 11});
        CHECK(of_adapter(made->graph) == std::set<std::string>{"adapter.prompt_embeddings.0",
                                                               "adapter.prompt_embeddings.1",
                                                               "adapter.prompt_embeddings.2"});
    }
    const auto shared = describe(small_bart("prefix_tuning", {{"num_virtual_tokens", 3}, {"share_layers", 2}}), 4, 4);
    REQUIRE_MESSAGE(shared.ok(), shared.message());
    CHECK(of_adapter(shared->graph) == std::set<std::string>{"adapter.prompt_embeddings.0"});
    CHECK(describe(small_bart("prefix_tuning", {{"without_positions", true}}), 4, 4)
              .message()
              .find("without positions are not supported in encoder-decoders") != std::string::npos);
    CompositionSpec scaled = small_bart("prompt_tuning", three);
    scaled.config["scale_embedding"] = true;
    CHECK(describe(scaled, 4, 4).message().find("scales its embeddings") != std::string::npos);
}

TEST_CASE("adapter: parameters of the body that are trained, ranks of single modules, and bottlenecks") {
    const Registry registry = adapters();
    const auto sites_of = [&](const std::string& id, const json& config) {
        const auto composition = Composition::create(registry, small_gpt2(id, config), nullptr);
        REQUIRE_MESSAGE(composition.ok(), composition.message());
        BuildRequest request;
        request.mode = HK_MODE_EVALUATE;
        request.fields = composition.value()->batch_fields(2, 5).value();
        auto made = composition.value()->describe(request);
        REQUIRE_MESSAGE(made.ok(), made.message());
        return made.take();
    };
    const auto trained = [](const Described& made) {
        std::set<std::string> names;
        for (const Site& site : made.sites) {
            if ((site.trained & HK_TRAINS_WEIGHT) != 0) names.insert(site.parameter);
            if ((site.trained & HK_TRAINS_BIAS) != 0) names.insert(site.bias);
        }
        return names;
    };
    CHECK(trained(sites_of("lora", {})).empty());
    CHECK(trained(sites_of("lora", {{"bias", "lora_only"}})) ==
          std::set<std::string>{"transformer.h.0.attn.c_attn.bias", "transformer.h.1.attn.c_attn.bias"});
    CHECK(trained(sites_of("lora", {{"bias", "all"}})).size() == 13);   // 4 layers and 2 norms in 2 blocks, and ln_f
    CHECK(trained(sites_of("ln_tuning", json::object())).size() == 10); // 5 norms
    CHECK(trained(sites_of("ln_tuning", {{"target_modules", {"ln_1"}}})).size() == 4);
    CHECK(trained(sites_of("ln_tuning", {{"target_modules", json::array()}, {"bias", "all"}})).size() == 13);

    const json ranks = {
        {"target_modules", "all-linear"}, {"r", 4}, {"rank_pattern", {{"c_attn", 2}, {"h.1.mlp.c_(fc|proj)", 3}}}};
    std::map<std::string, int64_t> found;
    const Described with = sites_of("lora", ranks);
    for (const auto& [name, value] : with.graph.parameters())
        if (name.ends_with("lora_A.weight"))
            found[name.substr(20, name.find(".lora") - 20)] = with.graph.shape(value)[0];
    CHECK(found == std::map<std::string, int64_t>{{"h.0.attn.c_attn", 2},
                                                  {"h.0.attn.c_proj", 4},
                                                  {"h.0.mlp.c_fc", 4},
                                                  {"h.0.mlp.c_proj", 4},
                                                  {"h.1.attn.c_attn", 2},
                                                  {"h.1.attn.c_proj", 4},
                                                  {"h.1.mlp.c_fc", 3},
                                                  {"h.1.mlp.c_proj", 3}});
    CHECK(of_adapter(sites_of("bottleneck", {{"preset", "double_seq_bn"}}).graph).size() == 16);
    CHECK(of_adapter(sites_of("bottleneck", {{"leave_out", {0}}}).graph) ==
          std::set<std::string>{"adapter.transformer.h.1.mlp.c_proj.adapter_down.0.bias",
                                "adapter.transformer.h.1.mlp.c_proj.adapter_down.0.weight",
                                "adapter.transformer.h.1.mlp.c_proj.adapter_up.bias",
                                "adapter.transformer.h.1.mlp.c_proj.adapter_up.weight"});
    const auto refusal = [&](const std::string& id, const json& config) {
        return described(registry, small_gpt2(id, config)).message();
    };
    const std::tuple<const char*, json, const char*> wrong[] = {
        {"lora", {{"bias", "some"}}, "bias is 'some'; expected"},
        {"lora", {{"rank_pattern", {{"c_attn", 0}}}}, "rank_pattern: 0 for"},
        {"lora", {{"rank_pattern", {{"c_(", 2}}}}, "is not a regular expression"},
        {"lora", {{"target_modules", "*"}}, "is not a regular expression"},
        {"lora", {{"modules_to_save", 3}}, "modules_to_save is 3; expected a list of names"},
        {"prompt_tuning", {{"modules_to_save", {1}}}, "modules_to_save is [1]; expected a list of names"},
        {"bottleneck", {{"preset", "houlsby"}}, "preset is 'houlsby'; expected"},
        {"bottleneck", {{"reduction_factor", 0}}, "reduction_factor is not above 0"},
        {"bottleneck", {{"reduction_factor", {{"first", 2}}}}, "'first' is not the number of a layer"},
        {"bottleneck", {{"reduction_factor", {{"0", 2}}}}, "nor \"default\" has a factor"},
        {"bottleneck", {{"scaling", "twice"}}, "scaling is 'twice'; expected"},
        {"bottleneck", {{"non_linearity", "step"}}, "the activation 'step' is not known"},
        {"bottleneck", {{"output_adapter", false}}, "the adapter acts nowhere"},
        {"bottleneck", {{"dropout", 1.0}}, "dropout is not from 0 to below 1"},
        {"ln_tuning", {{"bias", "lora_only"}}, "bias is 'lora_only'; expected"},
    };
    for (const auto& [id, config, reason] : wrong) {
        const std::string message = refusal(id, config);
        CAPTURE(message);
        CHECK(message.find(reason) != std::string::npos);
    }
}

TEST_CASE("adapter: out of process it describes the same graph, is named in errors, and its keys are checked") {
    const Registry here = adapters(), apart = adapters(Processes::Describe::child);
    for (const CompositionSpec& spec :
         {small_gpt2("lora", {{"use_dora", true}, {"rank_pattern", {{"c_attn", 2}}}}), small_gpt2("factor"),
          small_gpt2("bottleneck"), small_gpt2("prompt_tuning", {{"num_virtual_tokens", 3}}),
          small_gpt2("prefix_tuning", {{"num_virtual_tokens", 3}}),
          small_gpt2("prefix_tuning", {{"num_virtual_tokens", 3}, {"without_positions", true}})}) {
        CAPTURE(spec.adapters[0].part.id);
        const auto one = described(here, spec, HK_MODE_TRAIN), other = described(apart, spec, HK_MODE_TRAIN);
        REQUIRE_MESSAGE(other.ok(), other.message());
        CHECK(graph::print(one.value()) == graph::print(other.value()));
    }
    CHECK(described(here, small_gpt2("lora", {{"r", 0}})).message().find("adapter 'lora': r is 0, expected from 1") !=
          std::string::npos);
    CHECK(described(here, small_gpt2("lora", {{"lora_alhpa", 4}}))
              .message()
              .find("adapter 'lora' does not know the key 'lora_alhpa'; did you mean 'lora_alpha'?") !=
          std::string::npos);
    CHECK(described(here, small_gpt2("lorra")).message().find("did you mean 'lora'?") != std::string::npos);
    const auto composition = Composition::create(here, small_gpt2("lora", {{"r", 3}}), nullptr);
    REQUIRE(composition.ok());
    const json written = json::parse(composition.value()->write_config().value());
    CHECK(written["hekla"]["adapter"] == "lora");
    CHECK(written["hekla"]["adapter_config"] == json{{"r", 3}});
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
        {"throws_in_wants", "it does not know this site"},
        {"odd_shape", "it gives float [80], expected float [2, 5, 8]"},
        {"another_kind", "it gives int32 [2, 5, 8], expected float [2, 5, 8]"},
        {"another_answer", "the answer's kind 7 is not possible at a site of this kind"},
        {"no_value", "it gives no value"},
        {"wrong_operation", "matmul"},
        {"foreign_value", "a value of another graph was passed"},
        {"offers", "it offers a port or adds a loss or metric"},
        {"adds_metric", "it offers a port or adds a loss or metric"},
        {"open_scope", "a scope or region is still open after it"},
        {"throws_out_of_wants",
         "the plugin threw an exception; plugins must not (thrown by wants) in wants() of plugin"},
        {"throws_out_of_adapt",
         "the plugin threw an exception; plugins must not (thrown by adapt) in adapt() of plugin"},
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

TEST_CASE("adapter: wants() that changes its mind is an error of the second description") {
    const Registry registry = adapters();
    const Fault fault("impure_wants");
    const auto composition = Composition::create(registry, small_gpt2("factor"), nullptr);
    REQUIRE_MESSAGE(composition.ok(), composition.message());
    const auto fields = composition.value()->batch_fields(2, 5).value();
    std::string message;
    for (int i = 0; i < 3 && message.empty(); ++i)
        message = composition.value()->build(HK_MODE_EVALUATE, fields).message();
    CAPTURE(message);
    CHECK(message.find("adapter 'factor': wants() or trains() of '") != std::string::npos);
    CHECK(message.find("the same site must get the same answer") != std::string::npos);
}

TEST_CASE("adapter: one that throws or hangs, and such a combiner, is named and disabled") {
    const auto spec_of = [](std::string_view fault) {
        CompositionSpec spec = small_gpt2("factor");
        if (fault != "combiner_hangs" && fault != "throws_out_of_combine") return spec;
        spec.adapters = {{"a", {"factor", json::object()}}, {"b", {"factor", json::object()}}};
        spec.combination = "total(a, b)";
        return spec;
    };
    const std::tuple<const char*, const char*, const char*> faults[] = {
        {"hangs", test::kHangText, "adapt"},
        {"hangs_in_wants", test::kHangText, "wants"},
        {"combiner_hangs", test::kHangText, "combine"},
        {"throws_out_of_adapt", "thrown by adapt", "adapt"},
        {"throws_out_of_combine", "thrown by combine", "combine"},
    };
    for (const auto& [name, reason, function] : faults) {
        CAPTURE(name);
        Registry registry = adapters(Processes::Describe::child);
        Processes processes = registry.processes();
        processes.seconds = test::kHangLimit;
        processes.disable_failing = true;
        registry.set_processes(processes);
        const std::string in = fmt::format("in {}()", function);
        {
            const Fault fault(name);
            const std::string message = described(registry, spec_of(name)).message();
            CAPTURE(message);
            CHECK(message.find("plugin 'faulty_adapter'") != std::string::npos);
            CHECK(message.find(reason) != std::string::npos);
            CHECK(message.find(in) != std::string::npos);
        }
        const std::string after = described(registry, spec_of(name)).message();
        CAPTURE(after);
        CHECK(after.find("is disabled for this run") != std::string::npos);
    }
}

} // namespace adapter_test
