#include "harness/task_file.hpp"

#include "base/file.hpp"
#include "base/nearest_name.hpp"
#include "harness/metrics.hpp"
#include "text/expression.hpp"
#include "train/recipe/recipe_reader.hpp"
#include "train/recipe/toml_text.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace hekla::harness {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kFunctions[] = {"regex", "take_first", "majority_vote"};

// "; did you mean 'x'?", or the known names.
template<class Names>
std::string suggestion(std::string_view name, const Names& names) {
    const std::vector<std::string> known(std::begin(names), std::end(names));
    const std::string_view near = nearest_name(name, std::span<const std::string>(known));
    return near.empty() ? fmt::format("; there are {}", fmt::join(known, ", "))
                        : fmt::format("; did you mean '{}'?", near);
}

ordered_json json_of(const toml::node& node) {
    if (const toml::table* table = node.as_table()) {
        ordered_json object = ordered_json::object();
        for (const auto& [key, value] : *table) object[std::string(key.str())] = json_of(value);
        return object;
    }
    if (const toml::array* array = node.as_array()) {
        ordered_json list = ordered_json::array();
        for (const toml::node& value : *array) list.push_back(json_of(value));
        return list;
    }
    if (const auto text = node.value_exact<std::string>()) return *text;
    if (const auto integer = node.value_exact<int64_t>()) return *integer;
    if (const auto real = node.value_exact<double>()) return *real;
    if (const auto truth = node.value_exact<bool>()) return *truth;
    return nullptr;
}

// Reads the keys of one table; the first error is kept.
class Table {
public:
    Table(const toml::table& table, std::string name, const std::string& file, Status& status)
        : table_(table), name_(std::move(name)), file_(file), status_(status) {}
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;

