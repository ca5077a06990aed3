// Texts cut into documents, documents into sentences, and runs of sentences as examples: what next-sentence prediction
// and sentence order are learned from.
#pragma once

#include "data/encoded.hpp"
#include "data/read_options.hpp"
#include "text/tokenizer.hpp"

#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

namespace hekla::data {

// Where one document ends and the next begins.
enum class DocumentEnd : int32_t {
    blank_line,
    line,
    file,
    heading, // a line of the form "= Title =" begins one, as in WikiText
};
// not_found lists the four.
Result<DocumentEnd> document_end_of_name(std::string_view name);

// Returns the documents of a text, in order, without surrounding white space.
std::vector<std::string_view> split_documents(std::string_view text, DocumentEnd end);

// The sentences of a document: they end with a line, or after . ! or ? (and quotes or brackets that close there)
// before white space.
std::vector<std::string_view> split_sentences(std::string_view document);

struct DocumentOptions {
    std::vector<std::string> inputs; // files, folders, patterns: data/text_files.hpp
    DocumentEnd end = DocumentEnd::blank_line;
    uint64_t tokens = 0; // of an example: as many whole sentences as fit; a longer sentence is an example by itself
    std::pmr::memory_resource* memory = std::pmr::new_delete_resource(); // of the examples
    StopPoll stop = {};
};

// Tokenizes and stores everything (StoredExamples). Column "text", its parts the sentences. Documents of one sentence
// are kept; their halves are cut inside it. Errors name file, line and byte; a corpus without a document is one.
Result<std::unique_ptr<StoredExamples>> open_documents(const text::Tokenizer& tokenizer,
                                                       const DocumentOptions& options);

} // namespace hekla::data
