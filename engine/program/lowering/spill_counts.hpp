// What is known about the registers that a device's compiler spills.
#pragma once

#include "program/lowering/dispatch.hpp"

#include <cstdint>
#include <optional>

namespace hekla::program {

class SpillCounts {
public:
    virtual ~SpillCounts() = default;
    // Returns the number of registers that the dispatch's kernel spills; nothing if it is not known. Thread: any.
    virtual std::optional<uint64_t> of(const Dispatch& dispatch) = 0;
};

} // namespace hekla::program
