// A record of the graph that the plugins of a model described when it was trained: two files in a model's or
// checkpoint's folder. It shows whether a later build of a plugin describes another graph for the same configuration,
// and how it differs. A record contains names of plugins, but never causes one to be loaded.
#pragma once

#include "model/folder.hpp"
#include "plugin/composition/compose.hpp"

#include <filesystem>
#include <optional>

namespace hekla::plugin {

inline constexpr const char* kRecordFile = "plugins.json";     // plugins, versions, hashes, and the request
inline constexpr const char* kRecordGraphFile = "plugins.txt"; // the graph's lines, part by part

// The part of one plugin.
struct RecordedPart {
    std::string what; // "head 'lm'"
    std::string plugin, version;
    std::string library; // sha256 of its file, from its manifest; may be empty
    std::string text;    // its lines of the graph; its values are numbered from its first one, others are "%^"
    std::string hash;    // of the text
};

struct Record {
    int32_t mode = HK_MODE_EVALUATE;
    bool objective = false; // whether the objective was described
    bool body_frozen = false;
    std::vector<BatchField> fields;
    std::vector<RecordedPart> parts;
};

// Describes the model for these fields and returns the record.
Result<Record> make_record(const Composition& composition, int32_t mode, std::span<const BatchField> fields,
                           bool objective);

std::string record_json(const Record& record);
std::string record_text(const Record& record);
std::vector<model::NamedText> record_files(const Record& record); // both files, by name

// Returns nothing if the folder has no record. Error: corrupt, with file and key.
Result<std::optional<Record>> read_record(const std::filesystem::path& folder);

// Describes how the plugins' current graph differs from the record, for people; empty if it does not. Parts that the
// composition does not have (another head, no objective) are skipped.
Result<std::string> difference_from(const Record& record, const Composition& composition);

} // namespace hekla::plugin
