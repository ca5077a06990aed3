#include "program/ordering_check.hpp"

#include <fmt/format.h>

#include <array>
#include <map>

namespace hekla::program {

namespace {

constexpr int64_t kNone = -1;

// The last accesses to a range of bytes. The latest access of a kind and stage represents the earlier ones, because a
// barrier after it is also after them.
struct Cell {
    std::array<int64_t, 2> write{kNone, kNone}; // by stage: index of the event
    std::array<int64_t, 2> read{kNone, kNone};
    bool operator==(const Cell&) const = default;
};

// Ranges of bytes that cover the address space: the key is where a range begins, and it ends where the next begins.
class Cells {
public:
    Cells() { runs_.emplace(0, Cell{}); }

    // Splits ranges at both ends and calls visit(cell) for every range inside.
    template<class Visit>
    void visit(uint64_t begin, uint64_t end, Visit&& visit) {
        if (begin >= end) return;
        const auto first = cut(begin);
        const auto last = cut(end);
        for (auto it = first; it != last; ++it) visit(it->second);
    }

private:
    std::map<uint64_t, Cell>::iterator cut(uint64_t at) {
        auto it = runs_.upper_bound(at);
        --it; // there is always a range at 0
        if (it->first == at) return it;
        return runs_.emplace(at, it->second).first;
    }
    std::map<uint64_t, Cell> runs_;
};

} // namespace

OrderingReport check_ordering(std::span<const OrderingEvent> events) {
    OrderingReport report;
    Cells cells;
    int64_t last_barrier[2][2] = {{kNone, kNone}, {kNone, kNone}}; // [from stage][to stage]

    const auto complain = [&](int64_t earlier, const OrderingEvent& now, std::size_t index, const char* what,
                              const OrderingEvent::Bytes& bytes) {
        if (report.faults.size() >= 32) return;
        report.faults.push_back(fmt::format(
            "{}: '{}' (command {}) and '{}' (command {}) touch bytes of 0x{:x} to 0x{:x} with "
            "no barrier between them",
            what, events[static_cast<std::size_t>(earlier)].name, earlier, now.name, index, bytes.begin, bytes.end));
    };

    for (std::size_t index = 0; index < events.size(); ++index) {
        const OrderingEvent& event = events[index];
        const auto number = static_cast<int64_t>(index);
        if (event.kind == OrderingEvent::Kind::barrier) {
            ++report.barriers;
            for (int from = 0; from < 2; ++from)
                for (int to = 0; to < 2; ++to)
                    if (event.from[from] && event.to[to]) last_barrier[from][to] = number;
            continue;
        }
        const auto stage = static_cast<std::size_t>(event.stage);
        // An earlier access of the same command or group is not a conflict.
        const auto unordered = [&](int64_t earlier, std::size_t earlier_stage) {
            if (earlier == kNone) return false;
            const OrderingEvent& other = events[static_cast<std::size_t>(earlier)];
            if (event.group != 0 && other.group == event.group) return false;
            return last_barrier[earlier_stage][stage] < earlier;
        };
        for (const OrderingEvent::Bytes& bytes : event.bytes) {
            ++report.accesses;
            bool reported = false;
            cells.visit(bytes.begin, bytes.end, [&](Cell& cell) {
                for (std::size_t s = 0; s < 2 && !reported; ++s) {
                    if (unordered(cell.write[s], s)) {
                        complain(cell.write[s], event, index, bytes.write ? "write after write" : "read after write",
                                 bytes);
                        reported = true;
                    } else if (bytes.write && unordered(cell.read[s], s)) {
                        complain(cell.read[s], event, index, "write after read", bytes);
                        reported = true;
                    }
                }
            });
        }
        // Recorded last, because an access of this command must not hide an earlier one from its other accesses.
        for (const OrderingEvent::Bytes& bytes : event.bytes)
            cells.visit(bytes.begin, bytes.end,
                        [&](Cell& cell) { (bytes.write ? cell.write : cell.read)[stage] = number; });
    }
    return report;
}

} // namespace hekla::program
