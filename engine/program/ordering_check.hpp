// Proof that what was recorded is ordered: every two accesses to a byte of which one is a write have a barrier between
// them that covers both. Shares nothing with hazards.cpp, so that a mistake there is found here; synchronization
// validation cannot do this, since it does not see accesses through addresses.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hekla::program {

enum class Stage : uint8_t { compute = 0, transfer = 1 };

// One command in the order in which the queue gets it.
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
    // Accesses of the same group are parts of one dispatch, which write different elements: they need no order.
    uint64_t group = 0;
    std::string name; // for the report

    // barrier: which stages' writes it waits for and makes available, and to which stages it makes them visible.
    bool from[2] = {true, true};
    bool to[2] = {true, true};
};

struct OrderingReport {
    uint64_t accesses = 0; // byte ranges looked at
    uint64_t barriers = 0;
    std::vector<std::string> faults; // one line each, at most 32
};

// A barrier orders (i, j) where it is between them and covers i's stage before it and j's stage after it.
OrderingReport check_ordering(std::span<const OrderingEvent> events);

} // namespace hekla::program
