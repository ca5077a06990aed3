// Argument records: the memory that a kernel reads its addresses and numbers from. records.hpp has the records of the
// built-in kernels; glsl_record.hpp creates those of kernels whose GLSL is generated at run time.
#pragma once

#include "program/lowering/view.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hekla::program {

// A member of an argument record that becomes the device address of a tensor's element View::offset once buffers exist;
// null if the view has no resource.
class RecordAddress {
public:
    static constexpr int kOffsetBits = 40; // the remaining bits are the resource
    static constexpr ResourceId kMaxResource = (ResourceId{1} << (64 - kOffsetBits)) - 1;

    RecordAddress() = default;
    RecordAddress(const View& view)
        : value_(view.resource == 0 ? 0
                                    : uint64_t{view.resource} << kOffsetBits | view.offset * bytes_of(view.storage)) {}
    ResourceId resource() const { return static_cast<ResourceId>(value_ >> kOffsetBits); }
    uint64_t offset() const { return value_ & ((uint64_t{1} << kOffsetBits) - 1); } // bytes

private:
    uint64_t value_ = 0;
};

inline uint32_t word(int64_t value) { return static_cast<uint32_t>(value); }

enum class RecordType : uint8_t { address, u32, i32, f32 };

// A member of a record as declared in its header.
struct RecordMember {
    std::string_view name;
    RecordType type = RecordType::u32;
    std::size_t offset = 0; // bytes
    std::size_t count = 1;  // elements of an array
};

// The location in a record for the address of a resource plus an offset in bytes.
struct Relocation {
    uint32_t at = 0; // bytes from the beginning of the record
    ResourceId resource = 0;
    uint64_t offset = 0;
};

// A record in bytes, with zeros in place of addresses and of the two words of HK_RECORD_HEAD, which are set when the
// dispatch is recorded, possibly split.
struct Record {
    std::vector<std::byte> bytes;
    std::vector<Relocation> relocations;
};

// Returns the bytes of a struct of records.hpp.
template<class R>
Record make_record(const R& values) {
    static_assert(std::is_standard_layout_v<R> && std::is_trivially_copyable_v<R>);
    Record record;
    record.bytes.resize(sizeof(R));
    std::memcpy(record.bytes.data(), &values, sizeof(R));
    std::size_t end = 0; // without padding
    visit_members(&values, [&](const RecordMember& member) {
        end = member.offset + member.count * (member.type == RecordType::address ? 8 : 4);
        if (member.type != RecordType::address) return;
        for (std::size_t i = 0; i < member.count; ++i) {
            const std::size_t at = member.offset + i * sizeof(RecordAddress);
            RecordAddress address;
            std::memcpy(&address, record.bytes.data() + at, sizeof address);
            std::memset(record.bytes.data() + at, 0, sizeof address);
            if (address.resource() != 0)
                record.relocations.push_back({static_cast<uint32_t>(at), address.resource(), address.offset()});
        }
    });
    record.bytes.resize(end);
    return record;
}

} // namespace hekla::program
