#include "plugin/process/worker_pool.hpp"

namespace hekla::plugin {

void WorkerPool::add(std::unique_ptr<Worker> idle) {
    const std::scoped_lock hold(lock_);
    idle_.push_back(std::move(idle));
}

Result<WorkerPool::Lease> WorkerPool::acquire() {
    std::unique_lock hold(lock_);
    released_.wait(hold, [&] { return !idle_.empty() || busy_ < limit_; });
    ++busy_;
    if (!idle_.empty()) {
        std::unique_ptr<Worker> worker = std::move(idle_.back());
        idle_.pop_back();
        return Lease(*this, std::move(worker));
    }
    hold.unlock();
    Result<std::unique_ptr<Worker>> worker = start_();
    if (worker.ok()) return Lease(*this, worker.take());
    release(nullptr);
    return worker.status();
}

void WorkerPool::release(std::unique_ptr<Worker> worker) {
    const std::scoped_lock hold(lock_);
    --busy_;
    if (worker != nullptr) idle_.push_back(std::move(worker));
    released_.notify_one();
}

} // namespace hekla::plugin
