#include "reward/plugin_reward.hpp"

#include "base/nearest_name.hpp"
#include "plugin/instances/instance.hpp"

#include "hekla/plugin/draft/reward.h"

#include <algorithm>
#include <exception>
#include <limits>

namespace hekla::reward {
namespace {

hk_string abi_text(const std::string& text) { return {text.data(), text.size()}; }

class PluginReward final : public Reward {
public:
    PluginReward(const plugin::Registry& registry, plugin::Instance<hk_reward> instance,
                 std::vector<std::string> columns)
        : registry_(registry), instance_(std::move(instance)), columns_(std::move(columns)) {}
    ~PluginReward() override { plugin::destroy_instance(instance_); }

    std::vector<std::string> columns() const override { return columns_; }
    Status score(std::span<const TextToScore> texts, std::span<double> scores) override {
        std::ranges::fill(scores, std::numeric_limits<double>::quiet_NaN());
        std::vector<hk_string> columns;
        for (const TextToScore& text : texts)
            for (const std::string& name : columns_) {
                const auto found = text.columns.find(name);
                columns.push_back(found != text.columns.end() ? abi_text(found->second) : hk_string{nullptr, 0});
            }
        std::vector<hk_scored_text> raw;
        for (std::size_t i = 0; i < texts.size(); ++i)
            raw.push_back({sizeof(hk_scored_text), static_cast<uint32_t>(columns_.size()), abi_text(texts[i].prompt),
                           abi_text(texts[i].completion), columns.data() + i * columns_.size()});
        return plugin::call(registry_, instance_, instance_.what + ": score", "score", [&](hk_error* e) {
            return instance_.table->score(instance_.self, raw.data(), raw.size(), scores.data(), e);
        });
    }

private:
    const plugin::Registry& registry_;
    plugin::Instance<hk_reward> instance_;
    std::vector<std::string> columns_;
};

struct Pushed {
    std::vector<std::string> names;
    bool failed = false;
};
void push_name(void* context, hk_string name) {
    Pushed& pushed = *static_cast<Pushed*>(context);
    try {
        pushed.names.emplace_back(plugin::view(name));
    } catch (const std::exception&) { pushed.failed = true; }
}

} // namespace

Result<std::unique_ptr<Reward>> make_plugin_reward(const std::string& name, const std::string& id,
                                                   const nlohmann::json& config, const plugin::Registry& registry) {
    plugin::Instance<hk_reward> instance;
    instance.what = fmt::format("reward '{}'", id);
    HK_TRY(plugin::open_instance(registry, HK_REWARD_DRAFT, id, instance));
    nlohmann::json values = instance.provided->defaults.parse();
    for (const auto& [key, value] : config.items()) {
        if (std::ranges::find(instance.provided->parameters, key) == instance.provided->parameters.end()) {
            return invalid_argument(fmt::format("[rewards.{}]: reward '{}' does not know the key '{}'{}", name, id, key,
                                                did_you_mean(key, instance.provided->parameters)));
        }
        values[key] = value;
    }
    std::set<std::string> read;
    HK_TRY(plugin::create_instance(
        registry, instance, values, read,
        [&](const hk_config* given, void** self, hk_error* e) { return instance.table->create(given, self, e); }));
    Pushed pushed;
    if (instance.table->columns != nullptr) {
        const Status listed =
            plugin::call(registry, instance, instance.what + ": columns", "columns",
                         [&](hk_error* e) { return instance.table->columns(instance.self, push_name, &pushed, e); });
        if (!listed.ok() || pushed.failed) {
            plugin::destroy_instance(instance);
            return listed.ok() ? out_of_memory(instance.what + ": the host is out of memory") : listed;
        }
    }
    return std::unique_ptr<Reward>(
        std::make_unique<PluginReward>(registry, std::move(instance), std::move(pushed.names)));
}

} // namespace hekla::reward
