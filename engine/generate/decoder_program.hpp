// The decoder on a device: one recorded program for each chunk size, replayed for every token. Keys and values stay in
// states of the parameter store; only the scores of last tokens are copied back.
#pragma once

#include "generate/decoder.hpp"
#include "generate/recorded_case.hpp"

#include <memory>

namespace hekla::plugin {
class Composition;
}
namespace hekla::program {
class Estimator;
class ParameterStore;
class Runtime;
} // namespace hekla::program

namespace hekla::generate {

struct DecoderOptions {
    bool equal_rows = false; // CompileOptions::equal_rows: a row has the same bits in every place of a batch
};

// All three must outlive it; `store` holds the model's weights (and its buffers, as states). Programs are compiled when
// a chunk size is first needed and kept for batches of the same number of rows, capacity and source shapes. Caches of
// other shapes stay in the store.
Result<std::unique_ptr<Decoder>> make_program_decoder(program::Runtime& runtime, program::ParameterStore& store,
                                                      const plugin::Composition& composition,
                                                      const DecoderOptions& options = {});

// Adds the caches of a batch's decoder and its program of every chunk size, without the store. The unit of work is a
// token of every row. first_steps: with the program of first steps, which an exported model does not have. Errors: as
// Decoder::begin.
Status estimate_decoder(program::Estimator& estimator, const plugin::Composition& composition,
                        const DecodeBatch& session, bool first_steps = true);

// The same for the rows of a recorded case.
Status estimate_recorded(program::Estimator& estimator, const plugin::Composition& composition,
                         const RecordedCase& recorded);

} // namespace hekla::generate
