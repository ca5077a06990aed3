// `hekla convert`, run as by a user, on every fixture: the tensors round-trip, under current names.
#include "base/file.hpp"
#include "graph/text.hpp"
#include "model/weights.hpp"
#include "plugin/composition/compose.hpp"
#include "support/program.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <unistd.h>
#include <vector>

namespace fs = std::filesystem;
using nlohmann::json;
using namespace hekla;
using namespace hekla::test;

namespace {

Ran run(const std::string& arguments) {
    return shell(".", std::string("'") + HEKLA_PROGRAM + "' " + arguments + " 2>&1");
}

Ran convert(const fs::path& from, const fs::path& to, const std::string& options = "") {
    return run("convert '" + from.string() + "' '" + to.string() + "' " + options);
}

fs::path fixture(const std::string& name) { return fs::path(HEKLA_SOURCE_DIR) / "tests/fixtures/models" / name; }

std::vector<fs::path> fixtures() {
    std::vector<fs::path> folders;
    for (const char* set : {"models", "models-extra"})
        for (const auto& entry : fs::directory_iterator(fs::path(HEKLA_SOURCE_DIR) / "tests/fixtures" / set))
            if (entry.is_directory()) folders.push_back(entry.path());
    std::sort(folders.begin(), folders.end());
    return folders;
}

json read_json(const fs::path& path) {
    const auto text = read_file(path);
    REQUIRE_MESSAGE(text.ok(), path.string());
    return json::parse(text.value());
}

model::Weights open_weights(const fs::path& path) {
    auto weights = model::Weights::open(path);
    if (!weights.ok()) FAIL(weights.message());
    return weights.take();
}

// Checks for the same tensors under the same names, byte for byte.
void check_same(const model::Weights& a, const model::Weights& b) {
    CHECK(a.tensors().size() == b.tensors().size());
    for (const model::TensorView& tensor : a.tensors()) {
        CAPTURE(tensor.name);
        const model::TensorView* other = b.find(tensor.name);
        REQUIRE(other != nullptr);
        CHECK(tensor.dtype == other->dtype);
        CHECK(tensor.dims == other->dims);
        CHECK(std::ranges::equal(tensor.bytes, other->bytes));
    }
}

// Writes a folder like this one, with its tensors changed by `change` (which may rename, copy, drop).
void write_changed(const fs::path& from, const fs::path& to,
                   const std::function<void(std::vector<model::TensorSource>&)>& change) {
    const model::Weights weights = open_weights(from);
    std::vector<model::TensorSource> tensors = model::sources_of(weights.tensors());
    change(tensors);
    fs::create_directories(to);
    fs::copy_file(from / "config.json", to / "config.json");
    REQUIRE(model::write_safetensors_file(to / "model.safetensors", tensors).ok());
}

void rename_all(std::vector<model::TensorSource>& tensors, const std::string& from, const std::string& to) {
    for (model::TensorSource& tensor : tensors)
        if (const std::size_t at = tensor.name.find(from); at != std::string::npos)
            tensor.name.replace(at, from.size(), to);
}

model::TensorSource copy_of(const std::vector<model::TensorSource>& tensors, const std::string& name,
                            const std::string& copy) {
    const auto found = std::ranges::find(tensors, name, &model::TensorSource::name);
    REQUIRE(found != tensors.end());
    model::TensorSource source = *found;
    source.name = copy;
    return source;
}

std::string graph_hash(const plugin::Registry& registry, const fs::path& folder, const json& config) {
    const std::string name = read_json(folder / "fixture.json").at("class");
    const auto found = registry.find_class(name);
    REQUIRE_MESSAGE(found.ok(), name);
    plugin::CompositionSpec spec;
    spec.architecture = found.value().first.provided->id;
    spec.config = config;
    spec.head = found.value().second->head;
    spec.head_config = found.value().second->head_config.parse();
    spec.refuse_unknown_keys = false;
    auto composition = plugin::Composition::create(registry, spec, nullptr);
    if (!composition.ok()) FAIL(composition.message());
    const model::Weights inputs = open_weights(folder / "inputs.safetensors");
    std::vector<plugin::BatchField> fields;
    for (const model::TensorView& tensor : inputs.tensors())
        fields.push_back({tensor.name, model::is_floating(tensor.dtype) ? graph::Kind::float32 : graph::Kind::int32,
                          graph::Shape(tensor.dims)});
    auto graph = composition.value()->build(HK_MODE_TRAIN, fields);
    if (!graph.ok()) FAIL(graph.message());
    return to_hex(graph::hash(graph.value()));
}

// ---- contents of a GGUF file ----

struct Gguf {
    std::map<std::string, json> keys;
    struct Tensor {
        std::vector<uint64_t> dims; // the fastest first
        uint32_t type = 0;
        std::size_t begin = 0;
    };
    std::map<std::string, Tensor> tensors;
    std::string bytes;

