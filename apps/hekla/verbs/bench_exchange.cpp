// hekla bench exchange: how fast ranks exchange bytes, as threads or as processes of an MPI job.
#include "command.hpp"
#include "mpi_job.hpp"
#include "output.hpp"

#include "base/file.hpp"
#include "base/number_text.hpp"
#include "base/stopwatch.hpp"
#include "exchange/communicator.hpp"
#include "exchange/thread_communicator.hpp"
#include "exchange/tree_sum.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <optional>
#include <thread>

namespace hekla::app {
namespace {

using Clock = std::chrono::steady_clock;

struct ExchangeArguments {
    int64_t ranks = 2;
    std::string mpi_module;
    bool json = false;
};

struct Size {
    uint64_t bytes = 0;   // to each rank
    double seconds = 0.0; // of one exchange
};

struct Measured {
    double latency = 0.0; // seconds of an exchange of 8 bytes with each rank
    std::vector<Size> sizes;
    double added = 0.0; // bytes that a rank adds to others in a second
};

// Returns the median time of an exchange of as many bytes with each rank.
Result<double> exchange_seconds(exchange::Communicator& ranks, uint64_t bytes, int repeats) {
    const auto count = static_cast<std::size_t>(ranks.size());
    std::vector<std::byte> from(static_cast<std::size_t>(bytes)), to(static_cast<std::size_t>(bytes) * count);
    std::vector<hk_exchange_part> parts(count);
    for (std::size_t r = 0; r < count; ++r)
        if (r != static_cast<std::size_t>(ranks.rank())) parts[r] = {from.data(), to.data() + r * bytes, bytes, bytes};
    HK_TRY(ranks.exchange(parts));
    std::vector<double> seconds;
    for (int i = 0; i < repeats; ++i) {
        const Clock::time_point begin = Clock::now();
        HK_TRY(ranks.exchange(parts));
        seconds.push_back(seconds_since(begin));
    }
    std::ranges::sort(seconds);
    return seconds[seconds.size() / 2];
}

Result<Measured> measure(exchange::Communicator& ranks) {
    Measured all;
    HK_ASSIGN(all.latency, exchange_seconds(ranks, 8, 200));
    for (uint64_t bytes = uint64_t{4} << 10; bytes <= uint64_t{64} << 20; bytes *= 4) {
        HK_ASSIGN(const double seconds, exchange_seconds(ranks, bytes, bytes < (uint64_t{1} << 20) ? 50 : 10));
        all.sizes.push_back({bytes, seconds});
    }
    std::vector<float> sum(4 << 20), other(sum.size(), 1.0f);
    exchange::add(sum, other);
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < 10; ++i) exchange::add(sum, other);
    all.added = 10.0 * 4.0 * static_cast<double>(sum.size()) / seconds_since(begin);
    return all;
}

// Bytes that a rank sends in a second at the size with the highest rate.
double bandwidth(const Measured& all, int32_t ranks) {
    double best = 0.0;
    for (const Size& size : all.sizes)
        best = std::max(best, static_cast<double>(size.bytes) * (ranks - 1) / size.seconds);
    return best;
}

void print(const ExchangeArguments& a, const Measured& all, int32_t ranks, const char* how) {
    if (a.json) {
        nlohmann::ordered_json sizes = nlohmann::ordered_json::array();
        for (const Size& size : all.sizes) sizes.push_back({{"bytes", size.bytes}, {"seconds", size.seconds}});
        std::printf("%s\n", json_line({{"ranks", ranks},
                                       {"how", how},
                                       {"latency_seconds", all.latency},
                                       {"bytes_per_second", bandwidth(all, ranks)},
                                       {"added_bytes_per_second", all.added},
                                       {"sizes", sizes}})
                                .c_str());
        return;
    }
    fmt::print("{} ranks, {}\n", ranks, how);
    fmt::print("latency {:.1f} us, {:.2f} GB/s from each rank, {:.1f} GB/s added by one\n", 1e6 * all.latency,
               1e-9 * bandwidth(all, ranks), 1e-9 * all.added);
    for (const Size& size : all.sizes)
        fmt::print("  {:>9} to each of {}: {:9.1f} us, {:6.2f} GB/s\n", size_text(size.bytes), ranks - 1,
                   1e6 * size.seconds, 1e-9 * static_cast<double>(size.bytes) * (ranks - 1) / size.seconds);
}

int run_threads(const ExchangeArguments& a) {
    std::vector<hk_communicator> seams(static_cast<std::size_t>(a.ranks));
    exchange::create_thread_communicators(seams);
    std::optional<Result<Measured>> first;
    {
        std::vector<std::jthread> threads;
        for (std::size_t r = 0; r < seams.size(); ++r)
            threads.emplace_back([&, r] {
                exchange::Communicator ranks(seams[r]);
                Result<Measured> measured = measure(ranks);
                if (!measured.ok()) ranks.fail(measured.status());
                if (r == 0) first.emplace(std::move(measured));
            });
    }
    for (hk_communicator& seam : seams) exchange::destroy_thread_communicator(seam);
    if (!first->ok()) return fail(first->status());
    print(a, first->value(), static_cast<int32_t>(a.ranks), "threads of this process");
    return kDone;
}

int run_processes(const Globals& globals, const ExchangeArguments& a) {
    constexpr double kTimeout = 60.0;
    Result<std::unique_ptr<MpiJob>> joined = MpiJob::join(kTimeout, a.mpi_module);
    if (!joined.ok()) MpiJob::not_joined(joined.status(), globals.log());
    MpiJob& job = *joined.value();
    if (const Status connected = job.connect(1); !connected.ok()) return job.fail(connected);
    exchange::Communicator ranks(job.communicators()[0]);
    const Result<Measured> measured = measure(ranks);
    if (!measured.ok()) {
        ranks.fail(measured.status());
        return job.fail(job.leads() || measured.code() != Code::cancelled ? fail(measured.status()) : MpiJob::kTold);
    }
    if (job.leads()) print(a, measured.value(), ranks.size(), job.library());
    return kDone;
}

} // namespace

void add_bench_exchange(CLI::App& bench, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = bench.add_subcommand(
        "exchange", "Measure exchanges between the ranks of a training: threads of this process, or, "
                    "under mpirun or srun, the processes of the job.");
    const auto a = std::make_shared<ExchangeArguments>();
    parser->add_option("--ranks", a->ranks, "threads")->check(CLI::Range(2, 64))->capture_default_str();
    parser->add_option("--mpi-module", a->mpi_module, "libhekla_mpi.so to use instead of the installed one");
    parser->add_flag("--json", a->json, "print one line of JSON");
    parser->footer("Example: hekla bench exchange --ranks 2 --json");
    verbs.push_back(
        {parser, [a, &globals] { return MpiJob::launched() > 1 ? run_processes(globals, *a) : run_threads(*a); }});
}

} // namespace hekla::app
