#include "train/evaluation/text_evaluator.hpp"

#include "base/json.hpp"
#include "base/trimmed.hpp"
#include "batch/collate.hpp"
#include "batch/drawn_example.hpp"
#include "data/encoded.hpp"
#include "generate/decoder_program.hpp"
#include "hekla/plugin/example.h"
#include "hekla/plugin/objective.h"
#include "infer/texts/prompt_fields.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/composition/plugin_set.hpp"
#include "plugin/host/joint.hpp"
#include "program/parameter_store.hpp"
#include "program/runtime.hpp"
#include "score/translation.hpp"
#include "train/evaluation/gathered.hpp"
#include "train/run/split.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <set>

namespace hekla::train {
namespace {

using nlohmann::json;

constexpr std::size_t kShown = 5; // texts in a summary

const data::Field* find(std::span<const data::Field> fields, std::string_view name) {
    const auto found = std::ranges::find(fields, name, &data::Field::name);
    return found != fields.end() ? &*found : nullptr;
}

std::vector<int32_t> row_of(const data::Field& field, std::size_t row) {
    const std::size_t width = field.bytes.size() / 4 / static_cast<std::size_t>(field.shape[0]);
    std::vector<int32_t> values(width);
    std::memcpy(values.data(), field.bytes.data() + row * width * 4, width * 4);
    return values;
}

// Returns the ids of a row where the mask field is set.
std::vector<int32_t> ids_where(const data::Field& ids, const data::Field* mask, std::size_t row, int32_t none) {
    std::vector<int32_t> all = row_of(ids, row), kept;
    const std::vector<int32_t> counts = mask != nullptr ? row_of(*mask, row) : all;
    for (std::size_t i = 0; i < all.size(); ++i)
        if (counts[i] != none) kept.push_back(all[i]);
    return kept;
}

// Cuts a conversation off after the first token of the assistant's last answer that begins within `length` tokens, and
// returns that answer; empty if there is none. The objective reads all tokens but the last.
std::vector<int32_t> take_answer(data::EncodedColumn& messages, int64_t length) {
    std::vector<uint64_t>& parts = messages.parts; // every other one is the assistant's
    for (std::size_t part = parts.size() / 2 * 2; part-- > 0;) {
        const uint64_t begin = parts[part];
        const uint64_t end = part + 1 < parts.size() ? parts[part + 1] : messages.ids.size();
        if (part % 2 == 0 || begin == 0 || begin == end || begin > static_cast<uint64_t>(length)) continue;
        const auto at = messages.ids.begin() + static_cast<std::ptrdiff_t>(begin);
        std::vector<int32_t> answer(at, messages.ids.begin() + static_cast<std::ptrdiff_t>(end));
        messages.ids.erase(at + 1, messages.ids.end());
        parts.resize(part + 1);
        return answer;
    }
    return {};
}

std::string summary_of(const std::vector<WrittenText>& texts, const score::Bleu& bleu, const score::Chrf& chrf,
                       double exact) {
    std::string s = fmt::format("{}\n  {}\nchrF2 = {:.2f}\n  {}\nexact match = {:.1f}% of {} texts\n", bleu.text(),
                                bleu.signature, chrf.score, chrf.signature, 100.0 * exact, texts.size());
    for (std::size_t i = 0; i < std::min(kShown, texts.size()); ++i) {
        const WrittenText& one = texts[i * texts.size() / std::min(kShown, texts.size())];
        s += fmt::format("source:    {}\nreference: {}\noutput:    {}\n", one.source, one.reference, one.output);
    }
    s.pop_back();
    return s;
}

// Adds the texts that other ranks have written.
Status gather(exchange::Communicator& ranks, std::vector<WrittenText>& texts) {
    json own = json::array();
    for (const WrittenText& one : texts) own.push_back({one.example, one.source, one.reference, one.output});
    HK_ASSIGN(const json all, gathered(ranks, own));
    texts.clear();
    for (const json& one : all)
        texts.push_back(
            {one[0].get<uint64_t>(), one[1].get<std::string>(), one[2].get<std::string>(), one[3].get<std::string>()});
    return {};
}

} // namespace

Result<TextEvaluator::Kind> TextEvaluator::kind_of(const plugin::Composition& composition) {
    HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition.batch_fields(1, 32));
    const auto has = [&](std::string_view name) {
        return std::ranges::find(fields, name, &plugin::BatchField::name) != fields.end();
    };
    if (has("decoder_input_ids") && has("labels")) return Kind::from_source;
    if (composition.example_kind() != HK_EXAMPLE_ROW || !has("next_ids")) return Kind::nothing;
    HK_ASSIGN(const std::vector<plugin::ColumnNeed> needs, composition.columns());
    if (std::ranges::find(needs, HK_COLUMN_MESSAGES, &plugin::ColumnNeed::kind) != needs.end())
        return Kind::from_conversation;
    const bool writes = std::ranges::any_of(
        needs, [](const plugin::ColumnNeed& need) { return need.target && need.kind == HK_COLUMN_TOKENS; });
    return writes ? Kind::from_prompt : Kind::nothing;
}

