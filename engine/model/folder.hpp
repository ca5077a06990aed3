// A model's folder in Hugging Face's layout: config.json, weights, tokenizer files.
#pragma once

#include "model/auxiliary_files.hpp"
#include "model/sharded.hpp"
#include "model/weights.hpp"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace hekla::model {

inline constexpr uint64_t kConfigSizeLimit = 16'000'000;

// A checked folder on disk. Thread: any, once opened.
class ModelFolder {
public:
    // Opens a folder, or the snapshot of a folder of the Hub's cache (model_path.hpp). Errors: not_found (no folder, no
    // config.json, no weights), corrupt (config.json is not a JSON object; the weights'), failed_precondition (pointers
    // of git-lfs), unsupported (quantized weights, GGUF).
    static Result<ModelFolder> open(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return path_; }
    // As in the file, or the part of it that text_part() returns; a JSON object.
    const std::string& config_json() const { return config_json_; }
    const std::string& model_type() const { return model_type_; } // config's "model_type", empty if it has none
    const Weights& weights() const { return weights_; }
    // Returns the files that are copied when the model is saved elsewhere: those of auxiliary_files.cpp that exist, by
    // name.
    const std::vector<std::filesystem::path>& auxiliary_files() const { return auxiliary_files_; }

private:
    std::filesystem::path path_;
    std::string config_json_;
    std::string model_type_;
    Weights weights_;
    std::vector<std::filesystem::path> auxiliary_files_;
};

struct NamedText {
    std::string name; // a plain file name
    std::string content;
};

struct ModelContents {
    std::string config_json;                   // must be a JSON object
    std::vector<TensorSource> tensors;         // in the order in which shards are filled
    std::vector<NamedText> texts;              // other files, by content
    std::vector<std::filesystem::path> copies; // other files, copied under their own names by write_copied_file()
    Metadata metadata{{"format", "pt"}};
    uint64_t max_shard_bytes = kDefaultShardBytes;
    // Names of the files; other libraries' folders have others: "adapter_config.json", "adapter_model".
    std::string config_name = "config.json", weights_stem = "model";
};

enum class OnExisting {
    refuse, // the target must not exist, or be an empty folder
    replace // the target is replaced as a whole; files that are neither written now nor old weights are kept
};

// Writes a whole folder under a temporary name, synced, then renames it to `target`. After an error the target is
// unchanged. `replace` refuses a target that contains folders, because it is not a model's folder.
Status save_folder(const std::filesystem::path& target, const ModelContents& contents,
                   OnExisting existing = OnExisting::refuse);

// Writes into a folder with other files (a run's, with its checkpoints): writes and syncs everything in a temporary
// folder inside it, then moves file by file, weights last; removes old weights that are not replaced. Each file is
// complete; after a kill between the moves, the folder can contain new and old files until it is saved again.
Status save_into_folder(const std::filesystem::path& folder, const ModelContents& contents);

// Writes the files of `contents` into an existing folder and returns them; used by the two above and by checkpoints.
Result<std::vector<FileRecord>> write_model_files(const std::filesystem::path& folder, const ModelContents& contents);

// Copies one file and returns its size and hash; the copy is complete and synced, or absent. A link is followed if it
// passes check_auxiliary().
Result<FileRecord> write_copied_file(const std::filesystem::path& from, const std::filesystem::path& to);
Result<FileRecord> write_text_file(const std::filesystem::path& to, std::string_view content);

} // namespace hekla::model
