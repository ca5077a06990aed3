#include "program/tuning.hpp"

#include "base/hash.hpp"
#include "base/json.hpp"
#include "kernels_shaders.hpp"
#include "program/kernel_search.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hekla::program {

namespace {

bool has_alternatives(const KernelProblem& problem) {
    const KernelOption& first = problem.kernels.front();
    return problem.kernels.size() > 1 || !first.splits.empty() || !first.lanes.empty();
}

// Returns whether a choice of another problem of the bucket can be used: few rows have fewer kernels.
bool can_use(const KernelProblem& problem, const KernelChoice& choice) {
    const auto option = std::ranges::find(problem.kernels, choice.kernel, &KernelOption::kernel);
    return option != problem.kernels.end() &&
           (choice.lanes == 0 || std::ranges::find(option->lanes, choice.lanes) != option->lanes.end());
}

} // namespace

Result<std::unique_ptr<Tuning>> Tuning::create(const gpu::Capabilities& device, std::shared_ptr<Cache> cache,
                                               const Log& log) {
    std::string who = fmt::format("{}/{}/{}/{}/{}", device.vendor_id, device.device_id, device.device_name,
                                  device.driver_version, device.driver_info);
    for (const gpu::EmbeddedShader& shader : embedded::kernels())
        if (shader.name.starts_with("matmul/") || shader.name.starts_with("attention/"))
            who += fmt::format("/{}", shader.source_hash);
    std::unique_ptr<Tuning> tuning(new Tuning(to_hex(hash128(who)), std::move(cache), log));
    tuning->read();
    return tuning;
}

Tuning::Tuning(std::string identity, std::shared_ptr<Cache> cache, const Log& log)
    : identity_(std::move(identity)), cache_(std::move(cache)), log_(log) {}

void Tuning::read() {
    if (cache_ == nullptr) return;
    const Result<std::optional<std::string>> text = cache_->load(entry());
    if (text.ok() && !text.value()) return;
    const std::string place = cache_->place(entry());
    const Result<nlohmann::json> content =
        text.ok() ? parse_json_object(*text.value(), place) : Result<nlohmann::json>(text.status());
    if (!content.ok()) {
        log_.warning("earlier measurements are not used: " + content.message());
        return;
    }
    for (const auto& [key, choice] : content->items())
        if (choice.is_string()) measured_[key] = choice.get<std::string>();
}

void Tuning::choose(const TuningBenches& benches, const std::vector<KernelProblem>& problems,
                    std::map<std::string, std::string>& choices) {
    std::vector<const KernelProblem*> order;
    for (const KernelProblem& problem : problems)
        if (has_alternatives(problem)) order.push_back(&problem);
    std::ranges::stable_sort(order, std::greater<>(), &KernelProblem::flops);
    for (const KernelProblem* problem : order) {
        auto found = measured_.find(problem->bucket);
        if (found == measured_.end()) {
            if (spent_ > kSeconds) continue;
            const double begin = benches.now();
            const Result<KernelChoice> best = fastest_choice(benches, *problem, begin + kSeconds - spent_, log_);
            spent_ += benches.now() - begin;
            if (!best.ok()) {
                log_.warning(fmt::format("{}: kernels cannot be measured: {}", problem->key, best.message()));
                continue;
            }
            found = measured_.emplace(problem->bucket, best.value().text()).first;
            changed_ = true;
        }
        if (can_use(*problem, KernelChoice::parse(found->second))) choices[problem->key] = found->second;
    }
}

Status Tuning::save() const {
    if (cache_ == nullptr || !changed_) return {};
    HK_TRY(cache_->store(entry(), nlohmann::json(measured_).dump(1) + "\n"));
    changed_ = false;
    return {};
}

} // namespace hekla::program
