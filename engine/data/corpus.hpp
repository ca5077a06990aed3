// Text files as one long sequence of tokens: tokenized once, stored in a cache file, memory-mapped.
#pragma once

#include "base/status.hpp"
#include "data/token_file.hpp"
#include "data/token_view.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_trainer.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hekla::data {

// Receives the number of processed bytes of text, and the total (0: unknown so far). Returning false ends the work with
// Code::cancelled. Called on the caller's thread.
using Progress = std::function<bool(uint64_t done, uint64_t total)>;

struct CorpusOptions {
    std::vector<std::string> inputs;    // files, folders, patterns: see data/text_files.hpp
    std::filesystem::path cache_folder; // created if absent
    bool separate_files = true; // the eos token, if the tokenizer has one, between two files (none after the last)
    unsigned threads = 0;       // 0: the number of cores
    std::size_t chunk_bytes = std::size_t{1} << 20; // text encoded by a thread at a time; memory is threads x 5 x this
    Progress progress = {};
};

class Corpus {
public:
    // Finds the cache file for (texts, tokenizer), or creates it. Text is read in chunks, split where this does not
    // change the ids; a tokenizer without such positions reads file by file. A damaged cache file is replaced. Errors:
    // a missing input; text that is empty, not UTF-8 or has a character without a token (file, line and byte offset); a
    // cache folder that cannot be written.
    static Result<Corpus> open(const text::Tokenizer& tokenizer, const CorpusOptions& options);

    TokenView tokens() const { return file_.tokens(); } // valid as long as this, also after a move
    std::size_t file_count() const { return file_count_; }
    uint64_t text_bytes() const { return text_bytes_; }
    const std::filesystem::path& cache_file() const { return cache_file_; }
    bool was_cached() const { return was_cached_; }

private:
    TokenFile file_;
    std::size_t file_count_ = 0;
    std::filesystem::path cache_file_;
    uint64_t text_bytes_ = 0;
    bool was_cached_ = false;
};

struct DatasetOptions {
    CorpusOptions train;
    std::vector<std::string> valid; // separate texts for validation, or empty
    // The share at the end of the tokens that is not trained on (nanoGPT: the last tenth), and without `valid` is
    // validated on; 0 for none.
    double valid_fraction = 0.1;
};

// Texts for training and validation.
struct Dataset {
    Corpus corpus;
    std::optional<Corpus> valid_corpus; // if validation has separate texts
    TokenView train;                    // views of the above; valid after a move
    TokenView valid;                    // empty without validation
};

// Opens both. Errors: those of Corpus::open, and a fraction outside [0, 1).
Result<Dataset> open_dataset(const text::Tokenizer& tokenizer, const DatasetOptions& options);

// Trains a tokenizer on the texts of `inputs`, one file at a time. Errors contain file, line and byte.
Result<std::unique_ptr<text::Tokenizer>>
train_tokenizer(text::TokenizerTrainer& trainer, std::span<const std::string> inputs, const Progress& progress = {});

} // namespace hekla::data
