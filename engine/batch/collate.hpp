// Fills the fields of a batch from examples with the objective's collate.
#pragma once

#include "batch/drawn_example.hpp"
#include "data/batcher.hpp"
#include "graph/tensor.hpp"
#include "hekla/plugin/field.h"

#include <span>
#include <vector>

namespace hekla::plugin {
struct BatchField;
class Composition;
} // namespace hekla::plugin

namespace hekla::batch {

// Makes fields. Rows without an example are padded by the objective. examples.size() <= batch. corpus: the source of
// the examples, for objectives that read others; may be null. `memory` holds the fields and must outlive them. step: of
// the training (hk_batch). Thread: any, several at once.
Status make_fields(const plugin::Composition& composition, std::span<const DrawnExample> examples,
                   const data::EncodedExamples* corpus, uint64_t seed, int64_t batch, int64_t length,
                   std::vector<data::Field>& fields,
                   std::pmr::memory_resource* memory = std::pmr::new_delete_resource(), uint64_t step = 0);

// Returns zeroed fields. `memory` holds them and must outlive them.
std::vector<data::Field> empty_fields(std::span<const plugin::BatchField> described, std::pmr::memory_resource* memory);

// Fills the caller's zeroed memory, which `fields` describe. The field plugin::kAdapterRows has the adapters of the
// examples, and -1 in rows without an example; collate does not see it.
Status collate_into(const plugin::Composition& composition, std::span<const DrawnExample> examples,
                    const data::EncodedExamples* corpus, uint64_t seed, std::span<hk_field> fields, uint64_t step = 0);

// Returns the row length that holds this whole example; 0 if the objective does not define one.
int64_t example_length(const plugin::Composition& composition, const data::EncodedExample& example);

// Converts a field for the interpreter.
graph::Tensor tensor_of(const data::Field& field);

// Returns fields as structs of the plugin ABI, which point into `fields`.
std::vector<hk_field> field_views(std::span<data::Field> fields);

} // namespace hekla::batch
