// How combiners weigh adapters over the examples of an evaluation: the mean at every site, and some rows by token.
#pragma once

#include "data/batcher.hpp"
#include "plugin/composition/compose.hpp"
#include "program/program.hpp"
#include "text/tokenizer.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace hekla::train {

class RoutingReport {
public:
    RoutingReport() = default;
    // Finds the sites, in the order of the graph, for a combination of the adapters with these names. fields: of a
    // batch of any size. Errors: those of describing the model.
    static Result<RoutingReport> find(const plugin::Composition& composition,
                                      std::span<const plugin::BatchField> fields, const std::string& combination,
                                      std::span<const std::string> adapters);
    // The outputs that add() reads; empty if nothing is routed.
    std::vector<std::string> ports() const;
    // Adds the first `rows` rows of a batch that the program has computed. Padding does not count.
    Status add(program::Program& program, std::span<const data::Field> fields, std::size_t rows);
    // Returns {"sites": [{"site": text, "of": texts, "decoder": boolean, "mean": numbers}], "rows": [{"tokens": texts,
    // "decoder_tokens": texts, "weights": numbers [site][token][branch]}]}, of some rows; null without examples. A
    // weight of whole rows has one token.
    nlohmann::ordered_json json(const text::Tokenizer& tokenizer) const;

private:
    struct Site {
        std::string port, name;
        std::vector<std::string> of; // what is weighed: adapters, or combinations of them
        bool decoder = false;
        std::vector<double> sum = {}; // by branch
        double tokens = 0.0;
    };
    struct Row {
        std::vector<int32_t> tokens, decoder_tokens;
        std::map<std::string, std::vector<std::vector<double>>> weights; // by site: [T][E]
    };
    std::vector<Site> sites_;
    std::vector<Row> rows_;
};

} // namespace hekla::train
