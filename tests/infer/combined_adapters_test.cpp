// Adapters that are combined when a model is opened: Arrow equals PEFT's (tests/fixtures/adapters/routing-arrow-gpt2),
// and generation with a cache equals a pass over the whole text.
#include "generate/decoder_program.hpp"
#include "generate/decoder_reference.hpp"
#include "generate/generator.hpp"
#include "infer/passes/likelihood.hpp"
#include "model/safetensors.hpp"
#include "program/runtime.hpp"
#include "support.hpp"
#include "support/test_folder.hpp"

#include <cmath>
#include <fmt/format.h>

using namespace hekla;
using namespace hekla::test;
using nlohmann::json;

namespace {

fs::path arrow_fixture() {
    return fs::path(HEKLA_SOURCE_DIR) / "tests" / "fixtures" / "adapters" / "routing-arrow-gpt2";
}

json arrow_info() {
    const Result<std::string> info = read_file(arrow_fixture() / "fixture.json");
    REQUIRE_MESSAGE(info.ok(), info.message());
    return json::parse(info.value());
}

// Writes the adapters of the fixture in PEFT's form, without prototypes, in a folder each: a, b and c.
void write_peft_folders(const fs::path& place) {
    const auto stored = model::SafetensorsFile::open(arrow_fixture() / "adapters.safetensors");
    REQUIRE_MESSAGE(stored.ok(), stored.message());
    const json info = arrow_info();
    for (const json& adapter : info.at("adapters")) {
        const std::string name = adapter.at("name"), begin = "adapter." + name + ".";
        std::vector<model::TensorView> own;
        for (const model::TensorView& tensor : stored->tensors()) {
            if (!tensor.name.starts_with(begin)) continue;
            own.push_back(tensor);
            own.back().name = "base_model.model." + tensor.name.substr(begin.size());
        }
        REQUIRE(own.size() == 8);
        json config = adapter.at("config");
        config["peft_type"] = "LORA";
        config["fan_in_fan_out"] = true;
        fs::create_directories(place / name);
        const Status written = write_file_atomically(place / name / "adapter_config.json", config.dump());
        REQUIRE_MESSAGE(written.ok(), written.message());
        const auto file =
            model::write_safetensors_file(place / name / "adapter_model.safetensors", model::sources_of(own));
        REQUIRE_MESSAGE(file.ok(), file.message());
    }
}

class CombinedAdapters {
public:
    CombinedAdapters() { write_peft_folders(place_.path()); }
    // uses: names of adapters, and keys of [combine].
    Result<infer::Model> try_open(program::Runtime* runtime, const std::vector<std::string>& uses) const {
        std::vector<std::string> texts;
        for (const std::string& use : uses)
            texts.push_back(use.size() == 1 ? fmt::format("{}={}", use, (place_.path() / use).string()) : use);
        infer::ModelOptions options;
        options.class_name = "GPT2LMHeadModel";
        options.tokenizer_required = false;
        HK_ASSIGN(options.adapters, infer::parse_adapter_uses(texts));
        return infer::open_model(registry(), runtime, arrow_fixture(), options, {});
    }
    infer::Model open(program::Runtime* runtime, const std::vector<std::string>& uses) const {
        Result<infer::Model> model = try_open(runtime, uses);
        REQUIRE_MESSAGE(model.ok(), model.message());
        return model.take();
    }

private:
    TestFolder place_;
};

const std::vector<std::string> kArrow{
    "a", "b", "c", "combine.how=arrow(a, b, c)", "combine.top_k=2", "combine.router_temperature=0.5"};

Tensors arrow_fields() {
    Result<Tensors> fields = infer::read_fields(arrow_fixture() / "inputs.safetensors");
    REQUIRE_MESSAGE(fields.ok(), fields.message());
    fields->erase("labels");
    return fields.take();
}

double largest_difference(const Tensor& a, const Tensor& b) {
    REQUIRE(a.shape == b.shape);
    double largest = 0.0;
    for (std::size_t i = 0; i < a.data.size(); ++i) largest = std::max(largest, std::abs(a.data[i] - b.data[i]));
    return largest;
}

} // namespace

TEST_CASE("arrow over opened adapters equals PEFT's create_arrow_model, on the device and in the interpreter") {
    const CombinedAdapters adapters;
    const auto stored = model::SafetensorsFile::open(arrow_fixture() / "expected.safetensors");
    REQUIRE_MESSAGE(stored.ok(), stored.message());
    const auto view = stored->get("out.logits");
    REQUIRE_MESSAGE(view.ok(), view.message());
    const Result<Tensor> expected = infer::tensor_of(*view.value());
    REQUIRE_MESSAGE(expected.ok(), expected.message());
    for (program::Runtime* runtime : {static_cast<program::Runtime*>(nullptr), &device()}) {
        infer::Model model = adapters.open(runtime, kArrow);
        CHECK(largest_difference(run_port(model, arrow_fields(), "logits"), expected.value()) < 2e-5);
        infer::Model mean = adapters.open(runtime, {"a", "b", "c", "combine.how=average(a, b, c)"});
        CHECK(largest_difference(run_port(mean, arrow_fields(), "logits"), expected.value()) > 1e-2);
    }
}

