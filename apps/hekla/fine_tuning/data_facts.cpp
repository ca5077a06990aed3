#include "fine_tuning/data_facts.hpp"

#include "data/examples.hpp"
#include "data/line_reader.hpp"
#include "data/message_forms.hpp"
#include "data/row_form.hpp"
#include "data/text_files.hpp"
#include "train/recipe/recipe_value.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::app {
namespace {

constexpr std::array<std::pair<const char*, Task>, 5> kTasks{{{"chat", Task::chat},
                                                              {"completion", Task::completion},
                                                              {"preference", Task::preference},
                                                              {"classify", Task::classify},
                                                              {"text", Task::text}}};

// Names of columns of tables with labels, the first of two texts first.
constexpr std::array<std::pair<const char*, const char*>, 10> kTexts{{{"text_a", "text_b"},
                                                                      {"sentence1", "sentence2"},
                                                                      {"premise", "hypothesis"},
                                                                      {"question1", "question2"},
                                                                      {"text", nullptr},
                                                                      {"sentence", nullptr},
                                                                      {"review", nullptr},
                                                                      {"content", nullptr},
                                                                      {"comment", nullptr},
                                                                      {"title", nullptr}}};
constexpr std::array<const char*, 7> kLabels{"label", "labels", "class", "category", "sentiment", "intent", "target"};

constexpr std::size_t kMaxBytes = std::size_t{1} << 20; // of a row, as data.max_bytes

data::ColumnRequest text_column(const char* name, bool required = true) {
    data::ColumnRequest column;
    column.name = name;
    column.required = required;
    column.or_messages = true;
    return column;
}

std::optional<data::RowForm> form_for(Task task, const std::vector<nlohmann::json>& rows) {
    std::vector<data::ColumnRequest> columns;
    if (task == Task::chat) {
        columns.push_back(text_column("messages"));
        columns.back().is_conversation = true;
    } else if (task == Task::completion) {
        columns = {text_column("prompt"), text_column("completion")};
    } else {
        columns = {text_column("prompt", false), text_column("chosen"), text_column("rejected")};
    }
    return data::RowForm::recognize(rows, columns);
}

// Fills in the columns of a table with labels. Returns false if the names are not those of one.
bool find_labels(const std::vector<std::string>& names, DataFacts& facts) {
    const auto has = [&](const char* name) { return std::ranges::find(names, name) != names.end(); };
    const auto label = std::ranges::find_if(kLabels, has);
    const auto text = std::ranges::find_if(
        kTexts, [&](const auto& pair) { return has(pair.first) && (pair.second == nullptr || has(pair.second)); });
    if (label == kLabels.end() || text == kTexts.end()) return false;
    train::TextMap columns{{text->second != nullptr ? "text_a" : "text", text->first}, {"label", *label}};
    if (text->second != nullptr) columns["text_b"] = text->second;
    facts.columns = train::toml_text(columns);
    facts.found = fmt::format("rows of {}{} and {}", text->first,
                              text->second != nullptr ? fmt::format(", {}", text->second) : std::string(), *label);
    facts.tasks = {Task::classify};
    return true;
}

Status unknown_keys(const std::string& file, const std::vector<std::string>& names) {
    return invalid_argument(
        fmt::format("{}: no task reads rows of {}. Expected: messages; conversations; instruction and output; question "
                    "and answer; prompt and completion; prompt, chosen and rejected; text and label. For other columns "
                    "write a recipe with data.columns or data.templates (docs/recipes.md)",
                    file, names.empty() ? std::string("no keys") : fmt::format("{}", fmt::join(names, ", "))));
}

Status look_at_json(const std::string& file, DataFacts& facts) {
    HK_ASSIGN(const data::FirstRows first, data::first_json_rows(file, kMaxBytes, {}));
    if (first.rows.empty())
        return invalid_argument(
            fmt::format("{}: the first rows are not JSON objects; expected one object a line, or one "
                        "array of objects",
                        file));
    std::vector<std::string> names;
    for (const auto& [key, value] : first.rows.front().items()) names.push_back(key);
    const auto has = [&](const char* name) { return std::ranges::find(names, name) != names.end(); };
    if (has("prompt") && has("completion") && has("label"))
        return unsupported(
            fmt::format("{}: rows of prompt, completion and label (KTO), for which no recipe is written; "
                        "objective.id = \"kto\" reads them",
                        file));
    for (const Task task : {Task::preference, Task::completion, Task::chat}) {
        const std::optional<data::RowForm> form = form_for(task, first.rows);
        if (!form) continue;
        // What has its own prompt and completion is a completion; other pairs are turns.
        const bool first_choice = task != Task::completion || (has("prompt") && has("completion"));
        if (facts.found.empty() || (first_choice && task != Task::chat)) facts.found = form->description();
        facts.tasks.insert(first_choice && task != Task::chat ? facts.tasks.begin() : facts.tasks.end(), task);
    }
    if (facts.tasks.size() == 2 && !(has("prompt") && has("completion")) && facts.tasks.front() == Task::completion)
        std::swap(facts.tasks[0], facts.tasks[1]);
    if (!facts.tasks.empty() && facts.tasks.front() == Task::chat)
        facts.found = form_for(Task::chat, first.rows)->description();
    for (const char* key : {"prompt", "completion", "chosen"})
        facts.messages = facts.messages || (has(key) && data::holds_messages(first.rows.front()[key]));
    if (first.is_array) facts.found += ", in one JSON array";
    if (!facts.tasks.empty() || find_labels(names, facts)) return {};
    if (has("text"))
        return invalid_argument(
            fmt::format("{}: rows of text without a label. Plain text is read from text files: convert "
                        "it by `jq -r .text {} > text.txt`",
                        file, file));
    return unknown_keys(file, names);
}

std::vector<std::string> fields_of(std::string_view line, char separator) {
    std::vector<std::string> fields{""};
    for (const char c : line) {
        if (c == separator)
            fields.emplace_back();
        else if (c != '"')
            fields.back() += c;
    }
    return fields;
}

Status look_at_table(const std::string& file, char separator, DataFacts& facts) {
    HK_ASSIGN(data::LineReader lines, data::LineReader::open(file, kMaxBytes));
    HK_ASSIGN(const std::optional<data::Line> header, lines.next());
    if (!header)
        return invalid_argument(fmt::format("{}: is empty; a line with the columns' names was expected", file));
    const std::vector<std::string> names = fields_of(header->text, separator);
    const auto has = [&](const char* name) { return std::ranges::find(names, name) != names.end(); };
    if (has("chosen") && has("rejected")) {
        facts.found = "rows of chosen and rejected (texts)";
        facts.tasks = {Task::preference};
    } else if (has("prompt") && has("completion")) {
        facts.found = "rows of prompt and completion";
        facts.tasks = {Task::completion};
    } else if (!find_labels(names, facts)) {
        return unknown_keys(file, names);
    }
    facts.found += separator == ',' ? ", comma-separated" : ", tab-separated";
    return {};
}

// Returns whether a file without a known name begins as JSON does.
Result<bool> begins_as_json(const std::string& file) {
    HK_ASSIGN(data::LineReader lines, data::LineReader::open(file, kMaxBytes));
    for (;;) {
        HK_ASSIGN(const std::optional<data::Line> line, lines.next());
        if (!line) return false;
        const std::size_t first = line->text.find_first_not_of(" \t\r");
        if (first != std::string_view::npos) return line->text[first] == '{' || line->text[first] == '[';
    }
}

} // namespace

