// The choice of each row's next token at the end of a decoding step. Fields and outputs that it adds to the program, in
// the layout of shaders/generate/record.h:
//     kChooseOptions  ChooseOptions, written by the host; `on` 0: the kernel does nothing
//     kChooseRows     ChooseRow [rows], written by the host before the first of several replays
//     kChosen         output, int32 [rows, kChosenSlots]
#pragma once

#include "program/lowering/lowering.hpp"

namespace hekla::program {

inline const char* const kChooseOptions = "choose.options";
inline const char* const kChooseRows = "choose.rows";
inline const char* const kChosen = "chosen";

// Appends the kernel, after all outputs are in place. Error: the graph's "logits" are not float32 [rows, 1,
// vocabulary], or it lacks one of CompileOptions::choose's fields.
Status lower_choose(Lowering& lowering);

} // namespace hekla::program
