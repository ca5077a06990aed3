// A model folder as the panels display it: its description, tokens and parameters.
#pragma once

#include "models/hekla_program.hpp"
#include "models/routing.hpp"

#include <cstdint>
#include <hekla/model.h>
#include <string>
#include <unordered_map>
#include <vector>

namespace observatory {

struct Parameter {
    std::string name, shape; // "64 x 256"
    uint64_t elements = 0;
    bool learns = false;
};

Parameter parameter_of(const hk_parameter& parameter);

class Model {
public:
    // Opens the folder, which is slow. Throws a Failure with Hekla's message.
    Model(hk_context context, const HeklaProgram& program, const std::string& path);
    ~Model();
    Model(const Model&) = delete;
    Model& operator=(const Model&) = delete;

    const std::string& path() const { return path_; }
    const std::string& architecture() const { return architecture_; }
    const std::string& head() const { return head_; }
    // Where combiners weigh adapters; empty if the folder has no trained combiner, or for routing_problem().
    const std::vector<RoutingSite>& routing() const { return routing_; }
    const std::string& routing_problem() const { return routing_problem_; }
    const std::vector<Parameter>& parameters() const { return parameters_; }
    uint64_t elements() const { return elements_; }
    int64_t vocabulary() const { return vocabulary_; } // 0: no tokenizer
    bool is_encoder_decoder() const { return encoder_decoder_; }

    std::vector<int32_t> encode(const std::string& text) const; // the text alone; throws a Failure
    // Returns what the model reads for a text: of an encoder-decoder, the input of its encoder. Throws a Failure.
    std::vector<int32_t> encode_source(const std::string& text) const;
    // Returns the first token of the input of an encoder-decoder's decoder. Throws a Failure.
    int32_t decoder_start() const;
    std::string decode(const std::vector<int32_t>& ids) const;
    // Returns a token in readable form: spaces as "·", line ends as "⏎"; its number without a tokenizer.
    const std::string& label(int32_t id) const;

private:
    std::string behind_a_letter(int32_t id) const;
    hk_model model_{};
    std::string path_, architecture_, head_;
    void find_routing(const HeklaProgram& program);
    std::vector<Parameter> parameters_;
    std::vector<RoutingSite> routing_;
    std::string routing_problem_;
    uint64_t elements_ = 0;
    int64_t vocabulary_ = 0;
    bool encoder_decoder_ = false;
    int32_t decoder_start_ = -1;
    mutable std::unordered_map<int32_t, std::string> labels_;
};

// 1234567 -> "1.2 M"
std::string short_number(double number);

} // namespace observatory
