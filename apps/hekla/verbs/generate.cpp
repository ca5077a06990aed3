// hekla generate: as any host would, through hekla.h.
#include "command.hpp"

#include "base/file.hpp"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hekla::app {
namespace {

struct GenerateArguments {
    std::string model, prompt_file, dtype = "f32";
    std::vector<std::string> prompts;
    hk_generate_options options{};
    bool greedy = false, reference = false, json = false;
};

struct Texts {
    std::vector<std::string> rows;
    bool stream = false; // one prompt: text is printed as it comes
};

int run_generate(const Globals& globals, const GenerateArguments& a) {
    std::vector<std::string> prompts = a.prompts;
    if (!a.prompt_file.empty()) {
        Result<std::string> content = read_file(a.prompt_file);
        if (!content.ok()) return fail(content.status());
        prompts.push_back(content.take());
    }
    const HostError error;
    HostContext context;
    if (const int code = context.create(globals, error); code != kDone) return code;
    const std::vector<hk_string> strings = host_strings(prompts);
    Texts texts;
    texts.rows.resize(std::max<std::size_t>(1, prompts.size()));
    texts.stream = prompts.size() <= 1 && !a.json;
    hk_generate_options options = a.options;
    options.greedy = a.greedy ? 1 : 0;
    options.reference = a.reference ? 1 : 0;
    options.weights = a.dtype == "f16" ? 1 : a.dtype == "bf16" ? 2 : 0;
    options.model = text(a.model);
    options.echo_prompt = a.json ? 0 : 1;
    options.prompts = strings.data();
    options.prompt_count = strings.size();
    options.user = &texts;
    options.text = [](void* user, uint64_t row, hk_string piece) {
        auto& into = *static_cast<Texts*>(user);
        into.rows[static_cast<std::size_t>(row)].append(piece.data, static_cast<std::size_t>(piece.size));
        if (!into.stream) return;
        std::fwrite(piece.data, 1, static_cast<std::size_t>(piece.size), stdout);
        std::fflush(stdout);
    };
    options.stop = [](void*) -> int32_t { return interrupted() ? 1 : 0; };
    watch_interrupts();
    hk_generate_result result{};
    result.struct_size = sizeof result;
    if (hk_generate(context.context, &options, &result, error.error) != HK_OK) {
        if (texts.stream) std::fputs("\n", stdout);
        return error.report();
    }
    const double rate = result.seconds > 0.0 ? static_cast<double>(result.new_tokens) / result.seconds : 0.0;
    if (a.json) {
        nlohmann::json rows = nlohmann::json::array();
        for (std::size_t i = 0; i < texts.rows.size(); ++i)
            rows.push_back({{"prompt", i < prompts.size() ? prompts[i] : ""}, {"text", texts.rows[i]}});
        const nlohmann::json j{{"rows", rows},
                               {"new_tokens", result.new_tokens},
                               {"tokens_per_s", rate},
                               {"context", result.context},
                               {"stopped", result.stopped != 0}};
        std::printf("%s\n", j.dump(1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
        return kDone;
    }
    if (!texts.stream)
        for (std::size_t i = 0; i < texts.rows.size(); ++i) std::printf("--- %zu\n%s\n", i + 1, texts.rows[i].c_str());
    else
        std::printf("\n");
    if (result.context > 0)
        std::fprintf(stderr, "the model's context is %lld tokens: text beyond it goes on from the last %lld\n",
                     static_cast<long long>(result.context),
                     static_cast<long long>(std::max<int64_t>(1, result.context / 2)));
    std::fprintf(stderr, "%s%lld tokens in %.2f s: %.0f tokens/s\n", result.stopped != 0 ? "stopped after " : "",
                 static_cast<long long>(result.new_tokens), result.seconds, rate);
    return kDone;
}

} // namespace

void add_generate(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* parser =
        app.add_subcommand("generate", "Let a model write: a run's folder, a checkpoint, or a Hugging Face folder.");
    const auto a = std::make_shared<GenerateArguments>();
    hk_generate_defaults(&a->options);
    parser->add_option("model", a->model, "the folder of the run or model, or a file of `hekla export`")->required();
    parser->add_option("--prompt", a->prompts,
                       "text to go on from, or that an encoder reads (may be repeated: a batch)");
    parser->add_option("--prompt-file", a->prompt_file, "the same from a file");
    parser->add_option("--max-new-tokens", a->options.max_new_tokens, "how many tokens at most");
    parser->add_flag("--greedy", a->greedy, "the likeliest token each time");
    parser->add_option("--temperature", a->options.temperature, "above 1 more varied, below 1 more likely");
    parser->add_option("--top-k", a->options.top_k, "only the k likeliest tokens; 0: all");
    parser->add_option("--top-p", a->options.top_p, "only the likeliest tokens that make up this probability");
    parser->add_option("--repetition-penalty", a->options.repetition_penalty,
                       "above 1 makes what was there less likely");
    parser->add_option("--no-repeat-ngram-size", a->options.no_repeat_ngram_size, "no n-gram twice; 0: off");
    parser->add_option("--beams", a->options.beams, "beam search with so many beams");
    parser->add_option("--seed", a->options.seed, "of the sampling");
    parser->add_flag("--reference", a->reference, "the float64 interpreter instead of the device (slow)");
    parser->add_option("--dtype", a->dtype, "how the model's matrices are stored: half the memory in 16 bits")
        ->check(CLI::IsMember({"f32", "f16", "bf16"}))
        ->capture_default_str();
    parser->add_flag("--json", a->json, "the texts as JSON");
    parser->footer(
        "Example: hekla generate out/quickstart --prompt \"namespace\" --max-new-tokens 200 --temperature 0.8\n"
        "Ctrl+C ends it with the text there is and exit status 0.");
    verbs.push_back({parser, [&globals, a] { return run_generate(globals, *a); }});
}

} // namespace hekla::app
