#include "data/packed_rows.hpp"

#include "base/hash.hpp"
#include "base/philox.hpp"
#include "data/permutation.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace hekla::data {
namespace {

constexpr std::size_t kSharing = 4096; // examples that share rows
constexpr uint64_t kOrderOfExamples = 0;

uint64_t key_of(uint64_t seed, uint64_t stream) {
    return RandomStream(hash64("data.packed_rows", seed), stream).next_u64();
}

} // namespace

PackedRows::PackedRows(std::span<const int64_t> lengths, int64_t length, int64_t most, uint64_t seed)
    : begins_{0}, seed_(seed) {
    const Permutation shuffled(lengths.size(), key_of(seed, kOrderOfExamples));
    int64_t tokens = 0;
    std::vector<uint32_t> some;
    for (std::size_t begin = 0; begin < lengths.size(); begin += kSharing) {
        some.clear();
        for (std::size_t i = begin; i < std::min(lengths.size(), begin + kSharing); ++i)
            some.push_back(static_cast<uint32_t>(shuffled(i)));
        std::ranges::stable_sort(some, std::greater{}, [&](uint32_t example) { return lengths[example]; });
        std::vector<std::vector<uint32_t>> rows;
        std::set<std::pair<int64_t, std::size_t>> room; // tokens that are left, and the row
        for (const uint32_t example : some) {
            const int64_t needed = lengths[example];
            tokens += needed;
            const auto fits = room.lower_bound({needed, 0});
            const auto [left, row] = fits != room.end() ? *fits : std::pair(length, rows.size());
            if (fits != room.end())
                room.erase(fits);
            else
                rows.emplace_back();
            rows[row].push_back(example);
            if (left > needed && std::ssize(rows[row]) < most) room.emplace(left - needed, row);
        }
        for (const std::vector<uint32_t>& row : rows) {
            examples_.insert(examples_.end(), row.begin(), row.end());
            begins_.push_back(examples_.size());
        }
    }
    fill_ = static_cast<double>(tokens) / (static_cast<double>(length) * static_cast<double>(size()));
}

PackedRow PackedRows::at(uint64_t number) const {
    const uint64_t epoch = number / size();
    const uint64_t row = Permutation(size(), key_of(seed_, 1 + epoch))(number % size());
    return {epoch, std::span(examples_).subspan(begins_[row], begins_[row + 1] - begins_[row])};
}

} // namespace hekla::data
