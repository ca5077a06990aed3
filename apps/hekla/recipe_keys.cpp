#include "recipe_keys.hpp"

#include "train/recipe.hpp"

#include <algorithm>
#include <set>

namespace hekla::app {

std::vector<std::string> recipe_keys() {
    std::set<std::string> keys;
    for (const auto& [key, value] : train::recipe_values(train::Recipe())) keys.insert(key);
    // Keys that are only written when they are set.
    for (const char* key : {"model.from", "model.architecture", "head.id", "tokenizer.from", "tokenizer.add",
                            "data.train", "data.valid", "data.test", "train.freeze", "teacher.from", "adapter.id"})
        keys.insert(key);
    return {keys.begin(), keys.end()};
}

} // namespace hekla::app
