#include "data/task_table.hpp"

#include "base/read_real.hpp"
#include "base/trimmed.hpp"
#include "base/utf8.hpp"
#include "data/message_columns.hpp"
#include "data/packing.hpp"
#include "text/tokenizer_trainer.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::data {
namespace {

bool is_text(int32_t kind) { return kind == HK_COLUMN_TOKENS || kind == HK_COLUMN_WORDS || kind == HK_COLUMN_CHOICES; }

bool is_list(std::span<const TaskColumn> columns, const TaskColumn& column) {
    if (column.kind == HK_COLUMN_WORDS || column.kind == HK_COLUMN_CHOICES) return true;
    // There is one class per word.
    return column.kind == HK_COLUMN_CLASSES &&
           std::ranges::any_of(columns, [](const TaskColumn& c) { return c.kind == HK_COLUMN_WORDS; });
}

// Answers and their positions: SQuAD has lists of both, and its training data one item in each.
bool in_answers(std::span<const TaskColumn> columns, const TaskColumn& column) {
    const auto spans = [](const TaskColumn& c) { return c.kind == HK_COLUMN_SPANS; };
    return spans(column) || (column.kind == HK_COLUMN_NUMBERS && std::ranges::any_of(columns, spans));
}

std::optional<double> number_of(std::string_view text) {
    text = trimmed(text, kLineBlanks);
    double value = 0.0;
    const auto [end, problem] = read_real(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
    return value;
}

Status encode_text(const text::TextEncoder& encoder, int32_t kind, std::span<const std::string> texts,
                   EncodedColumn& out) {
    out.kind = kind;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        if (kind == HK_COLUMN_WORDS || kind == HK_COLUMN_CHOICES) out.parts.push_back(out.ids.size());
        if (kind == HK_COLUMN_WORDS)
            HK_TRY(encoder.encode_word(texts[i], i == 0, out.ids));
        else
            HK_TRY(encoder.encode(text::TextUse::row, texts[i], out.ids));
    }
    return {};
}

std::span<const std::string> texts_of(const Value& value) {
    return value.items.empty() ? std::span<const std::string>(&value.text, 1) : std::span(value.items);
}

// Returns the byte offset of a character; the text's size after the last one.
std::size_t byte_of(std::string_view text, double character) {
    std::size_t at = 0;
    for (double i = 0.0; i < character && at < text.size(); i += 1.0) at += first_code_point(text.substr(at)).size;
    return at;
}

// Returns the first token of `part` in the tokens of `text`, and one past its last. begin: a character of the text, if
// known. Nothing if the part does not occur.
Result<std::optional<std::pair<int32_t, int32_t>>> tokens_of_part(const text::TextEncoder& encoder,
                                                                  std::string_view text, std::string_view part,
                                                                  std::optional<double> begin) {
    using Found = std::optional<std::pair<int32_t, int32_t>>;
    const std::size_t from = text.find(part, begin ? byte_of(text, *begin) : 0);
    if (from == std::string_view::npos || part.empty() || (begin && from != byte_of(text, *begin))) return Found();
    std::vector<int32_t> ids;
    std::vector<text::ByteRange> ranges;
    HK_TRY(encoder.encode(text::TextUse::row, text, ids, &ranges));
    int32_t first = -1, end = -1;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        if (ranges[i].end <= from || ranges[i].begin >= from + part.size() || ranges[i].begin == ranges[i].end)
            continue;
        if (first < 0) first = static_cast<int32_t>(i);
        end = static_cast<int32_t>(i) + 1;
    }
    return first < 0 ? Found() : Found(std::pair(first, end));
}

std::string packed(const Example& row) {
    std::string bytes;
    pack(bytes, row.file);
    pack(bytes, row.line);
    for (const Value& value : row.values) {
        pack(bytes, value.present);
        pack(bytes, value.is_messages);
        pack(bytes, std::string_view(value.text));
        pack(bytes, static_cast<uint64_t>(value.items.size()));
        for (const std::string& item : value.items) pack(bytes, std::string_view(item));
    }
    return bytes;
}

void put_before(const std::string& prefix, Value& value) {
    if (prefix.empty() || !value.present) return;
    if (value.items.empty()) value.text.insert(0, prefix);
    for (std::string& item : value.items) item.insert(0, prefix);
}

// An error in a row's values, which are texts in the files and numbers here.
struct Fault {
    const char* what = nullptr; // "an unknown label"
    std::string why;
};

} // namespace

