#include "program/lowering/record.hpp"

#include <bit>
#include <cstring>

namespace hekla::program {

namespace {

// Returns the smallest byte range that contains every element; empty for an empty view.
Access range_of(const View& view) {
    Access access{view.resource, 0, 0, false};
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

void Record::put(const RecordAddress& address) {
    const View& view = address.view;
    const std::size_t at = (bytes.size() + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
    bytes.resize(at + sizeof(uint64_t));
    if (view.resource == 0) return;
    relocations.push_back({static_cast<uint32_t>(at), view.resource, view.offset * bytes_of(view.storage)});
    Access access = range_of(view);
    if (access.begin == access.end) return;
    if (address.kind != AccessKind::writes) accesses.push_back(access);
    access.write = true;
    if (address.kind != AccessKind::reads) accesses.push_back(access);
}

void Record::put(float value) { put_word(std::bit_cast<uint32_t>(value)); }

void Record::put_word(uint32_t bits) {
    bytes.resize(bytes.size() + sizeof bits);
    std::memcpy(bytes.data() + bytes.size() - sizeof bits, &bits, sizeof bits);
}

} // namespace hekla::program
