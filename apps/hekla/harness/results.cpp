#include "harness/results.hpp"

#include "base/sha256.hpp"

#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace hekla::harness {
namespace {

using nlohmann::ordered_json;

// A version is a number where it looks like one.
ordered_json version_of(const Task& task) {
    double value = 0.0;
    const char* const end = task.version.data() + task.version.size();
    const auto [at, problem] = std::from_chars(task.version.data(), end, value);
    if (problem == std::errc() && at == end && std::isfinite(value)) {
        if (value == std::floor(value) && task.version.find('.') == std::string::npos)
            return static_cast<int64_t>(value);
        return value;
    }
    return task.version;
}

// JSON has no infinity: the likelihood of an impossible text.
ordered_json number(double value) {
    return std::isfinite(value) ? ordered_json(value) : ordered_json(fmt::format("{}", value));
}

std::string line_of(const ordered_json& value) {
    return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

} // namespace

ordered_json results_json(const ResultsOf& of, std::span<const TaskResult> results) {
    ordered_json all = {{"results", ordered_json::object()},  {"group_subtasks", ordered_json::object()},
                        {"configs", ordered_json::object()},  {"versions", ordered_json::object()},
                        {"n-shot", ordered_json::object()},   {"higher_is_better", ordered_json::object()},
                        {"n-samples", ordered_json::object()}};
    for (const TaskResult& result : results) {
        const std::string& name = result.task.name;
        ordered_json& scores = all["results"][name];
        scores["alias"] = name;
        for (const Score& score : result.scores) {
            scores[fmt::format("{},{}", score.metric, score.filter)] = number(score.value);
            scores[fmt::format("{}_stderr,{}", score.metric, score.filter)] =
                score.error ? number(*score.error) : ordered_json("N/A");
            all["higher_is_better"][name][score.metric] = score.higher_is_better;
        }
        scores["truncated_prompts"] = result.cut;
        if (of.options.layout.chat != nullptr) scores["prompts_without_system"] = result.without_system;
        scores["joined_tokens"] = result.joined;
        all["group_subtasks"][name] = ordered_json::array();
        ordered_json config = result.task.config;
        config["num_fewshot"] = result.num_fewshot;
        all["configs"][name] = std::move(config);
        all["versions"][name] = version_of(result.task);
        all["n-shot"][name] = result.num_fewshot;
        all["n-samples"][name] = {{"original", result.documents}, {"effective", result.answers.size()}};
    }
    all["config"] = {{"model", "hekla"},
                     {"model_args", of.model},
                     {"limit", of.options.limit > 0 ? ordered_json(of.options.limit) : ordered_json()},
                     {"num_fewshot", of.options.num_fewshot ? ordered_json(*of.options.num_fewshot) : ordered_json()},
                     {"random_seed", of.options.seed},
                     {"fewshot_seed", of.options.seed}};
    all["model_source"] = "hekla";
    all["model_name"] = of.model;
    // Null, or a text and its hash.
    const auto tell = [&](const std::string& key, const std::string* text) {
        all[key] = text != nullptr ? ordered_json(*text) : ordered_json();
        all[key + "_sha"] = text != nullptr ? ordered_json(sha256_hex(*text)) : ordered_json();
    };
    const PromptLayout& layout = of.options.layout;
    tell("system_instruction", layout.system_instruction.empty() ? nullptr : &layout.system_instruction);
    all["fewshot_as_multiturn"] = layout.chat != nullptr && layout.fewshot_as_multiturn;
    tell("chat_template", layout.chat != nullptr ? &layout.chat->text() : nullptr);
    all["total_evaluation_time_seconds"] = fmt::format("{:.3f}", of.seconds);
    return all;
}

std::string samples_lines(const TaskResult& result) {
    std::string lines;
    const Task& task = result.task;
    for (const FilterPipeline& pipeline : task.filters)
        for (const Answer& answer : result.answers) {
            const Document& document = answer.document;
            ordered_json line{{"doc_id", document.id}, {"doc", document.columns}};
            ordered_json arguments = ordered_json::object();
            ordered_json responses = ordered_json::array();
            ordered_json used = ordered_json::array();
            if (task.output_type == OutputType::multiple_choice)
                line["target"] = document.gold;
            else
                line["target"] = document.target;
            for (const ScoredText& one : answer.scored) {
                ordered_json& of_one = arguments[fmt::format("gen_args_{}", arguments.size())];
                if (task.output_type == OutputType::loglikelihood_rolling) {
                    of_one["arg_0"] = one.text;
                    responses.push_back({number(one.log_likelihood)});
                    used.push_back(number(one.log_likelihood));
                    continue;
                }
                of_one["arg_0"] = answer.context;
                of_one["arg_1"] = one.text;
                const ordered_json pair{number(one.log_likelihood), one.greedy};
                responses.push_back(ordered_json::array({pair}));
                used.push_back(pair);
            }
            if (task.output_type == OutputType::generate_until) {
                arguments["gen_args_0"] = {
                    {"arg_0", answer.context},
                    {"arg_1",
                     {{"until", task.until}, {"max_gen_toks", task.max_gen_toks}, {"do_sample", task.do_sample}}}};
                responses.push_back(answer.responses);
                used.push_back(answer.filtered.at(pipeline.name));
            }
            line["arguments"] = std::move(arguments);
            line["resps"] = std::move(responses);
            line["filtered_resps"] = std::move(used);
            line["filter"] = pipeline.name;
            line["metrics"] = ordered_json::array();
            for (const MetricUse& use : task.metrics) line["metrics"].push_back(use.name);
            line["doc_hash"] = sha256_hex(line_of(document.columns));
            line["prompt_hash"] = sha256_hex(answer.context);
            line["target_hash"] = sha256_hex(document.target);
            if (const auto found = answer.metrics.find(pipeline.name); found != answer.metrics.end())
                for (const auto& [name, value] : found->second) line[name] = number(value);
            lines += line_of(line) + "\n";
        }
    return lines;
}

} // namespace hekla::harness
