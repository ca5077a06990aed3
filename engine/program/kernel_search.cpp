#include "program/kernel_search.hpp"

#include "base/philox.hpp"
#include "program/lowering/half.hpp"
#include "program/peak.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace hekla::program {

namespace {

constexpr int kTurns = 3;                           // of measuring all candidates
constexpr double kWorthIt = 0.95;                   // of the preferred choice's time
constexpr double kHopeless = 4;                     // times as long as the best: not measured again
constexpr double kNearPeak = 0.9;                   // of the peak: nothing else can be worth it
constexpr double kMostFlops = 4e9;                  // of a trial that is checked
constexpr int64_t kMostElements = int64_t{1} << 25; // of all its tensors
// On a GPU that trial is short, and has too few tiles for every core: time is measured with a trial of the problem's
// own size, unless that takes longer than this or needs more elements.
constexpr double kSecondsOfTrial = 0.02;
constexpr int64_t kMostElementsOnGpu = int64_t{1} << 26;

// Large tensors repeat their first million elements.
std::vector<std::byte> random_bytes(int64_t elements, Storage storage, uint64_t stream) {
    RandomStream random(1, stream);
    std::vector<std::byte> bytes(static_cast<std::size_t>(elements) * bytes_of(storage));
    const std::size_t different = std::min(static_cast<std::size_t>(elements), std::size_t{1} << 20);
    for (std::size_t i = 0; i < different; ++i) {
        const auto x = static_cast<float>(2.0 * random.next_unit() - 1.0);
        const uint16_t half = bytes_of(storage) == 2 ? to_half(storage, x) : uint16_t{0};
        if (bytes_of(storage) == 2)
            std::memcpy(bytes.data() + i * 2, &half, 2);
        else
            std::memcpy(bytes.data() + i * 4, &x, 4);
    }
    const std::size_t period = different * bytes_of(storage);
    for (std::size_t at = period; at < bytes.size(); at += period)
        std::memcpy(bytes.data() + at, bytes.data(), std::min(period, bytes.size() - at));
    return bytes;
}

std::vector<float> floats_of(std::span<const std::byte> bytes, Storage storage) {
    std::vector<float> values(bytes.size() / bytes_of(storage));
    for (std::size_t i = 0; i < values.size(); ++i) {
        uint16_t half = 0;
        if (bytes_of(storage) == 2) {
            std::memcpy(&half, bytes.data() + i * 2, 2);
            values[i] = from_half(storage, half);
        } else {
            std::memcpy(&values[i], bytes.data() + i * 4, 4);
        }
    }
    return values;
}

bool near(std::span<const float> x, std::span<const float> plain, double tolerance) {
    double largest = 0, worst = 0;
    for (std::size_t i = 0; i < plain.size(); ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(plain[i])));
        const double difference = std::abs(static_cast<double>(x[i]) - static_cast<double>(plain[i]));
        worst = difference <= worst ? worst : difference; // NaN counts as the worst
    }
    return worst <= tolerance * largest;
}

// A trial with its tensors on the device.
struct Stage {
    KernelTrial trial;
    std::unique_ptr<TuningBench> bench;

    static Result<Stage> create(const TuningBenches& benches, KernelTrial trial) {
        Stage stage{std::move(trial), nullptr};
        HK_ASSIGN(stage.bench, benches.make());
        uint64_t stream = 0;
        for (const TrialTensor& input : stage.trial.inputs)
            HK_TRY(stage.bench->upload(input.name, random_bytes(input.elements, input.storage, ++stream)));
        return stage;
    }
    Lowering lowered(const Limits& limits, const KernelChoice& choice) const {
        Lowering lowering;
        lowering.limits = limits;
        lowering.trial = choice;
        trial.lower(lowering);
        return lowering;
    }
    Result<std::size_t> add(const Limits& limits, const KernelChoice& choice) const {
        return bench->add(lowered(limits, choice));
    }
    // Returns the outputs of what was added last.
    Result<std::vector<std::vector<float>>> outputs() const {
        std::vector<std::vector<float>> all;
        for (const TrialTensor& output : trial.outputs) {
            HK_ASSIGN(const std::vector<std::byte> bytes, bench->download(output.name));
            all.push_back(floats_of(bytes, output.storage));
        }
        return all;
    }
};

