// One thread for slow calls, such as opening a model or estimating a plan.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace observatory {

class Jobs {
public:
    Jobs() : thread_([this] { work(); }) {}
    ~Jobs();
    Jobs(const Jobs&) = delete;
    Jobs& operator=(const Jobs&) = delete;

    // Queues `job`, which must not throw. Jobs run one after the other on the thread. Thread: any.
    void add(std::function<void()> job);
    bool is_idle() const;
    void drain(); // discards queued jobs and waits for the running one

private:
    void work();
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> waiting_;
    bool works_ = false, ends_ = false;
    std::thread thread_;
};

} // namespace observatory