    const toml::node* find(const char* key) {
        known_.emplace_back(key);
        return table_.get(key);
    }
    bool read(const char* key, std::string& out) { return read_as<std::string>(key, "a text in quotes", out); }
    bool read(const char* key, bool& out) { return read_as<bool>(key, "true or false", out); }
    bool read(const char* key, int64_t& out, int64_t least, int64_t most) {
        const toml::node* const node = find(key);
        if (node == nullptr) return false;
        const auto value = node->value_exact<int64_t>();
        if (value && *value >= least && *value <= most) {
            out = *value;
            return true;
        }
        wrong(*node, key,
              most == INT64_MAX ? fmt::format("an integer of at least {}", least)
                                : fmt::format("an integer, {} to {}", least, most));
        return false;
    }
    // above: the value must be larger.
    bool read(const char* key, double& out, double above, double most, const std::string& expected) {
        const toml::node* const node = find(key);
        if (node == nullptr) return false;
        const auto value = node->value<double>(); // an integer too
        if (value && std::isfinite(*value) && *value > above && *value <= most) {
            out = *value;
            return true;
        }
        wrong(*node, key, expected);
        return false;
    }
    bool read(const char* key, data::TextTemplate& out) {
        std::string text;
        const toml::node* const node = find(key);
        if (node == nullptr) return false;
        if (const auto index = node->value_exact<int64_t>())
            text = fmt::format("{}", *index);
        else if (const auto given = node->value_exact<std::string>())
            text = *given;
        else
            return wrong(*node, key, "a text in quotes, with {{NAME}} for the column NAME"), false;
        return parse(*node, key, text, out);
    }
    bool parse(const toml::node& node, const char* key, const std::string& text, data::TextTemplate& out) {
        Result<data::TextTemplate> parsed = data::TextTemplate::parse_doubled(text);
        if (!parsed.ok()) return fail(node, key, parsed.message()), false;
        out = parsed.take();
        return true;
    }
    // Reads a list of texts; `one`: a text is read as a list of one.
    bool read(const char* key, std::vector<std::string>& out, bool one) {
        const toml::node* const node = find(key);
        if (node == nullptr) return false;
        out.clear();
        if (const auto text = node->value_exact<std::string>(); text && one) out.push_back(*text);
        if (const toml::array* list = node->as_array())
            for (const toml::node& item : *list) {
                const auto text = item.value_exact<std::string>();
                if (!text) return wrong(item, key, "a list of texts in quotes"), false;
                out.push_back(*text);
            }
        else if (out.empty())
            return wrong(*node, key, "a list of texts in quotes"), false;
        return true;
    }
    // Calls `each` with every table of a list of tables ([[key]]).
    template<class Each>
    bool tables(const char* key, const Each& each) {
        const toml::node* const node = find(key);
        if (node == nullptr) return false;
        const toml::array* const list = node->as_array();
        if (list == nullptr || list->empty()) return wrong(*node, key, "a list of tables"), false;
        for (const toml::node& item : *list) {
            const toml::table* const inner = item.as_table();
            if (inner == nullptr) return wrong(item, key, "a list of tables"), false;
            Table reader(*inner, name_.empty() ? key : name_ + "." + key, file_, status_);
            each(reader, item);
            reader.refuse_other_keys();
        }
        return true;
    }
    template<class Each>
    bool table(const char* key, const Each& each) {
        const toml::node* const node = find(key);
        if (node == nullptr) return false;
        const toml::table* const inner = node->as_table();
        if (inner == nullptr) return wrong(*node, key, "a table"), false;
        Table reader(*inner, key, file_, status_);
        each(reader, *node);
        reader.refuse_other_keys();
        return true;
    }
    void refuse_other_keys() {
        for (const auto& [key, node] : table_) {
            const std::string name(key.str());
            if (std::ranges::find(known_, name) != known_.end()) continue;
            set(invalid_argument(fmt::format("{}: {} has no key '{}'{}", train::place_of(node, file_),
                                             name_.empty() ? "a task" : "[" + name_ + "]", name,
                                             suggestion(name, known_))));
        }
    }
    void fail(const toml::node& node, std::string_view key, const std::string& what) {
        set(invalid_argument(fmt::format("{}: {}: {}", train::place_of(node, file_), full(key), what)));
    }
    void wrong(const toml::node& node, std::string_view key, const std::string& expected) {
        set(invalid_argument(fmt::format("{}: {} is {}, expected {}", train::place_of(node, file_), full(key),
                                         json_of(node).dump(), expected)));
    }
    // For keys that are missing or contradict each other.
    void refuse(const std::string& what) { set(invalid_argument(fmt::format("{}: {}", file_, what))); }
    bool ok() const { return status_.ok(); }

private:
    std::string full(std::string_view key) const {
        return name_.empty() ? std::string(key) : fmt::format("{}.{}", name_, key);
    }
    void set(Status status) {
        if (status_.ok()) status_ = std::move(status);
    }
    template<class T>
    bool read_as(const char* key, const char* expected, T& out) {
        const toml::node* const node = find(key);
        if (node == nullptr) return false;
        const auto value = node->value_exact<T>();
        if (!value) return wrong(*node, key, expected), false;
        out = *value;
        return true;
    }

    const toml::table& table_;
    std::string name_;
    const std::string& file_;
    Status& status_;
    std::vector<std::string> known_;
};

// Reads a text that is one of several names; the number of the name.
template<std::size_t N>
std::size_t read_name(Table& table, const char* key, const char* const (&names)[N], std::size_t otherwise) {
    std::string name;
    const toml::node* const node = table.find(key);
    if (!table.read(key, name)) return otherwise;
    const auto found = std::ranges::find(names, name);
    if (found == std::end(names))
        table.fail(*node, key, fmt::format("unknown name '{}'{}", name, suggestion(name, names)));
    return found == std::end(names) ? otherwise : static_cast<std::size_t>(found - std::begin(names));
}

void read_data(Table& table, Task& task) {
    if (!table.read("dataset", task.dataset) || task.dataset.empty())
        table.refuse("lacks 'dataset'; expected a file of rows: .jsonl, .csv, .tsv");
    table.read("fewshot_dataset", task.fewshot_dataset);
    std::string format;
    const toml::node* const node = table.find("format");
    if (!table.read("format", format)) return;
    const Result<data::ExampleFormat> named = data::format_of_name(format);
    if (!named.ok()) return table.fail(*node, "format", named.message());
    task.format = named.value();
}

