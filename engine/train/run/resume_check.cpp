#include "train/run/resume_check.hpp"

#include "train/recipe/recipe_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::train {
namespace {

struct Change {
    std::string before = "nothing", now = "nothing";
    Resume resume = Resume::free;
};

// Returns changes by "section.key", without unchanged keys.
std::map<std::string, Change> changes(const Recipe& before, const Recipe& now) {
    std::map<std::string, Change> all;
    for (const RecipeValue& v : recipe_values(before)) {
        Change& change = all[fmt::format("{}.{}", v.section, v.key)];
        change.before = v.value;
        change.resume = v.resume;
    }
    for (const RecipeValue& v : recipe_values(now)) {
        Change& change = all[fmt::format("{}.{}", v.section, v.key)];
        change.now = v.value;
        change.resume = v.resume;
    }
    std::erase_if(all, [](const auto& one) { return one.second.before == one.second.now; });
    return all;
}

} // namespace

Status check_resume(const Recipe& before, const Recipe& now, const std::string& checkpoint, bool trains,
                    const Log& log) {
    std::vector<std::string> changed;
    for (const auto& [key, change] : changes(before, now)) {
        if (!trains && key.starts_with("distributed.")) continue; // how it was trained, not what
        const bool affects_training =
            change.resume == Resume::learning || (change.resume == Resume::fitted && !now.train.fit);
        if (change.resume == Resume::refused)
            return failed_precondition(fmt::format(
                "{}: was made with {} = {}, this recipe has {}: choose another [output] dir, or put the old value back",
                checkpoint, key, change.before, change.now));
        if (change.resume == Resume::warned || (change.resume == Resume::rows && !trains) ||
            (affects_training && trains))
            changed.push_back(fmt::format("{} {} -> {}", key, change.before, change.now));
    }
    if (!changed.empty())
        log.warning(fmt::format("{}: {} with changed settings: {}", checkpoint, trains ? "resuming" : "evaluating",
                                fmt::join(changed, ", ")));
    return {};
}

} // namespace hekla::train
