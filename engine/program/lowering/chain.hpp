// Chains: small dispatches that follow each other become one, because every dispatch costs time however little it does.
#pragma once

#include "program/lowering/lowering.hpp"

namespace hekla::program {

// Joins runs of dispatches that one workgroup executes faster than the device executes them one by one. On CPUs only,
// if kernels can be generated at run time. The bits are the same.
void join_chains(Lowering& lowering);

} // namespace hekla::program
