// The keys of one reward of a recipe, read by name. Errors name the key: "rewards.sum.column: ...".
#pragma once

#include "base/status.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace hekla::reward {

class RewardKeys {
public:
    // name: of the reward in the recipe.
    RewardKeys(std::string name, const nlohmann::json& config) : name_(std::move(name)), config_(config) {}

    // Leave `to` unchanged if the key is not given.
    void read(const char* key, std::string& to);
    void read(const char* key, bool& to);
    void read(const char* key, double& to);
    // The same for keys that must be given.
    void require(const char* key, std::string& to);
    void require(const char* key, double& to);
    // Refuses a value: "rewards.NAME.KEY: WHAT".
    void refuse(const char* key, const std::string& what);

    // Returns "rewards.NAME.KEY", for messages.
    std::string place(const char* key) const { return "rewards." + name_ + "." + key; }

    // Returns the first error, which includes keys that were not read.
    Status finish();

private:
    const nlohmann::json* find(const char* key);
    bool has(const char* key);
    std::string name_;
    const nlohmann::json& config_;
    std::vector<std::string> known_;
    Status status_;
};

} // namespace hekla::reward
