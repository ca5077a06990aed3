#include "drivers/assembly.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace hekla::test {
namespace {

struct Block {
    std::string label;
    std::vector<std::string> instructions;
    std::vector<std::string> successors; // labels
};

std::string_view trimmed(std::string_view line) {
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
    return line;
}

// Takes the first line off a text.
std::string_view next_line(std::string_view& text) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
}

bool begins_with_any(std::string_view word, std::initializer_list<std::string_view> beginnings) {
    return std::ranges::any_of(beginnings, [&](std::string_view one) { return word.starts_with(one); });
}

// RADV: "BB3:", instructions with their encoding after a semicolon, "s_cbranch_scc0 BB3".
std::vector<Block> amd_blocks(std::string_view text) {
    std::vector<Block> blocks;
    while (!text.empty()) {
        std::string_view line = next_line(text);
        if (line.starts_with("BB") && line.ends_with(':')) {
            blocks.push_back({std::string(line.substr(0, line.size() - 1)), {}, {}});
            continue;
        }
        line = trimmed(line.substr(0, line.find(';')));
        if (line.empty() || blocks.empty()) continue;
        blocks.back().instructions.emplace_back(line);
        if (begins_with_any(line, {"s_branch", "s_cbranch"}))
            blocks.back().successors.emplace_back(line.substr(line.rfind(' ') + 1));
    }
    return blocks;
}

// NVK: "block.u 3 L2 [0] -> {", instructions "r1 = ffma r2 r3 r4 // delay=1", "} -> [4, 5]".
std::vector<Block> nvidia_blocks(std::string_view text) {
    std::vector<Block> blocks;
    while (!text.empty()) {
        std::string_view line = trimmed(next_line(text));
        if (line.starts_with("block")) {
            const std::string_view rest = line.substr(std::min(line.find(' ') + 1, line.size()));
            blocks.push_back({std::string(rest.substr(0, rest.find(' '))), {}, {}});
            continue;
        }
        if (blocks.empty()) continue;
        if (line.starts_with("} -> [")) {
            std::string label;
            for (const char c : line.substr(6)) {
                if (c >= '0' && c <= '9') label += c;
                if ((c == ',' || c == ']') && !label.empty())
                    blocks.back().successors.push_back(std::exchange(label, {}));
            }
            continue;
        }
        line = trimmed(line.substr(0, line.find("//")));
        if (const std::size_t assigned = line.find("= "); assigned != std::string_view::npos)
            line = trimmed(line.substr(assigned + 2));
        if (!line.empty() && line != "}") blocks.back().instructions.emplace_back(line);
    }
    return blocks;
}

// ANV: "LABEL3:", instructions "mad(16) g4<1>F ... { align1 1H };", the description of a message in the next line,
// which is indented. "while(16) JIP: LABEL3" ends the loop that begins there.
std::vector<Block> intel_blocks(std::string_view text) {
    std::vector<Block> blocks{{"start", {}, {}}};
    while (!text.empty()) {
        const std::string_view whole = next_line(text);
        std::string_view line = trimmed(whole);
        if (line.starts_with("LABEL") && line.ends_with(':')) {
            blocks.push_back({std::string(line.substr(0, line.size() - 1)), {}, {}});
            continue;
        }
        std::vector<std::string>& instructions = blocks.back().instructions;
        if (whole.starts_with(' ')) {
            if (!instructions.empty()) instructions.back().append(" ").append(line);
            continue;
        }
        if (line.find("{ align") == std::string_view::npos && line.find("send") == std::string_view::npos) continue;
        if (line.starts_with('(')) line = trimmed(line.substr(std::min(line.find(' '), line.size()))); // a predicate
        if (line.starts_with("sync nop")) continue; // the driver does not count them either
        instructions.emplace_back(line);
        const std::size_t target = line.find("LABEL");
        if (!line.starts_with("while") || target == std::string_view::npos) continue;
        blocks.back().successors.emplace_back(line.substr(target, line.find(' ', target) - target));
        blocks.push_back({fmt::format("after {}", blocks.back().successors.back()), {}, {}});
    }
    return blocks;
}

bool is_multiply_add(std::string_view word) {
    return begins_with_any(word, {"ffma", "v_fma_f32", "v_fmac_f32", "v_fmaak_f32", "v_fmamk_f32", "v_mac_f32",
                                  "v_mad_f32", "v_dual_fmac_f32", "v_dual_fmaak_f32", "v_dual_fmamk_f32"});
}

// Lanes read each other's registers: not DPP, which is an operand's modifier and costs nothing.
bool is_cross_lane(std::string_view word) {
    return begins_with_any(word, {"v_readlane", "v_writelane", "v_readfirstlane", "v_permlane", "ds_bpermute",
                                  "ds_permute", "ds_swizzle", "shfl"});
}

