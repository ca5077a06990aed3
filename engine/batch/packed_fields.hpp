// Fills batches whose rows hold several examples.
#pragma once

#include "batch/collate.hpp"

namespace hekla::batch {

// Makes the fields of Composition::training_fields() from examples whose `row` is set, each after those before it in
// its row. Otherwise as make_fields().
Status make_packed_fields(const plugin::Composition& composition, std::span<const DrawnExample> examples,
                          const data::EncodedExamples* corpus, uint64_t seed, int64_t batch, int64_t length,
                          std::vector<data::Field>& fields,
                          std::pmr::memory_resource* memory = std::pmr::new_delete_resource(), uint64_t step = 0);

} // namespace hekla::batch
