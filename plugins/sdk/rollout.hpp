// C++ wrappers for objectives that learn from rollouts, a draft: offered({{HK_ROLLOUT_DRAFT, "grpo",
// rollout_use<Grpo>()}}, draft, id).
#pragma once

#include "drafts.hpp"

#include "hekla/plugin/draft/rollout.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::plugin {

// hk_rollout_needs.
struct RolloutNeeds {
    uint32_t flags = 0; // HK_ROLLOUT_*
    int64_t epochs = 1;
    int64_t least_generations = 0;
    double kl_coef = 0.0;
};

// hk_rollouts, by row.
class Rollouts {
public:
    explicit Rollouts(const hk_rollouts& raw) : raw_(raw) {}
    const hk_rollouts& raw() const { return raw_; }
    std::size_t rows() const { return static_cast<std::size_t>(raw_.rows); }
    std::size_t generations() const { return raw_.generations; }
    std::size_t tokens() const { return begin(rows()); } // of all completions
    std::size_t begin(std::size_t row) const { return static_cast<std::size_t>(raw_.begins[row]); }
    std::size_t length(std::size_t row) const { return begin(row + 1) - begin(row); }
    std::span<const float> logps(std::size_t row) const { return part(raw_.logps, row); }
    std::span<const float> ref_logps(std::size_t row) const { return part(raw_.ref_logps, row); } // may be empty
    std::span<const float> values(std::size_t row) const { return part(raw_.values, row); }       // may be empty
    double score(std::size_t row) const { return raw_.scores[row]; } // NaN: could not be scored
    bool ended(std::size_t row) const { return raw_.ended[row] != 0; }
    double kl_coef() const { return raw_.kl_coef; }

private:
    std::span<const float> part(const float* all, std::size_t row) const {
        return all != nullptr ? std::span(all + begin(row), length(row)) : std::span<const float>();
    }
    const hk_rollouts& raw_;
};

// hk_rollout_sink.
class RolloutSink {
public:
    explicit RolloutSink(const hk_rollout_sink& raw) : raw_(raw) {}
    // A number for each token of all completions.
    void column(std::string_view name, std::span<const float> numbers) const {
        raw_.column(raw_.context, text(name), numbers.data(), numbers.size());
    }
    void metric(std::string_view name, double value) const { raw_.metric(raw_.context, text(name), value); }

private:
    const hk_rollout_sink& raw_;
};

// T is an objective (hekla_plugin.hpp) that also has: RolloutNeeds needs() const, void weigh(const Rollouts&, const
// RolloutSink&) const, and if its coefficient changes double adapt(const Rollouts&) const.
template<class T>
const hk_rollout_use* rollout_use() {
    static const hk_rollout_use kTable = [] {
        hk_rollout_use table{};
        table.create = [](const hk_config* config, void** self, hk_error* error) -> int32_t {
            return guarded(error, [&] { *self = std::make_unique<T>(Config(config), nullptr).release(); });
        };
        table.destroy = [](void* self) { delete static_cast<T*>(self); };
        table.needs = [](void* self, hk_rollout_needs* needs, hk_error* error) -> int32_t {
            return guarded(error, [&] {
                const RolloutNeeds given = static_cast<T*>(self)->needs();
                needs->flags = given.flags;
                needs->epochs = given.epochs;
                needs->least_generations = given.least_generations;
                needs->kl_coef = given.kl_coef;
            });
        };
        table.weigh = [](void* self, const hk_rollouts* rollouts, const hk_rollout_sink* sink,
                         hk_error* error) -> int32_t {
            return guarded(error, [&] { static_cast<T*>(self)->weigh(Rollouts(*rollouts), RolloutSink(*sink)); });
        };
        if constexpr (requires(T & t, const Rollouts& r) { t.adapt(r); })
            table.adapt = [](void* self, const hk_rollouts* rollouts, double* kl_coef, hk_error* error) -> int32_t {
                return guarded(error, [&] { *kl_coef = static_cast<T*>(self)->adapt(Rollouts(*rollouts)); });
            };
        return table;
    }();
    return &kTable;
}

} // namespace hekla::plugin
