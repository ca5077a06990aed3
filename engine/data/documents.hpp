// Texts split into documents, documents into sentences, and runs of sentences as examples, for next-sentence prediction
// and sentence order.
#pragma once

#include "data/encoded.hpp"
#include "data/read_options.hpp"
#include "text/text_encoder.hpp"

#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

namespace hekla::data {

// How the end of a document is recognized.
enum class DocumentEnd : int32_t {
    blank_line,
    line,
    file,
    heading, // a line of the form "= Title =" begins one, as in WikiText
};
// not_found lists the four names.
Result<DocumentEnd> document_end_of_name(std::string_view name);

// Returns the documents of a text, in order, without surrounding white space.
std::vector<std::string_view> split_documents(std::string_view text, DocumentEnd end);

// Returns the sentences of a document. They end at a line end, or at . ! or ? (and closing quotes or brackets) before
// white space.
std::vector<std::string_view> split_sentences(std::string_view document);

struct DocumentOptions {
    std::vector<std::string> inputs; // files, folders, patterns: data/text_files.hpp
    DocumentEnd end = DocumentEnd::blank_line;
    uint64_t tokens = 0; // per example: as many whole sentences as fit; a longer sentence is a separate example
    std::pmr::memory_resource* memory = std::pmr::new_delete_resource(); // for the examples
    StopPoll stop = {};
};

// Tokenizes and stores everything (StoredExamples). Column "text", with the sentences as parts. Documents of one
// sentence are kept and can be split inside it. Errors contain file, line and byte; a corpus without a document is an
// error.
Result<std::unique_ptr<StoredExamples>> open_documents(const text::TextEncoder& encoder,
                                                       const DocumentOptions& options);

} // namespace hekla::data