TEST_CASE("arrow over one adapter is that adapter") {
    const CombinedAdapters adapters;
    for (program::Runtime* runtime : {static_cast<program::Runtime*>(nullptr), &device()}) {
        infer::Model alone = adapters.open(runtime, {"b"}),
                     routed = adapters.open(runtime, {"b", "combine.how=arrow(b)"});
        infer::Model nothing = adapters.open(runtime, {});
        const Tensor logits = run_port(alone, arrow_fields(), "logits");
        CHECK(largest_difference(run_port(routed, arrow_fields(), "logits"), logits) < 1e-6);
        CHECK(largest_difference(run_port(nothing, arrow_fields(), "logits"), logits) > 1e-2);
    }
}

TEST_CASE("arrow generates with a cache, after prompts in chunks, what a pass over the whole text computes") {
    const CombinedAdapters adapters;
    const infer::Model interpreted = adapters.open(nullptr, kArrow), compiled = adapters.open(&device(), kArrow);
    auto reference = generate::make_reference_decoder(*interpreted.composition, interpreted.parameters);
    auto program = generate::make_program_decoder(device(), *compiled.store, *compiled.composition);
    REQUIRE_MESSAGE(reference.ok(), reference.message());
    REQUIRE_MESSAGE(program.ok(), program.message());
    generate::Request request;
    for (const std::size_t length : {1U, 7U, 19U}) {
        std::vector<int32_t>& row = request.prompts.emplace_back();
        for (std::size_t i = 0; i < length; ++i) row.push_back(static_cast<int32_t>((i * 37 + length * 11 + 5) % 128));
    }
    generate::Options twelve;
    twelve.max_new_tokens = 12;
    const auto greedy = generate::generate(*reference.value(), request, twelve),
               on_device = generate::generate(*program.value(), request, twelve);
    REQUIRE_MESSAGE(greedy.ok(), greedy.message());
    REQUIRE_MESSAGE(on_device.ok(), on_device.message());
    auto likelihood = infer::Likelihood::create(infer::network_of(interpreted));
    REQUIRE_MESSAGE(likelihood.ok(), likelihood.message());
    for (std::size_t i = 0; i < request.prompts.size(); ++i) {
        const std::vector<int32_t>& ids = greedy->rows[i].ids;
        REQUIRE(ids.size() == request.prompts[i].size() + 12);
        CHECK(on_device->rows[i].ids == ids);
        const std::vector<infer::LikelihoodRow> row{{ids, request.prompts[i].size()}};
        const auto whole = likelihood.value()->run(row);
        REQUIRE_MESSAGE(whole.ok(), whole.message());
        CHECK(whole->front().all_greedy());
    }
    // The adapters matter to the text.
    const infer::Model body = adapters.open(nullptr, {});
    auto without = generate::make_reference_decoder(*body.composition, body.parameters);
    REQUIRE_MESSAGE(without.ok(), without.message());
    const auto plain = generate::generate(*without.value(), request, twelve);
    REQUIRE_MESSAGE(plain.ok(), plain.message());
    CHECK(plain->rows[2].ids != greedy->rows[2].ids);
}

TEST_CASE("a combination that cannot be used is one error") {
    const CombinedAdapters adapters;
    const auto refused = [&](const std::vector<std::string>& uses) {
        const Result<infer::Model> model = adapters.try_open(nullptr, uses);
        REQUIRE_FALSE(model.ok());
        return model.message();
    };
    const auto has = [](const std::string& message, const char* part) {
        CAPTURE(message);
        CHECK(message.find(part) != std::string::npos);
    };
    has(refused({"a", "b", "combine.how=arrow(a)"}), "combine.how: 'arrow(a)': the adapter 'b' is not used");
    has(refused({"a", "combine.how=arrow(a, d)"}), "combine.how: 'arrow(a, d)', character 10: 'd' is not an adapter");
    has(refused({"a", "combine.how=arow(a)"}), "arow");
    has(refused({"combine.how=arrow(a)"}), "combine.how is 'arrow(a)', but no adapters are given");
    has(refused({"a", "combine.top_k=1"}), "combine.top_k is given without combine.how");
    has(refused({"a", "combine.how"}), "'combine.how' does not match combine.KEY=VALUE");
    has(refused({"a", "combine.how=arrow(a)", "combine.k=\xFF"}), "'combine.k=...': byte 11 is not valid UTF-8");
    has(refused({"a", "combine.=1"}), "'combine.=1' does not match combine.KEY=VALUE");
    has(refused({"a", "combine.how=arrow(a)", "combine.how=stack(a)"}), "combine.how is given twice");
    has(refused({"a", "combine.how=arrow(a)", "combine.top_k=1", "combine.top_k=2"}), "combine.top_k is given twice");
    has(refused({"a", "combine.how=arrow(a)", "combine.topk=1"}), "'topk'; did you mean 'top_k'?");
    has(refused({"a", "combine.how=arrow(a)", "combine.top_k=0"}), "top_k is 0, expected 1 or more");
    has(refused({"a", "combine.how=arrow(a)", "combine.top_k=one"}), "top_k");
    has(refused({"a", "b", "combine.how=soft(a, b)"}), "combine.how is 'soft(a, b)', whose 'adapter.combine.");
    has(refused({"a", "b", "combine.how=fusion(a, b)"}), "is trained, and the adapters' folders do not have it");
    has(refused({"a", "b", "combine.how=fixed(a, b)"}), "combine.how is 'fixed(a, b)', by which each row chooses");
    has(refused({"a", "b", "c", "combine.how=arrow(a, stack(b, c))"}), "'stack(b,c)' at 'transformer.h.0");
}