Result<TaskTable> TaskTable::read(const TaskTableOptions& options) {
    TaskTable table;
    table.options_ = options;
    table.rows_ = Records(options.memory);
    ExampleOptions reading;
    reading.inputs = options.inputs;
    reading.format = options.format;
    reading.header = options.header;
    reading.on_bad = options.on_bad;
    reading.of_recipe = options.of_recipe;
    reading.max_bytes = options.max_bytes;
    reading.reading = options.reading;
    for (const TaskColumn& column : options.columns)
        reading.columns.push_back({column.name, column.source, !column.optional && (options.targets || !column.target),
                                   is_list(options.columns, column), in_answers(options.columns, column),
                                   column.kind == HK_COLUMN_TOKENS || column.kind == HK_COLUMN_MESSAGES,
                                   column.templates, column.kind == HK_COLUMN_MESSAGES});
    for (const std::string& other : table.others())
        reading.columns.push_back({.name = other, .source = other, .required = false});
    HK_ASSIGN(const std::unique_ptr<ExampleReader> reader, open_examples(reading));
    for (Example example;;) {
        HK_ASSIGN(const bool more, reader->next(example));
        if (!more) break;
        for (std::size_t c = 0; c < options.columns.size(); ++c) {
            const TaskColumn& column = options.columns[c];
            table.has_messages_ = table.has_messages_ || example.values[c].is_messages;
            // Now, because a tokenizer may be trained before rows are encoded.
            if (const Status status = check_is_messages(column, example.values[c]);
                !status.ok() && options.on_bad == OnBadExample::refuse)
                return status.with_context(reader->place(example));
            if (example.values[c].is_messages && !column.prefix.empty())
                return invalid_argument(
                    fmt::format("{}: \"{}\" has messages, and data.prefix sets a text before it; remove the prefix: "
                                "the chat template writes what is around messages",
                                reader->place(example), column.name));
            put_before(column.prefix, example.values[c]);
        }
        HK_TRY(table.rows_.add(packed(example)));
    }
    HK_TRY(table.rows_.finish());
    table.files_ = reader->files();
    table.form_ = reader->form();
    table.skipped_ = reader->skipped();
    if (table.rows_.size() == 0)
        return invalid_argument(
            fmt::format("{}: there are no examples{}", fmt::join(table.files_, ", "),
                        table.skipped_.total() > 0 ? fmt::format(": {}", table.skipped_.describe()) : ""));
    return table;
}

Example TaskTable::row(uint64_t number) const {
    std::string_view bytes = rows_[number];
    Example row;
    unpack(bytes, row.file);
    unpack(bytes, row.line);
    row.values.resize(options_.columns.size() + (options_.group.empty() ? 0 : 1) + (options_.adapter.empty() ? 0 : 1));
    for (Value& value : row.values) {
        unpack(bytes, value.present);
        unpack(bytes, value.is_messages);
        unpack(bytes, value.text);
        uint64_t items = 0;
        unpack(bytes, items);
        value.items.resize(items);
        for (std::string& item : value.items) unpack(bytes, item);
    }
    return row;
}

std::string TaskTable::place(uint64_t number) const {
    const Example at = row(number);
    return fmt::format("{}: line {}", files_[at.file], at.line);
}

std::string TaskTable::text(uint64_t number, std::string_view column) const {
    for (std::size_t c = 0; c < options_.columns.size(); ++c)
        if (options_.columns[c].name == column) {
            const Value value = row(number).values[c];
            if (value.is_messages) return fmt::format("{}", fmt::join(contents_of(value), "\n"));
            return fmt::format("{}", fmt::join(texts_of(value), " "));
        }
    return {};
}

std::string TaskTable::group(uint64_t number) const {
    return options_.group.empty() ? std::string() : row(number).values[options_.columns.size()].text;
}

std::string TaskTable::adapter(uint64_t number) const {
    return options_.adapter.empty() ? std::string() : row(number).values.back().text;
}

std::vector<std::string> TaskTable::others() const {
    std::vector<std::string> columns;
    for (const std::string* column : {&options_.group, &options_.adapter})
        if (!column->empty()) columns.push_back(*column);
    return columns;
}

Result<std::map<std::string, uint64_t>> TaskTable::class_counts() const {
    std::map<std::string, uint64_t> counts;
    const auto labels = [](const TaskColumn& column) { return column.kind == HK_COLUMN_CLASSES; };
    if (std::ranges::none_of(options_.columns, labels)) return counts;
    for (uint64_t number = 0; number < rows_.size(); ++number) {
        HK_TRY(options_.reading.stop.check("reading data"));
        const Example one = row(number);
        for (std::size_t c = 0; c < options_.columns.size(); ++c)
            if (labels(options_.columns[c]) && one.values[c].present)
                for (const std::string& label : texts_of(one.values[c]))
                    ++counts[std::string(trimmed(label, kLineBlanks))];
    }
    return counts;
}

