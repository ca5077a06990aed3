// Adapters of PEFT that replace the output layer or the embedding of a model that ties them. PEFT computes with two
// tables then, so the results are those of tests/fixtures/adapters/lora-llama, whose model has two.
#include "base/json.hpp"
#include "model/folder.hpp"
#include "support.hpp"
#include "support/test_folder.hpp"

#include <cmath>

namespace separated_tie_test {

using namespace hekla;
using namespace hekla::test;
using nlohmann::json;

namespace {

constexpr const char* kHead = "lm_head.weight";
constexpr const char* kTable = "model.embed_tokens.weight";

fs::path fixture(const std::string& name) { return fs::path(HEKLA_SOURCE_DIR) / "tests/fixtures/adapters" / name; }

json read_json(const fs::path& file) {
    const Result<std::string> text = read_file(file);
    REQUIRE_MESSAGE(text.ok(), text.message());
    return json::parse(text.value());
}

model::TensorSource named(std::string name, const model::TensorView& tensor) {
    return model::converted_source(std::move(name), tensor, tensor.dtype);
}

// A model that ties its tables, and a LoRA adapter of PEFT that replaces some.
class Tied {
public:
    // table: the tensor of the fixture that the model has in both places. saved: what the adapter replaces.
    Tied(const char* table, const std::vector<std::pair<std::string, std::string>>& saved, bool tied = true) {
        Result<model::Weights> weights = model::Weights::open(fixture("lora-llama"));
        Result<model::Weights> lora = model::Weights::open(fixture("lora-llama") / "adapter", "adapter_model");
        REQUIRE(weights.ok());
        REQUIRE(lora.ok());
        const auto of = [&](const std::string& name) -> const model::TensorView& { return *weights->find(name); };
        model::ModelContents body, adapter;
        json config = read_json(fixture("lora-llama") / "config.json");
        config["tie_word_embeddings"] = tied;
        body.config_json = config.dump();
        for (const model::TensorView& tensor : weights->tensors())
            if (tensor.name != kHead)
                body.tensors.push_back(named(tensor.name, tensor.name == kTable ? of(table) : tensor));
        if (!tied) body.tensors.push_back(named(kHead, of(kHead)));
        REQUIRE(model::save_folder(body_path(), body).ok());
        config = read_json(fixture("lora-llama") / "adapter" / "adapter_config.json");
        config["modules_to_save"] = json::array();
        adapter.tensors = model::sources_of(lora->tensors());
        for (const auto& [name, from] : saved) {
            config["modules_to_save"].push_back(name.substr(0, name.rfind('.')));
            adapter.tensors.push_back(named("base_model.model." + name, of(from)));
        }
        adapter.config_json = config.dump();
        adapter.config_name = "adapter_config.json";
        adapter.weights_stem = "adapter_model";
        REQUIRE(model::save_folder(adapter_path(), adapter).ok());
    }
    fs::path body_path() const { return folder_.path() / "body"; }
    fs::path adapter_path() const { return folder_.path() / "adapter"; }

    Result<infer::Model> open(double scale = 1.0, std::size_t times = 1) const {
        infer::ModelOptions options;
        options.tokenizer_required = false;
        options.head = "lm";
        for (std::size_t i = 0; i < times; ++i)
            options.adapters.each.push_back({"a" + std::to_string(i), adapter_path(), scale});
        return infer::open_model(registry(), {}, body_path(), options, {});
    }

