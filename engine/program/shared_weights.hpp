// Weights that several runtimes of one device read, in separate memory that stays on the device while one of them is
// awake, and a pool that shares them by key.
#pragma once

#include "base/status.hpp"
#include "base/stop_poll.hpp"
#include "gpu/memory.hpp"
#include "gpu/submit.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hekla::program {

// The parameters' arena of a ParameterStore, shared with others. Never written once it is in the pool. Ownership: by
// the stores that read it; the last one frees the memory. Thread: any.
class SharedWeights {
public:
    // Creates chunks of these sizes in bytes, in separate memory that counts towards the same cap as `memory`. Their
    // content is undefined.
    static Result<std::shared_ptr<SharedWeights>> create(gpu::Memory& memory, const std::vector<uint64_t>& chunk_bytes);

    const std::vector<gpu::Buffer>& chunks() const { return chunks_; } // moved by evict() and restore()

    // A reader of the weights. They do not move while any reader is awake. Created and destroyed with the store.
    class Reader {
    public:
        explicit Reader(std::shared_ptr<SharedWeights> weights);
        ~Reader();
        Reader(const Reader&) = delete;
        Reader& operator=(const Reader&) = delete;

        const std::vector<gpu::Buffer>& chunks() const { return weights_->chunks_; }
        const std::shared_ptr<SharedWeights>& weights() const { return weights_; }
        // evict() calls gpu::Memory::evict if no other reader is awake, restore() restores evicted weights; both wait
        // for another reader that is moving them. Errors: as theirs, and then the reader's state is unchanged.
        Status evict(const std::shared_ptr<gpu::Queue>& queue);
        Status restore(const std::shared_ptr<gpu::Queue>& queue);

    private:
        std::shared_ptr<SharedWeights> weights_;
        bool awake_ = true;
    };

private:
    SharedWeights() = default;
    std::shared_ptr<gpu::Memory> memory_;
    std::vector<gpu::Buffer> chunks_;
    std::mutex mutex_;      // protects the members below; not held during a move, which may run other code on this
                            // thread
    std::size_t awake_ = 0; // readers
    bool gone_ = false, moving_ = false;
};

// Weights in use, by a key that identifies them (files, tensors, storage).
// Thread: any.
class WeightsPool {
public:
    // Notified when the weights are loaded; if destroyed before, the next caller loads them.
    class Loading {
    public:
        Loading(WeightsPool& pool, std::string key) : pool_(&pool), key_(std::move(key)) {}
        ~Loading();
        Loading(Loading&& other) noexcept;
        Loading& operator=(Loading&&) = delete;
        void loaded(const std::shared_ptr<SharedWeights>& weights);

    private:
        WeightsPool* pool_ = nullptr; // null: already notified
        std::string key_;
    };
    struct Found {
        std::shared_ptr<SharedWeights> weights; // null: load them
        std::optional<Loading> loading;         // if set, others will find the weights; else they are not shared
    };

    // Where another is loading them: waits until it has, calling `stop` now and then; with may_wait = false they are
    // loaded once more. cancelled: `stop` returned true.
    Result<Found> find(const std::string& key, bool may_wait, const StopPoll& stop);

private:
    std::mutex mutex_;
    std::map<std::string, std::weak_ptr<SharedWeights>> weights_; // expired: being loaded, or without readers
    std::set<std::string> loading_;
};

} // namespace hekla::program
