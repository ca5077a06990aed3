#include "scaling_ladder.hpp"

#include "base/file.hpp"
#include "base/path_text.hpp"
#include "base/toml.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;

// What all runs share, and what is set for each.
constexpr std::string_view kShared[] = {"data.", "tokenizer.", "objective.", "head.", "output.", "prune.", "adapter."};
constexpr std::string_view kSetHere[] = {"train.max_steps", "train.num_train_epochs", "train.eval_steps"};

std::string required_text(StrictTable& table, const char* key) {
    std::string text;
    if (table.require(key, text) && text.empty()) table.fail(key, "is empty");
    return text;
}

std::vector<int64_t> read_tokens(StrictTable& table) {
    std::vector<int64_t> all;
    if (!table.read("tokens", all, NumberRange{1})) return all;
    if (all.empty()) table.fail("tokens", "is empty, expected whole numbers above 0");
    for (const int64_t one : all)
        if (std::ranges::count(all, one) > 1) table.fail("tokens", fmt::format("{} is there twice", one));
    return all;
}

std::vector<std::string> read_overrides(StrictTable& table) {
    std::vector<std::string> all;
    table.require("overrides", all);
    for (const std::string& one : all) {
        const std::string key = one.substr(0, one.find('='));
        if (key == one)
            table.fail("overrides", fmt::format("'{}': expected SECTION.KEY=VALUE, such as model.n_embd=32", one));
        for (const std::string_view section : kShared)
            if (key.starts_with(section))
                table.fail("overrides", fmt::format("'{}': all runs of a ladder share [{}]: set it in the recipe", key,
                                                    section.substr(0, section.size() - 1)));
        if (std::ranges::find(kSetHere, key) != std::end(kSetHere))
            table.fail("overrides", fmt::format("'{}' follows from the tokens of a run: remove it", key));
    }
    return all;
}

// Adds the runs of one [[size]] or [[target]]. tokens: those without its own.
void add_runs(StrictTable& size, bool is_target, const std::vector<int64_t>& tokens, Ladder& ladder) {
    size.expect({"name", "overrides", "tokens"});
    const std::string name = required_text(size, "name");
    if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") !=
            std::string::npos ||
        name.starts_with('.'))
        size.fail("name",
                  fmt::format("'{}': a name is part of a folder's: expected letters, digits, '_', '-' and '.'", name));
    const std::vector<std::string> overrides = read_overrides(size);
    std::vector<int64_t> own = read_tokens(size);
    if (own.empty()) own = tokens;
    if (own.empty()) size.refuse(fmt::format("'{}' has no tokens: set `tokens` here or for all sizes", name));
    for (const int64_t count : own) {
        LadderRun run{fmt::format("{}-{}", name, count), overrides, count, is_target};
        if (std::ranges::find(ladder.runs, run.name, &LadderRun::name) != ladder.runs.end())
            size.refuse(fmt::format("'{}' on {} tokens is there twice", name, count));
        ladder.runs.push_back(std::move(run));
    }
}

} // namespace

Result<Ladder> read_ladder(const std::string& file) {
    HK_ASSIGN(const std::string text, read_file(file));
    TableReading reading(file);
    HK_ASSIGN(const nlohmann::json values, toml_values(text, reading));
    StrictTable table(values, reading, "", "a ladder");
    table.expect({"recipe", "dir", "tokens", "repeat_data", "size", "target"});
    Ladder ladder;
    ladder.file = file;
    ladder.recipe = (path_of(file).parent_path() / required_text(table, "recipe")).string();
    ladder.folder = required_text(table, "dir");
    table.read("repeat_data", ladder.repeat_data);
    const std::vector<int64_t> tokens = read_tokens(table);
    table.tables("size", [&](StrictTable& size) { add_runs(size, false, tokens, ladder); });
    if (ladder.runs.empty()) table.refuse("has no [[size]]: expected several");
    table.tables("target", [&](StrictTable& size) { add_runs(size, true, {}, ladder); });
    HK_TRY(reading.status());
    return ladder;
}

} // namespace hekla::app
