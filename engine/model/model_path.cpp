#include "model/model_path.hpp"

#include "base/file.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

namespace hekla::model {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kGgufMagic = "GGUF", kPointer = "version https://git-lfs.github.com/spec/";
constexpr uint64_t kReadmeSizeLimit = 4'000'000;
constexpr const char* kGgufAdvice = "GGUF files are not read yet; use the folder that the file was made from, with "
                                    "config.json and model.safetensors";

bool begins_with(const fs::path& file, std::string_view magic) {
    const Result<MappedFile> mapped = MappedFile::open(file);
    return mapped.ok() && mapped->text().starts_with(magic);
}

// Returns whether the text is ORG/NAME, as models are called on the Hub.
bool is_hub_name(const std::string& text) {
    const auto is_part = [](std::string_view part) {
        return !part.empty() && part.front() != '.' && std::ranges::all_of(part, [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                   c == '.';
        });
    };
    const std::size_t slash = text.find('/');
    return slash != std::string::npos && is_part(std::string_view(text).substr(0, slash)) &&
           is_part(std::string_view(text).substr(slash + 1));
}

std::vector<fs::path> folders_in(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code problem;
    for (fs::directory_iterator it(folder, problem), end; !problem && it != end; it.increment(problem))
        if (it->is_directory(problem)) found.push_back(it->path());
    std::ranges::sort(found);
    return found;
}

Result<fs::path> snapshot_of(const fs::path& cache) {
    std::error_code problem;
    if (fs::is_regular_file(cache / "refs" / "main", problem)) {
        HK_ASSIGN(std::string hash, read_file(cache / "refs" / "main", 4096));
        while (!hash.empty() && (hash.back() == '\n' || hash.back() == ' ' || hash.back() == '\r')) hash.pop_back();
        const fs::path snapshot = cache / "snapshots" / hash;
        if (!hash.empty() && hash.find('/') == std::string::npos && hash != ".." && fs::is_directory(snapshot, problem))
            return snapshot;
        return not_found(fmt::format("{}: refs/main names the snapshot \"{}\", which is not in {}: download the model "
                                     "again, or give the folder of a snapshot",
                                     cache.string(), hash, (cache / "snapshots").string()));
    }
    const std::vector<fs::path> all = folders_in(cache / "snapshots");
    if (all.size() == 1) return all[0];
    std::vector<std::string> names;
    for (const fs::path& one : all) names.push_back(one.string());
    return not_found(all.empty()
                         ? fmt::format("{}: its folder snapshots is empty: download the model again", cache.string())
                         : fmt::format("{}: has no refs/main, and several snapshots; give one of {}", cache.string(),
                                       fmt::join(names, ", ")));
}

// Returns base_model of the YAML at the beginning of a README.md; empty if it has none.
std::string base_model_of(const fs::path& folder) {
    const Result<std::string> content = read_file(folder / "README.md", kReadmeSizeLimit);
    if (!content.ok() || !content->starts_with("---")) return {};
    const std::string_view head = std::string_view(content.value()).substr(0, content->find("\n---", 3));
    constexpr std::string_view kKey = "\nbase_model:";
    std::size_t at = head.find(kKey);
    if (at == std::string_view::npos) return {};
    at = head.find_first_not_of(" \n-[\"'", at + kKey.size());
    if (at == std::string_view::npos) return {};
    return std::string(head.substr(at, head.find_first_of(" \n\"',]", at) - at));
}

std::optional<int64_t> bits_of(const json& quantization) {
    for (const char* key : {"bits", "num_bits", "nbits", "w_bit"})
        if (const auto found = quantization.find(key); found != quantization.end() && found->is_number_integer())
            return found->get<int64_t>();
    if (quantization.value("load_in_4bit", json()) == true || quantization.value("quant_method", json()) == "mxfp4")
        return 4;
    if (quantization.value("load_in_8bit", json()) == true || quantization.value("quant_method", json()) == "fp8")
        return 8;
    return {};
}

} // namespace

Result<fs::path> find_model_folder(const fs::path& given) {
    std::error_code problem;
    if (fs::is_regular_file(given, problem) && (given.extension() == ".gguf" || begins_with(given, kGgufMagic)))
        return unsupported(fmt::format("{}: is a GGUF file: {}", given.string(), kGgufAdvice));
    if (!fs::exists(given, problem)) {
        if (is_hub_name(given.string()))
            return not_found(fmt::format("{0}: is not a folder here. If it is the name of a model on the Hugging Face "
                                         "Hub: Hekla does not download models; run `hf download {0} --local-dir DIR` "
                                         "and give DIR",
                                         given.string()));
        return not_found(fmt::format("{}: is not a folder; the folder of a model, with config.json and "
                                     "model.safetensors, or of a run was expected",
                                     given.string()));
    }
    if (!fs::is_directory(given, problem)) return given;
    if (fs::exists(given / "config.json", problem)) return given;
    if (fs::is_directory(given / "snapshots", problem)) return snapshot_of(given);
    bool gguf = false, other = false;
    for (fs::directory_iterator it(given, problem), end; !problem && it != end; it.increment(problem)) {
        gguf = gguf || it->path().extension() == ".gguf";
        other = other || it->path().extension() == ".safetensors" || it->path().extension() == ".bin" ||
                it->is_directory(problem);
    }
    if (gguf && !other) return unsupported(fmt::format("{}: has only GGUF files: {}", given.string(), kGgufAdvice));
    return given;
}

Status check_not_pointer(const fs::path& file, std::string_view content) {
    if (!content.starts_with(kPointer)) return {};
    return failed_precondition(
        fmt::format("{}: is a pointer of git-lfs, not the file itself: run `git lfs install` and "
                    "`git lfs pull` in its repository, or download the file",
                    file.string()));
}

Status check_not_quantized(const json& config, const fs::path& file) {
    for (const char* key : {"quantization_config", "quantization"}) {
        const auto found = config.find(key);
        if (found == config.end() || found->is_null() || (found->is_object() && found->empty())) continue;
        std::string how = "of an unknown method";
        if (found->is_object()) {
            const json method = found->value("quant_method", json());
            how = fmt::format("with {}", method.is_string()                        ? method.get<std::string>()
                                         : std::string_view(key) == "quantization" ? "MLX"
                                                                                   : "an unknown method");
            if (const auto bits = bits_of(*found)) how += fmt::format(", {} bits", *bits);
        }
        std::string base = base_model_of(file.parent_path());
        const json named = config.value("_name_or_path", json());
        if (base.empty() && named.is_string()) base = named.get<std::string>();
        return unsupported(fmt::format("{}: the weights are quantized ({}: {}); Hekla reads folders whose weights have "
                                       "16 or 32 bits: use the folder that this one was made from{}",
                                       file.string(), key, how, base.empty() ? "" : fmt::format(", {}", base)));
    }
    return {};
}

} // namespace hekla::model
