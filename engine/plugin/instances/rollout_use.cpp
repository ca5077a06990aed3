#include "plugin/instances/rollout_use.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <span>

namespace hekla::plugin {
namespace {

// What a plugin gives to the sink; the first error is kept.
struct Taken {
    RolloutUse::Weighed weighed;
    uint64_t tokens = 0;
    Status status;

    template<class F>
    void take(F&& f) noexcept {
        try {
            if (status.ok()) status = f();
        } catch (const std::exception&) { status = Status(Code::out_of_memory, {}); }
    }
};

void take_column(void* context, hk_string given, const float* numbers, uint64_t count) {
    Taken& taken = *static_cast<Taken*>(context);
    taken.take([&]() -> Status {
        const std::string name(view(given));
        if (name.empty() || std::ranges::any_of(taken.weighed.columns, [&](const auto& c) { return c.first == name; }))
            return invalid_argument(fmt::format("a column is named '{}', which is empty or used twice", name));
        if (count != taken.tokens || (numbers == nullptr && count > 0))
            return invalid_argument(fmt::format("the column '{}' has {} numbers, expected one for each of {} tokens",
                                                name, count, taken.tokens));
        const std::span<const float> all(numbers, static_cast<std::size_t>(count));
        if (const auto bad = std::ranges::find_if(all, [](float x) { return !std::isfinite(x); }); bad != all.end())
            return failed_precondition(fmt::format("the column '{}' has {} for token {} of {}: expected finite numbers",
                                                   name, *bad, bad - all.begin() + 1, count));
        taken.weighed.columns.emplace_back(name, std::vector<float>(all.begin(), all.end()));
        return {};
    });
}

void take_metric(void* context, hk_string name, double value) {
    Taken& taken = *static_cast<Taken*>(context);
    taken.take([&]() -> Status {
        taken.weighed.metrics.emplace_back(std::string(view(name)), value);
        return {};
    });
}

} // namespace

bool learns_from_rollouts(const Registry& registry, std::string_view objective) {
    return registry.provides(HK_ROLLOUT_DRAFT, objective);
}

RolloutUse::~RolloutUse() { destroy_instance(instance_); }

Result<std::unique_ptr<RolloutUse>> RolloutUse::create(const Registry& registry, const std::string& objective,
                                                       const nlohmann::json& config) {
    std::unique_ptr<RolloutUse> use(new RolloutUse(registry));
    Instance<hk_rollout_use>& instance = use->instance_;
    instance.what = fmt::format("rollouts of objective '{}'", objective);
    HK_TRY(open_instance(registry, HK_ROLLOUT_DRAFT, objective, instance));
    std::set<std::string> read;
    HK_TRY(create_instance(registry, instance, config, read, [&](const hk_config* given, void** self, hk_error* e) {
        return instance.table->create(given, self, e);
    }));
    hk_rollout_needs needs{};
    needs.struct_size = sizeof needs;
    needs.epochs = 1;
    HK_TRY(call(registry, instance, instance.what + ": needs", "needs",
                [&](hk_error* e) { return instance.table->needs(instance.self, &needs, e); }));
    constexpr uint32_t kKnown = HK_ROLLOUT_REFERENCE | HK_ROLLOUT_VALUES | HK_ROLLOUT_ENTROPIES;
    if ((needs.flags & ~kKnown) != 0 || needs.epochs < 1 || needs.least_generations < 0 ||
        !std::isfinite(needs.kl_coef))
        return corrupt(fmt::format("{}: needs() gives flags {:#x}, {} epochs, {} generations and kl_coef {}: expected "
                                   "known flags, one epoch or more, no negative number and a finite one",
                                   instance.what, needs.flags, needs.epochs, needs.least_generations, needs.kl_coef));
    use->needs_ = {(needs.flags & HK_ROLLOUT_REFERENCE) != 0,
                   (needs.flags & HK_ROLLOUT_VALUES) != 0,
                   (needs.flags & HK_ROLLOUT_ENTROPIES) != 0,
                   needs.epochs,
                   needs.least_generations,
                   needs.kl_coef};
    return use;
}

Result<RolloutUse::Weighed> RolloutUse::weigh(const hk_rollouts& rollouts) const {
    Taken taken;
    taken.tokens = rollouts.begins[rollouts.rows];
    const hk_rollout_sink sink{sizeof(hk_rollout_sink), 0, &taken, take_column, take_metric};
    const std::string what = instance_.what + ": weigh";
    HK_TRY(call(registry_, instance_, what, "weigh",
                [&](hk_error* e) { return instance_.table->weigh(instance_.self, &rollouts, &sink, e); }));
    if (taken.status.code() == Code::out_of_memory) return out_of_memory(what + ": the host is out of memory");
    if (!taken.status.ok()) return taken.status.with_context(what);
    taken.weighed.kl_coef = rollouts.kl_coef;
    if (instance_.table->adapt == nullptr) return std::move(taken.weighed);
    HK_TRY(call(registry_, instance_, instance_.what + ": adapt", "adapt", [&](hk_error* e) {
        return instance_.table->adapt(instance_.self, &rollouts, &taken.weighed.kl_coef, e);
    }));
    if (!std::isfinite(taken.weighed.kl_coef))
        return failed_precondition(fmt::format("{}: adapt() sets the coefficient of the KL divergence to {}",
                                               instance_.what, taken.weighed.kl_coef));
    return std::move(taken.weighed);
}

} // namespace hekla::plugin
