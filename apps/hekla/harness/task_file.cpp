#include "harness/task_file.hpp"

#include "base/file.hpp"
#include "base/nearest_name.hpp"
#include "base/toml.hpp"
#include "harness/metrics.hpp"
#include "text/expression.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace hekla::harness {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFunctions[] = {"regex", "take_first", "majority_vote"};

// Reads a text or an integer as a text with columns.
bool read_template(StrictTable& table, const char* key, data::TextTemplate& out) {
    const json* const value = table.find(key);
    if (value == nullptr) return false;
    if (!value->is_string() && !value->is_number_integer())
        return table.wrong(*value, key, "a string, with {{NAME}} for the column NAME");
    Result<data::TextTemplate> parsed =
        data::TextTemplate::parse_doubled(value->is_string() ? value->get<std::string>() : value->dump());
    if (!parsed.ok()) return table.fail(*value, key, parsed.message());
    out = parsed.take();
    return true;
}

// Reads a list of texts; a text is read as a list of one.
bool read_texts(StrictTable& table, const char* key, std::vector<std::string>& out) {
    const json* const value = table.find(key);
    if (value == nullptr || !value->is_string()) return value != nullptr && table.take(*value, key, out);
    out = {value->get<std::string>()};
    return true;
}

// Reads a text that is one of several names; the number of the name.
template<std::size_t N>
std::size_t read_name(StrictTable& table, const char* key, const char* const (&names)[N], std::size_t otherwise) {
    std::string name;
    if (!table.read(key, name, std::vector<std::string>(std::begin(names), std::end(names)))) return otherwise;
    return static_cast<std::size_t>(std::ranges::find(names, name) - std::begin(names));
}

void read_data(StrictTable& table, Task& task) {
    if (!table.read("dataset", task.dataset) || task.dataset.empty())
        table.refuse("lacks 'dataset'; expected a file of rows: .jsonl, .csv, .tsv");
    table.read("fewshot_dataset", task.fewshot_dataset);
    std::string format;
    if (!table.read("format", format)) return;
    const Result<data::ExampleFormat> named = data::format_of_name(format);
    if (named.ok())
        task.format = named.value();
    else
        table.fail("format", named.message());
}

void read_choices(StrictTable& table, Task& task) {
    const json* const value = table.find("doc_to_choice");
    const bool chooses = task.output_type == OutputType::multiple_choice;
    if (value == nullptr && chooses)
        table.refuse("lacks 'doc_to_choice', which multiple_choice needs: a list of texts");
    else if (value != nullptr && !chooses)
        table.fail("doc_to_choice",
                   fmt::format("is for multiple_choice; the output_type is {}", output_type_name(task.output_type)));
    if (value == nullptr || !chooses) return;
    if (value->is_string()) { // "{{choices}}"
        data::TextTemplate list;
        if (!read_template(table, "doc_to_choice", list)) return;
        if (list.columns().size() == 1 && list.text([](std::string_view) { return std::string_view(); }).empty())
            task.choices.column = list.columns()[0];
        else
            table.wrong(*value, "doc_to_choice", "a list of texts, or \"{{NAME}}\" for a column that lists them");
        return;
    }
    std::vector<std::string> texts;
    table.read("doc_to_choice", texts);
    for (const std::string& text : texts) {
        Result<data::TextTemplate> parsed = data::TextTemplate::parse_doubled(text);
        if (parsed.ok())
            task.choices.texts.push_back(parsed.take());
        else
            table.fail("doc_to_choice", parsed.message());
    }
    table.read("target_values", task.target_values);
}