Result<std::unique_ptr<TextEvaluator>>
TextEvaluator::create(program::Runtime& runtime, program::ParameterStore& store, const plugin::Composition& composition,
                      const text::Tokenizer& tokenizer, const generate::FolderSettings& settings, const json& arguments,
                      int64_t batch, std::vector<int64_t> lengths, uint64_t seed) {
    std::unique_ptr<TextEvaluator> e(new TextEvaluator());
    e->composition_ = &composition;
    e->tokenizer_ = &tokenizer;
    e->batch_ = batch;
    e->seed_ = seed;
    e->memory_ = store.host_memory();
    e->lengths_ = std::move(lengths);
    HK_ASSIGN(e->kind_, kind_of(composition));
    if (e->kind_ == Kind::nothing)
        return unsupported(
            "[generate]: this objective does not teach to write a text for an example: leave the section "
            "out, or set generate.examples = 0 and generate.examples_while_training = 0");
    HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition.batch_fields(1, e->lengths_.back()));
    e->both_sides_ = std::ranges::find(fields, "prefix_length", &plugin::BatchField::name) != fields.end();
    if (composition.example_kind() == HK_EXAMPLE_ROW) {
        HK_ASSIGN(const std::vector<plugin::ColumnNeed> needs, composition.columns());
        for (const plugin::ColumnNeed& need : needs) {
            std::string& place = need.target ? e->target_column_ : e->source_column_;
            if (place.empty() && need.kind == HK_COLUMN_TOKENS) place = need.name;
        }
    }
    json given = arguments;
    e->any_length_ = !given.contains("max_new_tokens");
    if (e->any_length_) given["max_new_tokens"] = e->lengths_.back();
    if (!given.contains("do_sample")) given["do_sample"] = false;
    Result<generate::Options> options = generate::options_from(settings.values, given, 0, settings.file);
    if (!options.ok()) return options.status().with_context("[generate]");
    e->options_ = options.take();
    if (e->options_.sequences > 1)
        return invalid_argument("[generate]: num_return_sequences is more than 1: one text "
                                "an example is scored");
    generate::end_as(e->options_, tokenizer, e->kind_ == Kind::from_source);
    e->options_.seed = seed;
    e->options_.slide_context = e->kind_ != Kind::from_source;
    HK_ASSIGN(e->decoder_, generate::make_program_decoder(runtime, store, composition));
    return e;
}

Status TextEvaluator::fit_beams(const generate::Request& request) {
    if (!any_length_ || options_.beams < 2 || kind_ == Kind::from_source) return {};
    std::size_t longest = 0;
    for (const std::vector<int32_t>& prompt : request.prompts) longest = std::max(longest, prompt.size());
    const auto prompt = static_cast<int64_t>(longest);
    generate::DecodeBatch whole;
    whole.length = prompt + lengths_.back() - 1; // the last token is never fed
    whole.sources = request.fields;
    HK_ASSIGN(const int64_t fits, decoder_->longest(whole));
    options_.max_new_tokens = std::max<int64_t>(1, std::min(lengths_.back(), fits - prompt + 1));
    return {};
}

Result<std::vector<std::string>> TextEvaluator::write(std::span<const batch::DrawnExample> examples,
                                                      std::span<const data::Field> fields) {
    generate::Request request;
    request.both_sides = both_sides_;
    if (kind_ == Kind::from_source) { // padded as in training
        Result<infer::SourceRows> sources = infer::source_rows(fields);
        if (!sources.ok()) return sources.status().with_context("[generate]");
        request.prompts = std::move(sources->ids);
        request.fields = std::move(sources->fields);
    } else {
        const data::Field& ids = *find(fields, "input_ids");
        const data::Field* mask = find(fields, "attention_mask");
        for (std::size_t row = 0; row < static_cast<std::size_t>(batch_); ++row)
            request.prompts.push_back(ids_where(ids, mask, std::min(row, examples.size() - 1), 0));
    }
    if (const data::Field* rows = find(fields, plugin::kAdapterRows))
        request.fields[plugin::kAdapterRows] = batch::tensor_of(*rows);
    HK_TRY(fit_beams(request));
    HK_ASSIGN(const generate::Output output, generate::generate(*decoder_, request, options_));
    std::vector<std::string> texts;
    for (std::size_t row = 0; row < examples.size(); ++row) {
        const std::vector<int32_t>& all = output.rows[row].ids;
        const std::span<const int32_t> made = std::span(all).last(output.rows[row].made);
        texts.push_back(tokenizer_->decode(made, true));
    }
    return texts;
}

