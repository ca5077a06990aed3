// The GLSL of a chain: a kernel whose only workgroup executes other kernels one after another. The text of each becomes
// a function, its specialization constants become numbers, and its names are numbered, so that no two kernels share
// one.
#pragma once

#include "program/lowering/dispatch.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hekla::program {

// Returns whether a dispatch's kernel can be part of a chain: its workgroups are one subgroup on a CPU, and its GLSL is
// known.
bool can_be_chained(const Dispatch& dispatch);

// Steps of a chain that are repeated with other records.
struct ChainLoop {
    struct Step {
        std::size_t kernel = 0; // index in the list of kernels
        std::size_t record = 0; // where its record begins in the first iteration, in bytes of the chain's record
    };
    std::vector<Step> steps;
    std::size_t stride = 0;        // bytes between the records of two iterations
    std::size_t iterations_at = 0; // where the number of iterations is, in bytes of the chain's record
};

// Returns the text of a chain, for a workgroup that is one subgroup of `lanes`. It depends on the kernels and their
// order, not on sizes and numbers of iterations, which are in the record.
std::string chain_text(std::span<const Dispatch* const> kernels, std::span<const ChainLoop> loops, uint32_t lanes,
                       bool uniform_loads);

} // namespace hekla::program
