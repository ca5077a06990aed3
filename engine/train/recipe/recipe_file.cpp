#include "train/recipe/recipe_file.hpp"

#include "base/file.hpp"
#include "base/toml.hpp"
#include "base/utf8.hpp"
#include "train/recipe/recipe_adapters.hpp"
#include "train/recipe/recipe_optimizer.hpp"
#include "train/recipe/recipe_reader.hpp"
#include "train/recipe/recipe_rollouts.hpp"
#include "train/recipe/recipe_sections.hpp"
#include "train/recipe/recipe_value.hpp"
#include "train/recipe/recipe_visit.hpp"
#include "train/update/schedule.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::train {
namespace {

// "a.b=value" as a key path and a value.
struct Override {
    std::string text;
    std::vector<std::string> path; // section, name of a named section, key
    std::string value;
    std::string shorthand = {}; // of a named section
};

// Returns a named section, by the name before the dot; nothing if it is not one.
std::optional<RecipeSection> named_section(const std::string& name) {
    for (RecipeSection& section : recipe_sections())
        if (section.name == name + ".NAME") return std::move(section);
    return {};
}

Result<Override> split_override(const std::string& text) {
    if (const std::size_t at = find_invalid_utf8(text); at < text.size())
        return invalid_argument(fmt::format("override '{}...': byte {} (0x{:02X}) is not valid UTF-8",
                                            text.substr(0, at), at + 1, static_cast<unsigned char>(text[at])));
    const std::size_t equals = text.find('=');
    const std::size_t dot = text.find('.');
    if (equals == std::string::npos || dot == std::string::npos || dot > equals)
        return invalid_argument(fmt::format("override '{}' does not match SECTION.KEY=VALUE", text));
    Override result{text, {text.substr(0, dot), text.substr(dot + 1, equals - dot - 1)}, text.substr(equals + 1)};
    const std::optional<RecipeSection> section = named_section(result.path[0]);
    if (!section) return result;
    const auto has = [&](const std::string& key) {
        return std::ranges::count(section->keys, key, &RecipeKey::name) > 0;
    };
    const std::string rest = result.path[1];
    // schedules.NAME.KEY; NAME can contain dots, unless a plugin's keys are possible too (adapters.NAME.KEY).
    const std::size_t at = has("") ? rest.find('.') : rest.rfind('.');
    if (at != std::string::npos && (has("") || has(rest.substr(at + 1)))) {
        result.path[1] = rest.substr(0, at);
        result.path.push_back(rest.substr(at + 1));
        result.shorthand = section->shorthand;
    }
    return result;
}

// Adds an override to the table; its value is parsed as TOML, or else used as a string. One without a value removes the
// key.
Status apply_override(toml::table& root, const std::string& text) {
    HK_ASSIGN(const Override given, split_override(text));
    const std::string place = fmt::format("override '{}'", text); // returned by place_of() for this override
    if (given.value.find_first_of("[{\n") != std::string::npos) HK_TRY(check_toml_depth("x = " + given.value, place));
    Result<toml::table> parsed = parse_toml("x = " + given.value, place);
    const bool is_toml = parsed.ok();
    if (!is_toml) parsed = parse_toml("x = \"\"", place);
    if (!parsed.ok()) return parsed.status();
    if (parsed->size() != 1) return invalid_argument(fmt::format("{} is more than one value", place));
    toml::node* node = parsed->get("x");
    if (!is_toml) *node->as_string() = given.value;
    toml::table* table = &root;
    for (std::size_t i = 0; i + 1 < given.path.size(); ++i) {
        toml::node* const now = table->get(given.path[i]);
        if (now == nullptr && given.value.empty()) return {};
        if (now == nullptr) table->insert(given.path[i], toml::table{});
        if (now != nullptr && !now->is_table() && i == 1 && !given.shorthand.empty()) { // `NAME = VALUE`
            toml::table whole;
            now->visit([&](auto& value) { whole.insert(given.shorthand, std::move(value)); });
            table->insert_or_assign(given.path[i], std::move(whole));
        }
        table = table->get(given.path[i])->as_table();
        if (table == nullptr) return invalid_argument(fmt::format("{}: [{}] is not a table", place, given.path[i]));
    }
    if (given.value.empty()) {
        table->erase(given.path.back());
        return {};
    }
    table->insert_or_assign(given.path.back(), std::move(*node));
    // max_steps was set last, so remove the file's epochs and episodes, which would take precedence.
    if (given.path == std::vector<std::string>{"train", "max_steps"}) {
        table->erase("num_train_epochs");
        if (toml::node* rollout = root.get("rollout"); rollout != nullptr && rollout->is_table())
            rollout->as_table()->erase("total_episodes");
    }
    return {};
}

// Sets defaults that depend on other keys.
void resolve(Recipe& r) {
    TokenizerSection& t = r.tokenizer;
    const bool has_folder = !(r.model.from.empty() && r.teacher.from.empty());
    if (!t.from.empty() || (t.kind.empty() && has_folder)) t.kind = "from";
    if (t.kind.empty()) t.kind = "char";
}

Status check_prune(const Recipe& r) {
    const PruneSection& p = r.prune;
    if (!p.weights_from.empty() && p.from_mask.empty())
        return invalid_argument("prune.weights_from needs prune.from_mask: to start from the weights of another run "
                                "without a mask, set model.from");
    if (!p.from_mask.empty() && has_adapters(r))
        return invalid_argument("prune.from_mask cannot be used with adapters, which leave the network's own "
                                "weights unchanged; remove one");
    if (p.rewind_step > 0 && p.reinitialize != "rewind")
        return invalid_argument(fmt::format("prune.rewind_step = {} needs prune.reinitialize = \"rewind\", not \"{}\": "
                                            "remove one",
                                            p.rewind_step, p.reinitialize));
    if (p.rewind_step > 0 && r.train.num_train_epochs == 0.0 && p.rewind_step >= r.train.max_steps)
        return invalid_argument(
            fmt::format("prune.rewind_step = {} must be below train.max_steps = {}", p.rewind_step, r.train.max_steps));
    return {};
}

// Checks rules that concern several keys.
Status check(const Recipe& r) {
    if (r.model.architecture.empty() && r.model.from.empty())
        return invalid_argument("[model] needs `architecture` (a plugin's id) or `from` (a model folder)");
    if (!r.model.layers.empty() && r.model.from.empty())
        return invalid_argument(
            "model.layers chooses among the layers of a trained model: set model.from to its folder");
    HK_TRY(check_adapters(r));
    HK_TRY(check_rollout_keys(r));
    if (r.data.train.empty()) return invalid_argument("[data] needs `train`: a file, a folder or a pattern");
    if (r.output.dir.empty()) return invalid_argument("[output] needs `dir`: the folder of the run");
    if (r.data.class_balanced && r.train.group_by_length)
        return invalid_argument(
            "data.class_balanced and train.group_by_length are both set, and each determines the order: remove one");
    for (const auto& [set, key] : {std::pair(r.data.class_balanced, "data.class_balanced"),
                                   std::pair(r.train.group_by_length, "train.group_by_length")})
        if (packs_rows(r.data) && set)
            return invalid_argument(
                fmt::format("data.packing = \"rows\" and {} are both set, and each determines which "
                            "examples a batch has: remove one",
                            key));
    if (r.train.bf16 && r.train.fp16) return invalid_argument("[train] has both bf16 and fp16: remove one");
    HK_TRY(check_prune(r));
    HK_TRY(check_optimizer(r));
    for (const auto& [name, schedule] : r.schedules) HK_TRY(check_schedule(name, schedule));
    return {};
}

Result<Recipe> read_table(const toml::table& root, const std::string& name) {
    Recipe recipe;
    TableReading reading(name);
    HK_ASSIGN(const nlohmann::json values, toml_values(root, reading));
    RecipeReader reader(values, reading);
    visit_sections(recipe, reader);
    HK_TRY(reader.finish());
    resolve(recipe);
    return recipe;
}

// Collects the values of a recipe, as they are written.
class Writer {
public:
    template<class Section, class Visit>
    void section(const SectionInfo& info, const Section& section, const Visit& visit) {
        section_ = info.name;
        visit(section, *this);
    }
    template<class Section, class Visit>
    void sections(const SectionInfo& info, const NamedSections<Section>& all, const Visit& visit) {
        for (const auto& [name, one] : all) {
            section_ = fmt::format("{}.{}", info.name, quoted(name));
            visit(one, *this);
        }
    }
    template<class T>
    void key(const KeyInfo& info, const T& value, const T& fallback) {
        if (!is_empty(value) || !is_empty(fallback)) add(std::string(info.name), info, toml_text(value), false);
    }
    void other_keys(const KeyInfo& info, const nlohmann::json& config) {
        for (const auto& [key, value] : config.items())
            if (!value.is_null()) add(key, info, toml_text(value), true);
    }

