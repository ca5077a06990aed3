// Proof that recorded commands are ordered: between every two accesses to a byte of which one is a write, there is a
// barrier that covers both. Shares no code with hazards.cpp, so that a mistake there is found here. Synchronization
// validation cannot do this, since it does not see accesses through addresses.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hekla::program {

enum class Stage : uint8_t { compute = 0, transfer = 1 };

// One command in submission order.
struct OrderingEvent {
    enum class Kind : uint8_t { access, barrier };
    Kind kind = Kind::access;

    // access: bytes that the command may touch.
    struct Bytes {
        uint64_t begin = 0;
        uint64_t end = 0;
        bool write = false;
    };
    Stage stage = Stage::compute;
    std::vector<Bytes> bytes;
    // Accesses of the same group are slices of one dispatch, which write different elements and need no order.
    uint64_t group = 0;
    std::string name; // for the report

    // barrier: the stages whose writes it waits for and makes available, and the stages to which it makes them visible.
    bool from[2] = {true, true};
    bool to[2] = {true, true};
};

struct OrderingReport {
    uint64_t accesses = 0; // number of checked byte ranges
    uint64_t barriers = 0;
    std::vector<std::string> faults; // one line each, at most 32
};

// Checks events. A barrier orders (i, j) if it is between them and covers i's stage before it and j's stage after it.
OrderingReport check_ordering(std::span<const OrderingEvent> events);

} // namespace hekla::program