void read_choices(Table& table, Task& task) {
    const toml::node* const node = table.find("doc_to_choice");
    const bool chooses = task.output_type == OutputType::multiple_choice;
    if (node == nullptr && chooses)
        return table.refuse("lacks 'doc_to_choice', which multiple_choice needs: a list of texts");
    if (node == nullptr) return;
    if (!chooses)
        return table.fail(
            *node, "doc_to_choice",
            fmt::format("is for multiple_choice; the output_type is {}", output_type_name(task.output_type)));
    std::vector<std::string> texts;
    if (!table.read("doc_to_choice", texts, true)) return;
    if (node->is_string()) { // "{{choices}}"
        data::TextTemplate list;
        if (!table.parse(*node, "doc_to_choice", texts[0], list)) return;
        if (list.columns().size() != 1 || !list.text([](std::string_view) { return std::string_view(); }).empty())
            return table.wrong(*node, "doc_to_choice", "a list of texts, or \"{{NAME}}\" for a column that lists them");
        task.choices.column = list.columns()[0];
        return;
    }
    for (const std::string& text : texts) table.parse(*node, "doc_to_choice", text, task.choices.texts.emplace_back());
    table.read("target_values", task.target_values, false);
}

void read_samples(Table& table, Task& task) {
    constexpr const char* kSamplers[] = {"default", "first_n"};
    table.read("num_fewshot", task.num_fewshot, 0, 10'000);
    table.read("fewshot_delimiter", task.fewshot_delimiter);
    table.read("target_delimiter", task.target_delimiter);
    table.table("fewshot_config", [&](Table& inner, const toml::node&) {
        task.first_n = read_name(inner, "sampler", kSamplers, 0) == 1;
        const toml::node* const node = inner.find("samples");
        if (node == nullptr) return;
        const toml::array* const list = node->as_array();
        if (list == nullptr || list->empty()) return inner.wrong(*node, "samples", "a list of tables");
        for (const toml::node& item : *list) {
            const toml::table* const sample = item.as_table();
            if (sample == nullptr) return inner.wrong(item, "samples", "a list of tables");
            std::map<std::string, std::string>& columns = task.samples.emplace_back();
            for (const auto& [key, value] : *sample) {
                const auto text = value.value_exact<std::string>();
                const auto integer = value.value_exact<int64_t>();
                if (!text && !integer) return inner.wrong(value, "samples", "a text in quotes or an integer");
                columns[std::string(key.str())] = text ? *text : fmt::format("{}", *integer);
            }
        }
        if (!task.fewshot_dataset.empty())
            inner.fail(*node, "samples", "are the demonstrations, and fewshot_dataset gives others: keep one of them");
    });
    if (task.output_type == OutputType::loglikelihood_rolling && task.num_fewshot > 0)
        table.refuse("num_fewshot is above 0, and loglikelihood_rolling has no demonstrations");
}

void read_generation(Table& table, Task& task) {
    const bool writes = task.output_type == OutputType::generate_until;
    const toml::node* const node = table.find("generation_kwargs");
    if (node != nullptr && !writes)
        table.fail(*node, "generation_kwargs",
                   fmt::format("is for generate_until; the output_type is {}", output_type_name(task.output_type)));
    task.until = {task.fewshot_delimiter};
    table.table("generation_kwargs", [&](Table& inner, const toml::node&) {
        const toml::node* const until = inner.find("until");
        if (inner.read("until", task.until, true) &&
            (task.until.empty() || std::ranges::count(task.until, std::string()) > 0))
            inner.fail(*until, "until", "is empty; expected texts of at least one character that end an answer");
        inner.read("max_gen_toks", task.max_gen_toks, 1, 1 << 20);
        inner.read("do_sample", task.do_sample);
        // 0 is how tasks for lm-evaluation-harness ask for the most likely token, which is what is written without
        // do_sample.
        const toml::node* const temperature = inner.find("temperature");
        if (temperature != nullptr && temperature->value<double>() == 0.0 && task.do_sample)
            inner.fail(*temperature, "temperature",
                       "is 0, and do_sample = true draws tokens; expected a number above 0, or no do_sample");
        else if (temperature == nullptr || temperature->value<double>() != 0.0)
            inner.read("temperature", task.temperature, 0.0, 1e6, "a number above 0, or 0 without do_sample");
        inner.read("top_p", task.top_p, 0.0, 1.0, "a number above 0, at most 1");
        inner.read("top_k", task.top_k, 0, 1 << 30);
    });
    if (writes && task.until[0].empty())
        table.refuse(
            "generation_kwargs.until is missing, and its default, fewshot_delimiter, is empty; expected texts of "
            "at least one character that end an answer");
    table.read("repeats", task.repeats, 1, 10'000);
    if (task.repeats > 1 && !writes) table.refuse("repeats is above 1, which is for generate_until");
    if (task.repeats > 1 && !task.do_sample && writes)
        table.refuse("repeats is above 1, and without generation_kwargs.do_sample = true the texts are all equal");
}

void read_filters(Table& table, Task& task) {
    const toml::node* const given = table.find("filter_list");
    if (given != nullptr && task.output_type != OutputType::generate_until)
        table.fail(*given, "filter_list",
                   fmt::format("is for generate_until; the output_type is {}", output_type_name(task.output_type)));
    table.tables("filter_list", [&](Table& inner, const toml::node& item) {
        FilterPipeline& pipeline = task.filters.emplace_back();
        if (!inner.read("name", pipeline.name) || pipeline.name.empty()) inner.fail(item, "name", "is missing");
        for (std::size_t i = 0; i + 1 < task.filters.size(); ++i)
            if (task.filters[i].name == pipeline.name)
                inner.fail(item, "name", fmt::format("'{}' is the name of two filters", pipeline.name));
        const bool has_steps = inner.tables("filter", [&](Table& step, const toml::node& node) {
            Filter& filter = pipeline.steps.emplace_back();
            if (step.find("function") == nullptr)
                step.fail(node, "function", fmt::format("is missing; there are {}", fmt::join(kFunctions, ", ")));
            filter.function = static_cast<Filter::Function>(read_name(step, "function", kFunctions, 1));
            if (filter.function != Filter::Function::regex) return;
            filter.pattern = R"(#### (\-?[0-9\.\,]+))"; // as in lm-evaluation-harness
            step.read("regex_pattern", filter.pattern);
            step.read("group_select", filter.group_select, -1'000'000, 1'000'000);
            step.read("fallback", filter.fallback);
            const Result<std::vector<std::string>> tried = text::find_matches(filter.pattern, "");
            if (!tried.ok()) step.fail(node, "regex_pattern", tried.message());
        });
        if (!has_steps)
            return inner.ok() ? inner.fail(item, "filter", "is missing; expected a list of tables") : void();
        if (task.repeats > 1 && pipeline.steps.back().function == Filter::Function::regex)
            inner.fail(item, "filter",
                       "leaves several responses, since repeats is above 1: end it with take_first or "
                       "majority_vote");
    });
    if (task.filters.empty()) task.filters.push_back({"none", {Filter()}});
}

void read_metrics(Table& table, Task& task) {
    std::vector<std::string> names;
    for (const MetricInfo& info : metric_table())
        if (std::ranges::find(info.output_types, task.output_type) != info.output_types.end())
            names.emplace_back(info.name);
    table.tables("metric_list", [&](Table& inner, const toml::node& item) {
        MetricUse& use = task.metrics.emplace_back();
        const toml::node* const node = inner.find("metric");
        if (!inner.read("metric", use.name))
            return inner.ok() ? inner.fail(item, "metric",
                                           "is missing; there are " + fmt::format("{}", fmt::join(names, ", ")))
                              : void();
        const MetricInfo* const info = find_metric(use.name);
        if (info == nullptr || std::ranges::find(names, use.name) == names.end())
            return inner.fail(*node, "metric",
                              info == nullptr
                                  ? fmt::format("unknown metric '{}'{}", use.name, suggestion(use.name, names))
                                  : fmt::format("'{}' is not a metric of {}; there are {}", use.name,
                                                output_type_name(task.output_type), fmt::join(names, ", ")));
        for (std::size_t i = 0; i + 1 < task.metrics.size(); ++i)
            if (task.metrics[i].name == use.name)
                inner.fail(*node, "metric", fmt::format("'{}' is listed twice", use.name));
        std::string aggregation;
        const toml::node* const how = inner.find("aggregation");
        const std::string_view own = use.name == "f1" && task.output_type == OutputType::generate_until
                                         ? std::string_view("mean")
                                         : info->aggregation;
        if (inner.read("aggregation", aggregation) && aggregation != own)
            inner.fail(*how, "aggregation", fmt::format("is '{}'; that of {} is '{}'", aggregation, use.name, own));
        bool higher = info->higher_is_better;
        const toml::node* const better = inner.find("higher_is_better");
        if (inner.read("higher_is_better", higher) && higher != info->higher_is_better)
            inner.fail(*better, "higher_is_better", fmt::format("is {}; that of {} is {}", higher, use.name, !higher));
        if (use.name == "exact_match" && task.output_type == OutputType::generate_until) {
            inner.read("ignore_case", use.ignore_case);
            inner.read("ignore_punctuation", use.ignore_punctuation);
        }
    });
    if (task.metrics.empty())
        for (const std::string& name : default_metrics(task.output_type)) task.metrics.push_back({name});
}

void read(Table& table, Task& task) {
    if (!table.read("task", task.name) || task.name.empty() || !is_plain_file_name(task.name))
        table.refuse("lacks 'task', the name of the task, which is part of a file's name");
    if (table.find("output_type") == nullptr)
        table.refuse(fmt::format("lacks 'output_type'; expected one of {}", fmt::join(kOutputTypes, ", ")));
    task.output_type = static_cast<OutputType>(read_name(table, "output_type", kOutputTypes, 0));
    const bool rolling = task.output_type == OutputType::loglikelihood_rolling;
    read_data(table, task);
    table.read("description", task.description);
    const toml::node* const text = table.find("doc_to_text");
    table.read("doc_to_text", task.text);
    if (text == nullptr && !rolling) table.refuse("lacks 'doc_to_text', the prompt of a document");
    if (text != nullptr && rolling && !(text->is_string() && text->value_or(std::string()).empty()))
        table.fail(*text, "doc_to_text", "is not empty; loglikelihood_rolling scores doc_to_target without a prompt");
    const toml::node* const target = table.find("doc_to_target");
    if (!table.read("doc_to_target", task.target)) table.refuse("lacks 'doc_to_target', the answer of a document");
    if (target != nullptr && task.output_type != OutputType::multiple_choice && task.target.columns().empty())
        table.fail(*target, "doc_to_target", "names no column, so it is the same for all documents; expected {{NAME}}");
    table.read("gen_prefix", task.gen_prefix);
    read_choices(table, task);
    read_samples(table, task);
    read_generation(table, task);
    read_filters(table, task);
    read_metrics(table, task);
    table.table("metadata", [&](Table& inner, const toml::node&) {
        const toml::node* const node = inner.find("version");
        if (node == nullptr) return;
        const auto text_version = node->value_exact<std::string>();
        if (!text_version && !node->is_number()) return inner.wrong(*node, "version", "a number or a text");
        task.version = text_version ? *text_version : json_of(*node).dump();
    });
    table.refuse_other_keys();
}

} // namespace

Result<Task> parse_task(std::string_view text, const std::string& name) {
    HK_ASSIGN(const toml::table parsed, train::parse_toml(text, name));
    Task task;
    task.file = name;
    task.config = json_of(parsed);
    Status status;
    Table table(parsed, "", name, status);
    read(table, task);
    if (!status.ok()) return status;
    return task;
}

Result<Task> read_task(const fs::path& file) {
    HK_ASSIGN(const std::string text, read_file(file, uint64_t{1} << 24));
    return parse_task(text, file.string());
}

Result<std::vector<Task>> read_tasks(const std::vector<std::string>& paths) {
    std::vector<fs::path> files;
    for (const std::string& path : paths) {
        std::error_code problem;
        if (!fs::is_directory(path, problem)) {
            files.emplace_back(path);
            continue;
        }
        std::vector<fs::path> found;
        for (const fs::directory_entry& entry : fs::directory_iterator(path, problem))
            if (entry.path().extension() == ".toml") found.push_back(entry.path());
        if (problem) return io_error(fmt::format("{}: {}", path, problem.message()));
        if (found.empty()) return not_found(fmt::format("{}: has no tasks, expected files named *.toml", path));
        std::ranges::sort(found);
        files.insert(files.end(), found.begin(), found.end());
    }
    std::vector<Task> tasks;
    for (const fs::path& file : files) {
        HK_ASSIGN(Task task, read_task(file));
        for (const Task& other : tasks)
            if (other.name == task.name)
                return invalid_argument(fmt::format("{} and {} are both named '{}'; names of tasks must differ",
                                                    other.file, task.file, task.name));
        tasks.push_back(std::move(task));
    }
    return tasks;
}

} // namespace hekla::harness
