#include "ranks.hpp"

#include "base/trimmed.hpp"
#include "mpi_job.hpp"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <thread>

namespace hekla::app {
namespace {

// A rank's own context and error.
struct RankContext {
    HostError error;
    HostContext context;
};

class Communicators {
public:
    Communicators() = default;
    Communicators(const Communicators&) = delete;
    Communicators& operator=(const Communicators&) = delete;
    ~Communicators() { hk_communicators_destroy(all.data(), static_cast<uint32_t>(all.size())); }
    std::vector<hk_communicator> all;
};

} // namespace

Result<std::vector<std::string>> named_devices(const Globals& globals, const std::string& devices) {
    HK_ASSIGN(const std::vector<gpu::DeviceInfo> listed, gpu::Device::list(context_options(globals).device));
    std::vector<std::string> names;
    if (devices == "all") {
        const std::vector<gpu::DeviceInfo> usable = gpu::distinct_devices(listed);
        const bool gpus =
            std::ranges::any_of(usable, [](const gpu::DeviceInfo& d) { return d.type != gpu::DeviceType::cpu; });
        for (const gpu::DeviceInfo& d : usable)
            if (!gpus || d.type != gpu::DeviceType::cpu) names.push_back(std::to_string(d.index));
        if (names.empty()) return not_found("--devices all: no device is usable; run `hekla doctor --list`");
        return names;
    }
    std::vector<std::string> known;
    for (const gpu::DeviceInfo& d : listed) known.push_back(fmt::format("{} ({})", d.index, d.name));
    for (std::size_t at = 0; at <= devices.size();) {
        const std::size_t end = std::min(devices.find(',', at), devices.size());
        const std::string name(trimmed(std::string_view(devices).substr(at, end - at)));
        at = end + 1;
        if (std::ranges::none_of(listed, [&](const gpu::DeviceInfo& d) { return std::to_string(d.index) == name; }))
            return invalid_argument(fmt::format("--devices {}: '{}' is not the number of a device; there are {}",
                                                devices, name, fmt::join(known, ", ")));
        names.push_back(name);
    }
    return names;
}

int train_ranks(const Globals& globals, const std::vector<std::string>& devices,
                std::span<const hk_communicator* const> communicators, const hk_train_options& options,
                Progress& progress, hk_train_result& result) {
    std::vector<std::unique_ptr<RankContext>> ranks;
    for (const std::string& device : devices) {
        Globals own = globals;
        own.device = device;
        ranks.push_back(std::make_unique<RankContext>());
        if (const int code = ranks.back()->context.create(own, ranks.back()->error); code != kDone) return code;
    }
    std::vector<int32_t> codes(ranks.size(), HK_OK);
    const auto train = [&](std::size_t r, hk_train_result* of_first) {
        hk_train_options own = options;
        own.communicator = communicators[r];
        codes[r] = hk_train(ranks[r]->context.context, &own, of_first, ranks[r]->error.error);
    };
    std::vector<std::thread> threads;
    for (std::size_t r = 1; r < ranks.size(); ++r) threads.emplace_back(train, r, nullptr);
    result = {};
    result.struct_size = sizeof result;
    train(0, &result);
    for (std::thread& thread : threads) thread.join();
    if (std::ranges::all_of(codes, [](int32_t code) { return code == HK_OK; })) return kDone;
    if (progress.open) std::fprintf(stderr, "\n");
    const auto told = [](int32_t code) { return code == HK_OK || code == HK_CANCELLED; };
    const auto found = std::ranges::find_if_not(codes, told); // the rank that failed, or that is to report another
    if (found != codes.end()) return ranks[static_cast<std::size_t>(found - codes.begin())]->error.report();
    return communicators[0]->rank == 0 ? ranks[0]->error.report() : MpiJob::kTold;
}

int train_on(const Globals& globals, const std::vector<std::string>& devices, const std::optional<Link>& link,
             const hk_train_options& options, Progress& progress, hk_train_result& result) {
    const HostError error;
    Communicators threads;
    threads.all.resize(devices.size());
    if (hk_communicators_create(static_cast<uint32_t>(devices.size()), threads.all.data(), error.error) != HK_OK)
        return error.report();
    std::vector<std::unique_ptr<SlowLink>> slow;
    std::vector<const hk_communicator*> used;
    for (const hk_communicator& one : threads.all) {
        if (link) slow.push_back(std::make_unique<SlowLink>(one, *link));
        used.push_back(link ? slow.back()->communicator() : &one);
    }
    return train_ranks(globals, devices, used, options, progress, result);
}

} // namespace hekla::app