bool is_narrow_load(std::string_view word) {
    return begins_with_any(word, {"global_load_b32", "global_load_dword ", "global_load_u16", "global_load_ushort",
                                  "global_load_d16", "global_load_short", "global_load_u8", "global_load_ubyte"}) ||
           word == "global_load_dword" ||
           (word.starts_with("ld.global") &&
            std::ranges::any_of(std::initializer_list<std::string_view>{".b32", ".u16", ".i16", ".u8", ".i8"},
                                [&](std::string_view type) { return word.ends_with(type); }));
}

void count(LoopCounts& loop, std::string_view instruction) {
    // Two operations of one dual instruction are separated by "::".
    const std::size_t second = instruction.find("::");
    const std::string_view word = instruction.substr(0, instruction.find(' '));
    ++loop.instructions;
    if (is_multiply_add(word)) ++loop.multiply_adds;
    if (word.starts_with("v_pk_fma_f32")) loop.multiply_adds += 2;
    if (second != std::string_view::npos) {
        std::string_view other = instruction.substr(second + 2);
        while (!other.empty() && other.front() == ' ') other.remove_prefix(1);
        if (is_multiply_add(other.substr(0, other.find(' ')))) ++loop.multiply_adds;
    }
    if (word.starts_with("mad(") && instruction.find("<1>F ") != std::string_view::npos) ++loop.multiply_adds;
    if (begins_with_any(word, {"v_wmma", "v_mfma", "v_swmmac", "hmma", "imma", "dpas."})) ++loop.matrix;
    if (const std::size_t message = instruction.find("MsgDesc:"); message != std::string_view::npos) {
        // Before Xe-HPG, shared memory is surface 254.
        const std::string_view what = instruction.substr(message);
        const bool moves = what.find("load") != std::string_view::npos || what.find("store") != std::string_view::npos;
        if (what.find("Surface = 254") != std::string_view::npos ||
            (moves && instruction.substr(0, message).ends_with("slm ")))
            ++loop.shared;
        if (what.find("( load, a64") != std::string_view::npos ||
            what.find("A64 untyped surface read") != std::string_view::npos)
            ++loop.global_loads;
    }
    if (is_cross_lane(word))
        ++loop.cross_lane;
    else if (begins_with_any(word, {"ds_", "ld.shared", "st.shared", "ldsm"}))
        ++loop.shared;
    // NVK reads fields of the argument record again in loops, by uniform addresses.
    const bool of_record = instruction.find("[rZ+ur") != std::string_view::npos;
    if (begins_with_any(word, {"global_load", "ld.global"}) && !of_record) ++loop.global_loads;
    if (is_narrow_load(word) && !of_record) ++loop.narrow_global_loads;
    if (begins_with_any(word, {"scratch_", "buffer_load", "buffer_store", "ld.local", "st.local"})) ++loop.scratch;
}

std::vector<Block> blocks_of(std::string_view assembly) {
    if (assembly.find("\nBB0:") != std::string_view::npos || assembly.starts_with("BB0:")) return amd_blocks(assembly);
    return assembly.find("{ align1") != std::string_view::npos ? intel_blocks(assembly) : nvidia_blocks(assembly);
}

// The first and last blocks of all loops. A branch to its own or an earlier block closes one; of loops with one first
// block the longest counts.
std::map<std::size_t, std::size_t> loops_of(const std::vector<Block>& blocks) {
    std::map<std::string, std::size_t, std::less<>> index;
    for (std::size_t i = 0; i < blocks.size(); ++i) index[blocks[i].label] = i;
    std::map<std::size_t, std::size_t> loops;
    for (std::size_t i = 0; i < blocks.size(); ++i)
        for (const std::string& successor : blocks[i].successors) {
            const auto target = index.find(successor);
            if (target == index.end() || target->second > i) continue;
            std::size_t& last = loops.try_emplace(target->second, i).first->second;
            last = std::max(last, i);
        }
    return loops;
}

} // namespace

std::vector<LoopCounts> innermost_loops(std::string_view assembly) {
    const std::vector<Block> blocks = blocks_of(assembly);
    const std::map<std::size_t, std::size_t> loops = loops_of(blocks);
    std::vector<LoopCounts> innermost;
    for (const auto& [first, last] : loops) {
        const bool holds_another = std::ranges::any_of(loops, [&, begin = first, end = last](const auto& other) {
            return other.first > begin && other.second <= end;
        });
        if (holds_another) continue;
        LoopCounts loop;
        loop.first_block = blocks[first].label;
        for (std::size_t i = first; i <= last; ++i)
            for (const std::string& instruction : blocks[i].instructions) count(loop, instruction);
        innermost.push_back(std::move(loop));
    }
    return innermost;
}

bool has_matrix_in_loop(std::string_view assembly) {
    const std::vector<Block> blocks = blocks_of(assembly);
    LoopCounts all;
    for (const auto& [first, last] : loops_of(blocks))
        for (std::size_t i = first; i <= last; ++i)
            for (const std::string& instruction : blocks[i].instructions) count(all, instruction);
    return all.matrix > 0;
}

int64_t shared_instructions(std::string_view assembly) {
    LoopCounts all;
    for (const Block& block : blocks_of(assembly))
        for (const std::string& instruction : block.instructions) count(all, instruction);
    return all.shared;
}

} // namespace hekla::test
