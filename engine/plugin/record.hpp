// What the plugins of a model described when it was made, kept with it: two files in a model's or checkpoint's folder.
// A later build of a plugin that describes another graph for the same configuration is told apart, and the difference
// can be read. A record names plugins; it never has one loaded.
#pragma once

#include "model/folder.hpp"
#include "plugin/compose.hpp"

#include <filesystem>
#include <optional>

namespace hekla::plugin {

inline constexpr const char* kRecordFile = "plugins.json";     // plugins, versions, hashes; what was asked of them
inline constexpr const char* kRecordGraphFile = "plugins.txt"; // the graph's lines, part by part

// What one plugin described of the whole.
struct RecordedPart {
    std::string what; // "head 'lm'"
    std::string plugin, version;
    std::string library; // sha256 of its file, as its manifest has it; may be empty
    std::string text;    // its lines of the graph; values are numbered from its own first one on, others are "%^"
    std::string hash;    // of the text
};

struct Record {
    int32_t mode = HK_MODE_EVALUATE;
    bool objective = false; // was described, too
    bool body_frozen = false;
    std::vector<BatchField> fields;
    std::vector<RecordedPart> parts;
};

// Describes the model for these fields, for the record.
Result<Record> make_record(const Composition& composition, int32_t mode, std::span<const BatchField> fields,
                           bool objective);

std::string record_json(const Record& record);
std::string record_text(const Record& record);
std::vector<model::NamedText> record_files(const Record& record); // both, by their names

// Nothing where the folder has none; corrupt, with the file and key, for what is no record.
Result<std::optional<Record>> read_record(const std::filesystem::path& folder);

// How what the plugins describe now differs from the record, in a text to read; empty where it does not. PluginSet that
// the composition does not have (another head, no objective) are left out.
Result<std::string> difference_from(const Record& record, const Composition& composition);

} // namespace hekla::plugin
