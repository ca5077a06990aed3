// Which kernels compute attention over whole sequences: one lane per row, tiles in shared memory, or matrix units.
#pragma once

#include "program/lowering/attention.hpp"

#include <array>
#include <string>
#include <vector>

namespace hekla::program {

enum class AttentionPass { forward, gradient_query, gradient_key };

// What gradient_key computes.
constexpr uint32_t kDk = 1, kDv = 2;

struct AttentionProblem {
    AttentionSizes sizes;
    AttentionPass pass = AttentionPass::forward;
    uint32_t options = 0;                 // the constant OPTIONS of shaders/attention/record.h
    uint32_t outputs = kDk | kDv;         // of gradient_key
    std::array<const View*, 8> rows = {}; // q, k, v, y, dy, dq, dk, dv; a view without a resource is not used
};

struct AttentionKernel {
    std::string shader;
    std::vector<uint32_t> constants;
    uint32_t subgroup_size = 0; // 0: the driver's
    int64_t rows = 0;           // per workgroup: keys (gradient_key) or queries
    bool together = true;       // gradient_key computes dk and dv in one dispatch
};

AttentionKernel attention_kernel(const Limits& limits, const AttentionProblem& problem);

} // namespace hekla::program
