// Argument records are the same in C++ and in compiled kernels: the members of every block in a kernel's SPIR-V have
// the names, types and offsets of the C++ struct generated from the same header.
#include "program/lowering/records.hpp"

#include "kernels_as_written_shaders.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace records_test {

using namespace hekla;
using program::RecordMember;
using program::RecordType;

namespace {

struct Struct {
    std::vector<RecordMember> members;
    std::size_t bytes = 0;
};

// The structs in shaders/records.inc by family and name: {"matmul", "Record"}.
using Structs = std::map<std::pair<std::string, std::string>, Struct>;
Structs& structs() {
    static Structs all;
    return all;
}

template<class R>
bool add_struct(const char* family, const char* name) {
    Struct one;
    one.bytes = sizeof(R);
    visit_members(static_cast<const R*>(nullptr), [&](const RecordMember& member) { one.members.push_back(member); });
    return structs().emplace(std::pair(family, name), one).second;
}

#define HK_FAMILY(name)                                                                                                \
    namespace name {                                                                                                   \
    using namespace hekla::program::kernels::name;                                                                     \
    constexpr const char* kFamily = #name;
#define HK_FAMILY_END }
#define HK_CONSTANT(name, value) static_assert(true)
#define HK_I32_CONSTANT(name, value) static_assert(true)
#define HK_F32_CONSTANT(name, value) static_assert(true)
// The header's braces become a function that is never called.
#define HK_RECORD(name)                                                                                                \
    const bool name##_added = add_struct<name>(kFamily, #name);                                                        \
    [[maybe_unused]] void name##_members()
#define HK_BUFFER(name) HK_RECORD(name)
#define HK_ADDRESS(name) static_assert(true)
#define HK_ADDRESS_ARRAY(name, size) static_assert(true)
#define HK_U32(name) static_assert(true)
#define HK_I32(name) static_assert(true)
#define HK_F32(name) static_assert(true)
#define HK_U32_ARRAY(name, size) static_assert(true)
#define HK_I32_ARRAY(name, size) static_assert(true)
#define HK_RECORD_HEAD static_assert(true)
namespace shared {
#include "../shaders/records.inc"
}

std::string text_of(std::span<const uint32_t> words) {
    std::string text;
    for (const uint32_t word : words)
        for (int shift = 0; shift < 32; shift += 8) {
            if ((word >> shift & 0xFF) == 0) return text;
            text += static_cast<char>(word >> shift & 0xFF);
        }
    return text;
}

// The parts of a module's struct type that records need.
struct Block {
    std::string name;
    struct Member {
        std::string name;
        uint32_t type = 0; // id
        uint32_t offset = 0;
    };
    std::vector<Member> members;
};

// The types of a module's blocks. The numbers are SPIR-V's opcodes and decorations.
struct Module {
    std::map<uint32_t, Block> blocks;
    std::map<uint32_t, RecordType> scalars;
    std::map<uint32_t, std::pair<uint32_t, uint32_t>> arrays; // element's type, id of the length
    std::map<uint32_t, uint32_t> constants;
    std::map<uint32_t, uint32_t> pointees;
    uint32_t push_constant = 0; // id of the type

    explicit Module(std::span<const uint32_t> words) {
        for (std::size_t at = 5; at < words.size();) {
            const std::span<const uint32_t> in = words.subspan(at, words[at] >> 16);
            at += in.size();
            switch (in[0] & 0xFFFF) {
            case 5: blocks[in[1]].name = text_of(in.subspan(2)); break;        // OpName
            case 6: member(in[1], in[2]).name = text_of(in.subspan(3)); break; // OpMemberName
            case 72:                                                           // OpMemberDecorate
                if (in[3] == 35) member(in[1], in[2]).offset = in[4];          // Offset
                break;
            case 21: // OpTypeInt
                scalars[in[1]] = in[2] == 64 ? RecordType::address : in[3] != 0 ? RecordType::i32 : RecordType::u32;
                break;
            case 22: scalars[in[1]] = RecordType::f32; break; // OpTypeFloat
            case 28: arrays[in[1]] = {in[2], in[3]}; break;   // OpTypeArray
            case 43: constants[in[2]] = in[3]; break;         // OpConstant
            case 30:                                          // OpTypeStruct
                for (uint32_t m = 0; m + 2 < in.size(); ++m) member(in[1], m).type = in[m + 2];
                break;
            case 32: // OpTypePointer
                pointees[in[1]] = in[3];
                if (in[2] == 9) push_constant = in[3]; // PushConstant
                break;
            default: break;
            }
        }
    }

