#include "program/lowering/dispatch.hpp"

namespace hekla::program {

namespace {

// Returns the smallest byte range that contains every element; empty for an empty view.
Access range_of(const View& view, bool write) {
    Access access{view.resource, 0, 0, write};
    if (view.elements() == 0) return access;
    int64_t low = static_cast<int64_t>(view.offset);
    int64_t high = low;
    for (int d = 0; d < view.shape.rank(); ++d) {
        const int64_t reach = (view.shape[d] - 1) * view.strides[static_cast<std::size_t>(d)];
        (reach < 0 ? low : high) += reach;
    }
    const uint64_t size = bytes_of(view.storage);
    access.begin = static_cast<uint64_t>(low) * size;
    access.end = static_cast<uint64_t>(high + 1) * size;
    return access;
}

} // namespace

void Dispatch::reads(const View& view) {
    const Access access = range_of(view, false);
    if (view.resource != 0 && access.end > access.begin) accesses.push_back(access);
}

void Dispatch::writes(const View& view) {
    const Access access = range_of(view, true);
    if (view.resource != 0 && access.end > access.begin) accesses.push_back(access);
}

} // namespace hekla::program
