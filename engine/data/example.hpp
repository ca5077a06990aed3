// One example: the columns that are requested, their values, and what can be wrong with it.
#pragma once

#include "data/text_template.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace hekla::data {

// A requested column.
struct ColumnRequest {
    std::string name = {};    // its name in the task: "text", "label", "text_a", "words", ...
    std::string source = {};  // its name in the file; a number from 1 in a table without names; the path of its file
                              // in `parallel`. Empty: as `name`
    bool required = true;     // an example without it, or with nothing in it, is bad; otherwise it is absent there
    bool is_list = false;     // a list of texts; else one text
    bool or_first = false;    // of a text: where the file has a list, the first item of it
    bool or_messages = false; // of a text: the file may have a list of messages, see Value::is_messages
    // Of a text, in place of `source`: the first of them all of whose columns have text in the example.
    std::vector<TextTemplate> templates = {};
    bool is_conversation = false; // only messages are possible, and a row form may compose them (data/row_form.hpp)
};

// Errors that concern a single example.
enum class Defect : int32_t { ragged, empty, too_long, not_utf8, nul_byte, missing_column, malformed };
inline constexpr int32_t kDefects = 7;
const char* defect_name(Defect defect); // "ragged", "not UTF-8", ...

struct Value {
    bool present = false;
    std::string text = {};
    std::vector<std::string> items = {}; // of a list
    bool is_messages = false;            // `text` is JSON: a list of objects with "role" and "content"
};

struct Example {
    std::vector<Value> values; // one per requested column, in their order
    uint32_t file = 0;         // index into ExampleReader::files()
    uint64_t line = 0;         // of its first line, from 1
};

} // namespace hekla::data
