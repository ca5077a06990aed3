#include "device_test/llama_cpp.hpp"

#include "base/interrupts.hpp"
#include "base/json.hpp"
#include "base/last_line.hpp"
#include "base/run_child.hpp"
#include "base/temporary_folder.hpp"
#include "gguf_model.hpp"
#include "model/folder.hpp"
#include "plugin/composition/model_names.hpp"
#include "stored_model.hpp"

#include <algorithm>
#include <array>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;

Result<ChildResult> run_llama_bench(std::vector<std::string> arguments, double seconds) {
    arguments.insert(arguments.begin(), {"/usr/bin/env", "llama-bench"});
    return run_child(arguments, {.seconds = seconds, .stop = [] { return interrupted(); }});
}

Status write_zeros(uint64_t bytes, const model::Sink& sink) {
    constexpr std::array<std::byte, 65536> kZeros{};
    for (uint64_t left = bytes; left > 0;) {
        const uint64_t part = std::min<uint64_t>(left, kZeros.size());
        HK_TRY(sink(std::span(kZeros).first(static_cast<std::size_t>(part))));
        left -= part;
    }
    return {};
}

// Writes the model of a case, without adapters, as GGUF.
Status write_case(const plugin::Registry& registry, const BenchCase& c, const fs::path& folder, const fs::path& file) {
    const Log silent; // it has no tokenizer, of which the writer would warn
    HK_ASSIGN(const auto composition, compose_case(registry, c, silent, false, /*adapters=*/false));
    HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition->batch_fields(1, 1));
    HK_ASSIGN(const graph::Graph described, composition->build(HK_MODE_EVALUATE, fields));
    model::ModelContents contents;
    HK_ASSIGN(contents.config_json, composition->write_config());
    for (const plugin::ModelTensor& tensor : plugin::model_tensors(described)) {
        if (tensor.buffer) continue;
        model::TensorSource source;
        source.name = tensor.name;
        source.dtype = model::DType::f32;
        source.dims = tensor.shape.vector();
        const uint64_t bytes = static_cast<uint64_t>(tensor.shape.elements()) * sizeof(float);
        source.stream = [bytes](const model::Sink& sink) { return write_zeros(bytes, sink); };
        contents.tensors.push_back(std::move(source));
    }
    HK_TRY(model::save_folder(folder, contents));
    HK_ASSIGN(const StoredModel stored, open_stored_model(registry, folder, "", silent));
    return write_gguf_model(stored, file, std::nullopt, silent);
}

} // namespace

Result<bool> finds_llama_cpp() {
    HK_ASSIGN(const ChildResult found, run_llama_bench({"--help"}, 10.0));
    return found.status == 0;
}

Result<report::Line> generate_with_llama_cpp(const plugin::Registry& registry, const BenchCase& c, bool cpu,
                                             double seconds) {
    HK_ASSIGN(const TemporaryFolder place, TemporaryFolder::make());
    const fs::path file = place.path() / "model.gguf";
    HK_TRY(write_case(registry, c, place.path() / "model", file));
    std::vector<std::string> arguments{"-m", file.string(), "-p", "0", "-n", "64", "-r", "2", "-o", "json"};
    if (cpu) arguments.insert(arguments.end(), {"-dev", "none"});
    HK_ASSIGN(const ChildResult ran, run_llama_bench(std::move(arguments), seconds));
    report::Line row{{"program", "llama.cpp"}, {"case", c.name}, {"dtype", "f32"}};
    const report::Line results = ordered_json_or_null(ran.out);
    if (ran.status == 0 && results.is_array() && !results.empty() && results[0].value("avg_ts", 0.0) > 0) {
        row["build"] = results[0].value("build_number", 0);
        row["backends"] = results[0].value("backends", "");
        row["generate_tokens_per_s"] = results[0]["avg_ts"];
    } else {
        row["problem"] = ran.timed_out ? "took too long" : last_line(ran.error);
    }
    return row;
}

} // namespace hekla::app
