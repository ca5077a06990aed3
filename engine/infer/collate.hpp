// Examples into the fields of a batch, by the objective's collate.
#pragma once

#include "data/batcher.hpp"
#include "data/encoded.hpp"
#include "graph/reference.hpp"
#include "plugin/compose.hpp"

#include <span>
#include <vector>

namespace hekla::infer {

struct DrawnExample {
    data::EncodedExample example;
    uint64_t epoch = 0;
};

// Rows without an example are the objective's own padding. examples.size() <= batch. corpus: what they were drawn from,
// for objectives that look at others; may be null. The fields lie in `memory`, which must outlive them. Thread: any,
// many at once.
Status make_fields(const plugin::Composition& composition, std::span<const DrawnExample> examples,
                   const data::EncodedExamples* corpus, uint64_t seed, int64_t batch, int64_t length,
                   std::vector<data::Field>& fields,
                   std::pmr::memory_resource* memory = std::pmr::new_delete_resource());

// The same into memory of the caller's, zeroed, that `fields` describe.
Status collate_into(const plugin::Composition& composition, std::span<const DrawnExample> examples,
                    const data::EncodedExamples* corpus, uint64_t seed, std::span<hk_field> fields);

// The length of a row that cuts nothing off this example; 0 where its objective does not say.
int64_t example_length(const plugin::Composition& composition, const data::EncodedExample& example);

// A field for the interpreter.
graph::Tensor tensor_of(const data::Field& field);

// Fields as the plugins' ABI has them; they point into `fields`.
std::vector<hk_field> field_views(std::span<data::Field> fields);

} // namespace hekla::infer
