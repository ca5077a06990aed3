// hekla generate: writes text with a model, through hekla.h as any host would.
#include "adapter_option.hpp"
#include "command.hpp"
#include "generation_options.hpp"
#include "output.hpp"
#include "plan_output.hpp"

#include "base/file.hpp"
#include "base/interrupts.hpp"
#include "base/json.hpp"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/printf.h>
#include <nlohmann/json.hpp>

namespace hekla::app {
namespace {

struct GenerateArguments {
    std::string model, prompt_file;
    std::vector<std::string> prompts, adapters;
    std::string adapter_rows;
    std::string system, messages_file, chat_template = "auto", date;
    bool chat = false;
    GenerationChoice choice;
    std::string plan, plan_for; // "ROWSxTOKENS"; a device to estimate for
    hk_plan_options slots{};    // of the plan
    std::string targets;
    bool reference = false, json = false;
    int32_t log_probabilities = -1; // most likely tokens to list with each token; -1: tokens are not listed
};

struct Texts {
    std::vector<std::string> rows;
    std::vector<nlohmann::json> tokens; // of each row, a list
    bool stream = false;                // one prompt: text is printed as it is generated
    bool printed = false;               // something was printed
};

nlohmann::json json_of(int32_t id, hk_string text, double log_probability) {
    return {{"id", id}, {"text", view(text)}, {"log_probability", log_probability}};
}

// hk_generate_options.token.
void HK_ABI take_token(void* user, uint64_t row, const hk_generated_token* token) {
    nlohmann::json one = json_of(token->id, token->text, token->log_probability);
    for (uint64_t i = 0; i < token->likeliest_count; ++i) {
        const hk_token_score& score = token->likeliest[i];
        one["likeliest"].push_back(json_of(score.id, score.text, score.log_probability));
    }
    static_cast<Texts*>(user)->tokens[static_cast<std::size_t>(row)].push_back(std::move(one));
}

// Plans instead of generating.
int run_plan(const Globals& globals, const GenerateArguments& a) {
    hk_plan_options options = a.slots;
    options.mode = HK_PLAN_GENERATE;
    char after = 0;
    long long rows = 0, length = 0;
    if (std::sscanf(a.plan.c_str(), "%lldx%lld%c", &rows, &length, &after) != 2 || rows < 1 || length < 1)
        return fail(fmt::format("--plan is '{}'; expected ROWSxTOKENS with the number of prompts and the longest row's "
                                "tokens, such as 16x256",
                                a.plan));
    const HostError error;
    HostContext context;
    if (const int code = context.create(globals, error, a.plan_for.empty() ? HK_DEVICE_ON_DEMAND : HK_DEVICE_NONE);
        code != kDone)
        return code;
    const std::vector<hk_string> adapters = host_strings(a.adapters);
    options.rows = rows;
    options.length = length;
    options.model = text(a.model);
    options.weights = a.choice.weights();
    options.adapters = adapters.data();
    options.adapter_count = adapters.size();
    options.adapters_by_row = a.adapter_rows.empty() ? 0 : 1;
    options.adapter_targets = text(a.targets);
    return print_plan(context.context, error, options, {a.plan_for, a.json});
}

// Returns the prompts: texts, or lists of messages as JSON.
Result<std::vector<std::string>> prompts_of(const GenerateArguments& a) {
    std::vector<std::string> prompts = a.prompts;
    if (!a.prompt_file.empty()) {
        HK_ASSIGN(std::string content, read_file(a.prompt_file));
        prompts.push_back(std::move(content));
    }
    if (!a.chat) return prompts;
    for (std::string& prompt : prompts) {
        nlohmann::ordered_json messages = nlohmann::ordered_json::array();
        if (!a.system.empty()) messages.push_back({{"role", "system"}, {"content", a.system}});
        messages.push_back({{"role", "user"}, {"content", prompt}});
        prompt = messages.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }
    if (!a.messages_file.empty()) {
        HK_ASSIGN(const std::string content, read_file(a.messages_file));
        HK_ASSIGN(const nlohmann::json checked, parse_json(content, a.messages_file)); // with the place of an error
        if (!checked.is_array())
            return invalid_argument(
                fmt::format("{}: is {}, expected a list of messages, such as [{{\"role\": \"user\", "
                            "\"content\": \"Hello\"}}]",
                            a.messages_file, checked.type_name()));
        prompts.push_back(content);
    }
    if (prompts.empty()) return invalid_argument("--chat needs something to answer: give --prompt or --messages");
    return prompts;
}

int run_generate(const Globals& globals, const GenerateArguments& a) {
    if (!a.plan.empty()) return run_plan(globals, a);
    Result<std::vector<std::string>> read = prompts_of(a);
    if (!read.ok()) return fail(read.status());
    const std::vector<std::string> prompts = read.take();
    std::vector<std::string> names; // of each prompt's adapter
    for (std::size_t at = 0; !a.adapter_rows.empty() && at != std::string::npos;) {
        const std::size_t comma = a.adapter_rows.find(',', at);
        names.push_back(a.adapter_rows.substr(at, comma - at));
        if (names.back() == "-") names.back().clear();
        at = comma == std::string::npos ? comma : comma + 1;
    }
    if (!names.empty() && names.size() != prompts.size())
        return fail(fmt::format("--adapter-rows has {} names; expected one for each of the {} prompts, \"-\" for none",
                                names.size(), prompts.size()));
    const HostError error;
    HostContext context;
    if (const int code = context.create(globals, error); code != kDone) return code;
    const std::vector<hk_string> strings = host_strings(prompts), adapters = host_strings(a.adapters),
                                 rows = host_strings(names);
    Texts texts;
    texts.rows.resize(std::max<std::size_t>(1, prompts.size()));
    texts.tokens.resize(texts.rows.size(), nlohmann::json::array());
    texts.stream = prompts.size() <= 1 && !a.json;
    hk::Views views;
    hk_generate_options options = a.choice.chosen(views);
    options.reference = a.reference ? 1 : 0;
    options.model = text(a.model);
    options.echo_prompt = a.json || a.chat ? 0 : 1;
    options.chat_template = text(a.chat ? std::string_view(a.chat_template) : "");
    options.chat_date = text(a.date);
    options.prompts = strings.data();
    options.prompt_count = strings.size();
    options.adapters = adapters.data();
    options.adapter_count = adapters.size();
    options.prompt_adapters = rows.empty() ? nullptr : rows.data();
    options.user = &texts;
    if (a.log_probabilities >= 0) options.token = take_token;
    options.likeliest_tokens = std::max(a.log_probabilities, 0);
    options.text = [](void* user, uint64_t row, hk_string piece) {
        auto& into = *static_cast<Texts*>(user);
        into.rows[static_cast<std::size_t>(row)].append(piece.data, static_cast<std::size_t>(piece.size));
        if (!into.stream) return;
        std::fwrite(piece.data, 1, static_cast<std::size_t>(piece.size), stdout);
        std::fflush(stdout);
        into.printed = true;
    };
    options.stop = [](void*) -> int32_t { return interrupted() || output_failed() ? 1 : 0; };
    watch_interrupts(kStoppedEarly);
    hk_generate_result result{};
    result.struct_size = sizeof result;
    if (hk_generate(context.context, &options, &result, error.error) != HK_OK) {
        if (texts.printed) std::fputs("\n", stdout);
        return error.report();
    }
    const double rate = result.seconds > 0.0 ? static_cast<double>(result.new_tokens) / result.seconds : 0.0;
    if (a.json) {
        nlohmann::json rows = nlohmann::json::array();
        for (std::size_t i = 0; i < texts.rows.size(); ++i) {
            rows.push_back({{a.chat ? "messages" : "prompt", a.chat               ? json_or_null(prompts[i])
                                                             : i < prompts.size() ? nlohmann::json(prompts[i])
                                                                                  : nlohmann::json("")},
                            {"text", texts.rows[i]}});
            if (a.log_probabilities >= 0) rows.back()["tokens"] = std::move(texts.tokens[i]);
        }
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
        std::fprintf(stderr, "the model's context is %lld tokens; longer text continues from the last %lld\n",
                     static_cast<long long>(result.context),
                     static_cast<long long>(std::max<int64_t>(1, result.context / 2)));
    fmt::fprintf(stderr, "%s%lld tokens in %.2f s: %.0f tokens/s\n", result.stopped != 0 ? "stopped after " : "",
                 static_cast<long long>(result.new_tokens), result.seconds, rate);
    return kDone;
}

} // namespace

void add_generate(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = app.add_subcommand("generate", "Write text with a model.");
    const auto a = std::make_shared<GenerateArguments>();
    parser
        ->add_option("model", a->model,
                     "folder of a run, a checkpoint or a Hugging Face model, or a file that `hekla export` wrote")
        ->required();
    parser->add_option("--prompt", a->prompts,
                       "text to continue, or the text that an encoder reads; several prompts are one batch");
    parser->add_option("--prompt-file", a->prompt_file, "file with one more prompt");
    CLI::Option* const chat = parser->add_flag(
        "--chat", a->chat,
        "each prompt is a message of a user, which the model's chat template writes; prints the assistant's answer");
    parser->add_option("--system", a->system, "message of the system before each prompt")->needs(chat);
    parser
        ->add_option("--messages", a->messages_file,
                     "file with a JSON list of messages to answer: objects with \"role\" and \"content\"")
        ->needs(chat);
    parser
        ->add_option("--chat-template", a->chat_template,
                     "chatml, llama2, llama3, zephyr, mistral, gemma, phi3, alpaca or a file; auto: the model's own")
        ->needs(chat)
        ->capture_default_str();
    parser
        ->add_option("--date", a->date,
                     "date that the chat template prints where it asks for one, as 2026-01-31; not given: today")
        ->needs(chat);
    add_generation_options(*parser, a->choice);
    parser->add_option("--beams", a->choice.options.beams, "beam search with N beams");
    parser->add_flag("--reference", a->reference, "compute with the float64 interpreter instead of the device (slow)");
    add_adapter_option(*parser, a->adapters);
    parser->add_option("--adapter-rows", a->adapter_rows,
                       "the name of each prompt's adapter, separated by commas; \"-\" for none");
    CLI::Option* const as_json =
        parser->add_flag("--json", a->json, "print the texts and the speed, or the plan, as JSON");
    parser
        ->add_option("--log-probabilities", a->log_probabilities,
                     "with --json: list the tokens, each with the natural logarithm of its probability, and with the N "
                     "most likely ones; in the model's own distribution, before all options of sampling")
        ->check(CLI::Range(0, 1000))
        ->needs(as_json);
    CLI::Option* const plan = parser->add_option("--plan", a->plan,
                                                 "ROWSxTOKENS, such as 16x256: print memory, time and the most "
                                                 "expensive operations of generating that many rows, "
                                                 "each with its prompt, then exit");
    parser->add_option("--plan-for", a->plan_for, "plan for a kind of device that need not be present")
        ->check(CLI::IsMember(kPlannedDevices))
        ->needs(plan);
    CLI::Option* const slots =
        parser
            ->add_option("--adapter-slots", a->slots.adapter_slots,
                         "plan with slots for LoRA adapters, as a session has them (hk_session_adapter_put)")
            ->check(CLI::Range(1, 65536))
            ->needs(plan);
    parser->add_option("--adapter-rank", a->slots.adapter_rank, "rank of the slots")
        ->check(CLI::Range(1, 65536))
        ->needs(slots);
    parser->add_option("--adapter-targets", a->targets, "ends of the names of modules with slots, separated by commas")
        ->needs(slots);
    parser->footer(
        "Example: hekla generate out/quickstart --prompt \"namespace\" --max-new-tokens 200 --temperature 0.8\n"
        "Example: hekla generate SmolLM2-135M-Instruct --chat --prompt \"What is a shader?\" --greedy\n"
        "Example: hekla generate out/gpt --adapter a=out/a --adapter b=out/b --combine \"arrow(a, b)\"\n"
        "Ctrl+C ends the text early; the exit status is 0.");
    verbs.push_back({parser, [&globals, a] { return run_generate(globals, *a); }});
}

} // namespace hekla::app
