// Which kernels compute attention over whole sequences: one lane per row, tiles in shared memory, or matrix units.
#pragma once

#include "program/lowering/kernel_problem.hpp"
#include "program/lowering/limits.hpp"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace hekla::program {

// Sizes of q, k and v for all attention kernels.
struct AttentionSizes {
    int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0, width = 0, value_width = 0;
    float scale = 1;
    uint32_t block = 1; // keys (or queries) that a lane processes together
};
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
    uint32_t subgroup_size = 0; // required; 0: any
    int64_t rows = 0;           // per workgroup: keys (gradient_key) or queries
    bool together = true;       // gradient_key computes dk and dv in one dispatch
    int64_t parts = 1;          // of the keys (forward): above 1 a second pass combines their sums
    int64_t part_keys = 0;      // keys of a part; the last may have fewer
};

// Returns the kernels that such a device can run, the preferred one first: "matrix.elements", "matrix", "tiled.t64x64"
// and others, or only "lane". Never empty.
std::vector<KernelOption> attention_options(const Limits& limits, const AttentionProblem& problem);
// Returns the names of other forms of these kernels, which `hekla doctor --lab` compares: "matrix+short".
std::vector<std::string> attention_forms(const Limits& limits, const AttentionProblem& problem);
// A choice that the device cannot run, or that is of another version, has a shader that does not exist.
AttentionKernel attention_kernel(const Limits& limits, const AttentionProblem& problem, const KernelChoice& choice);

// Returns whether all rows of these views begin at multiples of four elements, and their widths are such.
bool attention_rows_of_fours(const AttentionSizes& sizes, std::initializer_list<const View*> views);

// Returns 1 or 2, the elements per load: 2 if all rows of these views begin at even elements. Views without a resource
// do not count.
uint32_t attention_load_width(const AttentionSizes& sizes, std::initializer_list<const View*> views);

} // namespace hekla::program
