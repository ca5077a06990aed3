#include "reward/reward_keys.hpp"

#include "base/nearest_name.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::reward {

const nlohmann::json* RewardKeys::find(const char* key) {
    known_.emplace_back(key);
    const auto found = config_.find(key);
    return found != config_.end() && !found->is_null() ? &*found : nullptr;
}

void RewardKeys::refuse(const char* key, const std::string& what) {
    if (status_.ok()) status_ = invalid_argument(fmt::format("{}: {}", place(key), what));
}

void RewardKeys::read(const char* key, std::string& to) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return;
    if (value->is_string())
        to = value->get<std::string>();
    else
        refuse(key, fmt::format("is {}, expected a string", value->dump()));
}

void RewardKeys::read(const char* key, bool& to) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return;
    if (value->is_boolean())
        to = value->get<bool>();
    else
        refuse(key, fmt::format("is {}, expected true or false", value->dump()));
}

void RewardKeys::read(const char* key, double& to) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return;
    if (value->is_number())
        to = value->get<double>();
    else
        refuse(key, fmt::format("is {}, expected a number", value->dump()));
}

bool RewardKeys::has(const char* key) {
    if (find(key) != nullptr) return true;
    refuse(key, "is missing, and this reward needs it");
    return false;
}

void RewardKeys::require(const char* key, std::string& to) {
    if (has(key)) read(key, to);
}

void RewardKeys::require(const char* key, double& to) {
    if (has(key)) read(key, to);
}

Status RewardKeys::finish() {
    if (!status_.ok()) return status_;
    for (const auto& [key, value] : config_.items()) {
        if (std::ranges::find(known_, key) != known_.end()) continue;
        const std::string_view near = nearest_name(key, std::span<const std::string>(known_));
        std::ranges::sort(known_);
        known_.erase(std::unique(known_.begin(), known_.end()), known_.end());
        return invalid_argument(fmt::format("[rewards.{}] has no key '{}'{}", name_, key,
                                            !near.empty()    ? fmt::format("; did you mean '{}'?", near)
                                            : known_.empty() ? std::string(": this reward has no keys of its own")
                                                             : fmt::format(" (it has {})", fmt::join(known_, ", "))));
    }
    return {};
}

} // namespace hekla::reward