struct Candidate {
    KernelChoice choice;
    std::size_t dispatches = 0; // of the stage that is timed
    double seconds = HUGE_VAL;  // the best of some runs
};

class Search {
public:
    Search(const TuningBenches& benches, const KernelProblem& problem, double deadline, const Log& log)
        : benches_(benches), problem_(problem), deadline_(deadline), log_(log) {}

    Result<KernelChoice> fastest() {
        HK_TRY(begin());
        // The preferred one first.
        const bool prefers_units = problem_.kernels.front().matrix_units;
        std::vector<KernelChoice> first, others;
        for (const KernelOption& kernel : problem_.kernels)
            (kernel.matrix_units == prefers_units ? first : others).push_back({.kernel = kernel.kernel});
        HK_TRY(consider(first));
        if (!prefers_units || !is_beyond_arithmetic()) HK_TRY(consider(others));
        if (candidates_.empty()) HK_TRY(consider(KernelChoice{.kernel = problem_.plainest}));
        HK_TRY(finish_round());
        const auto option =
            std::ranges::find(problem_.kernels, candidates_.front().choice.kernel, &KernelOption::kernel);
        if (option == problem_.kernels.end()) return candidates_.front().choice;
        for (const auto& [values, member] :
             {std::pair(&option->splits, &KernelChoice::splits), std::pair(&option->lanes, &KernelChoice::lanes)}) {
            std::vector<KernelChoice> choices(values->size(), candidates_.front().choice);
            for (std::size_t i = 0; i < choices.size(); ++i) choices[i].*member = (*values)[i];
            HK_TRY(consider(choices));
            HK_TRY(finish_round());
        }
        return candidates_.front().choice;
    }

private:
    bool ended() const { return near_peak_ || (!candidates_.empty() && benches_.now() > deadline_); }

    // Whether a kernel with matrix units was faster than any without them can be: nothing else of those is compiled.
    bool is_beyond_arithmetic() const {
        if (problem_.units == Storage::f32 || candidates_.empty()) return false;
        const double arithmetic = benches_.peak(Storage::f32);
        const Stage& stage = timed_ ? *timed_ : checked_;
        return arithmetic > 0 && stage.trial.flops / best_seconds() > arithmetic;
    }

    // Computes the results that others are compared with, and decides about the size that is timed.
    Status begin() {
        HK_ASSIGN(checked_, Stage::create(benches_, problem_.trial(kMostFlops, kMostElements)));
        const KernelChoice plainest{.kernel = problem_.plainest};
        const KernelChoice preferred{.kernel = problem_.kernels.front().kernel};
        checked_.bench->compile(
            std::vector{checked_.lowered(benches_.limits, plainest), checked_.lowered(benches_.limits, preferred)});
        HK_ASSIGN(std::size_t first, checked_.add(benches_.limits, plainest));
        HK_ASSIGN(plain_, checked_.outputs());
        if (preferred != plainest)
            if (const Result<std::size_t> added = checked_.add(benches_.limits, preferred); added.ok())
                first = added.value();
        HK_ASSIGN(seconds_checked_, seconds_at_full_speed(first));
        peak_ = benches_.peak(problem_.units);
        if (benches_.limits.cpu) return {};
        const double flops = checked_.trial.flops * kSecondsOfTrial / seconds_checked_;
        KernelTrial longer = problem_.trial(std::max(kMostFlops, flops), kMostElementsOnGpu);
        if (longer.flops <= checked_.trial.flops) return {};
        HK_ASSIGN(timed_.emplace(), Stage::create(benches_, std::move(longer)));
        return {};
    }

    // Adds those choices to the candidates whose results are correct.
    Status consider(const std::vector<KernelChoice>& choices) {
        std::vector<Lowering> lowerings;
        for (const KernelChoice& choice : choices)
            if (!ended()) lowerings.push_back(checked_.lowered(benches_.limits, choice));
        checked_.bench->compile(lowerings);
        for (const KernelChoice& choice : choices)
            if (!ended()) HK_TRY(consider(choice));
        return {};
    }

