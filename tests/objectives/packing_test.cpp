// Rows that hold several examples give the losses and gradients of rows with one example each, in the interpreter.
#include "bench.hpp"

#include "batch/packed_fields.hpp"
#include "data/packed_rows.hpp"
#include "graph/gradient.hpp"
#include "graph/output.hpp"
#include "graph/reference.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace packing_test {

using namespace hekla;
using namespace hekla::test;
using namespace std::string_literals;

namespace {

constexpr int64_t kLength = 24;
using Examples = std::vector<batch::DrawnExample>;

// Compositions of one model, without and with several examples in a row.
struct Models {
    explicit Models(std::string architecture, std::string objective, json config = json::object(),
                    const json& objective_config = json::object())
        : bench("chat", json::object(), "gpt2", "lm") {
        const auto entry = registry().find(HK_ARCHITECTURE_INTERFACE, architecture);
        REQUIRE_MESSAGE(entry.ok(), entry.message());
        spec.architecture = std::move(architecture);
        spec.config = entry->provided->check.parse().value("config", json::object());
        spec.config.update(config);
        spec.config["vocab_size"] = bench.tokenizer->vocabulary_size();
        spec.config["pad_token_id"] = bench.id_of("<pad>");
        spec.head = "lm";
        spec.objective = std::move(objective);
        spec.objective_config = objective_config;
    }
    Result<std::unique_ptr<plugin::Composition>> make(bool packs_rows) const {
        plugin::CompositionSpec chosen = spec;
        chosen.packs_rows = packs_rows;
        return plugin::Composition::create(registry(), chosen, bench.tokenizer.get());
    }

    Objective bench; // for its tokenizer
    plugin::CompositionSpec spec;
};

// Sum and count of each loss, then the gradients by name.
using Results = std::vector<std::pair<std::string, graph::Tensor>>;

Results results_of(const plugin::Composition& composition, const std::vector<data::Field>& fields,
                   const std::vector<plugin::BatchField>& described) {
    auto built = composition.build(HK_MODE_TRAIN, described);
    REQUIRE_MESSAGE(built.ok(), built.message());
    auto graph = graph::differentiate(built.take());
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    graph::Feeds feeds = feeds_of(graph.value(), fields);
    for (std::size_t i = 0; i < graph->losses.size(); ++i)
        feeds.step_scalars["loss_scale." + std::to_string(i)] = 0.125;
    std::vector<graph::ValueId> wanted;
    Results results;
    for (const auto& [name, value] : graph->outputs) {
        wanted.push_back(value);
        results.emplace_back(name, graph::Tensor());
    }
    auto values = graph::evaluate(graph.value(), feeds, wanted);
    REQUIRE_MESSAGE(values.ok(), values.message());
    for (std::size_t i = 0; i < results.size(); ++i) results[i].second = std::move(values.value()[i]);
    return results;
}

// Checks that examples in `rows` common rows give what they give in a row each.
void compare(const Models& models, const Examples& examples, const std::vector<int64_t>& rows) {
    CAPTURE(models.spec.architecture);
    CAPTURE(models.spec.objective);
    auto alone = models.make(false), packed = models.make(true);
    REQUIRE_MESSAGE(alone.ok(), alone.message());
    REQUIRE_MESSAGE(packed.ok(), packed.message());
    const int64_t count = std::ssize(examples), batch = std::ranges::max(rows) + 2; // the last row has no example
    std::vector<data::Field> fields;
    const Status made = batch::make_fields(*alone.value(), examples, nullptr, 1, count, kLength, fields);
    REQUIRE_MESSAGE(made.ok(), made.message());
    const Results expected = results_of(*alone.value(), fields, alone.value()->batch_fields(count, kLength).value());
    Examples placed = examples;
    for (std::size_t i = 0; i < placed.size(); ++i) placed[i].row = rows[i];
    const Status joined = batch::make_packed_fields(*packed.value(), placed, nullptr, 1, batch, kLength, fields);
    REQUIRE_MESSAGE(joined.ok(), joined.message());
    const Results found = results_of(*packed.value(), fields, packed.value()->training_fields(batch, kLength).value());
    REQUIRE(found.size() == expected.size());
    double gradients = 0.0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(found[i].first);
        REQUIRE(found[i].first == expected[i].first);
        REQUIRE(found[i].second.data.size() == expected[i].second.data.size());
        double difference = 0.0, norm = 0.0;
        for (std::size_t e = 0; e < found[i].second.data.size(); ++e) {
            difference += std::pow(found[i].second.data[e] - expected[i].second.data[e], 2.0);
            norm += std::pow(expected[i].second.data[e], 2.0);
        }
        CHECK(std::sqrt(difference) <= 1e-12 * std::max(std::sqrt(norm), 1.0));
        if (found[i].first.starts_with("grad.")) gradients += norm;
    }
    CHECK(gradients > 0.0);
}

