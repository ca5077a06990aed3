#include "drivers/simulation.hpp"

#include <algorithm>
#include <array>
#include <list>
#include <unordered_map>
#include <vector>

namespace drivers {
namespace {

constexpr uint32_t kLanesAtOnce = 8, kBankGroups = 8, kFragment = 16, kElements = 8; // of a unit

// Units of a row in shared memory; a row is followed by one unit of padding.
uint32_t line_of(bool along_k, uint32_t rows, uint32_t step) { return (along_k ? step : rows) / kElements; }

// The copies of one factor: `threads` at a time write a unit each.
uint32_t store_wavefronts(bool along_k, uint32_t rows, const MatrixTile& tile, Stores stores) {
    const uint32_t line = line_of(along_k, rows, tile.step), count = rows * tile.step / kElements;
    const bool apart = along_k && stores == Stores::four_apart && line == 4;
    std::vector<uint32_t> units;
    for (uint32_t i = 0; i < count; ++i) {
        // Of 32 neighbors, which fill eight rows of four units, eight write a row and the one four below it.
        const uint32_t row = apart ? i / 32 * 8 + i % 32 / 8 + i / 4 % 2 * 4 : i / line;
        units.push_back(row * (line + 1) + i % line);
    }
    return wavefronts_of(units);
}

// A subgroup reads a factor in fragments of 16 x 16, each as four matrices of eight rows of 16 bytes.
uint32_t load_wavefronts(bool along_k, uint32_t rows, uint32_t sub_rows, const MatrixTile& tile) {
    const uint32_t stride = line_of(along_k, rows, tile.step) + 1;
    uint32_t count = 0;
    for (uint32_t k = 0; k < tile.step; k += kFragment)
        for (uint32_t first = 0; first < sub_rows; first += kFragment)
            for (uint32_t part = 0; part < 4; ++part) {
                std::array<uint32_t, kLanesAtOnce> units{};
                for (uint32_t r = 0; r < units.size(); ++r) {
                    const uint32_t down = part % 2 * 8 + r;
                    units[r] = along_k ? (first + down) * stride + k / kElements + part / 2
                                       : (k + down) * stride + first / kElements + part / 2;
                }
                count += wavefronts_of(units);
            }
    return count * (tile.threads / tile.subgroup);
}

// Pieces of the factors in a cache that evicts the one that was not used for longest.
class Cache {
public:
    explicit Cache(uint64_t bytes) : left_(bytes) {}

    // Returns the bytes that are read from memory.
    uint64_t read(uint64_t piece, uint64_t bytes) {
        if (const auto found = places_.find(piece); found != places_.end()) {
            used_.splice(used_.begin(), used_, found->second);
            return 0;
        }
        while (left_ < bytes && !used_.empty()) {
            left_ += used_.back().bytes;
            places_.erase(used_.back().piece);
            used_.pop_back();
        }
        if (left_ >= bytes) {
            used_.push_front({piece, bytes});
            places_[piece] = used_.begin();
            left_ -= bytes;
        }
        return bytes;
    }

private:
    struct Piece {
        uint64_t piece, bytes;
    };
    uint64_t left_;
    std::list<Piece> used_; // the latest first
    std::unordered_map<uint64_t, std::list<Piece>::iterator> places_;
};

} // namespace

uint32_t wavefronts_of(std::span<const uint32_t> units) {
    uint32_t count = 0;
    for (std::size_t begin = 0; begin < units.size(); begin += kLanesAtOnce) {
        std::vector<uint32_t> some(units.begin() + static_cast<std::ptrdiff_t>(begin),
                                   units.begin() +
                                       static_cast<std::ptrdiff_t>(std::min(begin + kLanesAtOnce, units.size())));
        std::ranges::sort(some);
        some.erase(std::ranges::unique(some).begin(), some.end()); // the same address is read once
        std::array<uint32_t, kBankGroups> of_group{};
        for (const uint32_t unit : some) ++of_group[unit % kBankGroups];
        count += *std::ranges::max_element(of_group);
    }
    return count;
}

uint32_t wavefronts(const MatrixTile& tile, bool a_along_k, bool b_along_k, Stores stores) {
    const uint32_t all = store_wavefronts(a_along_k, tile.rows, tile, stores) +
                         store_wavefronts(b_along_k, tile.columns, tile, stores) +
                         load_wavefronts(a_along_k, tile.rows, tile.sub_rows, tile) +
                         load_wavefronts(b_along_k, tile.columns, tile.sub_columns, tile);
    return all * (128 * 128 / (tile.rows * tile.columns)) * 32 / tile.step;
}

std::optional<uint32_t> wavefronts(std::string_view kernel, std::span<const uint32_t> constants) {
    // Constants of shaders/matmul/matrix.comp.
    constexpr std::size_t kSubgroup = 0, kSubRows = 1, kSubColumns = 2, kTransposeA = 6, kTransposeB = 7, kThreads = 9;
    constexpr std::string_view kMatrix = "matmul/matrix.t";
    if (!kernel.starts_with(kMatrix) || constants.size() <= kThreads) return std::nullopt;
    const std::string_view name = kernel.substr(kMatrix.size());
    const uint32_t side = name.starts_with("128") ? 128 : 64, step = name.starts_with("128k64") ? 64 : 32;
    const MatrixTile tile{
        side, side, step, constants[kThreads], constants[kSubRows], constants[kSubColumns], constants[kSubgroup]};
    if (tile.threads < tile.subgroup || tile.subgroup == 0) return std::nullopt;
    return wavefronts(tile, constants[kTransposeA] == 0, constants[kTransposeB] != 0);
}

uint64_t bytes_read(const Product& product, const Device& device, uint64_t height) {
    constexpr uint64_t kTile = 128, kStep = 256, kBytes = 2;
    const uint64_t down = (product.m + kTile - 1) / kTile, across = (product.n + kTile - 1) / kTile;
    const uint64_t steps = (product.k + kStep - 1) / kStep;
    std::vector<std::pair<uint64_t, uint64_t>> order;
    for (uint64_t first = 0; first < down; first += height)
        for (uint64_t column = 0; column < across; ++column)
            for (uint64_t row = first; row < std::min(first + height, down); ++row) order.emplace_back(row, column);

    Cache cache(device.cache_bytes);
    uint64_t read = 0;
    // Workgroups that begin together go through K together.
    for (std::size_t begin = 0; begin < order.size(); begin += device.workgroups)
        for (uint64_t step = 0; step < steps; ++step) {
            const uint64_t bytes = kTile * std::min(kStep, product.k - step * kStep) * kBytes;
            for (std::size_t i = begin; i < std::min(begin + device.workgroups, order.size()); ++i) {
                read += cache.read(order[i].first * steps + step, bytes);
                read += cache.read((down + order[i].second) * steps + step, bytes);
            }
        }
    return read;
}

} // namespace drivers
