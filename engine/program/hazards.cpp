#include "program/hazards.hpp"

#include <algorithm>

namespace hekla::program {

std::vector<bool> place_barriers(std::span<const std::vector<ByteRange>> dispatches) {
    std::vector<bool> barriers(dispatches.size(), false);
    std::vector<ByteRange> open; // accesses of the dispatches since the last barrier
    for (std::size_t d = 0; d < dispatches.size(); ++d) {
        const bool conflicts = std::any_of(dispatches[d].begin(), dispatches[d].end(), [&](const ByteRange& a) {
            return std::any_of(open.begin(), open.end(), [&](const ByteRange& b) {
                return (a.write || b.write) && a.begin < b.end && b.begin < a.end;
            });
        });
        if (conflicts) {
            barriers[d] = true;
            open.clear();
        }
        open.insert(open.end(), dispatches[d].begin(), dispatches[d].end());
    }
    return barriers;
}

} // namespace hekla::program