batch::DrawnExample talk(const Models& m, const char* text, std::vector<uint64_t> parts) {
    return row_of({{"messages", HK_COLUMN_MESSAGES, m.bench.ids(text), {}, std::move(parts)}});
}

Examples talks(const Models& m) {
    return {talk(m, "abcdefg!hij!", {0, 5, 8, 10, 12}), talk(m, "xyz no!", {0, 3}),
            talk(m, "Why is the sky so", {0, 9}), talk(m, "a!", {0, 1}),
            talk(m, "much longer than a row of tokens", {0, 7})};
}

batch::DrawnExample preference(const Models& m, const char* prompt, const char* chosen, const char* rejected) {
    return row_of({tokens("prompt", m.bench.ids(prompt)),
                   tokens("chosen", m.bench.ids(chosen)),
                   tokens("rejected", m.bench.ids(rejected)),
                   {"ref_chosen_logps", HK_COLUMN_NUMBERS, {}, {-3.0F}, {}},
                   {"ref_rejected_logps", HK_COLUMN_NUMBERS, {}, {-4.5F}, {}}});
}

Examples preferences(const Models& m) {
    return {preference(m, "one ", "yes!", "no."), preference(m, "tw", "a longer one", "b"),
            preference(m, "z", "same", "same"), preference(m, "last ", "A", "two words")};
}

} // namespace

TEST_CASE("packing: conversations of every architecture that separates segments") {
    std::set<std::string> separated;
    for (const plugin::Manifest& manifest : registry().manifests())
        for (const plugin::Provided& provided : manifest.provides)
            if (provided.interface_id == HK_ARCHITECTURE_INTERFACE && provided.segments) separated.emplace(provided.id);
    for (const char* one : {"llama", "mistral", "gemma2", "gemma4_text", "gpt_oss", "lfm2", "qwen3_5_text"})
        CHECK(separated.contains(one));
    CHECK(!separated.contains("gpt2"));
    for (const std::string& architecture : separated) {
        const Models models(architecture, "chat");
        compare(models, talks(models), {0, 0, 1, 0, 2});
    }
}

TEST_CASE("packing: segments of more tokens than a chunk of the delta rule and its convolution") {
    const Models models("qwen3_5_text", "chat", {{"linear_conv_kernel_dim", 5}});
    const Examples all{talk(models, "abcdefghijklmnop!", {0, 4}), talk(models, "abc!", {0, 1}),
                       talk(models, "a!", {0, 1})};
    compare(models, all, {0, 0, 0});
}

TEST_CASE("packing: completions and preferences") {
    for (const char* architecture : {"llama", "mistral", "qwen3_5_text"}) {
        const Models completion(architecture, "completion");
        const auto row = [&](const char* prompt, const char* answer) {
            return row_of(
                {tokens("prompt", completion.bench.ids(prompt)), tokens("completion", completion.bench.ids(answer))});
        };
        compare(completion,
                {row("one ", "two"), row("", "Z"), row("a prompt that is ", "too long for a row"), row("abc", "defg")},
                {1, 1, 0, 1});
        const Models orpo(architecture, "orpo");
        compare(orpo, preferences(orpo), {0, 1, 1, 1});
    }
    for (const char* loss : {"sigmoid", "ipo"}) {
        const Models dpo("llama", "dpo", json::object(),
                         {{"reference_in_data", true}, {"loss_type", loss}, {"sft_weight", 0.25}});
        compare(dpo, preferences(dpo), {1, 0, 0, 0});
    }
}