    std::vector<RecipeValue> found;

private:
    void add(const std::string& key, const KeyInfo& info, std::string value, bool quote) {
        std::string line = fmt::format("{} = {}", quote ? quoted(key) : key, value);
        found.push_back({section_, key, std::move(line), std::move(value), info.resume});
    }
    std::string section_;
};

// Returns the recipe's file in the folder of a run.
Result<std::filesystem::path> recipe_of_run(std::filesystem::path folder) {
    if (!folder.has_filename()) folder = folder.parent_path(); // "RUN/"
    std::error_code ignored;
    if (std::filesystem::exists(folder / "MANIFEST.json", ignored))
        return invalid_argument(
            fmt::format("{}: a checkpoint; a recipe file or the folder of a run was expected, as {}", folder.string(),
                        (folder / "..").lexically_normal().string()));
    if (!std::filesystem::exists(folder / "recipe.toml", ignored))
        return invalid_argument(fmt::format(
            "{}: a folder without recipe.toml; a recipe file or the folder of a run was expected", folder.string()));
    return folder / "recipe.toml";
}

} // namespace

Result<Recipe> parse_recipe(std::string_view text, const std::string& name, const std::vector<std::string>& overrides) {
    HK_ASSIGN(toml::table root, parse_toml(text, name));
    for (const std::string& override_text : overrides) HK_TRY(apply_override(root, override_text));
    HK_ASSIGN(Recipe recipe, read_table(root, name));
    HK_TRY(check(recipe).with_context(name));
    return recipe;
}

Result<Recipe> parse_resolved_recipe(std::string_view text, const std::string& name) {
    HK_ASSIGN(const toml::table root, parse_toml(text, name));
    return read_table(root, name);
}

Result<Recipe> read_recipe(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
    std::filesystem::path file = path;
    std::vector<std::string> all = overrides;
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
        HK_ASSIGN(file, recipe_of_run(path));
        all.insert(all.begin(), "output.dir=" + toml_text(file.parent_path().string()));
    }
    HK_ASSIGN(const std::string text, read_file(file));
    HK_ASSIGN(Recipe recipe, parse_recipe(text, file.string(), all));
    recipe.file = file;
    return recipe;
}

std::vector<RecipeValue> recipe_values(const Recipe& recipe) {
    Writer writer;
    visit_sections(recipe, writer);
    return std::move(writer.found);
}

std::string write_recipe(const Recipe& recipe) {
    std::string text, section;
    for (const RecipeValue& value : recipe_values(recipe)) {
        if (value.section != section) text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", value.section);
        section = value.section;
        text += value.line + "\n";
    }
    return text;
}

} // namespace hekla::train
