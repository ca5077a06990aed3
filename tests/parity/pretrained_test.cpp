// Real trained models, if the checkout has ../shared/data/pretrained: gpt_nano_sort (a minGPT, with PyTorch's tensors
// after every block) and capp_gpt2 (GPT2LMHeadModel, with logits in float64 and greedy continuations). Each is
// converted to a fixture folder, with and without the prefix `transformer.`, and `hekla doctor --test` must agree to
// 1e-5.
#include "parity/pretrained.hpp"
#include "support/program.hpp"

#include <array>
#include <cstdio>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <unistd.h>

using namespace hekla;
using namespace hekla::test;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

Tensors without_prefix(const Tensors& weights) {
    const std::string prefix = "transformer.";
    Tensors result;
    for (const auto& [name, tensor] : weights)
        result.emplace(name.starts_with(prefix) ? name.substr(prefix.size()) : name, tensor);
    return result;
}

// Folders for `verify`.
class Fixtures {
public:
    void add(const std::string& name, const std::string& config, const Tensors& weights, const Tensors& inputs,
             const Tensors& expected, const json& generate = json::array()) {
        const fs::path folder = root_ / name;
        fs::create_directories(folder);
        std::ofstream(folder / "config.json") << config;
        std::ofstream(folder / "fixture.json") << json{{"class", "GPT2LMHeadModel"}, {"generate", generate}};
        write(folder / "model.safetensors", weights);
        write(folder / "inputs.safetensors", inputs);
        write(folder / "expected.safetensors", expected);
        folders_ += " '" + folder.string() + "'";
        ++count_;
    }

    void verify(const std::string& options) const {
        const std::string command = std::string("'") + HEKLA_PROGRAM + "' verify --json " + options + folders_;
        const std::string out = succeed(shell(".", command)).out;
        const json reports = json::parse(out, nullptr, false);
        REQUIRE_MESSAGE(reports.is_array(), out);
        CHECK(reports.size() == count_);
        for (const json& report : reports) {
            CAPTURE(report.dump());
            CHECK(report.at("pass") == true);
            REQUIRE(report.at("outputs").is_number());
            CHECK(report.at("outputs").get<double>() <= 1e-5);
            CHECK(report.at("generation") != "differs");
        }
    }

private:
    TestFolder root_;
    std::string folders_;
    std::size_t count_ = 0;
};

} // namespace

TEST_CASE("gpt_nano_sort: PyTorch's tensors after every block") {
    const fs::path folder = pretrained() / "gpt_nano_sort";
    if (!fs::exists(folder)) {
        MESSAGE("skipped: there is no ", folder.string());
        return;
    }
    const model::SafetensorsFile weights = open(folder / "model.safetensors");
    const model::SafetensorsFile partials = open(folder / "partials.safetensors");
    const Tensors ours = gpt2_from_mingpt(weights);
    const model::TensorView& idx = get(partials, "idx");
    const std::vector<float> as_floats = floats(idx);
    const Tensors inputs{{"input_ids", ids_of(idx.dims, {as_floats.begin(), as_floats.end()})}};
    Tensors expected;
    const std::pair<const char*, const char*> of[] = {{"out.hidden_states.0", "x"},
                                                      {"out.hidden_states.1", "block0"},
                                                      {"out.hidden_states.2", "block1"},
                                                      {"out.hidden_states.3", "ln_f"},
                                                      {"out.logits", "lm_head"}};
    for (const auto& [name, partial] : of)
        expected.emplace(name, tensor_of(get(partials, partial).dims, floats(get(partials, partial))));
    const std::string config = nano_sort_config().dump();
    Fixtures fixtures;
    fixtures.add("with-prefix", config, ours, inputs, expected);
    fixtures.add("without-prefix", config, without_prefix(ours), inputs, expected);
    fixtures.verify("--reference");
    fixtures.verify("");
}

TEST_CASE("capp_gpt2: logits and greedy continuations") {
    const fs::path folder = pretrained() / "capp_gpt2";
    if (!fs::exists(folder)) {
        MESSAGE("skipped: there is no ", folder.string());
        return;
    }
    const model::SafetensorsFile weights = open(folder / "model.safetensors");
    const model::SafetensorsFile reference = open(folder / "reference_f64run.safetensors");
    Tensors ours;
    for (const model::TensorView& view : weights.tensors()) ours.emplace(view.name, tensor_of(view.dims, floats(view)));
    const json vectors = json::parse(text_of(folder / "vectors.json"));
    Fixtures fixtures;
    for (std::size_t i = 0; i < vectors.at("cases").size(); ++i) {
        const json& c = vectors["cases"][i];
        const auto ids = c.at("ids").get<std::vector<int32_t>>();
        const std::size_t prompt = c.at("prompt").size();
        const auto length = static_cast<int64_t>(ids.size());
        const std::string name = "case" + std::to_string(i);
        const model::TensorView& logits = get(reference, name + ".logits");
        const json generate{{{"prompt", {std::vector<int32_t>(ids.begin(), ids.begin() + static_cast<long>(prompt))}},
                             {"args", {{"max_new_tokens", ids.size() - prompt}, {"do_sample", false}}},
                             {"ids", {ids}}}};
        fixtures.add(name, text_of(folder / "config.json"), i == 0 ? without_prefix(ours) : ours,
                     {{"input_ids", ids_of({1, length}, ids)}},
                     {{"out.logits", tensor_of({1, length, logits.dims.at(1)}, floats(logits))}}, generate);
    }
    fixtures.verify("--reference");
    fixtures.verify("");
}