Status TextEvaluator::run_batch(const Split& split, const std::vector<batch::RowLength>& rows,
                                std::vector<WrittenText>& texts) {
    std::vector<batch::DrawnExample> examples;
    std::vector<uint64_t> numbers;
    std::vector<std::vector<int32_t>> answers; // of conversations
    for (const batch::RowLength& row : rows) {
        batch::DrawnExample drawn = split.at(row.row);
        std::vector<data::EncodedColumn>& columns = drawn.example.columns;
        if (kind_ == Kind::from_conversation) {
            const auto messages = std::ranges::find(columns, HK_COLUMN_MESSAGES, &data::EncodedColumn::kind);
            std::vector<int32_t> answer =
                messages != columns.end() ? take_answer(*messages, rows.front().length) : std::vector<int32_t>();
            if (answer.empty()) continue;
            answers.push_back(std::move(answer));
        } else { // the target is not part of the input
            std::erase_if(columns, [&](const data::EncodedColumn& column) { return column.name == target_column_; });
        }
        examples.push_back(std::move(drawn));
        numbers.push_back(row.row);
    }
    if (examples.empty()) return {};
    std::vector<data::Field> fields;
    HK_TRY(split.make_fields(*composition_, examples, seed_, batch_, rows.front().length, fields, memory_, step_));
    HK_ASSIGN(std::vector<std::string> outputs, write(examples, fields));
    for (std::size_t row = 0; row < outputs.size(); ++row) {
        WrittenText one;
        one.example = numbers[row];
        one.output = std::move(outputs[row]);
        if (!answers.empty()) {
            one.source = tokenizer_->decode(
                ids_where(*find(fields, "input_ids"), find(fields, "attention_mask"), row, 0), false);
            one.reference = tokenizer_->decode(answers[row], true);
        } else if (!target_column_.empty()) {
            one.source = split.text(one.example, source_column_);
            one.reference = split.text(one.example, target_column_);
        } else {
            one.source = tokenizer_->decode(
                ids_where(*find(fields, "input_ids"), find(fields, "attention_mask"), row, 0), false);
            one.reference = tokenizer_->decode(ids_where(*find(fields, "labels"), nullptr, row, -100), true);
        }
        texts.push_back(std::move(one));
    }
    return {};
}

Result<WrittenTexts> TextEvaluator::run(const Split& split, uint64_t limit, exchange::Communicator* ranks) {
    const auto batches = batch::batches_by_length(split.spread(*composition_, lengths_, limit), batch_);
    const bool several = ranks != nullptr && ranks->size() > 1;
    const std::size_t first = several ? static_cast<std::size_t>(ranks->rank()) : 0;
    const std::size_t every = several ? static_cast<std::size_t>(ranks->size()) : 1;
    WrittenTexts result;
    for (std::size_t at = first; at < batches.size(); at += every) HK_TRY(run_batch(split, batches[at], result.texts));
    if (several) HK_TRY(gather(*ranks, result.texts));
    if (several && ranks->rank() != 0) return WrittenTexts();
    if (result.texts.empty())
        return invalid_argument(fmt::format(
            "[generate]: no conversation has an answer of the assistant that begins within train.context_length = {}: "
            "raise it, or set generate.examples = 0 and generate.examples_while_training = 0",
            lengths_.back()));
    std::ranges::stable_sort(result.texts, {}, &WrittenText::example);
    std::vector<std::string> outputs;
    std::vector<std::vector<std::string>> references(1);
    std::size_t same = 0;
    for (const WrittenText& one : result.texts) {
        outputs.push_back(one.output);
        references[0].push_back(one.reference);
        same += trimmed(one.output, kLineBlanks) == trimmed(one.reference, kLineBlanks) ? 1 : 0;
    }
    HK_ASSIGN(const score::Bleu bleu, score::bleu(outputs, references));
    HK_ASSIGN(const score::Chrf chrf, score::chrf(outputs, references));
    const double exact = static_cast<double>(same) / static_cast<double>(outputs.size());
    result.scores = {{"bleu", bleu.score}, {"chrf", chrf.score}, {"exact_match", exact}};
    result.summary = summary_of(result.texts, bleu, chrf, exact);
    return result;
}

} // namespace hekla::train
