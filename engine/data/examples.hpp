// Examples for training and evaluation, in common formats: JSON lines, tables, tagged words, parallel lines, plain
// text. They are read one by one, so that a file need not fit in memory, and decompressed while reading (.gz, .zst).
#pragma once

#include "base/status.hpp"
#include "data/example.hpp"
#include "data/read_options.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::data {

enum class ExampleFormat : int32_t {
    jsonl, // one object per line, or one array of objects; numbers and booleans are read as texts. "a.b" names b inside
           // a; if a is a list of objects, it names the list of their b ("messages.role", "messages.content")
    csv,   // RFC 4180: quotes, newlines inside them
    tsv,   // without quoting, as in GLUE's files
    conllu, // Universal Dependencies: lists "words" (FORM), "tags" (UPOS), or a field by its name ("xpos", "lemma",
            // "head"); texts "text", "sent_id" and other comments. Only words: no ranges, no empty nodes
    tagged, // one word per line, followed by its tags after tabs, an empty line after a sentence: "words" is column 1,
            // "tags" column 2; other columns by number
    parallel, // one file per column, line by line
    lines,    // every line that is not blank: "text"
    text,     // documents with blank lines between them: "text", and "lines" as a list
};
const char* format_name(ExampleFormat format);
Result<ExampleFormat> format_of_name(std::string_view name); // error: lists the names
// Detects the format by a file's name: .jsonl, .ndjson, .json, .csv, .tsv, .conllu, .pos.tsv, .txt, optionally followed
// by .gz or .zst.
Result<ExampleFormat> format_of_file(const std::string& path);

enum class OnBadExample : int32_t {
    refuse, // the first bad example ends reading with an error that contains file and line
    skip,   // bad examples are counted in skipped()
};

// Returns the end of the error of a bad example: what to do.
inline const char* remedy_of_bad_example(bool of_recipe) {
    return of_recipe ? "; correct it, or set data.on_bad = \"skip\" to skip bad examples" : "; correct it";
}

struct ExampleOptions {
    std::vector<std::string> inputs;     // files, folders, patterns: data/text_files.hpp; none for `parallel`
    std::optional<ExampleFormat> format; // none: detected from the first file's name
    std::vector<ColumnRequest> columns;
    std::optional<bool> header; // for csv and tsv: whether the first line contains names. None: yes, unless every
                                // column is requested by number
    OnBadExample on_bad = OnBadExample::refuse;
    bool of_recipe = false;                       // errors of bad examples mention data.on_bad
    std::size_t max_bytes = std::size_t{1} << 20; // of a line, a quoted record, a sentence, a document
    ReadOptions reading = {};
};

struct Skipped {
    std::array<uint64_t, kDefects> counts{};
    std::array<std::string, kDefects> first; // "FILE: line N: why" of the first of each
    uint64_t total() const;
    // "2 empty (first: train.tsv: line 17: ...), 1 not UTF-8 (...)"; empty if none was.
    std::string describe() const;
};

// A reader of examples. Thread: one at a time.
class ExampleReader {
public:
    virtual ~ExampleReader() = default;
    ExampleReader(const ExampleReader&) = delete;
    ExampleReader& operator=(const ExampleReader&) = delete;

    // Reads the next example, file after file; false at the end. Errors contain file and line: a bad example (unless
    // they are skipped), a required column that the file lacks (with the existing columns), a damaged archive, files of
    // `parallel` with different numbers of lines. After an error the reader is at its end.
    virtual Result<bool> next(Example& example) = 0;

    virtual const std::vector<std::string>& files() const = 0;
    virtual const Skipped& skipped() const = 0;
    // Returns what was recognized in JSON files: "FILE: ShareGPT rows (conversations: from, value)"; empty if the
    // task's columns are read by name.
    virtual std::string form() const = 0;
    std::string place(const Example& example) const; // "FILE: line N"

protected:
    ExampleReader() = default;
};

// The first rows of a JSON file that are objects.
struct FirstRows {
    std::vector<nlohmann::json> rows;
    bool is_array = false; // the file is one array
};
Result<FirstRows> first_json_rows(const std::filesystem::path& file, std::size_t max_bytes, const ReadOptions& reading);

// Opens examples. Errors: inputs that match nothing, a format that cannot be detected from the name, no columns, a
// source that the format does not have, a column requested as a list if the format has texts (or the other way round).
Result<std::unique_ptr<ExampleReader>> open_examples(const ExampleOptions& options);

} // namespace hekla::data
