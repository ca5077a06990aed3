#include "program/tuning.hpp"

#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/philox.hpp"
#include "base/stopwatch.hpp"
#include "kernels_shaders.hpp"
#include "program/lowering/common.hpp"
#include "program/lowering/half.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hekla::program {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 10;                     // for all measurements of one program
constexpr int kTurns = 3;                           // of measuring all candidates
constexpr double kWorthIt = 0.95;                   // of the preferred kernel's time
constexpr double kMostFlops = 4e9;                  // of one product that is checked
constexpr int64_t kMostElements = int64_t{1} << 25; // of all three matrices
// On a GPU that product is short, and has too few tiles for every core: time is measured with a product of the
// problem's own size, unless that takes longer than this or needs more elements.
constexpr double kSecondsOfProduct = 0.02;
constexpr int64_t kMostElementsOnGpu = int64_t{1} << 26;
constexpr const char* kPlainest = "direct.t4x4"; // no shared memory, the smallest tile

double flops_of(const KernelProblem& p) {
    return 2.0 * static_cast<double>(p.batches * p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
}

// Reduces rows and batches of a problem that would take too long.
KernelProblem shortened(KernelProblem p, double most_flops, int64_t most_elements) {
    const auto large = [&] {
        return flops_of(p) > most_flops || p.batches * (p.m * p.k + p.k * p.n + p.m * p.n) > most_elements;
    };
    while (large() && p.batches > 1) p.batches = (p.batches + 1) / 2;
    for (int64_t* size : {&p.m, &p.n, &p.k})
        while (large() && *size > 512) *size = (*size + 1) / 2;
    return p;
}

// Large matrices repeat their first million elements.
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

Lowering lowered(const KernelProblem& p, const Limits& limits, std::map<std::string, std::string> choices) {
    Lowering lowering;
    lowering.limits = limits;
    lowering.options.kernel_choices = std::move(choices);
    const auto matrix = [&](const char* name, int64_t rows, int64_t columns, bool transposed, Storage storage) {
        if (transposed) std::swap(rows, columns);
        return lowering.named(ResourceKind::state, name, {p.batches, rows, columns}, storage);
    };
    multiply(lowering, matrix("a", p.m, p.k, p.transpose_a, p.a), p.transpose_a,
             matrix("b", p.k, p.n, p.transpose_b, p.b), p.transpose_b, matrix("c", p.m, p.n, false, p.c), {});
    return lowering;
}

Result<std::size_t> added(TuningBench& bench, const KernelProblem& problem, const Limits& limits,
                          const std::string& kernel) {
    // The problem's key is only known after lowering.
    const Lowering named = lowered(problem, limits, {});
    return bench.add(lowered(problem, limits, {{named.choices.begin()->first, kernel}}));
}

Result<std::unique_ptr<TuningBench>> bench_of(const MakeTuningBench& benches, const KernelProblem& problem) {
    HK_ASSIGN(std::unique_ptr<TuningBench> bench, benches.make());
    HK_TRY(bench->upload("a", random_bytes(problem.batches * problem.m * problem.k, problem.a, 1)));
    HK_TRY(bench->upload("b", random_bytes(problem.batches * problem.k * problem.n, problem.b, 2)));
    return bench;
}

bool near(std::span<const float> x, std::span<const float> plain, Storage storage) {
    double largest = 0, worst = 0;
    for (std::size_t i = 0; i < plain.size(); ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(plain[i])));
        const double difference = std::abs(static_cast<double>(x[i]) - static_cast<double>(plain[i]));
        worst = difference <= worst ? worst : difference; // NaN counts as the worst
    }
    const double bound = storage == Storage::f32 ? 1e-5 : storage == Storage::f16 ? 0x1p-10 : 0x1p-7;
    return worst <= bound * largest;
}

struct Candidate {
    std::string kernel;
    std::size_t dispatches = 0; // of the bench
    double seconds = HUGE_VAL;  // the best of some runs
};

// Runs all candidates in turns and without pauses, in which a GPU lowers its clock: what is measured first would seem
// slower.
Status measure(TuningBench& bench, std::vector<Candidate>& candidates) {
    for (int turn = 0; turn < kTurns; ++turn)
        for (Candidate& candidate : candidates) {
            HK_ASSIGN(const double seconds, bench.run(candidate.dispatches));
            candidate.seconds = std::min(candidate.seconds, seconds);
        }
    return {};
}

