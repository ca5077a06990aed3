// The fields of a batch, made from examples by the objective's collate.
#pragma once

#include "data/batcher.hpp"
#include "data/encoded.hpp"
#include "graph/reference.hpp"
#include "plugin/compose.hpp"

#include <span>
#include <vector>

namespace hekla::batch {

struct DrawnExample {
    data::EncodedExample example;
    uint64_t epoch = 0;
};

// Rows without an example are padded by the objective. examples.size() <= batch. corpus: where they were drawn from,
// for objectives that read other examples; may be null. `memory` holds the fields and must outlive them. Thread: any,
// several at once.
Status make_fields(const plugin::Composition& composition, std::span<const DrawnExample> examples,
                   const data::EncodedExamples* corpus, uint64_t seed, int64_t batch, int64_t length,
                   std::vector<data::Field>& fields,
                   std::pmr::memory_resource* memory = std::pmr::new_delete_resource());

// The same into zeroed memory of the caller, which `fields` describe.
Status collate_into(const plugin::Composition& composition, std::span<const DrawnExample> examples,
                    const data::EncodedExamples* corpus, uint64_t seed, std::span<hk_field> fields);

// The row length that holds this whole example; 0 where the objective does not define one.
int64_t example_length(const plugin::Composition& composition, const data::EncodedExample& example);

// Converts a field for the interpreter.
graph::Tensor tensor_of(const data::Field& field);

// Fields as structs of the plugin ABI; they point into `fields`.
std::vector<hk_field> field_views(std::span<data::Field> fields);

} // namespace hekla::batch