std::vector<std::string> TaskTable::classes(const std::map<std::string, uint64_t>& counts) {
    std::vector<std::string> all;
    for (const auto& [name, count] : counts) all.push_back(name);
    if (std::ranges::all_of(all, [](const std::string& label) { return number_of(label).has_value(); }))
        std::ranges::stable_sort(all, {}, [](const std::string& label) { return *number_of(label); });
    return all;
}

Status TaskTable::train(text::TokenizerTrainer& trainer) const {
    for (uint64_t number = 0; number < rows_.size(); ++number) {
        HK_TRY(options_.reading.stop.check("reading data"));
        const Example one = row(number);
        for (std::size_t c = 0; c < options_.columns.size(); ++c) {
            const Value& value = one.values[c];
            if (!value.present || (!is_text(options_.columns[c].kind) && !value.is_messages)) continue;
            text::TextOrigin origin;
            origin.name = files_[one.file];
            origin.line = one.line;
            // Words are joined by spaces, for tokenizers whose tokens include spaces.
            if (options_.columns[c].kind == HK_COLUMN_WORDS) {
                HK_TRY(trainer.add(fmt::format("{}", fmt::join(value.items, " ")), origin));
                continue;
            }
            const std::vector<std::string> contents =
                value.is_messages ? contents_of(value, true) : std::vector<std::string>();
            for (const std::string& text : value.is_messages ? std::span<const std::string>(contents) : texts_of(value))
                HK_TRY(trainer.add(text, origin));
        }
    }
    return {};
}

Result<Hash128> TaskTable::hash() const {
    std::string state;
    for (const TaskColumn& column : options_.columns) state += fmt::format("{} {}\n", column.name, column.kind);
    for (uint64_t number = 0; number < rows_.size(); ++number) {
        HK_TRY(options_.reading.stop.check("reading data"));
        std::string all = state;
        const Example one = row(number);
        for (std::size_t c = 0; c < options_.columns.size(); ++c)
            for (const std::string& text : texts_of(one.values[c])) all += fmt::format("{}:{}", text.size(), text);
        state = to_hex(hash128(all));
    }
    return hash128(state);
}

uint64_t TaskTable::row_key(uint64_t number) const {
    const Example one = row(number);
    std::string all;
    bool has_text = false;
    const auto add = [&](bool targets) {
        for (std::size_t c = 0; c < options_.columns.size(); ++c) {
            if (options_.columns[c].target != targets) continue;
            for (const std::string& text : texts_of(one.values[c])) all += fmt::format("{}:{}", text.size(), text);
            has_text = has_text || one.values[c].present;
        }
    };
    add(false);
    if (!has_text) add(true); // answers without prompts: rows would all be equal
    return hash64(all);
}

