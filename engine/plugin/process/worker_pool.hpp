// Worker processes that wait for requests. A request borrows one. A process that ended is not returned; another one is
// started when needed.
#pragma once

#include "plugin/process/worker.hpp"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

namespace hekla::plugin {

// Thread: any.
class WorkerPool {
public:
    using Start = std::function<Result<std::unique_ptr<Worker>>()>;
    // limit: maximum number of processes.
    WorkerPool(std::size_t limit, Start start) : limit_(limit), start_(std::move(start)) {}
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    // A process for one request, returned to the pool at the end.
    class Lease {
    public:
        Lease(WorkerPool& pool, std::unique_ptr<Worker> worker) : pool_(pool), worker_(std::move(worker)) {}
        Lease(Lease&& other) noexcept : pool_(other.pool_), worker_(std::move(other.worker_)) {}
        Lease& operator=(Lease&&) = delete;
        ~Lease() {
            if (worker_ != nullptr) pool_.release(std::move(worker_));
        }
        Worker& operator*() const { return *worker_; }
        // Drops a process that has ended.
        void discard() {
            worker_.reset();
            pool_.release(nullptr);
        }

    private:
        WorkerPool& pool_;
        std::unique_ptr<Worker> worker_;
    };

    void add(std::unique_ptr<Worker> idle);
    // Returns an idle process, or a new one; waits while `limit` processes are busy.
    Result<Lease> acquire();

private:
    void release(std::unique_ptr<Worker> worker); // null: it ended

    std::size_t limit_;
    Start start_;
    std::mutex lock_;
    std::condition_variable released_;
    std::vector<std::unique_ptr<Worker>> idle_;
    std::size_t busy_ = 0;
};

} // namespace hekla::plugin
