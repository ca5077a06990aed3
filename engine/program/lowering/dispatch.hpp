// A dispatch before addresses are assigned: a kernel, its argument record, and the bytes that it may read and write.
#pragma once

#include "graph/graph.hpp"
#include "program/lowering/record.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hekla::program {

// Bytes [begin, end) of a resource that a dispatch may read or write; every address that it computes is in the range.
struct Access {
    ResourceId resource = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    bool write = false;
};

struct Dispatch {
    std::string
        shader; // name in the embedded table, e.g. "matmul/direct", or "generated:HASH" or "own:NAME/REVISION:HASH"
    std::string source;       // GLSL of a generated shader, else empty
    std::size_t own_text = 0; // where `source` continues after shared headers, for chain_text(); 0: not known
    std::shared_ptr<const std::vector<uint32_t>> words; // SPIR-V of a plugin's own operation, else null
    std::vector<uint32_t> constants;                    // specialization constants 0, 1, ...
    uint32_t subgroup_size = 0;                         // 0: the device's default
    Record record;                                      // its arguments; see make_record()
    uint64_t groups = 1; // folded into three dimensions when recorded; shaders use HEKLA_GROUP of record.glsl
    std::vector<Access> accesses;
    double flops = 0;
    double bytes = 0;
    double seconds = 0;     // at least; for what takes longer than flops and bytes say
    std::string label;      // for names in dumps and timings; empty: derived from the node
    graph::NodeId node = 0; // append() sets it to Lowering::current

    void reads(const View& view); // the smallest byte range that contains every element of the view
    void writes(const View& view);
    void reads(ResourceId resource, uint64_t begin, uint64_t end) { accesses.push_back({resource, begin, end, false}); }
    void writes(ResourceId resource, uint64_t begin, uint64_t end) { accesses.push_back({resource, begin, end, true}); }
};

} // namespace hekla::program