Result<TaskTable::Encoded> TaskTable::encode(const text::TextEncoder& encoder, std::span<const std::string> classes,
                                             const text::ChatTemplate* chat, uint64_t every) const {
    std::map<std::string_view, int32_t> numbers;
    for (std::size_t i = 0; i < classes.size(); ++i) numbers.emplace(classes[i], static_cast<int32_t>(i));
    Encoded result;
    result.examples = std::make_unique<StoredExamples>(options_.memory);
    std::map<std::string, std::pair<uint64_t, std::string>> faults; // what -> count, first
    const std::optional<int32_t> unknown = encoder.tokenizer().special(text::TokenRole::unk);
    for (uint64_t number = 0; number < rows_.size(); number += every) {
        HK_TRY(options_.reading.stop.check("reading data"));
        const Example given = row(number);
        EncodedExample example;
        example.document = number;
        Fault fault;
        std::size_t words = 0;
        std::vector<std::optional<EncodedColumn>> chats(options_.columns.size());
        const Status messages =
            encode_messages(encoder, chat, options_.columns, given.values, chats, options_.reading.stop);
        if (messages.code() == Code::cancelled) return messages;
        if (!messages.ok()) fault = {"whose messages are wrong", messages.message()};
        for (std::size_t c = 0; c < options_.columns.size() && fault.what == nullptr; ++c) {
            const TaskColumn& column = options_.columns[c];
            const Value& value = given.values[c];
            if (!value.present && !chats[c]) continue;
            EncodedColumn out;
            out.name = column.name;
            out.kind = column.kind;
            if (chats[c]) {
                out = std::move(*chats[c]);
                result.tokens += out.ids.size();
            } else if (is_text(column.kind)) {
                const Status encoded = encode_text(encoder, column.kind, texts_of(value), out);
                if (!encoded.ok()) fault = {"that cannot be tokenized", encoded.message()};
                if (encoded.ok() && out.ids.empty() && !column.optional)
                    fault = {"without a token", fmt::format("\"{}\" has no token", column.name)};
                if (column.kind == HK_COLUMN_WORDS) words = out.parts.size();
                result.tokens += out.ids.size();
                if (unknown) result.unknown_tokens += static_cast<uint64_t>(std::ranges::count(out.ids, *unknown));
            } else if (column.kind == HK_COLUMN_CLASSES) {
                for (const std::string& label : texts_of(value)) {
                    const auto found = numbers.find(trimmed(label, kLineBlanks));
                    if (found == numbers.end())
                        fault = {"with an unknown label",
                                 fmt::format("the label '{}' is not one of {}", trimmed(label, kLineBlanks),
                                             fmt::join(classes, ", "))};
                    out.ids.push_back(found == numbers.end() ? -1 : found->second);
                }
            } else if (column.kind == HK_COLUMN_SPANS) {
                const std::string_view part = trimmed(value.text, kLineBlanks);
                std::string_view whole;
                for (std::size_t before = 0; before < c; ++before)
                    if (options_.columns[before].kind == HK_COLUMN_TOKENS && given.values[before].present)
                        whole = given.values[before].text;
                std::optional<double> begin;
                if (c + 1 < options_.columns.size() && options_.columns[c + 1].kind == HK_COLUMN_NUMBERS &&
                    given.values[c + 1].present)
                    begin = number_of(given.values[c + 1].text);
                HK_ASSIGN(const auto found, tokens_of_part(encoder, whole, part, begin));
                if (found)
                    out.ids = {found->first, found->second};
                else
                    fault = {"whose part of the text is not there",
                             begin ? fmt::format("\"{}\": '{}' is not at character {} of the text", column.name, part,
                                                 *begin)
                                   : fmt::format("\"{}\": '{}' does not occur in the text", column.name, part)};
            } else {
                for (const std::string& text : texts_of(value)) {
                    std::optional<double> number = number_of(text);
                    if (text == "true" || text == "True") number = 1.0; // JSON, pandas
                    if (text == "false" || text == "False") number = 0.0;
                    if (!number)
                        fault = {"with an invalid number",
                                 fmt::format("\"{}\": '{}' is not a number", column.name, text)};
                    out.numbers.push_back(static_cast<float>(number.value_or(0.0)));
                }
            }
            example.columns.push_back(std::move(out));
        }
        if (fault.what == nullptr && words > 0)
            for (const EncodedColumn& column : example.columns)
                if (column.kind == HK_COLUMN_CLASSES && column.ids.size() != words)
                    fault = {"whose words and tags differ in number",
                             fmt::format("{} words, but {} labels in \"{}\"", words, column.ids.size(), column.name)};
        if (fault.what != nullptr) {
            const std::string why = fmt::format("{}: {}", place(number), fault.why);
            if (options_.on_bad == OnBadExample::refuse)
                return invalid_argument(why + remedy_of_bad_example(options_.of_recipe));
            auto& [count, first] = faults[fault.what];
            if (count++ == 0) first = why;
            continue;
        }
        HK_TRY(result.examples->add(example));
        result.rows.push_back(number);
    }
    HK_TRY(result.examples->finish());
    for (const auto& [what, fault] : faults)
        result.skipped +=
            fmt::format("{}{} {} (first: {})", result.skipped.empty() ? "" : ", ", fault.first, what, fault.second);
    if (result.examples->size() == 0)
        return invalid_argument(
            fmt::format("{}: no valid example is left: {}", fmt::join(files_, ", "), result.skipped));
    return result;
}

Result<EncodedExample> encode_texts(const text::TextEncoder& encoder, std::span<const TaskColumn> columns,
                                    const std::map<std::string, std::vector<std::string>>& texts) {
    EncodedExample example;
    for (const TaskColumn& column : columns) {
        if (!is_text(column.kind) || column.target) continue;
        const auto given = texts.find(column.name);
        if (given == texts.end()) {
            if (column.optional) continue;
            return invalid_argument(fmt::format("a row has no \"{}\", which this model reads", column.name));
        }
        EncodedColumn out;
        out.name = column.name;
        std::vector<std::string> values = given->second;
        for (std::string& value : values)
            if (!value.starts_with(column.prefix)) value.insert(0, column.prefix);
        HK_TRY(encode_text(encoder, column.kind, values, out));
        if (out.ids.empty() && !column.optional)
            return invalid_argument(fmt::format("\"{}\" has no token: give at least one character", column.name));
        example.columns.push_back(std::move(out));
    }
    return example;
}

} // namespace hekla::data
