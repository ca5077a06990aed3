// What a kernel does with the memory at the addresses of its record, from its SPIR-V as written (not optimized, so that
// names are left): follows each address from the record through variables, functions and sums to loads and stores.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace hekla::test {

class SpirvAccesses {
public:
    static constexpr std::size_t kMostMembers = 128;
    using Members = std::bitset<kMostMembers>; // of the record, by index

    Members reads, writes; // of the memory at these addresses

    // record: the id of the record's struct.
    SpirvAccesses(std::span<const uint32_t> words, uint32_t record) : record_(record) {
        std::vector<Instruction> global;
        std::vector<Instruction>* into = &global;
        uint32_t entry = 0;
        for (std::size_t at = 5; at < words.size();) {
            const std::size_t count = words[at] >> 16;
            const Instruction in{words[at] & 0xFFFF, words.subspan(at + 1, count - 1)};
            at += count;
            switch (in.op) {
            case 15: entry = in.words[1]; break;                   // OpEntryPoint
            case 32: pointees_[in.words[0]] = in.words[2]; break;  // OpTypePointer
            case 43: constants_[in.words[1]] = in.words[2]; break; // OpConstant
            case 54: into = &functions_[in.words[1]]; break;       // OpFunction
            default: into->push_back(in);
            }
        }
        for (const Instruction& in : global)
            if (in.op == 59) define(globals_, in, variable());
        // Twice, for what a loop stores after it loads.
        for (int pass = 0; pass < 2; ++pass) call(entry, {});
    }

private:
    struct Instruction {
        uint32_t op = 0;
        std::span<const uint32_t> words;
    };
    using Path = std::vector<uint32_t>; // of indices into a composite
    struct Value {
        std::map<Path, Members> addresses;                // that it is computed from; a scalar's at the empty path
        std::optional<uint32_t> member;                   // that it points to
        std::optional<std::pair<uint32_t, Path>> pointee; // a part of a variable

        void add(const Path& prefix, const Value& other) {
            for (const auto& [path, members] : other.addresses) addresses[joined(prefix, path)] |= members;
        }
        Members all() const {
            Members members;
            for (const auto& [path, some] : addresses) members |= some;
            return members;
        }
        Value part(const Path& at) const {
            Value result;
            for (const auto& [path, members] : addresses)
                if (path.size() >= at.size() && std::equal(at.begin(), at.end(), path.begin()))
                    result.addresses[Path(path.begin() + static_cast<std::ptrdiff_t>(at.size()), path.end())] = members;
            return result;
        }
    };
    struct Ids {
        std::map<uint32_t, Value> values;
        std::map<uint32_t, uint32_t> types;
    };

    static Path joined(Path path, const Path& rest) {
        path.insert(path.end(), rest.begin(), rest.end());
        return path;
    }
    static void define(Ids& ids, const Instruction& in, Value value) {
        ids.types[in.words[1]] = in.words[0];
        ids.values[in.words[1]] = std::move(value);
    }
    Value variable() {
        variables_.emplace_back();
        Value value;
        value.pointee = {static_cast<uint32_t>(variables_.size() - 1), {}};
        return value;
    }
    Path indices(std::span<const uint32_t> ids) const {
        Path path;
        for (const uint32_t id : ids) {
            const auto found = constants_.find(id);
            path.push_back(found == constants_.end() ? 0 : found->second); // a variable index counts as 0
        }
        return path;
    }

    Value load(const Value& from) {
        if (from.pointee) return variables_[from.pointee->first].part(from.pointee->second);
        Value value;
        if (from.member)
            value.addresses[{}].set(*from.member);
        else
            reads |= from.all();
        return value;
    }

    Value chain(const Ids& ids, const Value& base, uint32_t id, std::span<const uint32_t> path) const {
        Value value = base;
        const auto type = ids.types.find(id);
        const auto pointee = type == ids.types.end() ? pointees_.end() : pointees_.find(type->second);
        if (pointee != pointees_.end() && pointee->second == record_)
            value.member = indices(path).front();
        else if (value.pointee)
            value.pointee->second = joined(value.pointee->second, indices(path));
        return value;
    }

    // Returns what the function returns.
    Value call(uint32_t function, std::vector<Value> arguments) {
        Ids ids = globals_;
        Value result;
        std::size_t parameter = 0;
        for (const Instruction& in : functions_[function]) {
            const auto value = [&](std::size_t operand) { return ids.values[in.words[operand]]; };
            switch (in.op) {
            case 55: define(ids, in, arguments[parameter++]); break; // OpFunctionParameter
            case 59: define(ids, in, variable()); break;             // OpVariable
            case 61: define(ids, in, load(value(2))); break;         // OpLoad
            case 62:                                                 // OpStore
                if (const Value to = value(0); to.pointee)
                    variables_[to.pointee->first].add(to.pointee->second, value(1));
                else
                    writes |= to.all();
                break;
            case 65: // OpAccessChain
            case 66: // OpInBoundsAccessChain
                define(ids, in, chain(ids, value(2), in.words[2], in.words.subspan(3)));
                break;
            case 57: { // OpFunctionCall
                std::vector<Value> given;
                for (std::size_t i = 3; i < in.words.size(); ++i) given.push_back(value(i));
                define(ids, in, call(in.words[2], std::move(given)));
                break;
            }
            case 254: result.add({}, value(0)); break; // OpReturnValue
            case 80: {                                 // OpCompositeConstruct
                Value composite;
                for (std::size_t i = 2; i < in.words.size(); ++i)
                    composite.add({static_cast<uint32_t>(i - 2)}, value(i));
                define(ids, in, std::move(composite));
                break;
            }
            case 81: // OpCompositeExtract
                define(ids, in, value(2).part(Path(in.words.begin() + 3, in.words.end())));
                break;
            case 83:    // OpCopyObject
            case 120:   // OpConvertUToPtr
            case 124:   // OpBitcast
            case 128:   // OpIAdd
            case 130:   // OpISub
            case 169:   // OpSelect
            case 245:   // OpPhi
            case 400: { // OpCopyLogical
                Value sum;
                for (std::size_t i = 2; i < in.words.size(); ++i) sum.add({}, value(i));
                define(ids, in, std::move(sum));
                break;
            }
            case 4457: reads |= value(2).all(); break;  // OpCooperativeMatrixLoadKHR
            case 4458: writes |= value(0).all(); break; // OpCooperativeMatrixStoreKHR
            default:
                if (in.op >= 227 && in.op <= 242) { // OpAtomic*
                    const Members at = value(in.op == 228 ? 0 : 2).all();
                    if (in.op != 228) reads |= at;  // 228: OpAtomicStore
                    if (in.op != 227) writes |= at; // 227: OpAtomicLoad
                }
                if (in.words.size() >= 2) ids.types.try_emplace(in.words[1], in.words[0]);
            }
        }
        return result;
    }

    uint32_t record_;
    std::map<uint32_t, uint32_t> pointees_, constants_;
    std::map<uint32_t, std::vector<Instruction>> functions_;
    Ids globals_;
    std::vector<Value> variables_;
};

} // namespace hekla::test
