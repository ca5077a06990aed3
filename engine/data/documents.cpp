#include "data/documents.hpp"

#include "base/file.hpp"
#include "base/trimmed.hpp"
#include "data/text_files.hpp"
#include "text/text_position.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::data {
namespace {

constexpr std::string_view kSpace = " \t\r\n\f\v";

// "= Title =", not "= = Section = =".
bool is_heading(std::string_view line) {
    line = trimmed(line);
    return line.size() > 4 && line.starts_with("= ") && line.ends_with(" =") && !line.starts_with("= =");
}

} // namespace

Result<DocumentEnd> document_end_of_name(std::string_view name) {
    if (name == "blank_line") return DocumentEnd::blank_line;
    if (name == "line") return DocumentEnd::line;
    if (name == "file") return DocumentEnd::file;
    if (name == "heading") return DocumentEnd::heading;
    return not_found(fmt::format("unknown end of documents '{}'; expected blank_line, line, file or heading", name));
}

std::vector<std::string_view> split_documents(std::string_view text, DocumentEnd end) {
    std::vector<std::string_view> documents;
    const auto keep = [&](std::size_t begin, std::size_t stop) {
        if (const std::string_view one = trimmed(text.substr(begin, stop - begin)); !one.empty())
            documents.push_back(one);
    };
    std::size_t begin = 0;
    if (end != DocumentEnd::file)
        for (std::size_t at = 0; at < text.size();) {
            std::size_t next = text.find('\n', at);
            next = next == std::string_view::npos ? text.size() : next + 1;
            const std::string_view line = text.substr(at, next - at);
            if (end == DocumentEnd::line || (end == DocumentEnd::blank_line && trimmed(line).empty())) {
                keep(begin, next);
                begin = next;
            } else if (end == DocumentEnd::heading && is_heading(line)) {
                keep(begin, at);
                begin = at;
            }
            at = next;
        }
    keep(begin, text.size());
    return documents;
}

std::vector<std::string_view> split_sentences(std::string_view document) {
    std::vector<std::string_view> sentences;
    std::size_t begin = 0;
    const auto keep = [&](std::size_t stop) {
        if (const std::string_view one = trimmed(document.substr(begin, stop - begin)); !one.empty())
            sentences.push_back(one);
        begin = stop;
    };
    for (std::size_t at = 0; at < document.size(); ++at) {
        if (document[at] == '\n') {
            keep(at + 1);
        } else if (document[at] == '.' || document[at] == '!' || document[at] == '?') {
            std::size_t after = at + 1;
            while (after < document.size() && std::string_view("\"')]").find(document[after]) != std::string_view::npos)
                ++after;
            if (after < document.size() && kSpace.find(document[after]) != std::string_view::npos) keep(after);
        }
    }
    keep(document.size());
    return sentences;
}

Result<std::unique_ptr<StoredExamples>> open_documents(const text::TextEncoder& encoder,
                                                       const DocumentOptions& options) {
    HK_ASSIGN(const std::vector<std::filesystem::path> files, find_text_files(options.inputs));
    auto examples = std::make_unique<StoredExamples>(options.memory);
    uint64_t number = 0;
    for (const std::filesystem::path& path : files) {
        HK_ASSIGN(const MappedFile file, MappedFile::open(path));
        text::TextOrigin origin;
        origin.name = path.string();
        HK_TRY(text::check_utf8(file.text(), origin));
        for (const std::string_view document : split_documents(file.text(), options.end)) {
            EncodedExample example;
            const auto begin = [&] {
                example = {};
                example.document = number;
                example.columns.push_back({"text", HK_COLUMN_TOKENS, {}, {}, {}});
            };
            begin();
            for (const std::string_view sentence : split_sentences(document)) {
                HK_TRY(options.stop.check("reading data"));
                HK_ASSIGN(const std::vector<int32_t> ids, encoder.encode(text::TextUse::sentence, sentence, origin));
                if (ids.empty()) continue;
                std::vector<int32_t>& text = example.columns[0].ids;
                if (!text.empty() && text.size() + ids.size() > options.tokens) {
                    HK_TRY(examples->add(example));
                    begin();
                }
                EncodedColumn& column = example.columns[0];
                column.parts.push_back(column.ids.size());
                column.ids.insert(column.ids.end(), ids.begin(), ids.end());
            }
            if (example.columns[0].ids.size() > 1) HK_TRY(examples->add(example));
            ++number;
        }
    }
    HK_TRY(examples->finish());
    if (examples->size() == 0)
        return invalid_argument(fmt::format("{}: the text is empty", fmt::join(options.inputs, ", ")));
    return examples;
}

} // namespace hekla::data
