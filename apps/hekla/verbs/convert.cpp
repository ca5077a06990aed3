// hekla convert: writes a model as a Hugging Face folder, as GGUF or for Ollama.
#include "base/json.hpp"
#include "base/path_text.hpp"
#include "command.hpp"
#include "gguf_model.hpp"
#include "model/folder.hpp"
#include "model/stacked_tensors.hpp"
#include "ollama_model.hpp"
#include "output.hpp"
#include "stored_model.hpp"

#include "model/finite.hpp"
#include "model/staged_folder.hpp"
#include "plugin/composition/record.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct ConvertArguments {
    std::string from, to, dtype, shard_size = "5GB", format, class_name;
    bool allow_non_finite = false;
};

// Parses "2GB", "500MB", "3GiB", "1000000" to bytes.
Result<uint64_t> size_from(const std::string& text) {
    uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, problem] = std::from_chars(text.data(), end, number);
    const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
    constexpr std::pair<std::string_view, uint64_t> kUnits[] = {
        {"", 1},          {"B", 1},         {"KB", 1'000},   {"MB", 1'000'000}, {"GB", 1'000'000'000},
        {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
    for (const auto& [name, bytes] : kUnits)
        if (problem == std::errc() && unit == name && number > 0 && number <= UINT64_MAX / bytes) return number * bytes;
    return invalid_argument(fmt::format("--shard-size {}: expected a size such as 2GB, 500MB or 3GiB", text));
}

// Returns the type that a tensor is written with: the requested one if it is a floating-point tensor.
model::DType written_type(const model::TensorView& tensor, std::optional<model::DType> asked) {
    return asked && model::is_floating(tensor.dtype) ? *asked : tensor.dtype;
}

// Returns the class that is written: of a multimodal folder that of its language model, which the manifest lists before
// it.
const plugin::ReferenceClass& written_class(const StoredModel& m) {
    if (m.reference->name.ends_with("ForConditionalGeneration"))
        for (const plugin::ReferenceClass& one : m.composition->architecture().classes)
            if (one.head == m.reference->head) return one;
    return *m.reference;
}

// config.json as the architecture writes it, with the "torch_dtype" of the tensors.
Result<std::string> config_text(const StoredModel& m, std::optional<model::DType> asked) {
    HK_ASSIGN(const std::string written, m.composition->write_config());
    HK_ASSIGN(ordered_json config, parse_ordered_json_object(written, "config.json"));
    config["architectures"] = ordered_json::array({written_class(m).name});
    std::optional<model::DType> type;
    bool uniform = true;
    for (const SavedTensor& tensor : m.tensors) {
        if (!model::is_floating(tensor.stored->dtype)) continue;
        const model::DType one = written_type(*tensor.stored, asked);
        uniform = uniform && type.value_or(one) == one;
        type = one;
    }
    config.erase("dtype"); // its name in newer versions of the reference, which read both
    config.erase("torch_dtype");
    const auto name = [](model::DType dtype) {
        return dtype == model::DType::f16    ? "float16"
               : dtype == model::DType::bf16 ? "bfloat16"
               : dtype == model::DType::f64  ? "float64"
                                             : "float32";
    };
    if (type && uniform) config["torch_dtype"] = name(*type);
    return config.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Status write_folder(const StoredModel& m, const ConvertArguments& a, std::optional<model::DType> asked) {
    model::ModelContents contents;
    HK_ASSIGN(contents.max_shard_bytes, size_from(a.shard_size));
    HK_ASSIGN(contents.config_json, config_text(m, asked));
    for (const SavedTensor& tensor : m.tensors)
        contents.tensors.push_back(
            model::converted_source(tensor.name, *tensor.stored, written_type(*tensor.stored, asked)));
    contents.tensors = model::divide_stacks(std::move(contents.tensors),
                                            plugin::model_rules(m.composition->architecture().names).stacks);
    contents.copies = m.folder.auxiliary_files();
    // The record of the plugins that created the model is kept.
    HK_ASSIGN(const std::optional<plugin::Record> record, plugin::read_record(m.folder.path()));
    if (record) contents.texts = plugin::record_files(*record);
    // Cleans up after a conversion that was killed.
    const fs::path target = path_of(a.to).lexically_normal();
    const fs::path named = target.has_filename() ? target : target.parent_path(); // "out/" is the folder "out"
    model::recover_folders(named.has_parent_path() ? named.parent_path() : fs::path("."), named.filename().string());
    return model::save_folder(a.to, contents);
}

Status convert(const Globals& globals, const ConvertArguments& a, std::string& summary) {
    std::error_code problem;
    const bool gguf = a.format == "gguf" || (a.format.empty() && path_of(a.to).extension() == ".gguf");
    const bool ollama = a.format == "ollama";
    if (fs::exists(a.to, problem) && (gguf || !fs::is_empty(a.to, problem)))
        return failed_precondition(fmt::format("{}: exists; choose another name", a.to));
    std::optional<model::DType> asked;
    if (!a.dtype.empty()) asked = model::dtype_named(a.dtype);
    const plugin::Registry registry = scan_plugins(globals);
    HK_ASSIGN(const StoredModel m, open_stored_model(registry, a.from, a.class_name, globals.log()));
    if (!a.allow_non_finite)
        for (const SavedTensor& tensor : m.tensors)
            if (const Status finite = model::check_finite(*tensor.stored); !finite.ok())
                return corrupt(fmt::format("{}: {}; --allow-non-finite writes it all the same",
                                           m.folder.weights().path().string(), finite.message()));
    std::string commands;
    if (ollama) {
        HK_ASSIGN(commands, write_ollama_model(m, a.to, asked, globals.log()));
    } else if (gguf) {
        HK_TRY(write_gguf_model(m, a.to, asked, globals.log()));
    } else {
        HK_TRY(write_folder(m, a, asked));
    }
    uint64_t bytes = 0;
    for (const SavedTensor& tensor : m.tensors) {
        HK_ASSIGN(const int64_t size, model::byte_count(written_type(*tensor.stored, asked), tensor.stored->dims));
        bytes += static_cast<uint64_t>(size);
    }
    summary = fmt::format("{}: {} as {}, {} tensors, {}", a.to, written_class(m).name,
                          gguf || ollama ? "GGUF" : "safetensors", m.tensors.size(), size_text(bytes));
    if (!m.ignored.empty())
        summary += fmt::format(
            "; omitted, because they are duplicates or not part of the model: {}{}",
            fmt::join(m.ignored.begin(), m.ignored.begin() + std::min<std::ptrdiff_t>(4, std::ssize(m.ignored)), ", "),
            m.ignored.size() > 4 ? fmt::format(" and {} more", m.ignored.size() - 4) : "");
    if (!commands.empty()) summary += "\n" + commands.substr(0, commands.size() - 1);
    return {};
}

} // namespace

void add_convert(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = app.add_subcommand("convert", "Write a model as a Hugging Face folder, as GGUF or for Ollama.");
    const auto a = std::make_shared<ConvertArguments>();
    parser
        ->add_option("from", a->from,
                     "folder of a Hugging Face model (safetensors or PyTorch's .bin), a run or a checkpoint")
        ->required();
    parser->add_option("to", a->to, "folder to create, or a .gguf file")->required();
    parser->add_option("--dtype", a->dtype, "storage of floating-point tensors (default: unchanged)")
        ->check(CLI::IsMember({"f32", "f16", "bf16"}));
    parser->add_option("--shard-size", a->shard_size, "size limit of one weights file: 2GB, 500MB")
        ->capture_default_str();
    parser
        ->add_option("--format", a->format,
                     "format to write; ollama: a folder with a GGUF file and a Modelfile (default: gguf if the "
                     "name ends in .gguf, else huggingface)")
        ->check(CLI::IsMember({"huggingface", "gguf", "ollama"}));
    parser->add_option("--class", a->class_name, "class of the model, if config.json does not name it");
    parser->add_flag("--allow-non-finite", a->allow_non_finite,
                     "write weights that are NaN or infinite instead of refusing them");
    parser->footer("Examples: hekla convert bert-base-uncased bert --dtype f16\n"
                   "          hekla convert out/quickstart quickstart.gguf\n"
                   "          hekla convert out/quickstart quickstart --format ollama");
    verbs.push_back({parser, [&globals, a] {
                         std::string summary;
                         const Status status = convert(globals, *a, summary);
                         if (!status.ok()) return fail(status);
                         print_foreign(summary + "\n");
                         return kDone;
                     }});
}

} // namespace hekla::app
