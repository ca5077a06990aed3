// Sites: what the host finds in the networks of the built-in architectures, which do nothing for it.
#include "base/file.hpp"
#include "base/json.hpp"
#include "plugin/composition/compose.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <map>
#include <string>

namespace site_test {

using namespace hekla;
using namespace hekla::plugin;
using nlohmann::json;

namespace {

// Describes a fixture's model with an adapter that acts at no site.
Result<Described> described(const std::string& fixture) {
    const Registry registry = Registry::scan({HEKLA_PLUGIN_FOLDER});
    const std::string file = std::string(HEKLA_SOURCE_DIR "/tests/fixtures/models/") + fixture + "/config.json";
    HK_ASSIGN(const std::string text, read_file(file));
    HK_ASSIGN(const json config, parse_json_object(text, file));
    HK_ASSIGN(const Registry::Entry entry, registry.find_model_type(config.value("model_type", "")));
    CompositionSpec spec;
    spec.architecture = entry.provided->id;
    spec.config = config;
    spec.refuse_unknown_keys = false;
    const json nothing{{"target_modules", json::array()}, {"bias", "none"}};
    spec.adapters = {{"", {"ln_tuning", nothing}}};
    HK_ASSIGN(const std::unique_ptr<Composition> composition, Composition::create(registry, spec, nullptr));
    BuildRequest request;
    request.mode = HK_MODE_EVALUATE;
    request.objective = false;
    for (const char* ids : {"input_ids", "decoder_input_ids"})
        request.fields.push_back({ids, graph::Kind::int32, graph::Shape{2, 5}});
    if (config.contains("patch_size")) {
        const auto size = config.at("image_size").get<int64_t>(), channels = config.value<int64_t>("num_channels", 3);
        request.fields = {{"pixel_values", graph::Kind::float32, graph::Shape{2, channels, size, size}}};
    }
    return composition->describe(request);
}

// "attention.cross" of a residual site.
std::string part_of(const Site& site) {
    if ((site.flags & HK_SITE_OF_CROSS) != 0) return "cross";
    return (site.flags & HK_SITE_OF_ATTENTION) != 0 ? "attention" : "feed-forward";
}

} // namespace

TEST_CASE("site: residual sites are found in every transformer, once for each part of a block") {
    struct Expected {
        const char* fixture;
        int attention, feed_forward, cross;
        const char* one; // the last linear layer of a part
    };
    const Expected all[] = {
        {"albert-pretraining", 1, 1, 0, "albert.encoder.albert_layer_groups.0.albert_layers.0.ffn_output"}, // shared
        {"bart-denoising", 4, 4, 2, "model.decoder.layers.1.encoder_attn.out_proj"},
        {"bert-tagger", 2, 2, 0, "bert.encoder.layer.1.attention.output.dense"},
        {"deberta-mlm", 2, 2, 0, "deberta.encoder.layer.0.output.dense"},
        {"deberta-v2-mlm", 2, 2, 0, "deberta.encoder.layer.0.output.dense"},
        {"distilbert-mlm", 2, 2, 0, "distilbert.transformer.layer.0.attention.out_lin"},
        {"flaubert-mlm", 2, 2, 0, "transformer.ffns.1.lin2"},
        {"gpt-clm", 2, 2, 0, "transformer.h.0.mlp.c_proj"},
        {"gpt2-clm", 2, 2, 0, "transformer.h.1.attn.c_proj"},
        {"llama-clm", 2, 2, 0, "model.layers.1.mlp.down_proj"},
        {"parallel-block-clm", 2, 2, 0, "gpt_neox.layers.1.mlp.dense_4h_to_h"},
        {"qk-norm-clm", 2, 2, 0, "model.layers.0.self_attn.o_proj"},
        {"roberta-mlm", 2, 2, 0, "roberta.encoder.layer.0.output.dense"},
        {"t5-span-corruption", 4, 4, 2, "decoder.block.1.layer.1.EncDecAttention.o"},
        {"vaswani-seq2seq", 4, 4, 2, "model.encoder.layers.0.fc2"},
        {"vit-classifier", 2, 2, 0, "vit.encoder.layer.0.output.dense"},
        {"xlnet-plm", 2, 2, 0, "transformer.layer.1.ff.layer_2"},
    };
    for (const Expected& e : all) {
        CAPTURE(e.fixture);
        const auto made = described(e.fixture);
        REQUIRE_MESSAGE(made.ok(), made.message());
        std::map<std::string, int> counts;
        std::string names;
        bool found = false;
        for (const Site& site : made->sites) {
            if (site.kind != HK_SITE_RESIDUAL) continue;
            ++counts[part_of(site)];
            names += site.name + " (" + part_of(site) + ") ";
            found = found || site.name == e.one;
            CHECK(site.in == site.out);
            CHECK(site.parameter.empty());
        }
        CAPTURE(names);
        CHECK(counts["attention"] == e.attention);
        CHECK(counts["feed-forward"] == e.feed_forward);
        CHECK(counts["cross"] == e.cross);
        CHECK(found);
    }
}

TEST_CASE("site: norms have a gain and a bias, and recurrent networks no residual parts") {
    const auto gpt2 = described("gpt2-clm");
    REQUIRE_MESSAGE(gpt2.ok(), gpt2.message());
    const auto norm = std::ranges::find(gpt2->sites, "transformer.h.0.ln_1", &Site::name);
    REQUIRE(norm != gpt2->sites.end());
    CHECK(norm->kind == HK_SITE_NORM);
    CHECK(norm->parameter == "transformer.h.0.ln_1.weight");
    CHECK(norm->bias == "transformer.h.0.ln_1.bias");
    CHECK(std::ranges::count(gpt2->sites, HK_SITE_NORM, &Site::kind) == 5);
}

} // namespace site_test
