// One thread for calls that take their time: opening a model, working out a plan.
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

    // `job` runs on the thread and throws nothing; jobs run one after the other. Thread: any.
    void add(std::function<void()> job);
    bool is_idle() const;
    void drain(); // what waits is forgotten, what runs is waited for

private:
    void work();
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> waiting_;
    bool works_ = false, ends_ = false;
    std::thread thread_;
};

} // namespace observatory