    // Returns the record whose address is the push constant. A pointer to a push constant's type is declared for the
    // variable and for each of its members, so the block is found by its name.
    const Block* record() const {
        for (const auto& [id, block] : blocks)
            if (block.name == "Push" && block.members.size() == 1)
                if (const auto pointee = pointees.find(block.members[0].type); pointee != pointees.end())
                    return &blocks.at(pointee->second);
        return nullptr;
    }

private:
    Block::Member& member(uint32_t block, uint32_t index) {
        std::vector<Block::Member>& members = blocks[block].members;
        if (members.size() <= index) members.resize(index + 1);
        return members[index];
    }
};

std::string line(std::string_view name, RecordType type, std::size_t offset, std::size_t count) {
    constexpr const char* kTypes[] = {"address", "u32", "i32", "f32"};
    return fmt::format("{} {}[{}] at {}", kTypes[static_cast<std::size_t>(type)], name, count, offset);
}

std::vector<std::string> lines_of(const Struct& one) {
    std::vector<std::string> lines;
    for (const RecordMember& m : one.members) lines.push_back(line(m.name, m.type, m.offset, m.count));
    return lines;
}

std::vector<std::string> lines_of(const Module& module, const Block& block) {
    std::vector<std::string> lines;
    for (const Block::Member& m : block.members) {
        const auto array = module.arrays.find(m.type);
        const bool is_array = array != module.arrays.end();
        const uint32_t scalar = is_array ? array->second.first : m.type;
        REQUIRE_MESSAGE(module.scalars.contains(scalar), block.name, ".", m.name);
        const uint32_t count = is_array ? module.constants.at(array->second.second) : 1u;
        lines.push_back(line(m.name, module.scalars.at(scalar), m.offset, count));
    }
    return lines;
}

} // namespace

TEST_CASE("argument records have the same members at the same offsets in C++ and in every kernel") {
    std::set<std::pair<std::string, std::string>> seen;
    for (const gpu::EmbeddedShader& shader : embedded::kernels_as_written()) {
        CAPTURE(std::string(shader.name));
        const std::string family(shader.name.substr(0, shader.name.find('/')));
        const Module module(shader.words);
        const Block* record = module.record();
        REQUIRE(record != nullptr);
        const auto expected = structs().find({family, record->name});
        REQUIRE_MESSAGE(expected != structs().end(), "shaders/", family, "/record.h has no record ", record->name);
        CHECK(lines_of(module, *record) == lines_of(expected->second));
        // Other blocks in the headers: RuntimeRecord, OptimizerState.
        for (const auto& [id, block] : module.blocks) {
            for (const std::string& owner : {family, std::string("runtime")}) {
                const auto known = structs().find({owner, block.name});
                if (known == structs().end() || block.members.empty()) continue;
                CHECK(lines_of(module, block) == lines_of(known->second));
                seen.insert(known->first);
            }
        }
    }
    for (const auto& [name, unused] : structs())
        CHECK_MESSAGE(seen.contains(name), name.first, "::", name.second, " is declared and no kernel uses it");
}

TEST_CASE("a record is converted to bytes with relocations for its addresses, and without padding") {
    program::View view;
    view.resource = 7;
    view.offset = 3;
    const program::Record record =
        program::make_record(program::kernels::scan::ScanRecord{.y = view, .count = 11, .places = 12, .inner = 13});
    REQUIRE(record.bytes.size() == 60);
    REQUIRE(record.relocations.size() == 1); // the other addresses are null
    CHECK(record.relocations[0].at == 32);
    CHECK(record.relocations[0].resource == 7);
    CHECK(record.relocations[0].offset == 12);
    uint32_t words[15];
    std::memcpy(words, record.bytes.data(), sizeof words);
    CHECK(std::vector<uint32_t>(words, words + 15) ==
          std::vector<uint32_t>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11, 12, 13});
}

} // namespace records_test
