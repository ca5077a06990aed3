// The tests of check.hpp, by subject. Each reports findings through its trial; an error that it returns is a finding
// too.
#pragma once

#include "check/trial.hpp"
#include "program/lowering/view.hpp"

namespace hekla::check {

// The file and its entry (file_tests.cpp), without the engine.
Status test_exports(Trial& trial);
Status test_relocations(Trial& trial);
Status test_opens(Trial& trial);
Status test_entry(Trial& trial);
Status test_unknown_ids(Trial& trial);
Status test_lifecycle(Trial& trial);
Status test_host_without(Trial& trial, const char* interface_id);

// Instances and their graphs (instance_tests.cpp).
Status test_many_instances(Trial& trial);
Status test_same_graph(Trial& trial);
Status test_own_configuration(Trial& trial);
Status test_odd_shapes(Trial& trial);
Status test_strange_configurations(Trial& trial);
Status test_strange_fields(Trial& trial);
Status test_failing_host(Trial& trial);
Status test_failing_memory(Trial& trial);
Status test_leaks(Trial& trial);
Status test_used_abi(Trial& trial);

// Batches (batch_tests.cpp).
Status test_pure_batches(Trial& trial);
Status test_threads(Trial& trial);
Status test_bounds(Trial& trial);
Status test_strange_examples(Trial& trial);
Status test_decoding(Trial& trial);

// Networks, in float64 on the CPU (network_tests.cpp).
Status test_causal(Trial& trial);
Status test_rows_apart(Trial& trial);
Status test_padding(Trial& trial);
Status test_gradient(Trial& trial);

// Evaluation: its losses, and that it is not random (evaluation_tests.cpp).
Status test_random(Trial& trial);
Status test_sums(Trial& trial);

// Buffers that training writes against what evaluation reads (buffer_tests.cpp).
Status test_buffers(Trial& trial);

// What an adapter adds against what it merges (adapter_tests.cpp).
Status test_merge(Trial& trial);

// The updates of optimizers, in float64 (optimizer_tests.cpp).
Status test_optimizer_shapes(Trial& trial);
Status test_optimizer_same(Trial& trial);
Status test_optimizer_finite(Trial& trial);
Status test_optimizer_still(Trial& trial);
Status test_optimizer_descends(Trial& trial);

// Decode mode against the whole row (decode_mode_tests.cpp).
Status test_decode_mode(Trial& trial);

// Each of the plugin's own operations, alone (operation_tests.cpp).
Status test_operation_shapes(Trial& trial);
Status test_operation_reference(Trial& trial);
Status test_operation_gradient(Trial& trial);
Status test_operation_device(Trial& trial, program::Storage precision);
Status test_operation_order(Trial& trial);
Status test_operation_bounds(Trial& trial);

// On the device (training_tests.cpp).
Status test_device(Trial& trial, DeviceSetting setting);
Status test_precision(Trial& trial, program::Storage precision); // float32: only the gradients
Status test_bounds_on_device(Trial& trial);
Status test_learns(Trial& trial);
Status test_repeats(Trial& trial);
Status test_resumes(Trial& trial);

} // namespace hekla::check