void read_samples(StrictTable& table, Task& task) {
    constexpr const char* kSamplers[] = {"default", "first_n"};
    table.read("num_fewshot", task.num_fewshot, NumberRange{0, 10'000});
    table.read("fewshot_delimiter", task.fewshot_delimiter);
    table.read("target_delimiter", task.target_delimiter);
    table.table("fewshot_config", [&](StrictTable& inner) {
        task.first_n = read_name(inner, "sampler", kSamplers, 0) == 1;
        const json* const list = inner.find("samples");
        if (list == nullptr) return;
        if (!list->is_array() || list->empty()) inner.wrong(*list, "samples", "a list of tables");
        for (const auto& [index, sample] : list->items()) {
            if (!sample.is_object()) inner.wrong(sample, "samples", "a list of tables");
            std::map<std::string, std::string>& columns = task.samples.emplace_back();
            for (const auto& [key, value] : sample.items()) {
                if (!value.is_string() && !value.is_number_integer())
                    inner.wrong(value, "samples", "a string or an integer");
                columns[key] = value.is_string() ? value.get<std::string>() : value.dump();
            }
        }
        if (!task.fewshot_dataset.empty())
            inner.fail("samples", "are the demonstrations, and fewshot_dataset gives others: keep one of them");
    });
    if (task.output_type == OutputType::loglikelihood_rolling && task.num_fewshot > 0)
        table.refuse("num_fewshot is above 0, and loglikelihood_rolling has no demonstrations");
}

void read_generation(StrictTable& table, Task& task) {
    const bool writes = task.output_type == OutputType::generate_until;
    if (table.find("generation_kwargs") != nullptr && !writes)
        table.fail("generation_kwargs",
                   fmt::format("is for generate_until; the output_type is {}", output_type_name(task.output_type)));
    task.until = {task.fewshot_delimiter};
    table.table("generation_kwargs", [&](StrictTable& inner) {
        if (read_texts(inner, "until", task.until) &&
            (task.until.empty() || std::ranges::count(task.until, std::string()) > 0))
            inner.fail("until", "is empty; expected texts of at least one character that end an answer");
        inner.read("max_gen_toks", task.max_gen_toks, NumberRange{1, 1 << 20});
        inner.read("do_sample", task.do_sample);
        // 0 is how tasks for lm-evaluation-harness ask for the most likely token, which is what is written without
        // do_sample.
        const json* const temperature = inner.find("temperature");
        if (temperature != nullptr && *temperature == 0.0 && task.do_sample)
            inner.fail("temperature",
                       "is 0, and do_sample = true draws tokens; expected a number above 0, or no do_sample");
        else if (temperature != nullptr && *temperature != 0.0)
            inner.take(*temperature, "temperature", task.temperature, {0.0, 1e6, true});
        inner.read("top_p", task.top_p, NumberRange{0.0, 1.0, true});
        inner.read("top_k", task.top_k, NumberRange{0, 1 << 30});
    });
    if (writes && (task.until.empty() || task.until[0].empty()))
        table.refuse(
            "generation_kwargs.until is missing, and its default, fewshot_delimiter, is empty; expected texts of "
            "at least one character that end an answer");
    table.read("repeats", task.repeats, NumberRange{1, 10'000});
    if (task.repeats > 1 && !writes) table.refuse("repeats is above 1, which is for generate_until");
    if (task.repeats > 1 && !task.do_sample && writes)
        table.refuse("repeats is above 1, and without generation_kwargs.do_sample = true the texts are all equal");
}

void read_filters(StrictTable& table, Task& task) {
    if (table.find("filter_list") != nullptr && task.output_type != OutputType::generate_until)
        table.fail("filter_list",
                   fmt::format("is for generate_until; the output_type is {}", output_type_name(task.output_type)));
    table.tables("filter_list", [&](StrictTable& inner) {
        FilterPipeline& pipeline = task.filters.emplace_back();
        if (!inner.read("name", pipeline.name) || pipeline.name.empty()) inner.fail("name", "is missing");
        for (std::size_t i = 0; i + 1 < task.filters.size(); ++i)
            if (task.filters[i].name == pipeline.name)
                inner.fail("name", fmt::format("'{}' is the name of two filters", pipeline.name));
        inner.tables("filter", [&](StrictTable& step) {
            Filter& filter = pipeline.steps.emplace_back();
            if (step.find("function") == nullptr)
                step.fail("function", fmt::format("is missing; there are {}", fmt::join(kFunctions, ", ")));
            filter.function = static_cast<Filter::Function>(read_name(step, "function", kFunctions, 1));
            if (filter.function != Filter::Function::regex) return;
            filter.pattern = R"(#### (\-?[0-9\.\,]+))"; // as in lm-evaluation-harness
            step.read("regex_pattern", filter.pattern);
            step.read("group_select", filter.group_select, NumberRange{-1'000'000, 1'000'000});
            step.read("fallback", filter.fallback);
            const Result<std::vector<std::string>> tried = text::find_matches(filter.pattern, "");
            if (!tried.ok()) step.fail("regex_pattern", tried.message());
        });
        if (pipeline.steps.empty())
            inner.fail("filter", "is missing; expected a list of tables");
        else if (task.repeats > 1 && pipeline.steps.back().function == Filter::Function::regex)
            inner.fail("filter", "leaves several responses, since repeats is above 1: end it with take_first or "
                                 "majority_vote");
    });
    if (task.filters.empty()) task.filters.push_back({"none", {Filter()}});
}

// Reads one metric of a task whose output type has `names`.
void read_metric(StrictTable& table, const std::vector<std::string>& names, Task& task) {
    MetricUse& use = task.metrics.emplace_back();
    if (!table.read("metric", use.name)) {
        table.fail("metric", fmt::format("is missing; there are {}", fmt::join(names, ", ")));
        return;
    }
    const MetricInfo* const info = find_metric(use.name);
    if (info == nullptr || std::ranges::find(names, use.name) == names.end()) {
        const std::string there = fmt::format("; there are {}", fmt::join(names, ", "));
        table.fail("metric", info == nullptr
                                 ? fmt::format("unknown metric '{}'{}", use.name, did_you_mean(use.name, names, there))
                                 : fmt::format("'{}' is not a metric of {}{}", use.name,
                                               output_type_name(task.output_type), there));
        return;
    }
    for (std::size_t i = 0; i + 1 < task.metrics.size(); ++i)
        if (task.metrics[i].name == use.name) table.fail("metric", fmt::format("'{}' is listed twice", use.name));
    std::string aggregation;
    const std::string_view own = use.name == "f1" && task.output_type == OutputType::generate_until
                                     ? std::string_view("mean")
                                     : info->aggregation;
    if (table.read("aggregation", aggregation) && aggregation != own)
        table.fail("aggregation", fmt::format("is '{}'; that of {} is '{}'", aggregation, use.name, own));
    bool higher = info->higher_is_better;
    if (table.read("higher_is_better", higher) && higher != info->higher_is_better)
        table.fail("higher_is_better", fmt::format("is {}; that of {} is {}", higher, use.name, !higher));
    if (use.name == "exact_match" && task.output_type == OutputType::generate_until) {
        table.read("ignore_case", use.ignore_case);
        table.read("ignore_punctuation", use.ignore_punctuation);
    }
}

void read_metrics(StrictTable& table, Task& task) {
    std::vector<std::string> names;
    for (const MetricInfo& info : metric_table())
        if (std::ranges::find(info.output_types, task.output_type) != info.output_types.end())
            names.emplace_back(info.name);
    table.tables("metric_list", [&](StrictTable& inner) { read_metric(inner, names, task); });
    if (task.metrics.empty())
        for (const std::string& name : default_metrics(task.output_type)) task.metrics.push_back({name});
}

void read(StrictTable& table, Task& task) {
    if (!table.read("task", task.name) || task.name.empty() || !is_plain_file_name(task.name))
        table.refuse("lacks 'task', the name of the task, which is part of a file's name");
    if (table.find("output_type") == nullptr)
        table.refuse(fmt::format("lacks 'output_type'; expected one of {}", fmt::join(kOutputTypes, ", ")));
    task.output_type = static_cast<OutputType>(read_name(table, "output_type", kOutputTypes, 0));
    const bool rolling = task.output_type == OutputType::loglikelihood_rolling;
    read_data(table, task);
    read_template(table, "description", task.description);
    const json* const text = table.find("doc_to_text");
    read_template(table, "doc_to_text", task.text);
    if (text == nullptr && !rolling) table.refuse("lacks 'doc_to_text', the prompt of a document");
    if (text != nullptr && rolling && *text != "")
        table.fail("doc_to_text", "is not empty; loglikelihood_rolling scores doc_to_target without a prompt");
    if (!read_template(table, "doc_to_target", task.target))
        table.refuse("lacks 'doc_to_target', the answer of a document");
    else if (task.output_type != OutputType::multiple_choice && task.target.columns().empty())
        table.fail("doc_to_target", "names no column, so it is the same for all documents; expected {{NAME}}");
    read_template(table, "gen_prefix", task.gen_prefix);
    read_choices(table, task);
    read_samples(table, task);
    read_generation(table, task);
    read_filters(table, task);
    read_metrics(table, task);
    table.table("metadata", [&](StrictTable& inner) {
        const json* const version = inner.find("version");
        if (version == nullptr) return;
        if (!version->is_string() && !version->is_number()) inner.wrong(*version, "version", "a number or a string");
        task.version = version->is_string() ? version->get<std::string>() : version->dump();
    });
    table.finish();
}

} // namespace

Result<Task> parse_task(std::string_view text, const std::string& name) {
    TableReading reading(name);
    HK_ASSIGN(const json values, toml_values(text, reading));
    Task task;
    task.file = name;
    task.config = values;
    StrictTable table(values, reading, "", "a task");
    read(table, task);
    HK_TRY(reading.status());
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