    // Returns the largest difference from what PEFT computes.
    double error() const {
        Result<infer::Model> model = open();
        REQUIRE_MESSAGE(model.ok(), model.message());
        const Result<Tensors> inputs = infer::read_fields(fixture("lora-llama") / "inputs.safetensors");
        REQUIRE(inputs.ok());
        Tensors fields;
        for (const auto& [name, tensor] : inputs.value())
            if (name.find("label") == std::string::npos) fields.emplace(name, tensor);
        Result<std::unique_ptr<infer::Forward>> forward = infer::Forward::create(model.value(), fields, {"logits"});
        REQUIRE_MESSAGE(forward.ok(), forward.message());
        const Result<Tensors> outputs = forward.value()->run(fields);
        REQUIRE_MESSAGE(outputs.ok(), outputs.message());
        const Result<Tensors> expected = infer::read_fields(fixture("lora-llama") / "expected.safetensors");
        REQUIRE_MESSAGE(expected.ok(), expected.message());
        const Tensor &here = outputs->at("logits"), &there = expected->at("out.logits");
        REQUIRE(here.shape == there.shape);
        double largest = 0.0;
        for (std::size_t i = 0; i < here.data.size(); ++i)
            largest = std::max(largest, std::abs(here.data[i] - there.data[i]));
        return largest;
    }

private:
    TestFolder folder_;
};

} // namespace

TEST_CASE("adapters of PEFT that separate tied tables compute as PEFT does") {
    CHECK(Tied(kTable, {}, false).error() < 1e-5); // it has both
    CHECK(Tied(kTable, {{kHead, kHead}}).error() < 1e-5);
    CHECK(Tied(kHead, {{kTable, kTable}}).error() < 1e-5);
    CHECK(Tied(kHead, {{kTable, kTable}, {kHead, kHead}}).error() < 1e-5);
    CHECK(Tied(kTable, {}).error() > 1e-2);
    // The same values in both places are not separate.
    Result<infer::Model> same = Tied(kTable, {{kTable, kHead}, {kHead, kHead}}).open();
    REQUIRE_MESSAGE(same.ok(), same.message());
    CHECK_FALSE(same->untied);
}

TEST_CASE("adapters of PEFT that separate tied tables are refused by name where that is not possible") {
    const auto refused = [](const Result<infer::Model>& opened, const char* part) {
        CHECK(opened.status().code() == Code::unsupported);
        CHECK_MESSAGE(opened.message().find(part) != std::string::npos, opened.message());
    };
    refused(Tied(kTable, {{kHead, kHead}}).open(0.5), "the scale is 0.5, but the adapter replaces 'lm_head.weight'");
    refused(Tied(kTable, {{kHead, kHead}}).open(1.0, 2), "'lm_head.weight' or 'model.embed_tokens.weight'");
    // T5 scales its states where it ties, unless its configuration has the scale by itself.
    const TestFolder folder;
    const fs::path from = fixture("lora-t5"), body = folder.path() / "body";
    fs::copy(from, body);
    json scaled = read_json(body / "config.json");
    REQUIRE(scaled.erase("scale_decoder_outputs") == 1);
    REQUIRE(write_file_atomically(body / "config.json", scaled.dump()).ok());
    Result<model::Weights> weights = model::Weights::open(from),
                           lora = model::Weights::open(from / "adapter", "adapter_model");
    REQUIRE(weights.ok());
    REQUIRE(lora.ok());
    model::ModelContents adapter;
    json config = read_json(from / "adapter" / "adapter_config.json");
    config["modules_to_save"] = {"lm_head"};
    adapter.config_json = config.dump();
    adapter.config_name = "adapter_config.json";
    adapter.weights_stem = "adapter_model";
    adapter.tensors = model::sources_of(lora->tensors());
    adapter.tensors.push_back(named("base_model.model.lm_head.weight", *weights->find("shared.weight")));
    REQUIRE(model::save_folder(folder.path() / "adapter", adapter).ok());
    infer::ModelOptions options;
    options.tokenizer_required = false;
    options.class_name = "T5ForConditionalGeneration";
    options.head = "lm";
    options.adapters.each = {{"a", folder.path() / "adapter"}};
    refused(infer::open_model(registry(), {}, body, options, {}),
            "'lm_head.weight' or 'shared.weight' (modules_to_save)");
    const Result<infer::Model> apart = infer::open_model(registry(), {}, from, options, {});
    REQUIRE_MESSAGE(apart.ok(), apart.message());
    CHECK(apart->untied);
}

} // namespace separated_tie_test
