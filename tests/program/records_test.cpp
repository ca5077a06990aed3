// Argument records are the same in C++ and in compiled kernels: the members of every block in a kernel's SPIR-V have
// the names, types and offsets of the C++ struct generated from the same header.
#include "program/lowering/records.hpp"

#include "kernels_as_written_shaders.hpp"
#include "spirv_accesses.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace records_test {

using namespace hekla;
using program::RecordAddress;

namespace {

enum class Type { address, u32, i32, f32 };

struct Member {
    std::string_view name;
    Type type = Type::u32;
    std::size_t offset = 0; // bytes
    std::size_t count = 1;  // elements of an array
    std::string accesses;   // of an address: "r", "w", "rw", or "either" of these
};

// Returns the member without its name and offset.
template<class T>
Member member_of(const T& member) {
    Member result;
    if constexpr (std::is_array_v<T>) {
        result = member_of(member[0]);
        result.count = std::size(member);
    } else if constexpr (std::is_base_of_v<RecordAddress, T>) {
        constexpr const char* kAccesses[] = {"r", "w", "rw"}; // by AccessKind
        result.type = Type::address;
        result.accesses = std::is_same_v<RecordAddress, T> ? "either" : kAccesses[static_cast<int>(member.kind)];
    } else {
        result.type = std::is_same_v<T, float> ? Type::f32 : std::is_signed_v<T> ? Type::i32 : Type::u32;
    }
    return result;
}

// The structs in shaders/records.inc by family and name: {"matmul", "Record"}.
using Structs = std::map<std::pair<std::string, std::string>, std::vector<Member>>;
Structs& structs() {
    static Structs all;
    return all;
}

template<class R>
bool add_struct(const char* family, const char* name) {
    std::vector<Member> members;
    program::Record record;
    visit_members(R{}, [&](std::string_view member_name, const auto& member) {
        record.put(member);
        Member& added = members.emplace_back(member_of(member));
        added.name = member_name;
        added.offset = record.bytes.size() - added.count * (added.type == Type::address ? 8 : 4);
    });
    return structs().emplace(std::pair(family, name), std::move(members)).second;
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
#define HK_READS(name) static_assert(true)
#define HK_WRITES(name) static_assert(true)
#define HK_UPDATES(name) static_assert(true)
#define HK_READS_OR_WRITES(name) static_assert(true)
#define HK_READS_ARRAY(name, size) static_assert(true)
#define HK_WRITES_ARRAY(name, size) static_assert(true)
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
    std::map<uint32_t, Type> scalars;
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
                scalars[in[1]] = in[2] == 64 ? Type::address : in[3] != 0 ? Type::i32 : Type::u32;
                break;
            case 22: scalars[in[1]] = Type::f32; break;     // OpTypeFloat
            case 28: arrays[in[1]] = {in[2], in[3]}; break; // OpTypeArray
            case 43: constants[in[2]] = in[3]; break;       // OpConstant
            case 30:                                        // OpTypeStruct
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

    // Returns the id of the record whose address is the push constant; 0 if there is none. A pointer to a push
    // constant's type is declared for the variable and for each of its members, so the block is found by its name.
    uint32_t record() const {
        for (const auto& [id, block] : blocks)
            if (block.name == "Push" && block.members.size() == 1)
                if (const auto pointee = pointees.find(block.members[0].type); pointee != pointees.end())
                    return pointee->second;
        return 0;
    }

private:
    Block::Member& member(uint32_t block, uint32_t index) {
        std::vector<Block::Member>& members = blocks[block].members;
        if (members.size() <= index) members.resize(index + 1);
        return members[index];
    }
};

std::string line(std::string_view name, Type type, std::size_t offset, std::size_t count) {
    constexpr const char* kTypes[] = {"address", "u32", "i32", "f32"};
    return fmt::format("{} {}[{}] at {}", kTypes[static_cast<std::size_t>(type)], name, count, offset);
}

std::vector<std::string> lines_of(const std::vector<Member>& members) {
    std::vector<std::string> lines;
    for (const Member& m : members) lines.push_back(line(m.name, m.type, m.offset, m.count));
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
        const Result<gpu::Shader> spirv = gpu::Shader::from_embedded(shader);
        REQUIRE_MESSAGE(spirv.ok(), spirv.message());
        const Module module(spirv->words());
        REQUIRE(module.record() != 0);
        const Block& record = module.blocks.at(module.record());
        const auto expected = structs().find({family, record.name});
        REQUIRE_MESSAGE(expected != structs().end(), "shaders/", family, "/record.h has no record ", record.name);
        CHECK(lines_of(module, record) == lines_of(expected->second));
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

TEST_CASE("addresses in records are declared by what kernels do with the elements there") {
    // By record and member: whether any kernel reads, and writes.
    std::map<std::string, std::pair<bool, bool>> by_any;
    const auto name_of = [](const std::string& family, const std::string& record, const Member& member) {
        return fmt::format("{}::{}::{}", family, record, member.name);
    };
    for (const gpu::EmbeddedShader& shader : embedded::kernels_as_written()) {
        const Result<gpu::Shader> spirv = gpu::Shader::from_embedded(shader);
        REQUIRE_MESSAGE(spirv.ok(), spirv.message());
        const Module module(spirv->words());
        const std::string family(shader.name.substr(0, shader.name.find('/')));
        const std::string record = module.blocks.at(module.record()).name;
        const test::SpirvAccesses found(spirv->words(), module.record());
        const std::vector<Member>& members = structs().at({family, record});
        for (std::size_t m = 0; m < members.size(); ++m) {
            if (members[m].type != Type::address) continue;
            auto& [reads, writes] = by_any[name_of(family, record, members[m])];
            reads = reads || found.reads[m];
            writes = writes || found.writes[m];
        }
    }
    for (const auto& [name, members] : structs())
        for (const Member& member : members) {
            if (member.type != Type::address) continue;
            const std::string whole = name_of(name.first, name.second, member);
            const auto [reads, writes] = by_any[whole];
            const std::string accesses = std::string(reads ? "r" : "") + (writes ? "w" : "");
            CHECK_MESSAGE(accesses == (member.accesses == "either" ? "rw" : member.accesses), whole, " is declared as ",
                          member.accesses, ", and kernels: ", accesses);
        }
}

TEST_CASE("an address without a tensor is no access, and others access the smallest range with all elements") {
    const auto view_of = [](program::ResourceId resource, uint64_t offset, graph::Shape shape) {
        return program::View{.resource = resource, .offset = offset, .shape = shape, .strides = shape.strides()};
    };
    program::View rows = view_of(2, 4, {3, 2});
    rows.strides[0] = -10;
    rows.offset = 24;
    const program::Record record =
        program::make_record(program::kernels::optimizer::Record{.parameters = view_of(1, 3, {5}),
                                                                 .gradients = rows,
                                                                 .groups = view_of(3, 0, {0}),
                                                                 .state = program::writes(view_of(4, 0, {10}))});
    std::vector<std::string> lines;
    for (const program::Access& access : record.accesses)
        lines.push_back(
            fmt::format("{} {} {} to {}", access.write ? "w" : "r", access.resource, access.begin, access.end));
    CHECK(lines == std::vector<std::string>{"r 1 12 to 32", "w 1 12 to 32", "r 2 16 to 104", "w 4 0 to 40"});
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
