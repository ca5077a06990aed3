#include "train/recipe.hpp"

#include "base/file.hpp"
#include "base/nearest_name.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <set>
#include <sstream>
#include <toml++/toml.h>

namespace hekla::train {
namespace {

using nlohmann::json;

const char* type_name(const toml::node& node) {
    if (node.is_string()) return "a text";
    if (node.is_integer()) return "an integer";
    if (node.is_floating_point()) return "a number";
    if (node.is_boolean()) return "true or false";
    if (node.is_array()) return "an array";
    if (node.is_table()) return "a table";
    return "a date or time";
}

// Where a node was written: a line of the file, or the override that it came from.
std::string place_of(const toml::node& node, const std::string& file) {
    const toml::source_region& source = node.source();
    if (source.path != nullptr && *source.path != file) return *source.path;
    if (source.begin.line > 0) return fmt::format("{}:{}", file, source.begin.line);
    // A section that an override made stands nowhere; what it holds does.
    if (const toml::table* table = node.as_table(); table != nullptr && !table->empty())
        return place_of(table->begin()->second, file);
    return file;
}

// Reads the keys of one table; remembers which there are, so that the others can be refused by name.
class Section {
public:
    Section(const toml::table& root, const char* name, const std::string& file, Status& status)
        : name_(name), file_(file), status_(status) {
        const toml::node* node = root.get(name);
        if (node == nullptr) return;
        table_ = node->as_table();
        if (table_ == nullptr) fail(*node, "", fmt::format("[{}] is {}, expected a table", name, type_name(*node)));
    }

    bool is_number(const char* key) const {
        const toml::node* node = table_ != nullptr ? table_->get(key) : nullptr;
        return node != nullptr && node->is_number();
    }

