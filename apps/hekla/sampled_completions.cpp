#include "sampled_completions.hpp"

#include "generate/decoder_program.hpp"
#include "generate/generator.hpp"
#include "plugin/composition/compose.hpp"
#include "text/text_encoder.hpp"
#include "training_progress.hpp"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::app {
namespace {

constexpr std::size_t kTextsAtOnce = 64;
constexpr const char* kPrompt = "prompt";

// The positions that config.json names; 0: it names none.
int64_t positions_of(const nlohmann::json& config) {
    for (const char* key : {"n_positions", "max_position_embeddings", "n_ctx"})
        if (const auto value = config.find(key); value != config.end() && value->is_number_integer())
            return value->get<int64_t>();
    return 0;
}

} // namespace

ShownProgress::ShownProgress() : terminal_(Progress::is_terminal()) {}

void ShownProgress::show(const std::string& line) {
    if (!terminal_) return;
    std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
    open_ = true;
}

void ShownProgress::end() {
    if (open_) std::fprintf(stderr, "\r\x1b[K");
    open_ = false;
}

Result<Prompts> read_prompts(const std::vector<std::string>& files, const std::vector<std::string>& columns,
                             const text::TextEncoder& encoder, std::span<const int32_t> begin,
                             const std::string& prefix, uint64_t limit, const StopPoll& stop) {
    data::TaskTableOptions options;
    options.inputs = files;
    options.reading.stop = stop;
    options.columns.push_back({kPrompt, HK_COLUMN_TOKENS, false, false, "", prefix, {}});
    for (const std::string& name : columns)
        if (name != kPrompt) options.columns.push_back({name, HK_COLUMN_TOKENS, false, true, "", "", {}});
    HK_ASSIGN(data::TaskTable table, data::TaskTable::read(options));
    if (table.has_messages())
        return unsupported(fmt::format("{}: has messages; prompts are texts", fmt::join(files, ", ")));
    HK_ASSIGN(const data::TaskTable::Encoded encoded, table.encode(encoder, {}));
    Prompts prompts{std::move(table), {}, {}};
    const uint64_t all = encoded.examples->size(), wanted = limit > 0 ? std::min(limit, all) : all;
    for (uint64_t i = 0; i < wanted; ++i) {
        HK_TRY(stop.check("reading prompts"));
        const uint64_t at = i * all / wanted, row = encoded.rows[at];
        const data::EncodedExample example = (*encoded.examples)[at];
        const auto column = std::ranges::find(example.columns, kPrompt, &data::EncodedColumn::name);
        if (column == example.columns.end() || column->ids.empty())
            return invalid_argument(fmt::format("{}: the prompt is empty, and a model continues a text of at least one "
                                                "token: remove the row",
                                                prompts.table.place(row)));
        prompts.rows.push_back(row);
        prompts.ids.push_back(column->ids);
        text::begin_prompt(begin, prompts.ids.back());
        prompts.longest = std::max(prompts.longest, prompts.ids.back().size());
    }
    return prompts;
}

Result<std::vector<SampledText>> sample_completions(const infer::Model& model, const Prompts& prompts,
                                                    const SamplingOptions& o) {
    const int64_t positions = positions_of(model.composition->config());
    for (std::size_t i = 0; positions > 0 && i < prompts.size(); ++i)
        if (static_cast<int64_t>(prompts.ids[i].size()) + o.length > positions)
            return invalid_argument(
                fmt::format("{}: a prompt of {} tokens and a completion of {} exceed the model's {} "
                            "positions: shorten one of them",
                            prompts.table.place(prompts.rows[i]), prompts.ids[i].size(), o.length, positions));
    generate::Options options;
    options.max_new_tokens = o.length;
    options.sample = true;
    options.temperature = o.temperature;
    options.seed = o.seed;
    if (o.ends) {
        const std::optional<int32_t> end = model.tokenizer->special(text::TokenRole::eos);
        if (!end)
            return invalid_argument("the tokenizer has no end token, at which completions end: use --stop-token none "
                                    "for completions that all have the same length");
        options.eos = {*end};
    }
    HK_ASSIGN(const std::unique_ptr<generate::Decoder> decoder,
              generate::make_program_decoder(*model.runtime, *model.store, *model.composition, {.equal_rows = true}));
    const std::size_t per_prompt = static_cast<std::size_t>(o.per_prompt), all = prompts.size() * per_prompt;
    std::vector<SampledText> texts;
    for (std::size_t begin = 0; begin < all; begin += kTextsAtOnce) {
        generate::Request request;
        // Of the same shape in every batch, so that the same programs compute them.
        for (std::size_t i = 0; i < kTextsAtOnce; ++i)
            request.prompts.push_back(prompts.ids[std::min(begin + i, all - 1) / per_prompt]);
        request.prompt_length = static_cast<int64_t>(prompts.longest);
        request.length = request.prompt_length + o.length - 1;
        options.first_row = begin;
        HK_ASSIGN(const generate::Output output, generate::generate(*decoder, request, options, {}, o.stop));
        if (output.stopped) return Status(Code::cancelled, "stopped while the model wrote completions");
        for (std::size_t i = 0; i < kTextsAtOnce && texts.size() < all; ++i) {
            const auto& [ids, made, score] = output.rows[i];
            SampledText& text = texts.emplace_back();
            text.ids.assign(ids.end() - static_cast<std::ptrdiff_t>(made), ids.end());
            text.text = model.tokenizer->decode(text.ids, true);
            text.ended = !text.ids.empty() && std::ranges::find(options.eos, text.ids.back()) != options.eos.end();
        }
        if (o.progress) o.progress(texts.size(), all);
    }
    return texts;
}

Result<reward::Scores> score_completions(const reward::RewardSet& rewards, const Prompts& prompts,
                                         std::span<const SampledText> texts, int64_t per_prompt) {
    const std::vector<std::string> columns = rewards.columns();
    std::vector<reward::TextToScore> given;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        const uint64_t row = prompts.rows[i / static_cast<std::size_t>(per_prompt)];
        reward::TextToScore& text = given.emplace_back();
        text.prompt = prompts.table.text(row, kPrompt);
        text.completion = texts[i].text;
        for (const std::string& name : columns) text.columns[name] = prompts.table.text(row, name);
    }
    return rewards.score(given);
}

} // namespace hekla::app
