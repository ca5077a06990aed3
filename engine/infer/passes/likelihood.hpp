// Log probabilities of tokens under a language model: rows of tokens, each scored from a position on. The result of a
// row does not depend on the rows that are scored with it, bit for bit: the shape of a pass follows from the row's own
// length, and every row of a pass is computed alike.
#pragma once

#include "base/status.hpp"
#include "base/stop_poll.hpp"
#include "infer/open/tensors.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace hekla::plugin {
class Composition;
}
namespace hekla::program {
class Estimator;
class ParameterStore;
class Runtime;
} // namespace hekla::program

namespace hekla::infer {

struct Model;

// A row to score. Without an encoder: context and continuation. With one: what the decoder writes after its first
// token.
struct LikelihoodRow {
    std::vector<int32_t> ids;
    std::size_t from = 1;             // the first scored one; at least 1 without an encoder
    std::vector<int32_t> source = {}; // of the encoder
};

struct RowLikelihood {
    std::vector<float> log_probabilities; // of ids[from], ids[from + 1], ...: natural logarithms
    std::vector<uint8_t> greedy;          // 1: the token has the largest logit (the first of equal ones)
    std::vector<float> values;            // LikelihoodOptions::values, where the token is predicted
    std::vector<float> entropies;         // LikelihoodOptions::entropies: of the distribution of the token, in nats
    double sum = 0.0;                     // of log_probabilities, added in double precision from the first on
    std::size_t cut = 0;                  // tokens of the context that were left out on the left, for want of positions
    bool all_greedy() const;
};

struct LikelihoodOptions {
    double temperature = 1.0; // logits are divided by it; above 0. Except for 1, logits are stored as a whole
    std::string values = {};  // a port [rows, tokens] of the model, such as that of the head "value"; "": none
    bool entropies = false;   // logits are stored as a whole
    // A prefix language model: tokens before `from` attend to each other in both directions.
    bool both_sides = false;
    StopPoll stop = {};                                                   // polled between passes
    std::function<void(std::size_t rows, std::size_t all)> progress = {}; // after a pass: rows that are done
};

// A network and its weights, on a device or, without a runtime, on the host for the float64 interpreter.
struct Network {
    const plugin::Composition* composition = nullptr; // with a head that offers "logits", without an objective
    program::Runtime* runtime = nullptr;
    program::ParameterStore* store = nullptr;
    const Tensors* parameters = nullptr;
};
Network network_of(const Model& model);

// Scores rows. Programs are compiled for the lengths that occur, and kept. Ownership: what the network points to
// outlives it. Thread: one at a time.
class Likelihood {
public:
    // Errors: a temperature that is not above 0; a model that does not write token by token; one with virtual tokens.
    static Result<std::unique_ptr<Likelihood>> create(const Network& network, LikelihoodOptions options = {});
    // Adds the program for rows of up to `length` tokens to an estimate, whose store has the network's parameters.
    static Status estimate(program::Estimator& estimator, const plugin::Composition& composition,
                           LikelihoodOptions options, int64_t length);
    ~Likelihood();
    Likelihood(const Likelihood&) = delete;
    Likelihood& operator=(const Likelihood&) = delete;

    // Returns one result per row, in order. A row that exceeds the model's positions loses tokens on the left: of its
    // context, or of the encoder's text. Errors name the row: nothing to score, no token before the first scored one,
    // scored tokens that exceed the model's positions, an id outside the vocabulary. cancelled: options.stop. name:
    // that of a row in errors; null: "row" and its number from 1.
    Result<std::vector<RowLikelihood>> run(std::span<const LikelihoodRow> rows,
                                           const std::function<std::string(std::size_t row)>& name = {});

    bool encoder_decoder() const;
    // Returns the number of tokens that a row may have before its last one, up to `wanted`: the model's positions.
    Result<int64_t> longest(int64_t wanted);

private:
    struct State;
    explicit Likelihood(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

} // namespace hekla::infer