    template<class T>
    T number(std::size_t& at) const {
        T value{};
        REQUIRE(at + sizeof value <= bytes.size());
        std::memcpy(&value, bytes.data() + at, sizeof value);
        at += sizeof value;
        return value;
    }
    std::string text(std::size_t& at) const {
        const auto size = static_cast<std::size_t>(number<uint64_t>(at));
        REQUIRE(at + size <= bytes.size());
        at += size;
        return bytes.substr(at - size, size);
    }
    json value(std::size_t& at, uint32_t type) const {
        switch (type) {
        case 4: return number<uint32_t>(at);
        case 5: return number<int32_t>(at);
        case 6: return number<float>(at);
        case 7: return number<uint8_t>(at) != 0;
        case 8: return text(at);
        case 9: {
            const auto element = number<uint32_t>(at);
            const auto count = number<uint64_t>(at);
            json list = json::array();
            for (uint64_t i = 0; i < count; ++i) list.push_back(value(at, element));
            return list;
        }
        default: FAIL("type " << type);
        }
        return {};
    }
    explicit Gguf(const fs::path& path) {
        auto content = read_file(path);
        REQUIRE(content.ok());
        bytes = content.take();
        std::size_t at = 4;
        REQUIRE(bytes.substr(0, 4) == "GGUF");
        REQUIRE(number<uint32_t>(at) == 3);
        const auto tensor_count = number<uint64_t>(at), key_count = number<uint64_t>(at);
        for (uint64_t i = 0; i < key_count; ++i) {
            const std::string key = text(at);
            const auto type = number<uint32_t>(at);
            keys[key] = value(at, type);
        }
        std::vector<std::pair<std::string, uint64_t>> offsets;
        for (uint64_t i = 0; i < tensor_count; ++i) {
            const std::string name = text(at);
            Tensor& tensor = tensors[name];
            const auto rank = number<uint32_t>(at);
            for (uint32_t d = 0; d < rank; ++d) tensor.dims.push_back(number<uint64_t>(at));
            tensor.type = number<uint32_t>(at);
            offsets.emplace_back(name, number<uint64_t>(at));
            CHECK(offsets.back().second % 32 == 0);
        }
        const std::size_t data = (at + 31) / 32 * 32;
        for (const auto& [name, offset] : offsets) tensors[name].begin = data + static_cast<std::size_t>(offset);
    }
    float at(const std::string& name, std::size_t index) const {
        std::size_t place = tensors.at(name).begin + index * 4;
        return number<float>(place);
    }
};

float stored_at(const model::Weights& weights, const std::string& name, std::size_t index) {
    const model::TensorView* tensor = weights.find(name);
    REQUIRE(tensor != nullptr);
    float value = 0;
    std::memcpy(&value, tensor->bytes.data() + index * 4, 4);
    return value;
}

} // namespace

TEST_CASE("every fixture round-trips, and still passes") {
    const TestFolder place;
    std::string folders;
    for (const fs::path& from : fixtures()) {
        CAPTURE(from.string());
        const fs::path to = place / from.filename().string();
        const Ran ran = convert(from, to);
        CAPTURE(ran.out);
        REQUIRE(ran.status == 0);
        check_same(open_weights(from), open_weights(to));
        CHECK(open_weights(to).metadata() == model::Metadata{{"format", "pt"}});
        const json before = read_json(from / "config.json"), after = read_json(to / "config.json");
        for (const auto& [key, value] : before.items()) {
            CAPTURE(key);
            if (key != "dtype") CHECK(after.value(key, json("missing")) == value);
        }
        CHECK(after.at("torch_dtype") == "float32");
        CHECK(after.at("architectures") == json::array({read_json(from / "fixture.json").at("class")}));
        for (const char* name : {"fixture.json", "inputs.safetensors", "expected.safetensors"})
            fs::copy_file(from / name, to / name);
        folders += " '" + to.string() + "'";
    }
    const Ran verified = run("verify --reference" + folders);
    CAPTURE(verified.out);
    CHECK(verified.status == 0);
}

TEST_CASE("a written configuration describes the same graph") {
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    for (const fs::path& from : fixtures()) {
        CAPTURE(from.string());
        const json config = read_json(from / "config.json");
        const auto found = registry.find_class(read_json(from / "fixture.json").at("class").get<std::string>());
        REQUIRE(found.ok());
        plugin::CompositionSpec spec;
        spec.architecture = found.value().first.provided->id;
        spec.config = config;
        spec.head = found.value().second->head;
        spec.refuse_unknown_keys = false;
        const auto composition = plugin::Composition::create(registry, spec, nullptr);
        REQUIRE(composition.ok());
        const auto written = composition.value()->write_config();
        REQUIRE_MESSAGE(written.ok(), written.message());
        CHECK(graph_hash(registry, from, json::parse(written.value())) == graph_hash(registry, from, config));
    }
}