    void read(const char* key, std::string& out) {
        if (const toml::node* node = find(key)) {
            if (const auto* text = node->as_string())
                out = text->get();
            else
                wrong(*node, key, "a text");
        }
    }
    void read(const char* key, bool& out) {
        if (const toml::node* node = find(key)) {
            if (const auto* value = node->as_boolean())
                out = value->get();
            else
                wrong(*node, key, "true or false");
        }
    }
    void read(const char* key, int64_t& out, int64_t low, int64_t high = std::numeric_limits<int64_t>::max()) {
        if (const toml::node* node = find(key)) {
            const auto* value = node->as_integer();
            if (value == nullptr) return wrong(*node, key, "an integer");
            if (value->get() < low || value->get() > high)
                return fail(*node, key,
                            high == std::numeric_limits<int64_t>::max()
                                ? fmt::format("{} is too small, expected {} or more", value->get(), low)
                                : fmt::format("{} is outside {} to {}", value->get(), low, high));
            out = value->get();
        }
    }
    void read(const char* key, double& out, double low, double high = std::numeric_limits<double>::infinity()) {
        if (const toml::node* node = find(key)) {
            double value = 0.0;
            if (const auto* real = node->as_floating_point())
                value = real->get();
            else if (const auto* integer = node->as_integer())
                value = static_cast<double>(integer->get());
            else
                return wrong(*node, key, "a number");
            if (!(value >= low && value <= high) || !std::isfinite(value))
                return fail(*node, key,
                            std::isfinite(high) ? fmt::format("{} is outside {} to {}", value, low, high)
                                                : fmt::format("{} is not possible, expected {} or more", value, low));
            out = value;
        }
    }
    // A text or an array of texts.
    void read(const char* key, std::vector<std::string>& out) {
        const toml::node* node = find(key);
        if (node == nullptr) return;
        if (const auto* text = node->as_string()) {
            out = {text->get()};
            return;
        }
        const auto* array = node->as_array();
        if (array == nullptr) return wrong(*node, key, "a text or an array of texts");
        out.clear();
        for (const toml::node& element : *array) {
            const auto* text = element.as_string();
            if (text == nullptr) return wrong(element, key, "an array of texts");
            out.push_back(text->get());
        }
    }
    void read(const char* key, std::vector<int64_t>& out, int64_t low) {
        const toml::node* node = find(key);
        if (node == nullptr) return;
        const auto* array = node->as_array();
        if (array == nullptr) return wrong(*node, key, "an array of integers");
        out.clear();
        for (const toml::node& element : *array) {
            const auto* number = element.as_integer();
            if (number == nullptr || number->get() < low)
                return fail(element, key, fmt::format("expected integers of {} or more", low));
            out.push_back(number->get());
        }
    }
    void read(const char* key, std::optional<bool>& out) {
        bool value = false;
        if (find(key) == nullptr) return;
        read(key, value);
        out = value;
    }
    // A table of texts or numbers from 1; or an array of names, which stand for the numbers of their places ("" skips).
    void columns(const char* key, std::map<std::string, std::string>& out) {
        const toml::node* node = find(key);
        if (node == nullptr) return;
        out.clear();
        const auto wrong_one = [&](const toml::node& at) {
            wrong(at, key, "an array of names, or a table of names or numbers: {text = \"sentence\", label = 2}");
        };
        if (const auto* array = node->as_array()) {
            for (std::size_t i = 0; i < array->size(); ++i) {
                const auto* name = (*array)[i].as_string();
                if (name == nullptr) return wrong_one((*array)[i]);
                if (!name->get().empty()) out[name->get()] = fmt::format("{}", i + 1);
            }
            return;
        }
        const auto* table = node->as_table();
        if (table == nullptr) return wrong_one(*node);
        for (const auto& [name, source] : *table) {
            const std::string task(name.str());
            if (const auto* text = source.as_string())
                out[task] = text->get();
            else if (const auto* number = source.as_integer(); number != nullptr && number->get() > 0)
                out[task] = fmt::format("{}", number->get());
            else
                return wrong_one(source);
        }
    }
    // A table of texts. example: one, for messages.
    void texts(const char* key, std::map<std::string, std::string>& out, const char* example) {
        const toml::node* node = find(key);
        if (node == nullptr) return;
        const auto* table = node->as_table();
        const std::string expected = fmt::format("a table of texts: {}", example);
        if (table == nullptr) return wrong(*node, key, expected.c_str());
        out.clear();
        for (const auto& [name, value] : *table) {
            const auto* text = value.as_string();
            if (text == nullptr) return wrong(value, key, expected.c_str());
            out[std::string(name.str())] = text->get();
        }
    }
    // A table of pattern = number; the order in the file is lost, so the longest pattern stands first.
    void rates(const char* key, std::vector<std::pair<std::string, double>>& out) {
        const toml::node* node = find(key);
        if (node == nullptr) return;
        const auto* table = node->as_table();
        if (table == nullptr) return wrong(*node, key, "a table: {\"classifier.*\" = 1e-3}");
        out.clear();
        for (const auto& [pattern, rate] : *table) {
            const std::optional<double> value = rate.value<double>();
            if (!value || !(*value >= 0.0) || !std::isfinite(*value)) return wrong(rate, key, "numbers of 0 or more");
            out.emplace_back(pattern.str(), *value);
        }
        std::ranges::stable_sort(out, [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
    }
    void choice(const char* key, std::string& out, std::initializer_list<const char*> choices) {
        read(key, out);
        for (const char* c : choices)
            if (out == c) return;
        if (const toml::node* node = find(key))
            fail(*node, key, fmt::format("'{}' is not one of {}", out, fmt::join(choices, ", ")));
    }
    // What no read() asked for: given to a plugin...
    json rest() {
        json result = json::object();
        if (table_ == nullptr) return result;
        for (const auto& [key, node] : *table_) {
            const std::string name(key.str());
            if (!known_.contains(name)) result[name] = value_of(node, name);
        }
        return result;
    }
    // ... or refused.
    void refuse_rest() {
        if (table_ == nullptr) return;
        for (const auto& [key, node] : *table_) {
            const std::string name(key.str());
            if (known_.contains(name)) continue;
            const std::vector<std::string> known(known_.begin(), known_.end());
            const std::string_view near = nearest_name(name, std::span(known));
            fail(node, "",
                 fmt::format("[{}] has no key '{}'{}", name_, name,
                             near.empty() ? fmt::format(" (it has {})", fmt::join(known_, ", "))
                                          : fmt::format("; did you mean '{}'?", near)));
        }
    }
    void fail(const toml::node& node, const char* key, const std::string& what) {
        if (!status_.ok()) return;
        const std::string place = place_of(node, file_);
        status_ = invalid_argument(key[0] != '\0' ? fmt::format("{}: {}.{}: {}", place, name_, key, what)
                                                  : fmt::format("{}: {}", place, what));
    }

private:
    const toml::node* find(const char* key) {
        known_.insert(key);
        return table_ != nullptr ? table_->get(key) : nullptr;
    }
    void wrong(const toml::node& node, const char* key, const char* expected) {
        fail(node, key, fmt::format("is {}, expected {}", type_name(node), expected));
    }
    json value_of(const toml::node& node, const std::string& key) {
        if (const auto* text = node.as_string()) return text->get();
        if (const auto* integer = node.as_integer()) return integer->get();
        if (const auto* real = node.as_floating_point()) return real->get();
        if (const auto* flag = node.as_boolean()) return flag->get();
        if (const auto* array = node.as_array()) {
            json result = json::array();
            for (const toml::node& element : *array) result.push_back(value_of(element, key));
            return result;
        }
        if (const auto* table = node.as_table()) {
            json result = json::object();
            for (const auto& [name, element] : *table) result[std::string(name.str())] = value_of(element, key);
            return result;
        }
        fail(node, key.c_str(), "a date or time has no meaning here");
        return nullptr;
    }

    const char* name_;
    const std::string& file_;
    Status& status_;
    const toml::table* table_ = nullptr;
    std::set<std::string> known_;
};

// "a.b=value" put into the table; the value as TOML, or as a text where it is none.
Status apply_override(toml::table& root, const std::string& text) {
    const std::size_t equals = text.find('=');
    const std::size_t dot = text.find('.');
    if (equals == std::string::npos || dot == std::string::npos || dot > equals)
        return invalid_argument(fmt::format("override '{}' is not SECTION.KEY=VALUE", text));
    const std::string section = text.substr(0, dot), key = text.substr(dot + 1, equals - dot - 1),
                      value = text.substr(equals + 1);
    const std::string place = fmt::format("override '{}'", text); // what place_of() says of it
    toml::parse_result parsed = toml::parse("x = " + value, place);
    if (!parsed) parsed = toml::parse("x = \"\"", place);
    toml::table holder = std::move(parsed).table();
    if (holder.size() != 1) return invalid_argument(fmt::format("override '{}' is more than one value", text));
    toml::node* node = holder.get("x");
    if (node->is_string() && node->as_string()->get().empty() && !value.empty() && value != "\"\"")
        *node->as_string() = value;
    if (root.get(section) == nullptr) root.insert(section, toml::table{});
    toml::table* table = root.get(section)->as_table();
    if (table == nullptr) return invalid_argument(fmt::format("override '{}': [{}] is no table", text, section));
    table->insert_or_assign(key, std::move(*node));
    // How long a run is was asked for last by this: epochs of the file would win otherwise.
    if (section == "train" && key == "max_steps") table->erase("num_train_epochs");
    return {};
}

std::string quote(const std::string& text) { return json(text).dump(); } // JSON's escapes are valid TOML

std::string toml_value(const json& value) {
    if (value.is_object()) {
        std::vector<std::string> parts;
        for (const auto& [key, element] : value.items()) parts.push_back(quote(key) + " = " + toml_value(element));
        return fmt::format("{{{}}}", fmt::join(parts, ", "));
    }
    if (value.is_array()) {
        std::vector<std::string> parts;
        for (const json& element : value) parts.push_back(toml_value(element));
        return fmt::format("[{}]", fmt::join(parts, ", "));
    }
    return value.dump();
}

std::string real_text(double value) {
    std::string text = fmt::format("{}", value); // the shortest that reads back the same
    if (text.find_first_of(".en") == std::string::npos) text += ".0";
    return text;
}

std::string texts(const std::vector<std::string>& values) {
    std::vector<std::string> parts;
    for (const std::string& value : values) parts.push_back(quote(value));
    return fmt::format("[{}]", fmt::join(parts, ", "));
}

} // namespace

Result<Recipe> parse_recipe(std::string_view text, const std::string& name, const std::vector<std::string>& overrides) {
    toml::parse_result parsed = toml::parse(text, name);
    if (!parsed) {
        const toml::parse_error& e = parsed.error();
        return invalid_argument(fmt::format("{}:{}: {}", name, e.source().begin.line, e.description()));
    }
    toml::table root = std::move(parsed).table();
    for (const std::string& override_text : overrides) HK_TRY(apply_override(root, override_text));

    Status status;
    Recipe r;
    const std::vector<std::string> sections{"model",     "teacher", "adapter",  "objective", "head",  "data",
                                            "tokenizer", "train",   "generate", "plugins",   "output"};
    for (const auto& [key, node] : root) {
        const std::string section(key.str());
        if (std::find(sections.begin(), sections.end(), section) != sections.end()) continue;
        const std::string_view near = nearest_name(section, std::span(sections));
        return invalid_argument(fmt::format("{}: there is no section [{}]{}", place_of(node, name), section,
                                            near.empty() ? fmt::format(" (there are {})", fmt::join(sections, ", "))
                                                         : fmt::format("; did you mean [{}]?", near)));
    }
    {
        Section s(root, "model", name, status);
        s.read("architecture", r.model.architecture);
        s.read("from", r.model.from);
        // A number is the architecture's own key, where it has one: its depth.
        if (!s.is_number("layers")) s.read("layers", r.model.layers, 0);
        r.model.config = s.rest();
    }
    {
        Section s(root, "teacher", name, status);
        s.read("from", r.teacher.from);
        s.refuse_rest();
    }
    const auto plugin_section = [&](const char* key, PluginSection& out) {
        Section s(root, key, name, status);
        s.read("id", out.id);
        out.config = s.rest();
    };
    plugin_section("adapter", r.adapter);
    plugin_section("objective", r.objective);
    plugin_section("head", r.head);
    {
        Section s(root, "data", name, status);
        s.read("train", r.data.train);
        s.read("valid", r.data.valid);
        s.read("valid_fraction", r.data.valid_fraction, 0.0, 0.9);
        s.read("test", r.data.test);
        s.choice("format", r.data.format, {"text", "jsonl", "csv", "tsv", "conllu", "tagged", "parallel", "lines"});
        s.columns("columns", r.data.columns);
        s.texts("prefix", r.data.prefix, "{source = \"translate English to French: \"}");
        s.read("group", r.data.group);
        s.read("header", r.data.header);
        s.read("labels", r.data.labels);
        s.choice("on_bad", r.data.on_bad, {"error", "skip"});
        s.read("max_bytes", r.data.max_bytes, 16, int64_t{1} << 30);
        s.choice("documents", r.data.documents, {"blank_line", "line", "file", "heading"});
        s.choice("order", r.data.order, {"random", "shuffle"});
        s.read("class_balanced", r.data.class_balanced);
        s.read("cache", r.data.cache);
        s.refuse_rest();
    }
    {
        Section s(root, "tokenizer", name, status);
        s.choice("kind", r.tokenizer.kind, {"char", "bpe", "wordpiece", "unigram", "words", "from"});
        s.read("vocab_size", r.tokenizer.vocab_size, 16, 1 << 24);
        s.read("lower_case", r.tokenizer.lower_case);
        s.read("from", r.tokenizer.from);
        s.read("add", r.tokenizer.add);
        s.texts("add_roles", r.tokenizer.add_roles, "{separator = \"[DELIM]\"}");
        if (!r.tokenizer.from.empty() ||
            (r.tokenizer.kind.empty() && !(r.model.from.empty() && r.teacher.from.empty())))
            r.tokenizer.kind = "from";
        if (r.tokenizer.kind.empty()) r.tokenizer.kind = "char";
        s.refuse_rest();
    }
    {
        TrainSection& t = r.train;
        Section s(root, "train", name, status);
        s.read("max_steps", t.max_steps, 0);
        s.read("num_train_epochs", t.num_train_epochs, 0.0, 1e6);
        s.read("learning_rate", t.learning_rate, 0.0);
        s.read("min_learning_rate", t.min_learning_rate, 0.0);
        s.choice("lr_scheduler_type", t.lr_scheduler_type, {"cosine", "linear", "constant", "inverse_sqrt"});
        s.read("warmup_steps", t.warmup_steps, 0);
        s.read("warmup_ratio", t.warmup_ratio, 0.0, 1.0);
        s.choice("optim", t.optim, {"adamw", "sgd"});
        s.read("weight_decay", t.weight_decay, 0.0);
        s.read("adam_beta1", t.adam_beta1, 0.0, 0.999999);
        s.read("adam_beta2", t.adam_beta2, 0.0, 0.9999999);
        s.read("adam_epsilon", t.adam_epsilon, 0.0);
        s.read("momentum", t.momentum, 0.0, 0.999999);
        s.read("max_grad_norm", t.max_grad_norm, 0.0);
        s.read("per_device_train_batch_size", t.per_device_train_batch_size, 1, 1 << 20);
        s.read("per_device_eval_batch_size", t.per_device_eval_batch_size, 0, 1 << 20);
        s.read("gradient_accumulation_steps", t.gradient_accumulation_steps, 1, 1 << 20);
        s.read("context_length", t.context_length, 1, 1 << 24);
        s.read("eval_steps", t.eval_steps, 0);
        s.read("eval_batches", t.eval_batches, -1);
        s.read("metric_for_best_model", t.metric_for_best_model);
        s.read("load_best_model_at_end", t.load_best_model_at_end);
        s.read("early_stopping_patience", t.early_stopping_patience, 0);
        s.read("freeze", t.freeze);
        s.read("layer_lr_decay", t.layer_lr_decay, 0.0, 1.0);
        s.rates("learning_rates", t.learning_rates);
        s.read("group_by_length", t.group_by_length);
        s.read("save_steps", t.save_steps, 0);
        s.read("save_total_limit", t.save_total_limit, 1, 1 << 20);
        s.read("logging_steps", t.logging_steps, 1);
        s.read("seed", t.seed, 0);
        s.read("max_bad_steps", t.max_bad_steps, 1);
        s.read("gradient_checkpointing", t.gradient_checkpointing);
        s.read("fit", t.fit);
        s.read("ema_decay", t.ema_decay, 0.0, 0.9999999);
        s.read("bf16", t.bf16);
        s.read("fp16", t.fp16);
        s.refuse_rest();
    }
    {
        Section s(root, "generate", name, status);
        s.read("examples", r.generate.examples, -1);
        s.read("examples_while_training", r.generate.examples_while_training, 0);
        r.generate.options = s.rest();
    }
    {
        Section s(root, "plugins", name, status);
        s.read("isolate", r.plugins.isolate);
        s.refuse_rest();
    }
    {
        Section s(root, "output", name, status);
        s.read("dir", r.output.dir);
        s.refuse_rest();
    }
    if (!status.ok()) return status;
    if (r.model.architecture.empty() && r.model.from.empty())
        return invalid_argument(
            fmt::format("{}: [model] needs `architecture` (a plugin's id) or `from` (a model folder)", name));
    if (!r.model.layers.empty() && r.model.from.empty())
        return invalid_argument(
            fmt::format("{}: [model] layers: chooses among the layers of a model: name its folder in `from`", name));
    if (r.data.train.empty())
        return invalid_argument(fmt::format("{}: [data] needs `train`: a file, a folder or a pattern", name));
    if (r.output.dir.empty())
        return invalid_argument(fmt::format("{}: [output] needs `dir`: the folder of the run", name));
    if (r.data.class_balanced && r.train.group_by_length)
        return invalid_argument(fmt::format(
            "{}: data.class_balanced and train.group_by_length are both set: each is an order of its own", name));
    if (r.train.bf16 && r.train.fp16)
        return invalid_argument(fmt::format("{}: [train] has both bf16 and fp16: choose one of them", name));
    return r;
}

namespace {
// An adapter is for a body that is there.
Status check_adapter(const Recipe& r, const std::string& name) {
    if (r.adapter.id.empty() && !r.adapter.config.empty())
        return invalid_argument(fmt::format("{}: [adapter] needs `id`: a plugin's", name));
    if (!r.adapter.id.empty() && r.model.from.empty())
        return invalid_argument(
            fmt::format("{}: [adapter] changes a body that was trained: name its folder in model.from", name));
    if (!r.adapter.id.empty() && !(r.model.layers.empty() && r.tokenizer.add.empty() && r.tokenizer.add_roles.empty()))
        return invalid_argument(
            fmt::format("{}: [adapter] leaves the body as its folder has it: leave out model.layers, "
                        "tokenizer.add and tokenizer.add_roles",
                        name));
    return {};
}
} // namespace

Result<Recipe> read_recipe(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
    HK_ASSIGN(const std::string text, read_file(file));
    HK_ASSIGN(Recipe recipe, parse_recipe(text, file.string(), overrides));
    HK_TRY(check_adapter(recipe, file.string()));
    recipe.file = file;
    return recipe;
}

std::string write_recipe(const Recipe& r) {
    std::string s;
    const auto line = [&](const char* key, const std::string& value) { s += fmt::format("{} = {}\n", key, value); };
    const auto rest = [&](const json& config) {
        for (const auto& [key, value] : config.items())
            if (!value.is_null()) s += fmt::format("{} = {}\n", quote(key), toml_value(value));
    };
    const auto number = [](int64_t value) { return fmt::format("{}", value); };
    const auto flag = [](bool value) { return std::string(value ? "true" : "false"); };
    s += "[model]\n";
    if (!r.model.architecture.empty()) line("architecture", quote(r.model.architecture));
    if (!r.model.from.empty()) line("from", quote(r.model.from));
    if (!r.model.layers.empty()) line("layers", fmt::format("[{}]", fmt::join(r.model.layers, ", ")));
    rest(r.model.config);
    if (!r.teacher.from.empty()) {
        s += "\n[teacher]\n";
        line("from", quote(r.teacher.from));
    }
    if (!r.adapter.id.empty()) {
        s += "\n[adapter]\n";
        line("id", quote(r.adapter.id));
        rest(r.adapter.config);
    }
    s += "\n[objective]\n";
    line("id", quote(r.objective.id));
    rest(r.objective.config);
    s += "\n[head]\n";
    line("id", quote(r.head.id));
    rest(r.head.config);
    s += "\n[data]\n";
    line("train", texts(r.data.train));
    if (!r.data.valid.empty()) line("valid", texts(r.data.valid));
    if (!r.data.test.empty()) line("test", texts(r.data.test));
    line("valid_fraction", real_text(r.data.valid_fraction));
    if (!r.data.format.empty()) line("format", quote(r.data.format));
    if (!r.data.columns.empty()) line("columns", toml_value(json(r.data.columns)));
    if (!r.data.prefix.empty()) line("prefix", toml_value(json(r.data.prefix)));
    if (!r.data.group.empty()) line("group", quote(r.data.group));
    if (r.data.header) line("header", flag(*r.data.header));
    if (!r.data.labels.empty()) line("labels", texts(r.data.labels));
    line("on_bad", quote(r.data.on_bad));
    line("max_bytes", number(r.data.max_bytes));
    line("documents", quote(r.data.documents));
    line("order", quote(r.data.order));
    line("class_balanced", flag(r.data.class_balanced));
    if (!r.data.cache.empty()) line("cache", quote(r.data.cache));
    s += "\n[tokenizer]\n";
    line("kind", quote(r.tokenizer.kind));
    line("vocab_size", number(r.tokenizer.vocab_size));
    line("lower_case", flag(r.tokenizer.lower_case));
    if (!r.tokenizer.from.empty()) line("from", quote(r.tokenizer.from));
    if (!r.tokenizer.add.empty()) line("add", texts(r.tokenizer.add));
    if (!r.tokenizer.add_roles.empty()) line("add_roles", toml_value(json(r.tokenizer.add_roles)));
    const TrainSection& t = r.train;
    s += "\n[train]\n";
    line("max_steps", number(t.max_steps));
    line("num_train_epochs", real_text(t.num_train_epochs));
    line("learning_rate", real_text(t.learning_rate));
    line("min_learning_rate", real_text(t.min_learning_rate));
    line("lr_scheduler_type", quote(t.lr_scheduler_type));
    line("warmup_steps", number(t.warmup_steps));
    line("warmup_ratio", real_text(t.warmup_ratio));
    line("optim", quote(t.optim));
    line("weight_decay", real_text(t.weight_decay));
    line("adam_beta1", real_text(t.adam_beta1));
    line("adam_beta2", real_text(t.adam_beta2));
    line("adam_epsilon", real_text(t.adam_epsilon));
    line("momentum", real_text(t.momentum));
    line("max_grad_norm", real_text(t.max_grad_norm));
    line("per_device_train_batch_size", number(t.per_device_train_batch_size));
    line("per_device_eval_batch_size", number(t.per_device_eval_batch_size));
    line("gradient_accumulation_steps", number(t.gradient_accumulation_steps));
    line("context_length", number(t.context_length));
    line("eval_steps", number(t.eval_steps));
    line("eval_batches", number(t.eval_batches));
    line("metric_for_best_model", quote(t.metric_for_best_model));
    line("load_best_model_at_end", flag(t.load_best_model_at_end));
    line("early_stopping_patience", number(t.early_stopping_patience));
    if (!t.freeze.empty()) line("freeze", texts(t.freeze));
    line("layer_lr_decay", real_text(t.layer_lr_decay));
    if (!t.learning_rates.empty()) {
        json rates = json::object();
        for (const auto& [pattern, rate] : t.learning_rates) rates[pattern] = rate;
        line("learning_rates", toml_value(rates));
    }
    line("group_by_length", flag(t.group_by_length));
    line("save_steps", number(t.save_steps));
    line("save_total_limit", number(t.save_total_limit));
    line("logging_steps", number(t.logging_steps));
    line("seed", number(t.seed));
    line("max_bad_steps", number(t.max_bad_steps));
    line("gradient_checkpointing", flag(t.gradient_checkpointing));
    line("fit", flag(t.fit));
    line("ema_decay", real_text(t.ema_decay));
    line("bf16", flag(t.bf16));
    line("fp16", flag(t.fp16));
    s += "\n[generate]\n";
    line("examples", number(r.generate.examples));
    line("examples_while_training", number(r.generate.examples_while_training));
    rest(r.generate.options);
    s += "\n[plugins]\n";
    line("isolate", flag(r.plugins.isolate));
    s += "\n[output]\n";
    line("dir", quote(r.output.dir));
    return s;
}

std::map<std::string, std::string> recipe_values(const Recipe& recipe) {
    std::map<std::string, std::string> values;
    std::istringstream lines(write_recipe(recipe));
    std::string section;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with('[')) section = line.substr(1, line.find(']') - 1);
        const std::size_t equals = line.find(" = ");
        if (line.starts_with('[') || equals == std::string::npos) continue;
        std::string key = line.substr(0, equals);
        std::erase(key, '"');
        values[section + "." + key] = line.substr(equals + 3);
    }
    return values;
}

} // namespace hekla::train
