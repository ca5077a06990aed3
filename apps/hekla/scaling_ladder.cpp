#include "scaling_ladder.hpp"

#include "base/file.hpp"
#include "base/nearest_name.hpp"
#include "train/recipe/toml_text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <span>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLadderKeys[] = {"recipe", "dir", "tokens", "repeat_data", "size", "target"};
constexpr std::string_view kSizeKeys[] = {"name", "overrides", "tokens"};
// What all runs share, and what is set for each.
constexpr std::string_view kShared[] = {"data.", "tokenizer.", "objective.", "head.", "output.", "prune.", "adapter."};
constexpr std::string_view kSetHere[] = {"train.max_steps", "train.num_train_epochs", "train.eval_steps"};

// Reads values and reports errors with their line.
class Reader {
public:
    explicit Reader(std::string file) : file_(std::move(file)) {}

    Status wrong(const toml::node& node, const std::string& what) const {
        return invalid_argument(fmt::format("{}:{}: {}", file_, node.source().begin.line, what));
    }
    Status only(const toml::table& table, std::span<const std::string_view> keys, const std::string& where) const {
        for (const auto& [key, value] : table) {
            if (std::ranges::find(keys, key.str()) != keys.end()) continue;
            const std::string_view near = nearest_name(key.str(), keys);
            return wrong(value, fmt::format("{} has no key '{}'; {}", where, key.str(),
                                            near.empty() ? fmt::format("expected {}", fmt::join(keys, ", "))
                                                         : fmt::format("did you mean '{}'?", near)));
        }
        return {};
    }
    Result<std::string> text(const toml::table& table, std::string_view key) const {
        const toml::node* node = table.get(key);
        if (node == nullptr) return wrong(table, fmt::format("'{}' is missing; expected a string", key));
        const std::optional<std::string> value = node->value_exact<std::string>();
        if (!value || value->empty()) return wrong(*node, fmt::format("'{}': expected a string", key));
        return *value;
    }
    Result<std::vector<int64_t>> tokens(const toml::table& table) const {
        const toml::node* node = table.get("tokens");
        std::vector<int64_t> all;
        if (node == nullptr) return all;
        const toml::array* array = node->as_array();
        if (array == nullptr || array->empty())
            return wrong(*node, "'tokens': expected a list of whole numbers above 0");
        for (const toml::node& one : *array) {
            const std::optional<int64_t> value = one.value_exact<int64_t>();
            if (!value || *value < 1) return wrong(one, "'tokens': expected whole numbers above 0");
            if (std::ranges::find(all, *value) != all.end())
                return wrong(one, fmt::format("'tokens': {} is there twice", *value));
            all.push_back(*value);
        }
        return all;
    }
    Result<std::vector<std::string>> overrides(const toml::table& table) const {
        std::vector<std::string> all;
        const toml::node* node = table.get("overrides");
        const toml::array* array = node != nullptr ? node->as_array() : nullptr;
        if (array == nullptr)
            return wrong(node != nullptr ? *node : table, "'overrides': expected a list such as [\"model.n_embd=32\"]");
        for (const toml::node& one : *array) {
            const std::optional<std::string> value = one.value_exact<std::string>();
            if (!value || value->find('=') == std::string::npos)
                return wrong(one, "'overrides': expected strings SECTION.KEY=VALUE");
            const std::string key = value->substr(0, value->find('='));
            for (const std::string_view section : kShared)
                if (key.starts_with(section))
                    return wrong(one, fmt::format("'{}': all runs of a ladder share [{}]: set it in the recipe", key,
                                                  section.substr(0, section.size() - 1)));
            if (std::ranges::find(kSetHere, key) != std::end(kSetHere))
                return wrong(one, fmt::format("'{}' follows from the tokens of a run: remove it", key));
            all.push_back(*value);
        }
        return all;
    }

private:
    std::string file_;
};

// Adds the runs of [[size]] or [[target]].
Status add_runs(const Reader& reader, const toml::table& table, const char* key, const std::vector<int64_t>& tokens,
                Ladder& ladder) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return {};
    const toml::array* sizes = node->as_array();
    if (sizes == nullptr || !sizes->is_array_of_tables())
        return reader.wrong(*node, fmt::format("expected [[{}]]", key));
    for (const toml::node& element : *sizes) {
        const toml::table& size = *element.as_table();
        HK_TRY(reader.only(size, kSizeKeys, fmt::format("[[{}]]", key)));
        HK_ASSIGN(const std::string name, reader.text(size, "name"));
        if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") !=
                std::string::npos ||
            name.starts_with('.'))
            return reader.wrong(*size.get("name"), fmt::format("'{}': a name is part of a folder's: expected letters, "
                                                               "digits, '_', '-' and '.'",
                                                               name));
        HK_ASSIGN(const std::vector<std::string> overrides, reader.overrides(size));
        HK_ASSIGN(std::vector<int64_t> own, reader.tokens(size));
        if (own.empty()) own = tokens;
        if (own.empty())
            return reader.wrong(size, fmt::format("'{}' has no tokens: set `tokens` here or for all sizes", name));
        for (const int64_t count : own) {
            LadderRun run{fmt::format("{}-{}", name, count), overrides, count, std::string_view(key) == "target"};
            if (std::ranges::find(ladder.runs, run.name, &LadderRun::name) != ladder.runs.end())
                return reader.wrong(size, fmt::format("'{}' on {} tokens is there twice", name, count));
            ladder.runs.push_back(std::move(run));
        }
    }
    return {};
}

} // namespace

Result<Ladder> read_ladder(const std::string& file) {
    HK_ASSIGN(const std::string text, read_file(file));
    HK_ASSIGN(const toml::table table, train::parse_toml(text, file));
    const Reader reader(file);
    HK_TRY(reader.only(table, kLadderKeys, "a ladder"));
    Ladder ladder;
    ladder.file = file;
    HK_ASSIGN(const std::string recipe, reader.text(table, "recipe"));
    ladder.recipe = (fs::path(file).parent_path() / recipe).string();
    HK_ASSIGN(const std::string folder, reader.text(table, "dir"));
    ladder.folder = folder;
    if (const toml::node* node = table.get("repeat_data")) {
        const std::optional<bool> value = node->value_exact<bool>();
        if (!value) return reader.wrong(*node, "'repeat_data': expected true or false");
        ladder.repeat_data = *value;
    }
    HK_ASSIGN(const std::vector<int64_t> tokens, reader.tokens(table));
    HK_TRY(add_runs(reader, table, "size", tokens, ladder));
    if (ladder.runs.empty()) return invalid_argument(fmt::format("{}: has no [[size]]: expected several", file));
    HK_TRY(add_runs(reader, table, "target", {}, ladder));
    return ladder;
}

} // namespace hekla::app
