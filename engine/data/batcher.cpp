#include "data/batcher.hpp"

#include "base/thread.hpp"

#include <condition_variable>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mutex>
#include <thread>
#include <unordered_set>

namespace hekla::data {
namespace {

Status check_fields(const std::vector<Field>& fields) {
    std::unordered_set<std::string_view> names;
    for (const Field& field : fields) {
        uint64_t count = 1;
        for (const int64_t size : field.shape) {
            if (size < 0 || (size > 0 && count > (uint64_t{1} << 48) / static_cast<uint64_t>(size)))
                return invalid_argument(
                    fmt::format("field \"{}\": the shape [{}] is not valid", field.name, fmt::join(field.shape, ", ")));
            count *= static_cast<uint64_t>(size);
        }
        if (field.bytes.size() != 4 * count)
            return invalid_argument(fmt::format("field \"{}\": {} bytes, the shape [{}] needs {}", field.name,
                                                field.bytes.size(), fmt::join(field.shape, ", "), 4 * count));
        if (!names.insert(field.name).second)
            return invalid_argument(fmt::format("field \"{}\" was made twice", field.name));
    }
    return {};
}

} // namespace

// The queue's state. Every micro-step has a ticket, counted from step 0. Workers take tickets in order, up to `depth`
// beyond the returned ones, and store their batch in the ring's slot for the ticket.
class Batcher::Work {
public:
    Work(BatcherOptions options, MakeBatch make)
        : options_(options), make_(std::move(make)), ring_(options_.depth),
          handed_out_(options_.first_step * options_.micro_steps), taken_(handed_out_) {
        const uint64_t most = std::numeric_limits<uint64_t>::max() / options_.micro_steps;
        end_ = std::min(options_.end_step, most) * options_.micro_steps;
    }

    ~Work() {
        {
            const std::lock_guard lock(mutex_);
            stop_ = true;
        }
        may_work_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    void start() {
        for (unsigned i = 0; i < options_.threads; ++i)
            threads_.push_back(start_thread("hekla batches", [this] { run(); }));
    }

    Result<std::optional<Batch>> next() {
        std::unique_lock lock(mutex_);
        if (!failed_.ok()) return failed_;
        if (handed_out_ >= end_) return std::optional<Batch>();
        std::optional<Result<Batch>>& place = ring_[handed_out_ % ring_.size()];
        if (threads_.empty()) place = make_or_explain(handed_out_);
        has_made_.wait(lock, [&] { return place.has_value(); });
        Result<Batch> made = std::move(*place);
        place.reset();
        if (!made.ok()) {
            failed_ = made.status();
            return failed_;
        }
        ++handed_out_;
        lock.unlock();
        may_work_.notify_one();
        return std::optional<Batch>(made.take());
    }

    bool wait(std::chrono::milliseconds timeout) {
        std::unique_lock lock(mutex_);
        if (threads_.empty() || !failed_.ok() || handed_out_ >= end_) return true;
        return has_made_.wait_for(lock, timeout, [&] { return ring_[handed_out_ % ring_.size()].has_value(); });
    }

    bool end(std::chrono::milliseconds timeout) {
        std::unique_lock lock(mutex_);
        stop_ = true;
        may_work_.notify_all();
        return has_made_.wait_for(lock, timeout, [&] { return making_ == 0; });
    }

private:
    void run() {
        std::unique_lock lock(mutex_);
        for (;;) {
            may_work_.wait(lock, [&] { return stop_ || (taken_ < end_ && taken_ < handed_out_ + ring_.size()); });
            if (stop_) return;
            const uint64_t ticket = taken_++;
            ++making_;
            lock.unlock();
            Result<Batch> made = make_or_explain(ticket);
            lock.lock();
            --making_;
            if (!made.ok()) stop_ = true; // earlier ones are still being made; later ones are not needed
            ring_[ticket % ring_.size()] = std::move(made);
            has_made_.notify_all();
        }
    }

    Result<Batch> make_or_explain(uint64_t ticket) {
        const std::string where = fmt::format("batch of step {}, micro-step {}", ticket / options_.micro_steps,
                                              options_.first_micro_step + ticket % options_.micro_steps);
        try {
            Result<Batch> made = make(ticket);
            return made.ok() ? std::move(made) : Result<Batch>(made.status().with_context(where));
        } catch (const std::bad_alloc&) {
            return out_of_memory(where + ": no memory");
        } catch (const std::exception& error) {
            return internal_error(fmt::format("{}: making it threw: {}", where, error.what()));
        } catch (...) { return internal_error(where + ": making it threw an object that is not a std::exception"); }
    }

    Result<Batch> make(uint64_t ticket) const {
        Batch batch;
        batch.step = ticket / options_.micro_steps;
        batch.micro_step = options_.first_micro_step + static_cast<uint32_t>(ticket % options_.micro_steps);
        HK_TRY(make_(batch));
        HK_TRY(check_fields(batch.fields));
        return batch;
    }

    const BatcherOptions options_;
    const MakeBatch make_;
    std::mutex mutex_;
    std::condition_variable may_work_;
    std::condition_variable has_made_;
    std::vector<std::optional<Result<Batch>>> ring_;
    uint64_t handed_out_; // tickets before this were returned by next()
    uint64_t taken_;      // tickets before this have a worker
    uint64_t end_ = 0;
    unsigned making_ = 0; // calls of make_ that run on workers
    bool stop_ = false;
    Status failed_;
    std::vector<std::thread> threads_;
};

Batcher::Batcher(std::unique_ptr<Work> work) : work_(std::move(work)) {}
Batcher::~Batcher() = default;

Result<std::unique_ptr<Batcher>> Batcher::start(BatcherOptions options, MakeBatch make) {
    const auto positive = [](uint64_t value, const char* what) {
        return value > 0 ? Status() : invalid_argument(fmt::format("{} is 0; at least 1 was expected", what));
    };
    HK_TRY(positive(options.micro_steps, "the number of micro-steps"));
    HK_TRY(positive(options.depth, "the number of batches made ahead"));
    auto work = std::make_unique<Work>(options, std::move(make));
    try {
        work->start();
    } catch (const std::system_error& error) {
        return io_error(fmt::format("cannot start a thread that makes batches: {}", error.what()));
    }
    return std::unique_ptr<Batcher>(new Batcher(std::move(work)));
}

Result<std::optional<Batch>> Batcher::next() { return work_->next(); }

bool Batcher::wait(std::chrono::milliseconds timeout) { return work_->wait(timeout); }

bool Batcher::end(std::chrono::milliseconds timeout) { return work_->end(timeout); }

} // namespace hekla::data
