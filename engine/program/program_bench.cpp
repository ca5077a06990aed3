#include "program/program_bench.hpp"

#include "base/stopwatch.hpp"
#include "program/parameter_store.hpp"
#include "program/peak.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

namespace hekla::program {

namespace {

// A bench whose programs use matrices that are states of a separate store.
class ProgramBench : public TuningBench {
public:
    ProgramBench(Runtime& runtime, std::unique_ptr<ParameterStore> store)
        : runtime_(runtime), store_(std::move(store)) {}

    Status upload(const std::string& name, std::span<const std::byte> content) override {
        HK_TRY(store_->make_state(name, content.size()));
        return store_->upload_state(name, content);
    }
    void compile(std::span<const Lowering> lowerings) override {
        std::vector<Dispatch> dispatches;
        for (const Lowering& lowering : lowerings)
            dispatches.insert(dispatches.end(), lowering.dispatches.begin(), lowering.dispatches.end());
        runtime_.pipelines(dispatches);
    }
    Result<std::size_t> add(const Lowering& lowering) override {
        CompileOptions options;
        options.timings = runtime_.gpu().capabilities().timestamps; // without the time of a submission
        HK_ASSIGN(auto program, Program::compile(runtime_, lowering, *store_, options));
        HK_TRY(program->run());
        programs_.push_back(std::move(program));
        return programs_.size() - 1;
    }
    Result<double> run(std::size_t dispatches) override {
        using Clock = std::chrono::steady_clock;
        Program& program = *programs_[dispatches];
        double best = 1e30;
        const Clock::time_point begin = Clock::now();
        for (int i = 0; i < 2 || (i < 20 && seconds_since(begin) < 0.01); ++i) {
            const Clock::time_point one = Clock::now();
            HK_TRY(program.run());
            const double seconds = seconds_since(one);
            double on_device = 0;
            for (const DispatchTiming& timing : program.timings()) on_device += timing.seconds;
            best = std::min(best, on_device > 0 ? on_device : seconds);
        }
        return best;
    }
    Result<std::vector<std::byte>> download(const std::string& name) override {
        HK_ASSIGN(const ResourceArray<std::byte> content, store_->download_state(name));
        return std::vector<std::byte>(content.begin(), content.end());
    }

private:
    Runtime& runtime_;
    std::unique_ptr<ParameterStore> store_;
    std::vector<std::unique_ptr<Program>> programs_;
};

Result<std::unique_ptr<TuningBench>> make_bench(Runtime& runtime) {
    HK_ASSIGN(auto store, ParameterStore::create(runtime, {}));
    return std::unique_ptr<TuningBench>(std::make_unique<ProgramBench>(runtime, std::move(store)));
}

double probe_seconds(const Runtime& runtime) {
    constexpr double kSeconds = 0.001; // short, because other processes interrupt a CPU
    const double budget = runtime.options().budget_seconds;
    return budget > 0 ? std::min(kSeconds, budget) : kSeconds;
}

Result<double> measure_peak(Runtime& runtime, Storage factors) {
    HK_TRY(raise_clock(runtime));
    HK_ASSIGN(const std::unique_ptr<TuningBench> bench, make_bench(runtime));
    return measure_peak(*bench, runtime.device_limits(), factors, probe_seconds(runtime));
}

} // namespace

// The speed of a GPU, relative to the highest that was measured on its runtime.
class GpuSpeed {
public:
    explicit GpuSpeed(Runtime& runtime) : runtime_(runtime) {}
    Result<double> share() {
        if (runtime_.device_limits().cpu) return 1.0;
        if (!probe_) {
            HK_ASSIGN(bench_, make_bench(runtime_));
            HK_ASSIGN(probe_,
                      PeakProbe::create(*bench_, runtime_.device_limits(), Storage::f32, probe_seconds(runtime_)));
        }
        double& highest = runtime_.highest_speed_;
        const auto begin = std::chrono::steady_clock::now();
        const bool first = highest == 0;
        double speed = 0;
        do {
            HK_ASSIGN(speed, probe_->run());
            if (speed <= 0) return 1.0;
            highest = std::max(highest, speed);
        } while (first && seconds_since(begin) < kSecondsToRise);
        return speed / highest;
    }

private:
    Runtime& runtime_;
    std::unique_ptr<TuningBench> bench_;
    std::optional<PeakProbe> probe_;
};

Status raise_clock(Runtime& runtime) {
    GpuSpeed speed(runtime);
    const auto begin = std::chrono::steady_clock::now();
    return raise_clock([&] { return speed.share(); }, [&] { return seconds_since(begin); });
}

TuningBenches tuning_benches(Runtime& runtime) {
    return {runtime.device_limits(), [&runtime] { return make_bench(runtime); },
            [&runtime](Storage factors) {
                const Result<double> peak = peak_flops(runtime, factors);
                return peak.ok() ? peak.value() : 0.0; // of a lost device: the next measurement fails
            },
            [begin = std::chrono::steady_clock::now()] { return seconds_since(begin); },
            [speed = std::make_shared<GpuSpeed>(runtime)] { return speed->share(); }};
}

Result<double> peak_flops(Runtime& runtime, Storage factors) {
    if (const auto known = runtime.peaks_.find(factors); known != runtime.peaks_.end()) return known->second;
    Result<double> peak = measure_peak(runtime, factors);
    if (!peak.ok()) {
        if (peak.code() == Code::device_lost) return peak;
        runtime.gpu().device->log().warning("the peak of this device is not known: " + peak.message());
    }
    return runtime.peaks_[factors] = peak.ok() ? peak.value() : 0;
}

Result<Peak> peak_of(Runtime& runtime, Storage precision) {
    const bool units = static_cast<bool>(runtime.device_limits().matrix_unit(precision));
    HK_ASSIGN(const double flops, peak_flops(runtime, units ? precision : Storage::f32));
    return Peak{flops, units};
}

} // namespace hekla::program
