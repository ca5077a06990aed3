// Argument records: the memory that a kernel reads its addresses and numbers from. records.hpp has the records of the
// built-in kernels; glsl_record.hpp creates those of kernels whose GLSL is generated at run time.
#pragma once

#include "program/lowering/view.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace hekla::program {

enum class AccessKind : uint8_t { reads, writes, updates }; // updates: both

// A member of an argument record that becomes the device address of a tensor's element View::offset once buffers exist,
// and what the kernel does with the tensor. Null, and no access, if the view has no resource.
struct RecordAddress {
    View view;
    AccessKind kind = AccessKind::reads;
};

inline RecordAddress reads(const View& view) { return {view, AccessKind::reads}; }
inline RecordAddress writes(const View& view) { return {view, AccessKind::writes}; }
inline RecordAddress updates(const View& view) { return {view, AccessKind::updates}; }

// An address of which every kernel with the record makes the same use.
template<AccessKind kKind>
struct AddressFor : RecordAddress {
    AddressFor(const View& given = {}) : RecordAddress{given, kKind} {}
};

inline uint32_t word(int64_t value) { return static_cast<uint32_t>(value); }

// The location in a record for the address of a resource plus an offset in bytes.
struct Relocation {
    uint32_t at = 0; // bytes from the beginning of the record
    ResourceId resource = 0;
    uint64_t offset = 0;
};

// Bytes [begin, end) of a resource that a dispatch may read or write; every address that it computes is in the range.
struct Access {
    ResourceId resource = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    bool write = false;
};

// A record in bytes, with zeros in place of addresses and of the two words of HK_RECORD_HEAD, which are set when the
// dispatch is recorded, possibly split.
struct Record {
    std::vector<std::byte> bytes;
    std::vector<Relocation> relocations;
    std::vector<Access> accesses; // by its addresses

    // Append a member, where GLSL's scalar layout has it.
    void put(const RecordAddress& address);
    void put(uint32_t value) { put_word(value); }
    void put(int32_t value) { put_word(static_cast<uint32_t>(value)); }
    void put(float value);
    template<class T, std::size_t kCount>
    void put(const T (&values)[kCount]) {
        for (const T& value : values) put(value);
    }

private:
    void put_word(uint32_t bits);
};

// Returns the bytes of a struct of records.hpp.
template<class R>
Record make_record(const R& values) {
    Record record;
    visit_members(values, [&](std::string_view, const auto& member) { record.put(member); });
    return record;
}

} // namespace hekla::program