TEST_CASE("types, and shards with an index") {
    const TestFolder place;
    const fs::path from = fixture("gpt2-clm");
    REQUIRE(convert(from, place / "half", "--dtype f16 --shard-size 20KB").status == 0);
    const model::Weights half = open_weights(place / "half");
    CHECK(fs::exists(place / "half/model.safetensors.index.json"));
    CHECK(read_json(place / "half/config.json").at("torch_dtype") == "float16");
    const model::Weights whole = open_weights(from);
    CHECK(half.tensors().size() == whole.tensors().size());
    for (const model::TensorView& tensor : half.tensors()) {
        CHECK(tensor.dtype == model::DType::f16);
        std::vector<float> values(tensor.bytes.size() / 2), exact(values.size());
        REQUIRE(model::load_float32(tensor, values).ok());
        REQUIRE(model::load_float32(*whole.find(tensor.name), exact).ok());
        for (std::size_t i = 0; i < values.size(); ++i)
            CHECK(values[i] == model::f16_to_float(model::f16_from(static_cast<double>(exact[i]))));
    }
    REQUIRE(convert(place / "half", place / "back", "--dtype f32").status == 0);
    CHECK(!fs::exists(place / "back/model.safetensors.index.json"));
    CHECK(read_json(place / "back/config.json").at("torch_dtype") == "float32");
    REQUIRE(convert(place / "back", place / "bf", "--dtype bf16").status == 0);
    CHECK(open_weights(place / "bf").tensors()[0].dtype == model::DType::bf16);
}

