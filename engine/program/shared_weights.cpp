#include "program/shared_weights.hpp"

#include "gpu/eviction.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace hekla::program {

namespace {

constexpr std::chrono::milliseconds kLoading(1); // polling interval while another thread loads

} // namespace

Result<std::shared_ptr<SharedWeights>> SharedWeights::create(gpu::Memory& memory,
                                                             const std::vector<uint64_t>& chunk_bytes) {
    std::shared_ptr<SharedWeights> weights(new SharedWeights);
    HK_ASSIGN(weights->memory_, gpu::Memory::create_separate(memory));
    for (const uint64_t bytes : chunk_bytes) {
        HK_ASSIGN(gpu::Buffer buffer, weights->memory_->create_buffer(bytes, gpu::Residence::device, "parameters"));
        weights->chunks_.push_back(std::move(buffer));
    }
    return weights;
}

// Asleep, because the weights may be evicted or moving: the store calls restore() before it reads them.
SharedWeights::Reader::Reader(std::shared_ptr<SharedWeights> weights) : weights_(std::move(weights)), awake_(false) {}

SharedWeights::Reader::~Reader() {
    const std::lock_guard guard(weights_->mutex_);
    if (awake_) --weights_->awake_;
}

Status SharedWeights::Reader::evict(const std::shared_ptr<gpu::Queue>& queue) {
    SharedWeights& w = *weights_;
    std::unique_lock lock(w.mutex_);
    if (!awake_) return {};
    if (w.awake_ == 1) { // no other reader moves them, and none can wake until they are evicted
        w.moving_ = true;
        lock.unlock();
        const Status gone = gpu::evict(*w.memory_, queue);
        lock.lock();
        w.moving_ = false;
        HK_TRY(gone);
        w.gone_ = true;
    }
    awake_ = false;
    --w.awake_;
    return {};
}

Status SharedWeights::Reader::restore(const std::shared_ptr<gpu::Queue>& queue) {
    SharedWeights& w = *weights_;
    std::unique_lock lock(w.mutex_);
    if (awake_) return {};
    while (w.moving_) {
        lock.unlock();
        queue->give_way();
        lock.lock();
    }
    if (w.gone_) {
        w.moving_ = true;
        lock.unlock();
        const Status back = gpu::restore(*w.memory_, queue);
        lock.lock();
        w.moving_ = false;
        HK_TRY(back);
        w.gone_ = false;
    }
    awake_ = true;
    ++w.awake_;
    return {};
}

WeightsPool::Loading::Loading(Loading&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), key_(std::move(other.key_)) {}

WeightsPool::Loading::~Loading() {
    if (pool_ == nullptr) return;
    const std::lock_guard guard(pool_->mutex_);
    pool_->loading_.erase(key_);
}

void WeightsPool::Loading::loaded(const std::shared_ptr<SharedWeights>& weights) {
    const std::lock_guard guard(pool_->mutex_);
    pool_->weights_[key_] = weights;
    pool_->loading_.erase(key_);
    pool_ = nullptr;
}

Result<WeightsPool::Found> WeightsPool::find(const std::string& key, bool may_wait, const StopPoll& stop) {
    for (;;) {
        {
            const std::lock_guard guard(mutex_);
            std::erase_if(weights_, [](const auto& entry) { return entry.second.expired(); });
            if (const auto found = weights_.find(key); found != weights_.end())
                if (std::shared_ptr<SharedWeights> weights = found->second.lock()) return Found{std::move(weights), {}};
            if (loading_.insert(key).second) return Found{nullptr, Loading(*this, key)};
        }
        if (!may_wait) return Found{};
        if (stop.stopped()) return Status(Code::cancelled, "stopped while another loads the weights");
        std::this_thread::sleep_for(kLoading);
    }
}

} // namespace hekla::program
