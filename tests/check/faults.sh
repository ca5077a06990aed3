#!/usr/bin/env bash
# faults.sh HEKLA FOLDER [--trained]: every planted fault is found by the test for it, and the plugins without faults
# pass. Those with adapters are in FOLDER/../adapters.
set -euo pipefail
hekla=$1 folder=$2 level=2
[ "${3:-}" = --trained ] && level=3
wrong=0
report=$(mktemp)
trap 'rm -f "$report"' EXIT

# A fault, the test that finds it, and part of the message.
expect() {
  local fault=$1 test=$2 said=$3 plugin=${4:-faulty}
  if HEKLA_FAULT=$fault "$hekla" plugin check "$folder/$plugin.so" --only "$test" --level "$level" --patience "${patience:-1}" >"$report"; then
    printf 'not found: %s (by %s)\n' "$fault" "$test"
    wrong=1
  elif ! grep -F -e "$said" "$report" >/dev/null; then
    printf 'found, but not named: %s (by %s), expected "%s":\n' "$fault" "$test" "$said"
    cat "$report"
    wrong=1
  fi
}

"$hekla" plugin check "$folder/faulty.so" --level "$level" >"$report" || { cat "$report"; wrong=1; }

expect none file.exports "compress" faulty_two_exports
expect null_entry file.opens "returned null"
expect throw_in_entry file.opens "SIGABRT"
expect crash_at_load file.opens "SIGSEGV"
expect slow_to_open file.opens "0.9"
expect wrong_magic file.entry "magic"
expect short_entry file.entry "struct_size is 8"
expect long_entry file.entry "struct_size is 1073741824"
expect no_deinit file.entry "deinit"
expect newer_abi file.entry "needs plugin ABI 1.99, its manifest has 1.0"
expect other_major file.entry "its manifest has"
minor=$(sed -n 's/^#define HK_ABI_MINOR //p' "$(dirname "$0")/../../engine/include/hekla/plugin/abi.h")
expect built_before_needed file.entry "it was built with minor $minor and needs minor $((minor + 1))"
expect reserved_bits file.entry "reserved"
expect two_entries file.entry "different entries"
expect init_fails file.ids "init()"
expect less_than_promised file.ids "head 'faulty_head', the library does not provide it"
expect c_strings file.ids "need not end"
expect id_prefixes file.ids "faultytail"
expect any_id file.ids "null was expected"
expect any_revision file.ids "hekla.architecture/10"
expect null_ids file.ids "SIGSEGV (Segmentation fault)"
expect crash_in_deinit file.ids "deinit()"
expect serves_two file.lifecycle "HK_FAILED_PRECONDITION and a message were expected"
expect refuses_second_in_silence file.lifecycle "no message"
expect begins_once file.lifecycle "again, after deinit(): code 1: it has ended"
expect thread_stays file.ids "still runs after deinit()"
expect needs_graph host.without-graph "SIGSEGV"
expect needs_error host.without-error "SIGSEGV"
expect init_fails_in_silence host.without-config "no message"
patience=0.05 expect retries host.fails "did not finish within"
expect throws_without_memory host.memory "threw"
expect forgets_memory host.memory "HK_OUT_OF_MEMORY was expected"
expect names_memory_wrongly host.memory "HK_OUT_OF_MEMORY was expected"
expect counts_instances instances.many "another graph"
expect frees_twice instances.many "SIGABRT"
expect leaks_instances instances.leaks "bytes each time"
expect leaks_in_build instances.leaks "bytes each time"
expect draws_constants graph.same "two graphs"
expect counts_builds graph.same "two graphs"
expect foreign_value graph.same "a value of another graph"
expect open_scope graph.same "still open"
expect throw_in_create graph.same "thrown by create"
expect throw_in_build graph.same "thrown by build"
expect abort_in_build graph.same "SIGABRT (Aborted)"
expect exit_in_build graph.same "ended the process with status 0"
patience=0.05 expect hang_in_build graph.same "did not finish within"
expect lies_of_itself graph.config "another graph"
expect odd_lengths graph.shapes "7 tokens"
expect short_rows graph.shapes "a row of 1 tokens"
expect divides_by_depth graph.configurations "depth = 0"
expect silent_refusal graph.configurations "without a reason"
expect needs_fields graph.fields "SIGSEGV"
expect counts_calls batch.pure "the second time"
expect draws_by_row batch.pure "its row in the batch"
expect shares_scratch batch.threads "four threads"
expect writes_behind batch.bounds "with a guard page after each field"
expect writes_before batch.bounds "before the beginning"
expect needs_tokens batch.examples "texts without a token"
expect foreign_ids batch.examples "the id 1048576"
expect throw_in_collate batch.pure "thrown by collate"
patience=0.05 expect hang_in_collate batch.pure "did not finish within"
expect no_json decode "JSON"
expect forgets_rows decode "results for 1 rows; the batch has 2"
expect crash_in_decode decode "SIGSEGV"
operation() { # operation FAULT TEST MESSAGE
  level=3 expect "$@" faulty_operation
}
"$hekla" plugin check "$folder/faulty_operation.so" --only file. --only operation. >"$report" || { cat "$report"; wrong=1; }
operation wrong_gradient operation.gradient "the gradient is off"
operation gradient_of_parameter operation.gradient "its shape rule accepts that, but"
operation gradient_of_another_shape operation.gradient "its shape rule accepts that, but"
operation throw_in_gradient operation.gradient "thrown by gradient"
operation wrong_shape operation.gradient "its shape rule accepts that, but"
operation throw_in_shape operation.shapes "thrown by shape"
patience=0.05 operation hang_in_shape operation.shapes "did not finish within"
operation divides_by_size operation.shapes "SIGFPE"
operation refuses_in_silence operation.shapes "without a reason"
operation crash_in_describe operation.shapes "SIGSEGV"
operation capital_letters operation.shapes "'Y'"
operation shape_counts operation.shapes "two calls give"
operation wrong_cost operation.shapes "its outputs alone have"
operation cost_falls operation.shapes "its cost falls"
operation negative_cost operation.shapes "its cost is -1 FLOPs"
operation reserved_cost operation.shapes "reserved"
operation uneven_invocations operation.shapes "not a multiple of its local size"
operation throw_in_reference operation.reference "thrown by reference"
operation reference_fails operation.reference "it does not want to"
operation reference_reads_behind operation.reference "with a guard page after each tensor"
operation reference_writes_behind operation.reference "with a guard page after each tensor"
operation reference_writes_before operation.reference "before a tensor's beginning"
operation reference_writes_inputs operation.reference "writes to input 0"
operation reference_counts operation.reference "the second time"
operation other_kernel operation.float32 "y on the device in float32 is off"
operation ignores_attribute operation.float32 "with other attributes: y on the device in float32 is off"
operation leaves_out operation.float32 "y on the device in float32 is off"
operation few_invocations operation.float32 "y on the device in float32 is off"
operation no_glsl operation.float32 "'quadrat'"
operation gradient_fades operation.float16 "the gradient of x on the device in float16 is off"
operation stores_twice operation.order "in the opposite order"
operation takes_tickets operation.order "in the opposite order"
operation no_barrier operation.float32 "y on the device in float32 is off"
operation shares_much operation.float32 "use 16388 bytes of shared memory; at most 16384"
operation loads_outside operation.bounds "loads, 0 stores"
operation stores_outside operation.bounds "stores (which were clamped)"
# A fault in one precision does not fail the tests of the others.
for precision in float32 bfloat16; do
  HEKLA_FAULT=gradient_fades "$hekla" plugin check "$folder/faulty_operation.so" --only "operation.$precision" >"$report" || { cat "$report"; wrong=1; }