    Status consider(const KernelChoice& choice) {
        const Result<std::size_t> checked = checked_.add(benches_.limits, choice);
        if (!checked.ok()) {
            log_.warning(fmt::format("{}: {} cannot be used: {}", problem_.key, choice.text(), checked.message()));
            return {};
        }
        HK_ASSIGN(const auto outputs, checked_.outputs());
        for (std::size_t i = 0; i < outputs.size(); ++i)
            if (!near(outputs[i], plain_[i], checked_.trial.tolerance)) {
                log_.warning(fmt::format("{}: {} gives wrong results compared with {}; it is not used", problem_.key,
                                         choice.text(), problem_.plainest));
                return {};
            }
        Candidate candidate{choice, checked.value()};
        if (timed_) {
            HK_ASSIGN(const double seconds, seconds_at_full_speed(checked.value()));
            if (seconds > kHopeless * seconds_checked_) return {}; // and so with a longer trial
            HK_ASSIGN(candidate.dispatches, timed_->add(benches_.limits, choice));
        }
        candidates_.push_back(candidate);
        // The first is always measured: nothing else is compiled if it is near the peak.
        if (candidates_.size() == 1) {
            HK_TRY(raise_clock());
            return measure(candidates_.back());
        }
        HK_ASSIGN(const double share, speed());
        return has_risen(share) ? measure(candidates_.back()) : Status();
    }

    Result<double> speed() const { return benches_.speed ? benches_.speed() : 1.0; }
    Status raise_clock() const {
        return program::raise_clock([&] { return speed(); }, benches_.now);
    }

    // Returns the time of dispatches of checked_, as it would be at the highest clock.
    Result<double> seconds_at_full_speed(std::size_t dispatches) const {
        HK_ASSIGN(const double share, speed());
        HK_ASSIGN(const double seconds, checked_.bench->run(dispatches));
        return seconds * share;
    }

    Status measure(Candidate& candidate) {
        const Stage& stage = timed_ ? *timed_ : checked_;
        HK_ASSIGN(const double seconds, stage.bench->run(candidate.dispatches));
        candidate.seconds = std::min(candidate.seconds, seconds);
        if (peak_ > 0 && stage.trial.flops / candidate.seconds >= kNearPeak * peak_) near_peak_ = true;
        return {};
    }

    double best_seconds() const { return std::ranges::min(candidates_, {}, &Candidate::seconds).seconds; }

    // Measures the candidates in turns and without pauses, in which a GPU lowers its clock. Then only the best is left.
    Status finish_round() {
        if (candidates_.size() > 1 && !near_peak_) HK_TRY(raise_clock());
        for (int turn = 0; turn < kTurns && candidates_.size() > 1 && !near_peak_; ++turn)
            for (Candidate& candidate : candidates_)
                if (candidate.seconds == HUGE_VAL || candidate.seconds <= kHopeless * best_seconds())
                    HK_TRY(measure(candidate));
        for (const Candidate& candidate : candidates_)
            log_.debug(fmt::format("{}: {} {:.3f} ms", problem_.key, candidate.choice.text(), candidate.seconds * 1e3));
        const Candidate* best = &candidates_.front();
        for (const Candidate& candidate : candidates_)
            if (candidate.seconds < (best == &candidates_.front() ? kWorthIt : 1.0) * best->seconds) best = &candidate;
        candidates_ = {Candidate(*best)};
        return {};
    }

    const TuningBenches& benches_;
    const KernelProblem& problem_;
    double deadline_ = 0;
    const Log& log_;
    Stage checked_;
    std::optional<Stage> timed_; // a longer trial; none: checked_ is timed
    std::vector<std::vector<float>> plain_;
    double seconds_checked_ = 0; // of the preferred choice in checked_
    double peak_ = 0;
    bool near_peak_ = false; // a candidate is as fast as the device permits
    std::vector<Candidate> candidates_;
};

} // namespace

Result<KernelChoice> fastest_choice(const TuningBenches& benches, const KernelProblem& problem, double deadline,
                                    const Log& log) {
    return Search(benches, problem, deadline, log).fastest();
}

} // namespace hekla::program
