// A recipe that is being chosen: keys with the reason for each value, in sections.
#pragma once

#include "base/status.hpp"
#include "train/recipe/recipe.hpp"

#include <set>
#include <string>
#include <vector>

namespace hekla::app {

class RecipeDraft {
public:
    // header: comment lines at the top, without '#'. name: of the file, for messages.
    RecipeDraft(std::vector<std::string> header, std::string name)
        : header_(std::move(header)), name_(std::move(name)) {}

    // Sets a key unless an override did. value: TOML.
    void set(const std::string& section, const std::string& key, std::string value, std::string reason = {});
    void remove(const std::string& section, const std::string& key);
    // Sets keys as the command line does, and keeps them. Errors: those of a recipe's overrides, a key without a value.
    Status override_keys(const std::vector<std::string>& overrides);
    bool overridden(const std::string& section, const std::string& key) const {
        return fixed_.contains({section, key});
    }

    std::string text() const;
    Result<train::Recipe> recipe() const; // read from text()

private:
    struct Key {
        std::string section, key, value, reason;
    };
    std::vector<Key> keys_;
    std::set<std::pair<std::string, std::string>> fixed_;
    std::vector<std::string> header_;
    std::string name_;
};

} // namespace hekla::app
