// Real trained models, where the checkout has ../shared/data/pretrained: gpt_nano_sort (a minGPT, with PyTorch's
// tensors after every block) and capp_gpt2 (GPT2LMHeadModel, with logits in float64 and greedy continuations). Each
// becomes a fixture folder, with and without the prefix `transformer.`, and `hekla verify` must agree to 1e-5.
#include "model/folder.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <unistd.h>

using namespace hekla;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct Tensor {
    std::vector<int64_t> dims;
    model::DType dtype = model::DType::f32;
    std::vector<std::byte> bytes;
};
using Tensors = std::map<std::string, Tensor>;

Tensor tensor_of(const std::vector<int64_t>& dims, const std::vector<float>& values) {
    Tensor t{dims, model::DType::f32, std::vector<std::byte>(values.size() * 4)};
    std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
    return t;
}

Tensor ids_of(const std::vector<int64_t>& dims, const std::vector<int32_t>& values) {
    Tensor t{dims, model::DType::i32, std::vector<std::byte>(values.size() * 4)};
    std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
    return t;
}

std::vector<float> floats(const model::TensorView& view) {
    int64_t count = 1;
    for (const int64_t d : view.dims) count *= d;
    std::vector<float> values(static_cast<std::size_t>(count));
    const Status status = model::load_float32(view, values);
    REQUIRE_MESSAGE(status.ok(), status.message());
    return values;
}

model::SafetensorsFile open(const fs::path& path) {
    auto file = model::SafetensorsFile::open(path);
    REQUIRE_MESSAGE(file.ok(), file.message());
    return file.take();
}

const model::TensorView& get(const model::SafetensorsFile& file, const std::string& name) {
    const model::TensorView* found = file.find(name);
    REQUIRE_MESSAGE(found != nullptr, name);
    return *found;
}

void write(const fs::path& path, const Tensors& tensors) {
    std::vector<model::TensorView> views;
    for (const auto& [name, tensor] : tensors) {
        model::TensorView view;
        view.name = name;
        view.dtype = tensor.dtype;
        view.dims = tensor.dims;
        view.bytes = tensor.bytes;
        views.push_back(std::move(view));
    }
    const auto written = model::write_safetensors_file(path, model::sources_of(views));
    REQUIRE_MESSAGE(written.ok(), written.message());
}

std::string text_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

fs::path pretrained() { return fs::path(HEKLA_SOURCE_DIR).parent_path() / "shared" / "data" / "pretrained"; }

Tensors without_prefix(const Tensors& weights) {
    const std::string prefix = "transformer.";
    Tensors result;
    for (const auto& [name, tensor] : weights)
        result.emplace(name.starts_with(prefix) ? name.substr(prefix.size()) : name, tensor);
    return result;
}

// Folders that `verify` reads, gone with this.
class Fixtures {
public:
    Fixtures() { fs::create_directories(root_); }
    ~Fixtures() {
        std::error_code ignored;
        fs::remove_all(root_, ignored);
    }
    Fixtures(const Fixtures&) = delete;
    Fixtures& operator=(const Fixtures&) = delete;

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
        std::FILE* pipe = ::popen(command.c_str(), "r");
        REQUIRE(pipe != nullptr);
        std::string out;
        std::array<char, 4096> buffer{};
        for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
            out.append(buffer.data(), n);
        CHECK(::pclose(pipe) == 0);
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
    fs::path root_ = fs::temp_directory_path() / ("hekla_pretrained_" + std::to_string(::getpid()));
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
    Tensors ours;
    for (const model::TensorView& view : weights.tensors()) {
        std::vector<float> values = floats(view);
        std::vector<int64_t> dims = view.dims;
        // minGPT's projections are [out, in], those of GPT-2's files [in, out].
        const bool projection = view.name.ends_with("c_attn.weight") || view.name.ends_with("c_proj.weight") ||
                                view.name.ends_with("c_fc.weight");
        if (projection) {
            const auto rows = static_cast<std::size_t>(dims[0]), columns = static_cast<std::size_t>(dims[1]);
            std::vector<float> turned(values.size());
            for (std::size_t i = 0; i < rows; ++i)
                for (std::size_t j = 0; j < columns; ++j) turned[j * rows + i] = values[i * columns + j];
            values = std::move(turned);
            std::swap(dims[0], dims[1]);
        }
        ours.emplace(view.name, tensor_of(dims, values));
    }
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
    const std::string config = json{{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
                                    {"vocab_size", 3},      {"n_positions", 11},
                                    {"n_embd", 48},         {"n_layer", 3},
                                    {"n_head", 3},          {"tie_word_embeddings", false}}
                                   .dump();
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
