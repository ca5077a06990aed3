// An objective with a tokenizer of a few characters and the frame of its kind of model, and fields collated from
// examples in the test.
#pragma once

#include "base/philox.hpp"
#include "batch/collate.hpp"
#include "graph/reference.hpp"
#include "plugin/composition/compose.hpp"
#include "text/frame_shapes.hpp"
#include "text/tokenizer_trainer.hpp"

#include <cstring>
#include <doctest/doctest.h>
#include <fmt/format.h>

namespace hekla::test {

using nlohmann::json;

inline const plugin::Registry& registry() {
    static const plugin::Registry plugins = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    return plugins;
}

// Returns a tokenizer with the frame of a kind of model, as a training from nothing makes it.
inline std::unique_ptr<text::Tokenizer> with_frame_of(const std::string& architecture,
                                                      std::unique_ptr<text::Tokenizer> tokenizer) {
    text::Vocabulary vocabulary = tokenizer->vocabulary();
    REQUIRE(vocabulary.set_frame(text::frame_of_architecture(architecture, vocabulary)).ok());
    auto framed = tokenizer->with(std::move(vocabulary));
    REQUIRE_MESSAGE(framed.ok(), framed.message());
    return framed.take();
}

// Ids: <cls> 0, <pad> 1, <sep> 2; <mask> 3 and the sentinels have ids after the characters, so tests look them up.
struct Objective {
    explicit Objective(const std::string& id, json config = json::object(), const std::string& architecture = "bert",
                       const std::string& head = "", const std::string& model_type = "") {
        using enum text::TokenRole;
        std::vector<text::SpecialToken> special{{"<cls>", {cls, bos}}, {"<pad>", {pad}}, {"<sep>", {separator}},
                                                {"<mask>", {mask}},    {"<unk>", {unk}}, {"<eos>", {eos}}};
        for (int i = 0; i < 100; ++i) special.push_back({fmt::format("<extra_id_{}>", i), {}});
        const auto trainer = text::make_character_trainer(special);
        REQUIRE(trainer->add("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .!?\n", {}).ok());
        auto made = trainer->finish();
        REQUIRE_MESSAGE(made.ok(), made.message());
        tokenizer = with_frame_of(model_type.empty() ? architecture : model_type, made.take());
        plugin::CompositionSpec spec;
        spec.architecture = architecture;
        if (!model_type.empty()) spec.config["model_type"] = model_type;
        spec.config["vocab_size"] = tokenizer->vocabulary_size();
        spec.config["pad_token_id"] = id_of("<pad>");
        spec.refuse_unknown_keys = false;
        spec.head = head;
        spec.objective = id;
        spec.objective_config = std::move(config);
        auto created = plugin::Composition::create(registry(), spec, tokenizer.get());
        REQUIRE_MESSAGE(created.ok(), created.message());
        composition = created.take();
    }

    int32_t id_of(std::string_view token) const { return *tokenizer->find(token); }
    std::vector<int32_t> ids(std::string_view text) const {
        auto encoded = tokenizer->encode(text);
        REQUIRE_MESSAGE(encoded.ok(), encoded.message());
        return encoded.take();
    }
    std::string text(std::span<const int32_t> of) const {
        std::string out;
        for (const int32_t id : of) out += tokenizer->token(id).ok() ? tokenizer->token(id).value() : "?";
        return out;
    }

    std::unique_ptr<text::Tokenizer> tokenizer;
    std::unique_ptr<plugin::Composition> composition;
};

inline batch::DrawnExample example_of(std::vector<int32_t> ids, uint64_t index = 0, uint64_t epoch = 0) {
    batch::DrawnExample drawn;
    drawn.epoch = epoch;
    drawn.example.index = index;
    drawn.example.document = index;
    drawn.example.columns.push_back({"text", HK_COLUMN_TOKENS, std::move(ids), {}, {}});
    return drawn;
}

// A row of a table, and a column of tokens.
inline batch::DrawnExample row_of(std::vector<data::EncodedColumn> columns) {
    batch::DrawnExample drawn;
    drawn.example.columns = std::move(columns);
    return drawn;
}
inline data::EncodedColumn tokens(const char* name, std::vector<int32_t> ids) {
    return {name, HK_COLUMN_TOKENS, std::move(ids), {}, {}};
}

struct Fields {
    std::vector<data::Field> all;

    const data::Field& field(std::string_view name) const {
        for (const data::Field& f : all)
            if (f.name == name) return f;
        FAIL("no field " << name);
        return all.front();
    }
    template<class T = int32_t>
    std::vector<T> row(std::string_view name, std::size_t row) const {
        const data::Field& f = field(name);
        const std::size_t width = f.bytes.size() / 4 / static_cast<std::size_t>(f.shape[0]);
        std::vector<T> out(width);
        std::memcpy(out.data(), f.bytes.data() + row * width * 4, width * 4);
        return out;
    }
};

inline Fields collate(const Objective& objective, const std::vector<batch::DrawnExample>& examples, int64_t batch,
                      int64_t length, uint64_t seed = 1, const data::EncodedExamples* corpus = nullptr) {
    Fields fields;
    const Status made = batch::make_fields(*objective.composition, examples, corpus, seed, batch, length, fields.all);
    REQUIRE_MESSAGE(made.ok(), made.message());
    return fields;
}

// Returns the fields as tensors, and random parameters.
inline graph::Feeds feeds_of(const graph::Graph& graph, const std::vector<data::Field>& fields) {
    graph::Feeds feeds;
    for (const data::Field& field : fields) {
        const bool real = field.kind == data::FieldKind::float32;
        graph::Tensor tensor{real ? graph::Kind::float32 : graph::Kind::int32, graph::Shape(field.shape), {}};
        for (std::size_t i = 0; i < field.bytes.size() / 4; ++i) {
            int32_t value;
            float number;
            std::memcpy(&value, field.bytes.data() + i * 4, 4);
            std::memcpy(&number, field.bytes.data() + i * 4, 4);
            tensor.data.push_back(real ? static_cast<double>(number) : static_cast<double>(value));
        }
        feeds.fields.emplace(field.name, std::move(tensor));
    }
    RandomStream random(7, 1);
    for (const auto& [name, value] : graph.parameters()) {
        graph::Tensor tensor{graph::Kind::float32, graph.shape(value), {}};
        for (int64_t i = 0; i < tensor.shape.elements(); ++i) tensor.data.push_back(0.4 * random.next_normal());
        feeds.parameters.emplace(name, std::move(tensor));
    }
    return feeds;
}

// A causal model of one layer without dropout, for the tokenizer of an objective.
inline plugin::CompositionSpec small_gpt(const Objective& bench, const std::string& head = "lm") {
    plugin::CompositionSpec spec;
    spec.architecture = "gpt2";
    spec.config = {{"n_embd", 8},
                   {"n_layer", 1},
                   {"n_head", 2},
                   {"n_positions", 16},
                   {"resid_pdrop", 0.0},
                   {"embd_pdrop", 0.0},
                   {"attn_pdrop", 0.0},
                   {"vocab_size", bench.tokenizer->vocabulary_size()},
                   {"pad_token_id", bench.id_of("<pad>")}};
    spec.head = head;
    return spec;
}

} // namespace hekla::test
