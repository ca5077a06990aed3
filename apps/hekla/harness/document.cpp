#include "harness/document.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace hekla::harness {
namespace {

// The columns that a task reads: texts, and the list of choices if there is one.
struct Columns {
    std::vector<std::string> texts;
    std::string list;
};

Columns columns_of(const Task& task) {
    Columns columns;
    const auto add = [&](const data::TextTemplate& of) {
        for (const std::string& name : of.columns())
            if (std::ranges::find(columns.texts, name) == columns.texts.end()) columns.texts.push_back(name);
    };
    for (const data::TextTemplate* one : {&task.description, &task.text, &task.target, &task.gen_prefix}) add(*one);
    for (const data::TextTemplate& choice : task.choices.texts) add(choice);
    columns.list = task.choices.column;
    return columns;
}

std::optional<std::size_t> index_of(std::string_view text) {
    std::size_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::string in_quotes(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Replaces the target by the right choice, and finds its place.
Status find_gold(const Task& task, Document& document) {
    std::vector<std::string>& choices = document.choices;
    if (choices.size() < 2)
        return invalid_argument(
            fmt::format("{}: doc_to_choice gives {} choices, expected at least 2", document.place, choices.size()));
    for (std::size_t i = 0; i < choices.size(); ++i) {
        if (choices[i].empty()) return invalid_argument(fmt::format("{}: choice {} is empty", document.place, i));
        for (std::size_t k = 0; k < i; ++k)
            if (choices[i] == choices[k])
                return invalid_argument(fmt::format("{}: choices {} and {} are both {}; choices must differ",
                                                    document.place, k, i, in_quotes(choices[i])));
    }
    const std::vector<std::string>& values = task.target_values.empty() ? choices : task.target_values;
    if (values.size() != choices.size())
        return invalid_argument(fmt::format("{}: target_values has {} values for {} choices; expected one for each",
                                            document.place, values.size(), choices.size()));
    const auto found = std::ranges::find(values, document.target);
    const std::optional<std::size_t> index = index_of(document.target);
    if (found != values.end()) {
        document.gold = static_cast<std::size_t>(found - values.begin());
    } else if (index && task.target_values.empty()) {
        if (*index >= choices.size())
            return invalid_argument(fmt::format("{}: the target is {}, expected the index of a choice, 0 to {}",
                                                document.place, *index, choices.size() - 1));
        document.gold = *index;
    } else {
        std::vector<std::string> names;
        for (const std::string& value : values) names.push_back(in_quotes(value));
        return invalid_argument(fmt::format(
            "{}: the target is {}, expected {} (target_values names the target of each "
            "choice)",
            document.place, in_quotes(document.target),
            task.target_values.empty() ? fmt::format("the index of a choice or one of {}", fmt::join(names, ", "))
                                       : fmt::format("one of {}", fmt::join(names, ", "))));
    }
    document.target = choices[document.gold];
    return {};
}

// Fills in the texts of a document from its columns.
Status fill(const Task& task, const std::function<std::string_view(std::string_view)>& column,
            std::vector<std::string> listed, Document& document) {
    document.text = task.text.text(column);
    document.target = task.target.text(column);
    document.prefix = task.gen_prefix.text(column);
    for (const data::TextTemplate& choice : task.choices.texts) document.choices.push_back(choice.text(column));
    if (!task.choices.column.empty()) document.choices = std::move(listed);
    if (task.output_type == OutputType::multiple_choice) return find_gold(task, document);
    if (document.target.empty())
        return invalid_argument(fmt::format("{}: doc_to_target gives an empty text", document.place));
    return {};
}

} // namespace

Result<std::vector<Document>> read_documents(const Task& task, const std::string& dataset, const StopPoll& stop) {
    const Columns columns = columns_of(task);
    data::ExampleOptions options;
    options.inputs = {dataset};
    options.format = task.format;
    options.reading.stop = stop;
    for (const std::string& name : columns.texts) options.columns.push_back({.name = name, .source = name});
    if (!columns.list.empty())
        options.columns.push_back({.name = columns.list, .source = columns.list, .is_list = true});
    Result<std::unique_ptr<data::ExampleReader>> reader = data::open_examples(options);
    if (!reader.ok()) return reader.status().with_context(task.file);
    std::vector<Document> documents;
    data::Example example;
    for (;;) {
        Result<bool> more = reader.value()->next(example);
        if (!more.ok()) return more.status().with_context(task.file);
        if (!more.value()) break;
        Document& document = documents.emplace_back();
        document.id = documents.size() - 1;
        document.place = reader.value()->place(example);
        std::map<std::string, std::string, std::less<>> values;
        for (std::size_t i = 0; i < columns.texts.size(); ++i) {
            document.columns[columns.texts[i]] = example.values[i].text;
            values[columns.texts[i]] = std::move(example.values[i].text);
        }
        std::vector<std::string> listed;
        if (!columns.list.empty()) {
            listed = std::move(example.values.back().items);
            document.columns[columns.list] = listed;
        }
        HK_TRY(fill(
                   task, [&](std::string_view name) -> std::string_view { return values.find(name)->second; },
                   std::move(listed), document)
                   .with_context(task.file));
    }
    if (documents.empty()) return invalid_argument(fmt::format("{}: {} has no documents", task.file, dataset));
    return documents;
}

Result<std::vector<Document>> sample_documents(const Task& task) {
    const Columns columns = columns_of(task);
    std::vector<Document> documents;
    for (const std::map<std::string, std::string>& sample : task.samples) {
        Document& document = documents.emplace_back();
        document.id = documents.size() - 1;
        document.place = fmt::format("{}: sample {} of fewshot_config.samples", task.file, documents.size());
        if (!columns.list.empty())
            return unsupported(fmt::format("{}: doc_to_choice = \"{{{{{}}}}}\" is a list, which a sample cannot have",
                                           document.place, columns.list));
        for (const std::string& name : columns.texts) {
            const auto found = sample.find(name);
            if (found == sample.end())
                return invalid_argument(
                    fmt::format("{} lacks the column '{}', which the task reads", document.place, name));
            document.columns[name] = found->second;
        }
        HK_TRY(fill(
            task, [&](std::string_view name) -> std::string_view { return sample.find(std::string(name))->second; }, {},
            document));
    }
    return documents;
}

} // namespace hekla::harness