// Measures the candidates with a correct product, the preferred one first, with a product that is short enough to be
// checked.
Result<std::vector<Candidate>> correct_candidates(const MakeTuningBench& benches, const KernelProblem& given,
                                                  const KernelProblem& problem, const Log& log) {
    HK_ASSIGN(const std::unique_ptr<TuningBench> bench, bench_of(benches, problem));
    const auto product = [&]() -> Result<std::vector<float>> {
        HK_ASSIGN(const std::vector<std::byte> bytes, bench->download("c"));
        return floats_of(bytes, problem.c);
    };
    HK_ASSIGN(const std::size_t plain_dispatches, added(*bench, problem, benches.limits, kPlainest));
    HK_ASSIGN(const std::vector<float> plain, product());
    std::vector<Candidate> correct;
    for (const std::string& kernel : given.candidates) {
        std::size_t dispatches = plain_dispatches;
        if (kernel != kPlainest) {
            HK_ASSIGN(dispatches, added(*bench, problem, benches.limits, kernel));
            HK_ASSIGN(const std::vector<float> values, product());
            if (!near(values, plain, given.c)) {
                log.warning(fmt::format("{}: the kernel {} gives wrong results compared with {}; it is not used",
                                        given.key, kernel, kPlainest));
                if (correct.empty()) correct.push_back({kPlainest, plain_dispatches}); // in place of the preferred one
                continue;
            }
        }
        correct.push_back({kernel, dispatches});
    }
    HK_TRY(measure(*bench, correct));
    return correct;
}

// Returns the fastest candidate with a correct product.
Result<std::string> fastest(const MakeTuningBench& benches, const KernelProblem& given, const Log& log) {
    const KernelProblem problem = shortened(given, kMostFlops, kMostElements);
    HK_ASSIGN(std::vector<Candidate> candidates, correct_candidates(benches, given, problem, log));
    if (!benches.limits.cpu) {
        const double preferred = candidates.front().seconds;
        const double flops = flops_of(problem) * kSecondsOfProduct / preferred;
        const KernelProblem longer = shortened(given, std::max(kMostFlops, flops), kMostElementsOnGpu);
        if (flops_of(longer) > flops_of(problem)) {
            HK_ASSIGN(const std::unique_ptr<TuningBench> bench, bench_of(benches, longer));
            // Several times slower than the preferred kernel stays slower.
            std::erase_if(candidates, [&](const Candidate& c) { return c.seconds > 4 * preferred; });
            for (Candidate& candidate : candidates) {
                HK_ASSIGN(candidate.dispatches, added(*bench, longer, benches.limits, candidate.kernel));
                candidate.seconds = HUGE_VAL;
            }
            HK_TRY(measure(*bench, candidates));
        }
    }
    for (const Candidate& candidate : candidates)
        log.debug(fmt::format("{}: {} {:.3f} ms", given.key, candidate.kernel, candidate.seconds * 1e3));
    const Candidate* best = &candidates.front();
    for (const Candidate& candidate : candidates)
        if (candidate.seconds < (best == &candidates.front() ? kWorthIt : 1.0) * best->seconds) best = &candidate;
    return best->kernel;
}

} // namespace

Result<std::unique_ptr<Tuning>> Tuning::create(const gpu::Capabilities& device, std::shared_ptr<Cache> cache,
                                               const Log& log) {
    std::string who = fmt::format("{}/{}/{}/{}/{}", device.vendor_id, device.device_id, device.device_name,
                                  device.driver_version, device.driver_info);
    for (const gpu::EmbeddedShader& shader : embedded::kernels())
        if (shader.name.starts_with("matmul/")) who += fmt::format("/{}", shader.source_hash);
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
    for (const auto& [key, kernel] : content->items())
        if (kernel.is_string()) measured_[key] = kernel.get<std::string>();
}

std::string Tuning::bucket(const KernelProblem& p) {
    const auto up = [](int64_t size) { return std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(size, 1))); };
    return fmt::format("matmul {}{} {} {} {} [{}x {}, {}, {}]", p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N',
                       storage_name(p.a), storage_name(p.b), storage_name(p.c), up(p.batches), up(p.m), up(p.n),
                       up(p.k));
}

Status Tuning::choose(const MakeTuningBench& benches, const std::vector<KernelProblem>& problems,
                      std::map<std::string, std::string>& choices) {
    std::vector<const KernelProblem*> order;
    for (const KernelProblem& problem : problems) order.push_back(&problem);
    std::ranges::stable_sort(order, std::greater<>(), [](const KernelProblem* p) { return flops_of(*p); });
    const Clock::time_point begin = Clock::now();
    for (const KernelProblem* problem : order) {
        const std::string where = bucket(*problem);
        auto found = measured_.find(where);
        if (found == measured_.end()) {
            if (seconds_since(begin) > kSeconds) continue;
            HK_ASSIGN(const std::string best, fastest(benches, *problem, log_));
            found = measured_.emplace(where, best).first;
            changed_ = true;
        }
        // A bucket's kernel is not always a candidate of this problem: few rows have fewer.
        if (std::ranges::find(problem->candidates, found->second) != problem->candidates.end())
            choices[problem->key] = found->second;
    }
    return {};
}

Status Tuning::save() const {
    if (cache_ == nullptr || !changed_) return {};
    HK_TRY(cache_->store(entry(), nlohmann::json(measured_).dump(1) + "\n"));
    changed_ = false;
    return {};
}

} // namespace hekla::program