TEST_CASE("legacy names are read, current ones are written") {
    using Tensors = std::vector<model::TensorSource>;
    const auto check = [](const char* name, const std::function<void(Tensors&)>& change) {
        CAPTURE(name);
        const TestFolder place;
        write_changed(fixture(name), place / "old", change);
        const Ran ran = convert(place / "old", place / "new");
        CAPTURE(ran.out);
        REQUIRE(ran.status == 0);
        check_same(open_weights(fixture(name)), open_weights(place / "new"));
    };
    const auto norms = [](Tensors& t) {
        rename_all(t, "LayerNorm.weight", "LayerNorm.gamma");
        rename_all(t, "LayerNorm.bias", "LayerNorm.beta");
    };
    const auto ids = [](Tensors& t, const std::string& name) {
        static const int64_t zeros[4]{};
        model::TensorView view;
        view.name = name;
        view.dtype = model::DType::i64;
        view.dims = {1, 4};
        view.bytes = std::as_bytes(std::span(zeros));
        t.push_back(model::source_of(view));
    };
    check("bert-pretraining", [&](Tensors& t) {
        t.push_back(copy_of(t, "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"));
        t.push_back(copy_of(t, "cls.predictions.bias", "cls.predictions.decoder.bias"));
        ids(t, "bert.embeddings.position_ids");
        norms(t);
    });
    check("bert-classifier", norms);
    check("roberta-mlm", [&](Tensors& t) {
        t.push_back(copy_of(t, "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"));
        t.push_back(copy_of(t, "lm_head.bias", "lm_head.decoder.bias"));
        t.push_back(copy_of(t, "lm_head.dense.weight", "roberta.pooler.dense.weight"));
        t.push_back(copy_of(t, "lm_head.dense.bias", "roberta.pooler.dense.bias"));
        ids(t, "roberta.embeddings.position_ids");
        norms(t);
    });
    check("albert-pretraining", [&](Tensors& t) {
        t.push_back(copy_of(t, "albert.embeddings.word_embeddings.weight", "predictions.decoder.weight"));
        t.push_back(copy_of(t, "predictions.bias", "predictions.decoder.bias"));
        norms(t);
    });
    check("distilbert-mlm", [&](Tensors& t) {
        t.push_back(copy_of(t, "distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight"));
        norms(t);
    });
    for (const char* name : {"deberta-mlm", "deberta-v2-mlm"})
        check(name, [&](Tensors& t) {
            t.push_back(copy_of(t, "lm_predictions.lm_head.dense.weight", "mask_predictions.dense.weight"));
            t.push_back(copy_of(t, "lm_predictions.lm_head.bias", "deberta.embeddings.position_embeddings.weight"));
            t.push_back(
                copy_of(t, "deberta.embeddings.word_embeddings.weight", "deberta.embeddings.word_embeddings._weight"));
            norms(t);
        });
    check("gpt2-clm", [&](Tensors& t) {
        rename_all(t, "transformer.", "");
        ids(t, "h.0.attn.bias");
        ids(t, "h.0.attn.masked_bias");
    });
    check("gpt2-clm", [](Tensors& t) { t.push_back(copy_of(t, "transformer.wte.weight", "lm_head.weight")); });
    check("gpt-clm", [&](Tensors& t) {
        rename_all(t, "transformer.", "");
        ids(t, "h.1.attn.bias");
        ids(t, "position_ids");
    });
    check("xlnet-plm",
          [](Tensors& t) { t.push_back(copy_of(t, "transformer.word_embedding.weight", "lm_loss.weight")); });
    check("flaubert-mlm", [&](Tensors& t) {
        t.push_back(copy_of(t, "transformer.embeddings.weight", "pred_layer.proj.weight"));
        ids(t, "transformer.position_ids");
    });
    check("t5-span-corruption", [](Tensors& t) {
        for (const char* alias : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"})
            t.push_back(copy_of(t, "shared.weight", alias));
        t.push_back(copy_of(t, "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                            "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"));
    });
    check("bart-denoising", [&](Tensors& t) {
        for (const char* alias :
             {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"})
            t.push_back(copy_of(t, "model.shared.weight", alias));
        ids(t, "model.encoder.version");
    });
    check("vaswani-seq2seq", [](Tensors& t) {
        for (const char* alias :
             {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"})
            t.push_back(copy_of(t, "model.shared.weight", alias));
    });
    check("llama-clm", [&](Tensors& t) { ids(t, "model.layers.0.self_attn.rotary_emb.inv_freq"); });
    check("parallel-block-clm", [&](Tensors& t) {
        ids(t, "gpt_neox.layers.0.attention.bias");
        ids(t, "gpt_neox.layers.0.attention.masked_bias");
        ids(t, "gpt_neox.layers.0.attention.rotary_emb.inv_freq");
    });
}

TEST_CASE("the class is the one whose tensors are in the file") {
    const TestFolder place;
    write_changed(fixture("bert-pretraining"), place / "from", [](auto&) {});
    json config = read_json(place / "from/config.json");
    config["architectures"] = {"BertForMaskedLM"}; // as in the best known file of this kind
    std::ofstream(place / "from/config.json") << config;
    const Ran ran = convert(place / "from", place / "to");
    CAPTURE(ran.out);
    CHECK(ran.status == 0);
    CHECK(has(ran.out, "its tensors are those of BertForPreTraining, not of BertForMaskedLM"));
    check_same(open_weights(fixture("bert-pretraining")), open_weights(place / "to"));
    config.erase("architectures");
    std::ofstream(place / "from/config.json") << config;
    CHECK(convert(place / "from", place / "unnamed").status == 0);
    CHECK(read_json(place / "unnamed/config.json").at("architectures") == json::array({"BertForPreTraining"}));
    // The body alone is saved without its prefix.
    CHECK(convert(place / "from", place / "body", "--class BertModel").status == 0);
    const model::Weights body = open_weights(place / "body");
    CHECK(body.find("embeddings.word_embeddings.weight") != nullptr);
    CHECK(body.find("pooler.dense.weight") != nullptr);
    for (const model::TensorView& tensor : body.tensors()) CHECK(!tensor.name.starts_with("cls."));
    CHECK(convert(place / "body", place / "again").status == 0);
    check_same(body, open_weights(place / "again"));
}

TEST_CASE("PyTorch's file with old names") {
    const TestFolder place;
    const fs::path from = fs::path(HEKLA_SOURCE_DIR) / "tests/fixtures/pytorch/bert";
    const Ran ran = convert(from, place / "to");
    CAPTURE(ran.out);
    REQUIRE(ran.status == 0);
    check_same(open_weights(fixture("bert-pretraining")), open_weights(place / "to"));
}

TEST_CASE("a model that cannot be converted is one error") {
    using Tensors = std::vector<model::TensorSource>;
    const TestFolder place;
    const auto refused = [&](const std::string& name, const std::function<void(Tensors&)>& change,
                             std::initializer_list<const char*> parts) {
        write_changed(fixture("gpt2-clm"), place / name, change);
        const Ran ran = convert(place / name, place / "to");
        CAPTURE(ran.out);
        CHECK(ran.status == 1);
        CHECK(ran.out.starts_with("hekla: error: " + (place / name).string()));
        for (const char* part : parts) CHECK(has(ran.out, part));
        CHECK(!fs::exists(place / "to"));
    };
    refused("missing", [](Tensors& t) { t.pop_back(); }, {": missing \"transformer.wte.weight\" [128, 32]"});
    refused(
        "extra", [](Tensors& t) { t.push_back(copy_of(t, "transformer.wte.weight", "transformer.wte.wait")); },
        {"\"transformer.wte.wait\" [128, 32] matches no model parameter; the nearest is \"transformer.wte.weight\""});
    refused("misshapen",
            [](Tensors& t) {
                for (model::TensorSource& tensor : t)
                    if (tensor.name == "transformer.wte.weight") std::swap(tensor.dims[0], tensor.dims[1]);
            },
            {"\"transformer.wte.weight\" is [32, 128], [128, 32] was expected"});
    refused("two", [](Tensors& t) { rename_all(t, "wpe", "wpp"); },
            {"2 tensors do not fit the model", "missing \"transformer.wpe.weight\"", "\"transformer.wpp.weight\""});
    std::ofstream(place / "file") << "x";
    CHECK(has(convert(fixture("gpt2-clm"), place / "file").out, "exists; choose another name"));
    CHECK(has(convert(fixture("gpt2-clm"), place / "missing").out, "exists; choose another name"));
    CHECK(has(convert(fixture("gpt2-clm"), place / "to", "--shard-size 2XB").out, "a size such as 2GB, 500MB or 3GiB"));
    CHECK(has(convert(fixture("gpt2-clm"), place / "to", "--class Gpt2LMHeadModel").out, "GPT2LMHeadModel"));
    CHECK(has(convert(place / "absent", place / "to").out, "absent: is not a folder"));
    CHECK(convert(fixture("gpt2-clm"), place / "to", "--dtype f8").status == 2);
    CHECK(!fs::exists(place / "to"));
    static const float large[1]{70000.0f};
    write_changed(fixture("gpt2-clm"), place / "large", [](Tensors& t) {
        for (model::TensorSource& tensor : t)
            if (tensor.name == "transformer.ln_f.bias")
                tensor.stream = [](const model::Sink& sink) -> Status {
                    for (int i = 0; i < 32; ++i) HK_TRY(sink(std::as_bytes(std::span(large))));
                    return {};
                };
    });
    CHECK(has(convert(place / "large", place / "to", "--dtype f16").out,
              "\"transformer.ln_f.bias\": 70000 is too large for f16"));
    CHECK(!fs::exists(place / "to"));
    CHECK(convert(place / "large", place / "to", "--dtype bf16").status == 0);
}

TEST_CASE("GPT-2 as GGUF") {
    const TestFolder place;
    const Ran ran = convert(fixture("gpt2-clm"), place / "m.gguf");
    CAPTURE(ran.out);
    REQUIRE(ran.status == 0);
    CHECK(has(ran.out, "the file is written without one"));
    const Gguf file(place / "m.gguf");
    const json config = read_json(fixture("gpt2-clm") / "config.json");
    CHECK(file.keys.at("general.architecture") == "gpt2");
    CHECK(file.keys.at("gpt2.block_count") == config.at("n_layer"));
    CHECK(file.keys.at("gpt2.vocab_size") == config.at("vocab_size"));
    CHECK(file.keys.at("gpt2.attention.head_count") == config.at("n_head"));
    CHECK(file.keys.at("gpt2.feed_forward_length") == 4 * config.at("n_embd").get<int>());
    CHECK(file.keys.at("tokenizer.ggml.model") == "none");
    const model::Weights weights = open_weights(fixture("gpt2-clm"));
    CHECK(file.tensors.size() == weights.tensors().size());
    const std::size_t width = config.at("n_embd");
    CHECK(file.tensors.at("blk.1.attn_qkv.weight").dims == std::vector<uint64_t>{width, 3 * width});
    for (std::size_t out = 0; out < 3 * width; ++out) // stored [in, out], used as [out, in]
        for (std::size_t in = 0; in < width; ++in)
            CHECK(file.at("blk.1.attn_qkv.weight", out * width + in) ==
                  stored_at(weights, "transformer.h.1.attn.c_attn.weight", in * 3 * width + out));
    CHECK(file.at("token_embd.weight", 77) == stored_at(weights, "transformer.wte.weight", 77));
    REQUIRE(convert(fixture("gpt2-clm"), place / "h.gguf", "--dtype f16").status == 0);
    const Gguf half(place / "h.gguf");
    CHECK(half.keys.at("general.file_type") == 1);
    CHECK(half.tensors.at("token_embd.weight").type == 1);
    CHECK(half.tensors.at("position_embd.weight").type == 0);
    CHECK(half.tensors.at("output_norm.weight").type == 0);
    CHECK(has(convert(fixture("gpt2-clm"), place / "h.gguf").out, "exists; choose another name"));
    CHECK(has(convert(fixture("bert-tagger"), place / "b.gguf").out,
              "is a BertForTokenClassification; GGUF is written of"));
    CHECK(!fs::exists(place / "b.gguf"));
}

namespace {

const json kByteLevel = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};

json split(const std::string& expression) {
    return {{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}};
}

json sequence(const json& first) {
    json bytes = kByteLevel;
    bytes["use_regex"] = false;
    return {{"type", "Sequence"}, {"pretokenizers", {first, bytes}}};
}

json around(const std::vector<int>& before, const std::vector<int>& after) {
    const char* const names[] = {"<s>", "</s>", "<end>"};
    json pieces = json::array(), defined = json::object();
    const auto add = [&](const std::vector<int>& ids) {
        for (const int id : ids) {
            pieces.push_back({{"SpecialToken", {{"id", names[id]}, {"type_id", 0}}}});
            defined[names[id]] = {{"id", names[id]}, {"ids", {id}}, {"tokens", {names[id]}}};
        }
    };
    add(before);
    pieces.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    add(after);
    return {{"type", "TemplateProcessing"}, {"single", pieces}, {"pair", json::array()}, {"special_tokens", defined}};
}

// A byte-level BPE of a few tokens, with other sections.
Ran convert_tokenizer(const TestFolder& place, const std::string& name, const json& changes) {
    const fs::path folder = place / name;
    fs::create_directory(folder);
    for (const char* file : {"config.json", "model.safetensors"})
        fs::copy_file(fixture("gpt2-clm") / file, folder / file);
    json vocab = {{"<s>", 0}, {"</s>", 1}, {"<end>", 2}, {"a", 3}, {"b", 4}, {"ab", 5}};
    json tokenizer = {{"added_tokens", json::array()},
                      {"normalizer", nullptr},
                      {"pre_tokenizer", kByteLevel},
                      {"post_processor", nullptr},
                      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b"}}}}};
    for (const char* token : {"<s>", "</s>", "<end>"})
        tokenizer["added_tokens"].push_back({{"id", vocab[token]}, {"content", token}, {"special", true}});
    for (const auto& [section, change] : changes.items())
        if (section == "model")
            tokenizer["model"].update(change);
        else
            tokenizer[section] = change;
    std::ofstream(folder / "tokenizer.json") << tokenizer;
    std::ofstream(folder / "tokenizer_config.json") << R"({"bos_token": "<s>", "eos_token": "</s>"})";
    json config = read_json(folder / "config.json");
    config["bos_token_id"] = 0;
    config["eos_token_id"] = 1;
    std::ofstream(folder / "config.json") << config;
    return convert(folder, place / (name + ".gguf"));
}

} // namespace

TEST_CASE("a tokenizer as GGUF: llama.cpp's name of how it splits texts, or a refusal") {
    const TestFolder place;
    const std::string qwen2 =
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
        R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
    const std::string llama3 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)"
                               R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    const std::string o200k = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
                              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
                              R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|)"
                              R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    const json digits = {{"type", "Sequence"},
                         {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, kByteLevel}}};
    struct Written {
        const char* name;
        json changes;
        const char* pre;
        const char* warning;
    };
    const json nfc = {{"type", "NFC"}};
    for (const Written& one :
         {Written{"gpt2", json::object(), "gpt-2", ""}, Written{"digits", {{"pre_tokenizer", digits}}, "smollm", ""},
          Written{"qwen2", {{"pre_tokenizer", sequence(split(qwen2))}, {"normalizer", nfc}}, "qwen2", "NFC"},
          Written{"llama3",
                  {{"pre_tokenizer", sequence(split(llama3))}, {"model", {{"ignore_merges", true}}}},
                  "llama-bpe",
                  ""},
          Written{"o200k", {{"pre_tokenizer", sequence(split(o200k))}}, "gpt-4o", "combining marks"}}) {
        const Ran ran = convert_tokenizer(place, one.name, one.changes);
        CAPTURE(one.name);
        CAPTURE(ran.out);
        REQUIRE(ran.status == 0);
        CHECK(has(ran.out, "warning") == (*one.warning != '\0'));
        CHECK(has(ran.out, one.warning));
        const Gguf file(place / (std::string(one.name) + ".gguf"));
        CHECK(file.keys.at("tokenizer.ggml.model") == "gpt2");
        CHECK(file.keys.at("tokenizer.ggml.pre") == one.pre);
        CHECK(file.keys.at("tokenizer.ggml.merges") == json::array({"a b"}));
    }
    json spaced = kByteLevel;
    spaced["add_prefix_space"] = true;
    for (const auto& [name, changes, expected] :
         {std::tuple("prefix", json{{"pre_tokenizer", spaced}}, "add_prefix_space"),
          std::tuple("ignores", json{{"model", {{"ignore_merges", true}}}}, "ignore_merges"),
          std::tuple("lower", json{{"normalizer", {{"type", "Lowercase"}}}}, "normalizer"),
          std::tuple("other", json{{"pre_tokenizer", sequence(split("x+"))}}, "x+"),
          std::tuple("two", json{{"post_processor", around({0, 2}, {})}}, "<s> <end>; llama.cpp adds one at most")}) {
        const Ran ran = convert_tokenizer(place, name, changes);
        CAPTURE(name);
        CAPTURE(ran.out);
        CHECK(ran.status == 1);
        CHECK(has(ran.out, expected));
        CHECK(!fs::exists(place / (std::string(name) + ".gguf")));
    }
}

TEST_CASE("a tokenizer as GGUF: the tokens around a text") {
    const TestFolder place;
    struct Around {
        const char* name;
        std::vector<int> before, after;
        int bos, eos, eot; // -1: absent
    };
    for (const Around& one :
         {Around{"none", {}, {}, 0, 1, -1}, Around{"bos", {0}, {}, 0, 1, -1}, Around{"both", {0}, {1}, 0, 1, -1},
          // Others than the roles: llama.cpp adds these, and generation ends at the role's too.
          Around{"qwen", {}, {2}, 0, 2, 1}, Around{"cls", {2}, {1}, 2, 1, -1}}) {
        const json post = one.before.empty() && one.after.empty() ? json() : around(one.before, one.after);
        const Ran ran = convert_tokenizer(place, one.name, {{"post_processor", post}});
        CAPTURE(one.name);
        CAPTURE(ran.out);
        REQUIRE(ran.status == 0);
        const Gguf file(place / (std::string(one.name) + ".gguf"));
        CHECK(file.keys.at("tokenizer.ggml.add_bos_token") == !one.before.empty());
        CHECK(file.keys.contains("tokenizer.ggml.add_eos_token") == !one.after.empty());
        CHECK(file.keys.at("tokenizer.ggml.bos_token_id") == one.bos);
        CHECK(file.keys.at("tokenizer.ggml.eos_token_id") == one.eos);
        CHECK(file.keys.contains("tokenizer.ggml.eot_token_id") == (one.eot >= 0));
        if (one.eot >= 0) CHECK(file.keys.at("tokenizer.ggml.eot_token_id") == one.eot);
    }
}

TEST_CASE("Llama with SentencePiece's merges as GGUF") {
    const TestFolder place;
    const fs::path folder = place / "llama";
    const Ran trained = run("tokenize train --kind sentencepiece-bpe --vocab-size 110 '" +
                            (fs::path(HEKLA_SOURCE_DIR) / "README.md").string() + "' -o '" + folder.string() + "'");
    CAPTURE(trained.out);
    REQUIRE(trained.status == 0);
    for (const char* file : {"config.json", "model.safetensors"})
        fs::copy_file(fixture("llama-clm") / file, folder / file);
    const Ran ran = convert(folder, place / "m.gguf");
    CAPTURE(ran.out);
    REQUIRE(ran.status == 0);
    const Gguf file(place / "m.gguf");
    CHECK(file.keys.at("tokenizer.ggml.model") == "llama");
    const json &tokens = file.keys.at("tokenizer.ggml.tokens"), &scores = file.keys.at("tokenizer.ggml.scores"),
               &kinds = file.keys.at("tokenizer.ggml.token_type");
    CHECK(tokens.size() == read_json(folder / "config.json").at("vocab_size").get<std::size_t>());
    CHECK(scores.size() == tokens.size());
    CHECK(kinds.size() == tokens.size());
    CHECK(std::ranges::count(kinds, json(2)) == 1); // unknown
    CHECK(tokens[127] == "[unused127]");
    CHECK(kinds[127] == 5);
    CHECK(!file.keys.contains("tokenizer.ggml.merges"));
    // Earlier merges have higher scores, single characters the lowest.
    double before = 1.0;
    for (std::size_t id = 0; id < tokens.size() && kinds[id] != 5; ++id)
        if (kinds[id] == 1 && scores[id] != 0.0) {
            CHECK(scores[id].get<double>() <= before);
            before = scores[id].get<double>();
        }
    CHECK(before < 0.0);
}

TEST_CASE("Llama as GGUF") {
    const TestFolder place;
    const Ran ran = convert(fixture("llama-clm"), place / "m.gguf");
    CAPTURE(ran.out);
    REQUIRE(ran.status == 0);
    const Gguf file(place / "m.gguf");
    const json config = read_json(fixture("llama-clm") / "config.json");
    CHECK(file.keys.at("llama.attention.head_count_kv") == config.at("num_key_value_heads"));
    const model::Weights weights = open_weights(fixture("llama-clm"));
    const std::size_t width = config.at("hidden_size"), heads = config.at("num_attention_heads");
    const std::size_t rows = static_cast<std::size_t>(weights.find("model.layers.0.self_attn.q_proj.weight")->dims[0]);
    const std::size_t wide = rows / heads;
    for (std::size_t row = 0; row < rows; ++row) { // interleaves the halves of a head
        const std::size_t within = row % wide;
        const std::size_t from = row - within + (within % 2) * (wide / 2) + within / 2;
        CHECK(file.at("blk.0.attn_q.weight", row * width + 3) ==
              stored_at(weights, "model.layers.0.self_attn.q_proj.weight", from * width + 3));
    }
    CHECK(file.at("blk.0.attn_v.weight", 9) == stored_at(weights, "model.layers.0.self_attn.v_proj.weight", 9));
    CHECK(file.tensors.contains("output.weight"));
}

// What each decoder of the family is called there, and what its norms are.
TEST_CASE("decoders of the Llama family as GGUF, or refused for what llama.cpp cannot compute") {
    const TestFolder place;
    const fs::path families = fs::path(HEKLA_SOURCE_DIR) / "tests/fixtures/families";
    const auto converted = [&](const char* name) {
        const Ran ran = convert(families / name, place / (std::string(name) + ".gguf"));
        CAPTURE(ran.out);
        REQUIRE(ran.status == 0);
        return Gguf(place / (std::string(name) + ".gguf"));
    };
    const Gguf granite = converted("granite");
    const json config = read_json(families / "granite" / "config.json");
    CHECK(granite.keys.at("general.architecture") == "granite");
    CHECK(granite.keys.at("granite.logit_scale").get<double>() ==
          doctest::Approx(config.at("logits_scaling").get<double>()));
    CHECK(granite.tensors.contains("blk.1.ffn_norm.weight"));
    const Gguf qwen2 = converted("qwen2-window");
    CHECK(qwen2.keys.at("general.architecture") == "qwen2");
    CHECK(qwen2.tensors.contains("blk.0.attn_q.bias"));
    const Gguf phi3 = converted("phi3-longrope");
    CHECK(phi3.keys.at("general.architecture") == "phi3");
    CHECK(phi3.tensors.contains("rope_factors_long.weight"));
    CHECK(phi3.tensors.contains("blk.0.attn_qkv.weight"));
    const Gguf mixtral = converted("mixtral"); // its experts are stacked there, too
    CHECK(mixtral.keys.at("general.architecture") == "llama");
    CHECK(mixtral.keys.at("llama.expert_count") == 3);
    CHECK(mixtral.keys.at("llama.expert_used_count") == 2);
    const model::Weights experts = open_weights(families / "mixtral");
    for (std::size_t expert = 0; expert < 3; ++expert) { // [7, 12] each
        const std::string name = fmt::format("model.layers.1.block_sparse_moe.experts.{}.w3.weight", expert);
        CHECK(mixtral.at("blk.1.ffn_up_exps.weight", expert * 84 + 5) == stored_at(experts, name, 5));
    }
    CHECK(mixtral.tensors.contains("blk.0.ffn_gate_inp.weight"));
    CHECK(converted("glm4").keys.at("glm4.rope.dimension_count") == 4);
    CHECK(converted("ministral3").keys.contains("mistral3.attention.temperature_scale"));
    const Gguf olmo3 = converted("olmo3");
    CHECK(olmo3.keys.at("olmo2.attention.sliding_window_pattern") == json({true, false}));
    // Experts [3, 12, 10] with gates and values in turns become matrices [3, 5, 12], and their biases [3, 5].
    const Gguf gpt_oss = converted("gpt-oss");
    const model::Weights of_gpt_oss = open_weights(families / "gpt-oss");
    const std::string joined = "model.layers.1.mlp.experts.gate_up_proj";
    for (std::size_t e = 0; e < 3; ++e)
        for (std::size_t j = 0; j < 5; ++j) {
            CHECK(gpt_oss.at("blk.1.ffn_up_exps.bias", e * 5 + j) ==
                  stored_at(of_gpt_oss, joined + "_bias", e * 10 + 2 * j + 1));
            for (std::size_t i = 0; i < 12; ++i)
                CHECK(gpt_oss.at("blk.1.ffn_gate_exps.weight", (e * 5 + j) * 12 + i) ==
                      stored_at(of_gpt_oss, joined, (e * 12 + i) * 10 + 2 * j));
        }
    CHECK(gpt_oss.tensors.at("blk.0.ffn_down_exps.weight").dims == std::vector<uint64_t>{5, 12, 3});
    REQUIRE(convert(families / "gpt-oss", place / "half.gguf", "--dtype f16").status == 0);
    CHECK(Gguf(place / "half.gguf").tensors.at("blk.0.ffn_up_exps.bias").type == 0); // float32
    for (const auto& [name, why] :
         {std::pair<const char*, const char*>{"gemma3", "layer_types must be"},
          {"qwen3-moe", "norm_topk_prob must be true"},
          {"smollm3", "no_rope_layers must be 0 in every fourth layer alone"},
          {"llama-yarn", "rope_parameters must be yarn without attention_factor"},
          {"llama-dynamic", "rope_parameters.rope_type must be another one than 'dynamic'"},
          {"arcee", "attention_bias must be false"},
          {"stablelm", "qk_layernorm must be false"},
          {"lfm2", "conv_bias must be false"},
          {"gemma2", "query_pre_attn_scalar must be 6"},
          {"cohere2", "layer_types must be full_attention in every fourth layer alone"},
          {"qwen3-5", "is a Qwen3_5ForCausalLM; GGUF is written of language models of the "}}) {
        const Ran ran = convert(families / name, place / "no.gguf");
        CAPTURE(ran.out);
        CHECK(ran.status == 1);
        CHECK(has(ran.out, why));
        CHECK(!fs::exists(place / "no.gguf"));
    }
}