TEST_CASE("packing: fields of common rows") {
    const Models models("llama", "chat");
    auto made = models.make(true);
    REQUIRE_MESSAGE(made.ok(), made.message());
    Fields fields;
    Examples examples{talk(models, "abc!", {0, 2}), talk(models, "xy!", {0, 1})};
    REQUIRE(batch::make_packed_fields(*made.value(), examples, nullptr, 1, 2, 9, fields.all).ok());
    const auto id = [&](const char* one) { return models.bench.ids(one)[0]; };
    CHECK(models.bench.text(fields.row("input_ids", 0)) == "abcxy<pad><pad><pad><pad>");
    CHECK(fields.row("next_ids", 0) ==
          std::vector<int32_t>{-100, id("c"), id("!"), id("y"), id("!"), -100, -100, -100, -100});
    CHECK(fields.row("segment_ids", 0) == std::vector<int32_t>{1, 1, 1, 2, 2, 0, 0, 0, 0});
    CHECK(fields.row("position_ids", 0) == std::vector<int32_t>{0, 1, 2, 0, 1, 0, 0, 0, 0});
    CHECK(fields.row("segment_ids", 1) == std::vector<int32_t>(9, 0));
    CHECK(fields.row("next_ids", 1) == std::vector<int32_t>(9, -100));
}

TEST_CASE("packing: what cannot be packed is refused by name") {
    const auto refused = [](const Models& models) {
        const auto made = models.make(true);
        CHECK(!made.ok());
        CHECK(made.message().find("data.packing") != std::string::npos);
        return made.message();
    };
    const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
    CHECK(has(refused(Models("gpt2", "chat")), "architecture 'gpt2' cannot separate"));
    CHECK(has(refused(Models("llama", "clm")), "objective 'clm' needs a row for each example"));
    CHECK(has(refused(Models("llama", "kto")), "objective 'kto' needs a row for each example"));
    Models adapted("llama", "chat");
    plugin::AdapterSpec adapter;
    adapter.part = {"lora", {{"r", 2}, {"target_modules", {"q_proj"}}}};
    adapted.spec.adapters.push_back(adapter);
    CHECK(adapted.make(true).ok());
    adapted.spec.adapter_rows = 2;
    CHECK(has(refused(adapted), "adapter.names"));
    adapted.spec.adapter_rows = 0;
    adapted.spec.adapters[0].part = {"prompt_tuning", {{"num_virtual_tokens", 2}, {"token_dim", 32}}};
    CHECK(has(refused(adapted), "virtual tokens"));
    // Reported when the graph is described.
    const auto described = [](const Models& models) {
        const auto made = models.make(true);
        REQUIRE_MESSAGE(made.ok(), made.message());
        const auto fields = made.value()->training_fields(2, kLength);
        if (!fields.ok()) return fields.message();
        const auto built = made.value()->build(HK_MODE_TRAIN, fields.value());
        CHECK(!built.ok());
        return built.message();
    };
    const json dynamic{{"rope_parameters", {{"rope_type", "dynamic"}, {"factor", 2.0}, {"rope_theta", 10000.0}}}};
    CHECK(has(described(Models("llama", "chat", dynamic)), "rope_type dynamic"));
    CHECK(has(described(Models("llama", "completion", json::object(), {{"bidirectional_prompt", true}})),
              "objective.bidirectional_prompt = false"));
}

TEST_CASE("packing: rows hold every example once an epoch, in an order of the seed") {
    std::vector<int64_t> lengths;
    RandomStream random(3, 4);
    for (int i = 0; i < 9000; ++i) lengths.push_back(1 + static_cast<int64_t>(random.next_u64() % 100));
    const data::PackedRows rows(lengths, 256, 32, 5), again(lengths, 256, 32, 5), other(lengths, 256, 32, 6);
    CHECK(rows.fill() > 0.97);
    std::vector<int> seen(lengths.size(), 0);
    bool same = true, other_order = false, other_epoch = false;
    for (uint64_t i = 0; i < rows.size(); ++i) {
        const data::PackedRow row = rows.at(i);
        CHECK(row.epoch == 0);
        int64_t tokens = 0;
        for (const uint32_t example : row.examples) {
            ++seen[example];
            tokens += lengths[example];
        }
        CHECK(tokens <= 256);
        CHECK(row.examples.size() <= 32);
        same = same && std::ranges::equal(row.examples, again.at(i).examples);
        other_order = other_order || !std::ranges::equal(row.examples, other.at(i % other.size()).examples);
        other_epoch = other_epoch || !std::ranges::equal(row.examples, rows.at(rows.size() + i).examples);
    }
    CHECK(std::ranges::all_of(seen, [](int times) { return times == 1; }));
    CHECK(same);
    CHECK(other_order);
    CHECK(other_epoch);
    CHECK(rows.at(rows.size()).epoch == 1);
    const data::PackedRows few(std::vector<int64_t>{1, 1, 1, 1, 1}, 64, 2, 1); // at most two in a row
    CHECK(few.size() == 3);
}

} // namespace packing_test