const char* task_name(Task task) {
    return std::ranges::find(kTasks, task, &std::pair<const char*, Task>::second)->first;
}

std::vector<std::string> task_names() {
    std::vector<std::string> names;
    for (const auto& [name, task] : kTasks) names.emplace_back(name);
    return names;
}

Result<Task> task_of_name(const std::string& name) {
    for (const auto& [known, task] : kTasks)
        if (name == known) return task;
    return invalid_argument(
        fmt::format("--task {}: not a task; expected one of {}", name, fmt::join(task_names(), ", ")));
}

Result<DataFacts> look_at_data(const std::vector<std::string>& inputs) {
    DataFacts facts;
    facts.inputs = inputs;
    Result<std::vector<std::filesystem::path>> files = data::find_text_files(inputs);
    if (!files.ok()) return files.status().with_context("--data");
    const std::string file = files->front().string();
    HK_ASSIGN(const std::unique_ptr<data::ByteStream> stream, data::ByteStream::open(file)); // Parquet is refused
    char byte = '\0';
    HK_ASSIGN(const std::size_t size, stream->read(&byte, 1));
    if (size == 0) return invalid_argument(fmt::format("{}: the file is empty; there is nothing to train on", file));
    const Result<data::ExampleFormat> named = data::format_of_file(file);
    data::ExampleFormat format = named.ok() ? named.value() : data::ExampleFormat::text;
    if (!named.ok()) {
        HK_ASSIGN(const bool is_json, begins_as_json(file));
        if (is_json) {
            format = data::ExampleFormat::jsonl;
            facts.format = "jsonl";
        }
    }
    switch (format) {
    case data::ExampleFormat::jsonl: HK_TRY(look_at_json(file, facts)); break;
    case data::ExampleFormat::csv: HK_TRY(look_at_table(file, ',', facts)); break;
    case data::ExampleFormat::tsv: HK_TRY(look_at_table(file, '\t', facts)); break;
    case data::ExampleFormat::text:
        facts.found = "plain text";
        facts.tasks = {Task::text};
        break;
    default:
        return unsupported(fmt::format("{}: no recipe is written for the format {}; write one with data.format "
                                       "(docs/recipes.md)",
                                       file, data::format_name(format)));
    }
    return facts;
}

} // namespace hekla::app
