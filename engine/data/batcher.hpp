// Batches that worker threads prepare in advance and that are returned in order.
#pragma once

#include "base/resource_array.hpp"
#include "base/status.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hekla::data {

enum class FieldKind : int32_t { int32 = 0, float32 = 1 };

// One input of the model for one micro-step, row-major.
struct Field {
    std::string name;
    FieldKind kind = FieldKind::int32;
    std::vector<int64_t> shape;
    ResourceArray<std::byte> bytes; // 4 x the product of the shape
};

struct Batch {
    uint64_t step = 0;
    uint32_t micro_step = 0;
    int64_t rows = 0;               // of which the last may have no example
    int64_t length = 0;             // of its rows, in tokens
    std::vector<uint64_t> examples; // their indices
    double label_tokens = 0.0;      // tokens that are predicted; 0 for objectives that predict none
    std::vector<Field> fields;
    std::vector<double> loss_counts; // elements of each loss of a training; empty for other batches
};

// Fills the batch of one micro-step (step and micro_step are set): a pure function of these numbers. Thread: called on
// several workers at once.
using MakeBatch = std::function<Status(Batch& batch)>;

struct BatcherOptions {
    uint32_t micro_steps = 1;                                 // per step
    uint32_t first_micro_step = 0;                            // number of the first of them
    uint64_t first_step = 0;                                  // first step of a resumed run
    uint64_t end_step = std::numeric_limits<uint64_t>::max(); // no batch of this step or after
    unsigned threads = 1;                                     // 0: next() makes the batch on its caller's thread
    unsigned depth = 4;                                       // maximum number of batches prepared in advance
};

// A queue of batches. Thread: next() from one thread at a time. The destructor waits for running calls.
class Batcher {
public:
    // Errors: a count of 0 (threads may be 0).
    static Result<std::unique_ptr<Batcher>> start(BatcherOptions options, MakeBatch make);
    ~Batcher();
    Batcher(const Batcher&) = delete;
    Batcher& operator=(const Batcher&) = delete;

    // Waits for and returns the next batch: micro-steps of first_step, then of the next step, and so on; nothing after
    // the last. An error of `make` (or its exception) is returned instead of its batch, and by every later call.
    Result<std::optional<Batch>> next();
    // Waits until next() would not block; false: it would still block after `timeout`.
    bool wait(std::chrono::milliseconds timeout);
    // Starts no further batch and waits for running calls of `make`; false: one is still running after `timeout`.
    bool end(std::chrono::milliseconds timeout);

private:
    class Work;
    explicit Batcher(std::unique_ptr<Work> work);
    std::unique_ptr<Work> work_;
};

} // namespace hekla::data
