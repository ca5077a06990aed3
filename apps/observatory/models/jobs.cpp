#include "models/jobs.hpp"

namespace observatory {

Jobs::~Jobs() {
    {
        const std::lock_guard guard(mutex_);
        ends_ = true;
        waiting_.clear();
    }
    changed_.notify_all();
    thread_.join();
}

void Jobs::add(std::function<void()> job) {
    {
        const std::lock_guard guard(mutex_);
        waiting_.push_back(std::move(job));
    }
    changed_.notify_all();
}

bool Jobs::is_idle() const {
    const std::lock_guard guard(mutex_);
    return waiting_.empty() && !works_;
}

void Jobs::drain() {
    std::unique_lock lock(mutex_);
    waiting_.clear();
    changed_.wait(lock, [&] { return !works_; });
}

void Jobs::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
        if (ends_) return;
        const std::function<void()> job = std::move(waiting_.front());
        waiting_.pop_front();
        works_ = true;
        lock.unlock();
        job();
        lock.lock();
        works_ = false;
        changed_.notify_all();
    }
}

} // namespace observatory
