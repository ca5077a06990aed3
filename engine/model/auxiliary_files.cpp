#include "model/auxiliary_files.hpp"

#include "base/json.hpp"
#include "base/path_text.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace hekla::model {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 16> kAuxiliaryNames{"added_tokens.json",
                                                           "chat_template.jinja",
                                                           "generation_config.json",
                                                           "merges.txt",
                                                           "preprocessor_config.json",
                                                           "processor_config.json",
                                                           "sentencepiece.bpe.model",
                                                           "source.spm",
                                                           "special_tokens_map.json",
                                                           "spiece.model",
                                                           "target.spm",
                                                           "tokenizer.json",
                                                           "tokenizer.model",
                                                           "tokenizer_config.json",
                                                           "vocab.json",
                                                           "vocab.txt"};

// Calls `use` with every line, without its line end; stops and returns false if it returns false.
template<class Use>
bool each_line(std::string_view content, Use&& use) {
    while (!content.empty()) {
        const std::size_t end = std::min(content.find('\n'), content.size());
        std::string_view line = content.substr(0, end);
        content.remove_prefix(std::min(end + 1, content.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (!use(line)) return false;
    }
    return true;
}

bool has_unknown_token(std::string_view content) {
    const auto is_other = [](std::string_view line) { return line != "[UNK]" && line != "<unk>"; };
    return content.find('\0') == content.npos && !each_line(content, is_other);
}

bool are_merges(std::string_view content) {
    bool is_first = true;
    return each_line(content, [&](std::string_view line) {
        if (std::exchange(is_first, false) && line.starts_with("#version")) return true;
        const std::size_t space = line.find(' ');
        return line.empty() ||
               (space != line.npos && space != 0 && space + 1 < line.size() && space == line.rfind(' '));
    });
}

// Returns whether the bytes are a protobuf message whose first field is a message in field 1, as in a SentencePiece
// model.
bool is_sentencepiece(std::string_view content) {
    if (!content.starts_with('\x0a')) return false;
    std::size_t at = 0;
    const auto varint = [&](uint64_t& value) {
        value = 0;
        for (unsigned shift = 0; shift < 64 && at < content.size(); shift += 7) {
            const auto byte = static_cast<unsigned char>(content[at++]);
            value |= uint64_t{byte & 0x7Fu} << shift;
            if (byte < 0x80) return true;
        }
        return false;
    };
    while (at < content.size()) {
        uint64_t tag = 0, size = 0;
        if (!varint(tag) || (tag & 7) != 2 || !varint(size) || size > content.size() - at) return false;
        at += static_cast<std::size_t>(size);
    }
    return true;
}

// Returns what the content should have been; empty if it is correct.
std::string expected_instead(const std::string& name, std::string_view content) {
    const fs::path extension = path_of(name).extension();
    if (extension == ".json") {
        const Result<nlohmann::json> json = parse_json_object(content, "JSON");
        return json.ok() ? "" : fmt::format("a JSON object ({})", json.message());
    }
    if (name == "vocab.txt") return has_unknown_token(content) ? "" : "a vocabulary with a line [UNK]";
    if (name == "merges.txt" || name == "vocab.bpe") return are_merges(content) ? "" : "two tokens on each line";
    if (extension == ".model" || extension == ".spm") return is_sentencepiece(content) ? "" : "a SentencePiece model";
    if (name == "chat_template.jinja")
        return content.find("{%") != content.npos || content.find("{{") != content.npos ? "" : "a Jinja template";
    return "a file of a tokenizer or a configuration";
}

} // namespace

std::vector<fs::path> auxiliary_files_in(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const std::string_view name : kAuxiliaryNames) {
        std::error_code error;
        if (fs::is_regular_file(folder / name, error)) files.push_back(folder / name);
    }
    return files;
}

Status check_auxiliary(const fs::path& file, std::string_view content) {
    std::error_code error;
    if (!fs::is_symlink(file, error)) return {};
    const std::string expected = content.size() > kAuxiliarySizeLimit
                                     ? fmt::format("at most {} bytes, not {}", kAuxiliarySizeLimit, content.size())
                                     : expected_instead(file.filename().string(), content);
    if (expected.empty()) return {};
    return corrupt(
        fmt::format("{}: is a symbolic link to {}, which does not hold what the name claims ({} was expected), so "
                    "it is not copied; remove the link, or put the file itself in its place",
                    file.string(), fs::read_symlink(file, error).string(), expected));
}

} // namespace hekla::model
