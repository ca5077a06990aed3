#include "gpu/eviction.hpp"

#include "gpu/staging.hpp"

namespace hekla::gpu {

namespace {

// Staging in a memory of its own, created at its first use: the memory that is moved makes no buffers meanwhile.
class SeparateStaging {
public:
    SeparateStaging(const Memory& memory, const std::shared_ptr<Queue>& queue) : memory_(memory), queue_(queue) {}
    Result<Staging*> get() {
        if (staging_ == nullptr) {
            HK_ASSIGN(const std::shared_ptr<Memory> separate, Memory::create_separate(memory_));
            HK_ASSIGN(staging_, Staging::create(separate, queue_, uint64_t{1} << 20));
        }
        return staging_.get();
    }

private:
    const Memory& memory_;
    const std::shared_ptr<Queue>& queue_;
    std::shared_ptr<Staging> staging_;
};

} // namespace

Status evict(Memory& memory, const std::shared_ptr<Queue>& queue) {
    SeparateStaging separate(memory, queue);
    return memory.evict([&](const Buffer& from, std::span<std::byte> to) -> Status {
        HK_ASSIGN(Staging * staging, separate.get());
        return staging->download(from, 0, to);
    });
}

Status restore(Memory& memory, const std::shared_ptr<Queue>& queue, const std::function<Status()>& then) {
    SeparateStaging separate(memory, queue);
    return memory.restore(
        [&](const Buffer& to, std::span<const std::byte> from) -> Status {
            HK_ASSIGN(Staging * staging, separate.get());
            return staging->upload(to, 0, from);
        },
        then);
}

} // namespace hekla::gpu
