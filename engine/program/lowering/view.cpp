#include "program/lowering/view.hpp"

namespace hekla::program {

uint64_t bytes_of(Storage storage) { return storage == Storage::f16 || storage == Storage::bf16 ? 2 : 4; }

bool View::contiguous() const {
    int64_t expected = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
        if (shape[d] != 1 && strides[static_cast<std::size_t>(d)] != expected) return false;
        expected *= shape[d];
    }
    return true;
}

} // namespace hekla::program
