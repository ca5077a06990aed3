#include "data/length_groups.hpp"

#include "base/hash.hpp"
#include "base/philox.hpp"
#include "data/permutation.hpp"

#include <algorithm>

namespace hekla::data {
namespace {

constexpr std::size_t kStretch = 50; // batches that are sorted together

} // namespace

LengthGroups::LengthGroups(std::vector<int64_t> lengths, uint64_t batch, uint64_t seed)
    : lengths_(std::move(lengths)), batch_(batch), seed_(seed) {}

LengthGroups::~LengthGroups() = default;

std::vector<uint32_t> LengthGroups::order_of(uint64_t epoch) const {
    const std::size_t n = lengths_.size();
    const uint64_t key = RandomStream(hash64("data.length_groups", seed_), epoch).next_u64();
    const Permutation shuffled(n, key);
    std::vector<uint32_t> order(n);
    for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<uint32_t>(shuffled(i));
    std::vector<uint32_t> result;
    for (std::size_t begin = 0; begin < n; begin += kStretch * batch_) {
        const std::size_t end = std::min(n, begin + kStretch * batch_);
        std::ranges::stable_sort(order.begin() + static_cast<std::ptrdiff_t>(begin),
                                 order.begin() + static_cast<std::ptrdiff_t>(end), {},
                                 [&](uint32_t example) { return lengths_[example]; });
        // Only whole batches are moved; the incomplete one stays last.
        const std::size_t batches = (end - begin) / batch_;
        if (batches > 0) {
            const Permutation turned(batches, key ^ (begin + 1));
            for (std::size_t b = 0; b < batches; ++b) {
                const auto from = order.begin() + static_cast<std::ptrdiff_t>(begin + turned(b) * batch_);
                result.insert(result.end(), from, from + static_cast<std::ptrdiff_t>(batch_));
            }
        }
        result.insert(result.end(), order.begin() + static_cast<std::ptrdiff_t>(begin + batches * batch_),
                      order.begin() + static_cast<std::ptrdiff_t>(end));
    }
    return result;
}

Position LengthGroups::at(uint64_t number) const {
    const uint64_t epoch = number / lengths_.size();
    std::shared_ptr<const std::vector<uint32_t>> order;
    {
        const std::lock_guard lock(lock_);
        auto& kept = epochs_[epoch];
        if (kept == nullptr) kept = std::make_shared<const std::vector<uint32_t>>(order_of(epoch));
        order = kept;
        while (epochs_.size() > 2)
            epochs_.erase(epochs_.begin()->first == epoch ? std::prev(epochs_.end()) : epochs_.begin());
    }
    return {number, epoch, (*order)[number % lengths_.size()]};
}

} // namespace hekla::data
