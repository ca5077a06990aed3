// A dispatch before addresses are assigned: a kernel, and its argument record, which has the bytes that it may access.
#pragma once

#include "graph/graph.hpp"
#include "program/lowering/record.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hekla::program {

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
    double flops = 0;
    double bytes = 0;
    double seconds = 0;     // at least; for what takes longer than flops and bytes say
    std::string label;      // for names in dumps and timings; empty: derived from the node
    graph::NodeId node = 0; // append() sets it to Lowering::current
};

} // namespace hekla::program