done
expect sees_the_future network.causal "changes by"
expect mixes_rows network.rows "other rows"
for sound in attends carries; do # a correct cache and a correct state
  HEKLA_FAULT=$sound "$hekla" plugin check "$folder/faulty.so" --only network.decode >"$report" || { cat "$report"; wrong=1; }
  grep -q '^passed  network.decode' "$report" || { printf 'not tried: %s\n' "$sound"; cat "$report"; wrong=1; }
done
expect keeps_no_cache network.decode "attention in body: causal attention without a cache"
expect ignores_positions network.decode "fed token by token in decode mode, the logits of token"
expect carries_nothing network.decode "state_read in body: the state 'layers.0' is read and never written"
expect carries_unread network.decode "state_write in body: the state 'layers.0' is written and never read"
expect carries_the_last network.decode "from those of the whole row"
# Adapters and combiners. (Sites are the places of a block's parts too, and those cannot be merged.)
adapter() { # adapter FAULT TEST MESSAGE
  expect "$@" ../adapters/faulty_adapter
}
"$hekla" plugin check "$folder/../adapters/faulty_adapter.so" --level "$level" >"$report" || { cat "$report"; wrong=1; }
grep -q "^passed  adapter.merge" "$report" && grep -q '4 sites have no weight' "$report" || { cat "$report"; wrong=1; }
adapter merges_twice adapter.merge "'factor': at 'transformer.h."
adapter merges_without_bias adapter.merge "adapt() and the layer with the weight and bias of merge() differ by"
adapter merges_transposed adapter.merge "attn.c_proj'"
adapter merges_shape adapter.merge "expected float"
adapter throws_in_create graph.same "it does not want to"
adapter throws_out_of_wants graph.same "thrown by wants"
adapter throws_out_of_adapt graph.same "thrown by adapt"
adapter odd_shape graph.same "expected float"
adapter foreign_value graph.same "a value of another graph"
adapter open_scope graph.same "still open"
adapter impure_wants graph.same "the same site must get the same answer"
adapter kills graph.same "SIGABRT"
patience=0.05 adapter hangs graph.same "did not finish within"
patience=0.05 adapter hangs_in_wants graph.same "did not finish within"
adapter throws_out_of_combine graph.same "thrown by combine"
adapter combiner_shape graph.same "expected float"
adapter combiner_foreign_value graph.same "a value of another graph"
adapter combiner_open_scope graph.same "still open"
adapter combiner_impure graph.same "two graphs"
patience=0.05 adapter combiner_hangs graph.same "did not finish within"
# Optimizers.
optimizer() { # optimizer FAULT TEST MESSAGE
  expect "$@" ../adapters/faulty_optimizer
}
"$hekla" plugin check "$folder/../adapters/faulty_optimizer.so" --level "$level" >"$report" || { cat "$report"; wrong=1; }
grep -q "^passed  optimizer.finite" "$report" || { cat "$report"; wrong=1; }
optimizer odd_shape optimizer.shapes "expected float [7]"
optimizer another_parameter optimizer.shapes "it reads the parameter 'wte.weight'"
optimizer declared_twice optimizer.shapes "the state 'velocity' is declared twice"
optimizer throws_in_create optimizer.shapes "it does not want to"
optimizer impure optimizer.same "two descriptions of the update of a parameter"
optimizer not_finite optimizer.finite "gradients only zeros: parameter has"
# A test that a plugin cannot pass by design is waived in its manifest, with a reason; unknown names are rejected.
waived=$(mktemp -d)
trap 'rm -rf "$report" "$waived"' EXIT
waive() { # waive TEST: creates a copy of the plugin whose architecture waives it
  cp "$folder/faulty.so" "$waived"
  sed "s/\"check\": {\"config\": {\"width\"/\"check\": {\"waive\": {\"$1\": \"it is meant to\"}, \"config\": {\"width\"/" "$folder/faulty.json" >"$waived/faulty.json"
  HEKLA_FAULT=sees_the_future "$hekla" plugin check "$waived/faulty.so" --only network.causal >"$report" 2>&1
}
waive network.causal || { cat "$report"; wrong=1; }
grep -q "architecture 'faulty': waived by the manifest: it is meant to" "$report" || { cat "$report"; wrong=1; }
if waive network.casual; then cat "$report"; wrong=1; fi
grep -q "\"waive\": unknown test 'network.casual'; did you mean 'network.causal'?" "$report" || { cat "$report"; wrong=1; }
if waive file.exports; then cat "$report"; wrong=1; fi
grep -q "test 'file.exports' cannot be waived" "$report" || { cat "$report"; wrong=1; }
# A test that does not apply is listed with the reason.
"$hekla" plugin check "$folder/faulty_operation.so" --only batch.pure --only operation.shapes >"$report" || { cat "$report"; wrong=1; }
grep -q 'does not apply: the plugin does not provide an objective' "$report" || { cat "$report"; wrong=1; }

if [ "$level" = 3 ]; then
  expect learns_nothing train.learns "the loss is"
  expect not_a_number train.learns "not finite"
fi
[ "$wrong" = 0 ] && echo "every fault was found and named"
exit "$wrong"
