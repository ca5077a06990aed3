// An evaluation task, with the keys of lm-evaluation-harness: how the rows of a data set become prompts, and how the
// answers of a language model are scored.
#pragma once

#include "data/examples.hpp"
#include "data/text_template.hpp"

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace hekla::harness {

enum class OutputType {
    multiple_choice,       // the choice with the largest likelihood after the prompt
    loglikelihood,         // the likelihood of the target after the prompt
    loglikelihood_rolling, // the likelihood of a whole text
    generate_until,        // the text that the model writes after the prompt
};
inline constexpr const char* kOutputTypes[] = {"multiple_choice", "loglikelihood", "loglikelihood_rolling",
                                               "generate_until"}; // in the order of OutputType
inline const char* output_type_name(OutputType type) { return kOutputTypes[static_cast<std::size_t>(type)]; }

// One step from the responses of a document to the answer that is scored.
struct Filter {
    enum class Function {
        regex,         // each response becomes a match of `pattern` in it
        take_first,    // the first response
        majority_vote, // the most frequent response; of several the first
    };
    Function function = Function::take_first;
    std::string pattern;
    int64_t group_select = 0;           // which match, from 0; negative: from the end
    std::string fallback = "[invalid]"; // for a response without that match
};

// Steps in order, and the name of their scores.
struct FilterPipeline {
    std::string name = "none";
    std::vector<Filter> steps;
};

struct MetricUse {
    std::string name;
    bool ignore_case = false, ignore_punctuation = false; // of exact_match
};

// A choice of answers, or where they come from.
struct Choices {
    std::vector<data::TextTemplate> texts; // one per choice
    std::string column;                    // otherwise the column that lists them
};

struct Task {
    std::string file; // for messages
    std::string name;
    OutputType output_type = OutputType::multiple_choice;
    std::string dataset, fewshot_dataset;      // fewshot_dataset "": demonstrations come from `dataset`
    std::optional<data::ExampleFormat> format; // of both; none: by the file's name
    data::TextTemplate description, text, target;
    data::TextTemplate gen_prefix; // begins the answer
    Choices choices;
    std::vector<std::string> target_values; // what the target is for each choice; empty: an index from 0, or the choice
    int64_t num_fewshot = 0;
    std::string fewshot_delimiter = "\n\n", target_delimiter = " ";
    bool first_n = false;                                    // demonstrations are the first ones, not drawn
    std::vector<std::map<std::string, std::string>> samples; // the only demonstrations; by column
    std::vector<std::string> until;                          // not empty for generate_until
    int64_t max_gen_toks = 256;
    bool do_sample = false;
    double temperature = 1.0, top_p = 1.0;
    int64_t top_k = 0;
    std::vector<FilterPipeline> filters; // at least one
    std::vector<MetricUse> metrics;      // at least one
    int64_t repeats = 1;
    std::string version = "0";
    nlohmann::ordered_json config; // the keys of the file, for results
};

} // namespace hekla::harness
