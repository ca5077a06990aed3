#include "generate/generator.hpp"

#include "base/stopwatch.hpp"
#include "generate/beam.hpp"
#include "generate/decoder_graph.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <utility>

namespace hekla::generate {
namespace {

using Ids = std::vector<int32_t>;
using Clock = std::chrono::steady_clock;

std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

// The rows of a decoder: the fill level of each cache, and the row whose cache holds each position.
class Rows {
public:
    // prompt_chunk: DecodeBatch::prompt_chunk.
    Rows(Decoder& decoder, std::size_t rows, int64_t prompt_chunk)
        : decoder_(decoder), capacity_(at(decoder.capacity())), prompt_chunk_(at(prompt_chunk)), length_(rows),
          start_(rows), count_(rows), parent_(rows), cache_row_(rows * capacity_, decoder.host_memory()) {
        for (std::size_t row = 0; row < rows; ++row) {
            std::fill_n(cache_row_.begin() + static_cast<std::ptrdiff_t>(row * capacity_), capacity_,
                        static_cast<int32_t>(row));
            parent_[row] = static_cast<int32_t>(row);
        }
    }

    // Feeds whole prompts (empty: the row takes no part); logits [rows, vocabulary] of the last token of each. False
    // where `stop` ended it between two chunks.
    // assumed: Request::prompt_length.
    Result<bool> feed_prompts(const std::vector<Ids>& prompts, Logits& logits, const StopPoll& stop,
                              std::size_t assumed = 0) {
        const std::size_t vocabulary = at(decoder_.vocabulary());
        logits.resize(prompts.size() * vocabulary);
        Logits some(decoder_.host_memory());
        for (;;) {
            std::size_t left = 0;
            for (std::size_t row = 0; row < prompts.size(); ++row)
                if (prompts[row].size() > length_[row]) left = std::max(left, prompts[row].size() - length_[row]);
            if (left == 0) return true;
            left = std::max(left, assumed);
            if (stop.stopped()) return false;
            StepKind kind = prompt_chunk_ > 0 ? StepKind::both_sides : StepKind::any;
            std::size_t chunk = prompt_chunk_ > 0 ? prompt_chunk_ : chunk_for(left);
            if (const std::size_t first = at(decoder_.first_chunk(static_cast<int64_t>(left)));
                first > 0 && kind == StepKind::any && all_begin(prompts)) {
                kind = StepKind::first;
                chunk = first;
            }
            tokens_.assign(prompts.size() * chunk, 0);
            for (std::size_t row = 0; row < prompts.size(); ++row) {
                count_[row] = start_[row] = 0;
                if (prompts[row].size() <= length_[row]) continue;
                const std::size_t end = std::min(prompts[row].size(), length_[row] + chunk);
                // A part that does not fill the chunk begins earlier, over tokens that were already fed: their keys and
                // values are the same again, and no position exceeds the length that was requested from the model.
                const std::size_t begin = end - std::min(end, chunk);
                start_[row] = static_cast<int32_t>(begin);
                count_[row] = static_cast<int32_t>(end - begin);
                std::copy_n(prompts[row].begin() + start_[row], count_[row],
                            tokens_.begin() + static_cast<std::ptrdiff_t>(row * chunk));
                length_[row] = end;
            }
            assumed -= std::min(assumed, chunk);
            HK_TRY(decode(chunk, kind, some));
            for (std::size_t row = 0; row < prompts.size(); ++row)
                if (count_[row] > 0 && length_[row] == prompts[row].size())
                    std::copy_n(some.begin() + static_cast<std::ptrdiff_t>(row * vocabulary), vocabulary,
                                logits.begin() + static_cast<std::ptrdiff_t>(row * vocabulary));
        }
    }

    // Feeds one token for each row, except rows that are `over`.
    Status feed(std::span<const int32_t> tokens, const std::vector<char>& over, Logits& logits) {
        begin_step(tokens, over);
        return decode(1, StepKind::any, logits);
    }

    // Feeds tokens like feed(), and then `steps` - 1 times the token that the decoder has chosen for each row; chosen
    // [rows, steps]: with the last ones, which are not fed. fed() counts the tokens of a row.
    Status choose(std::span<const int32_t> tokens, const std::vector<char>& over, const Options& options,
                  OwnSteps steps, std::span<int32_t> chosen) {
        begin_step(tokens, over);
        for (std::size_t row = 0; row < length_.size(); ++row)
            if (count_[row] > 0)
                std::fill_n(cache_row_.begin() + static_cast<std::ptrdiff_t>(row * capacity_ + at(start_[row])),
                            steps.steps, static_cast<int32_t>(row));
        steps.first = step_of(1, StepKind::any);
        return decoder_.decode_and_choose(steps, options, chosen);
    }
    // A row has taken `more` tokens after choose(), in addition to the first.
    void fed(std::size_t row, std::size_t more) { length_[row] += more; }

    std::size_t length(std::size_t row) const { return length_[row]; }

    // Empties the row's cache and makes it its own.
    void forget(std::size_t row) {
        length_[row] = 0;
        std::fill_n(cache_row_.begin() + static_cast<std::ptrdiff_t>(row * capacity_), capacity_,
                    static_cast<int32_t>(row));
    }

    // Makes row r continue row parents[r]: it attends to the positions of that row, and its new positions are its own.
    void follow(std::span<const int32_t> parents) {
        const ResourceVector<int32_t> old = cache_row_;
        const std::vector<std::size_t> lengths = length_;
        for (std::size_t row = 0; row < length_.size(); ++row) {
            const auto from = static_cast<std::size_t>(parents[row]);
            length_[row] = lengths[from];
            std::copy_n(old.begin() + static_cast<std::ptrdiff_t>(from * capacity_), length_[row],
                        cache_row_.begin() + static_cast<std::ptrdiff_t>(row * capacity_));
            parent_[row] = parents[row];
        }
        moved_ = true;
    }

private:
    // Returns whether all rows with a prompt left are empty.
    bool all_begin(const std::vector<Ids>& prompts) const {
        for (std::size_t row = 0; row < prompts.size(); ++row)
            if (length_[row] > 0 && prompts[row].size() > length_[row]) return false;
        return true;
    }

    std::size_t chunk_for(std::size_t left) const {
        std::size_t best = 1;
        for (const int64_t chunk : decoder_.chunks())
            if (at(chunk) <= 4 * left) best = at(chunk);
        return best;
    }

    void begin_step(std::span<const int32_t> tokens, const std::vector<char>& over) {
        tokens_.assign(tokens.begin(), tokens.end());
        for (std::size_t row = 0; row < length_.size(); ++row) {
            const bool takes_part = over.empty() || !over[row];
            start_[row] = takes_part ? static_cast<int32_t>(length_[row]) : 0;
            count_[row] = takes_part ? 1 : 0;
            length_[row] += takes_part ? 1 : 0;
        }
    }

    Step step_of(std::size_t chunk, StepKind kind) {
        // Positions that this row writes from now on are its own, whichever row it continued.
        for (std::size_t row = 0; row < length_.size(); ++row)
            for (int32_t i = 0; i < count_[row]; ++i)
                cache_row_[row * capacity_ + static_cast<std::size_t>(start_[row] + i)] = static_cast<int32_t>(row);
        Step step;
        step.chunk = static_cast<int64_t>(chunk);
        step.tokens = tokens_;
        step.start = start_;
        step.count = count_;
        step.cache_row = cache_row_;
        step.kind = kind;
        if (moved_) step.parent = parent_;
        moved_ = false;
        return step;
    }

    Status decode(std::size_t chunk, StepKind kind, Logits& logits) {
        return decoder_.decode(step_of(chunk, kind), logits);
    }

    Decoder& decoder_;
    std::size_t capacity_, prompt_chunk_;
    std::vector<std::size_t> length_; // tokens in each row's cache
    Ids tokens_, start_, count_, parent_;
    ResourceVector<int32_t> cache_row_;
    bool moved_ = false;
};

// How many tokens the device chooses before the host reads them: few enough that texts appear and stop without a delay
// that is felt, and as many as the decoder allows. Results do not depend on it.
class StepsAtOnce {
public:
    explicit StepsAtOnce(int64_t most) : most_(most), next_(std::min<int64_t>(most, 1)) {}
    int64_t next() const { return next_; }
    void took(int64_t steps, double seconds) {
        constexpr double kSeconds = 0.015;
        const double fits = kSeconds * static_cast<double>(steps) / std::max(seconds, 1e-9);
        next_ = std::clamp(static_cast<int64_t>(std::min(fits, 1e6)), int64_t{1}, std::min(most_, 2 * next_));
    }

private:
    int64_t most_, next_;
};

// Returns the encoder's fields: ids padded to the same length, and a mask if they were padded.
Result<Fields> sources_of(const Request& request, int32_t pad) {
    Fields fields = request.fields;
    const std::size_t rows = request.prompts.size();
    std::size_t longest = 0;
    for (const Ids& prompt : request.prompts) longest = std::max(longest, prompt.size());
    const graph::Shape shape{static_cast<int64_t>(rows), static_cast<int64_t>(longest)};
    graph::Tensor ids{graph::Kind::int32, shape, std::vector<double>(rows * longest, pad)}, mask = ids;
    std::ranges::fill(mask.data, 0.0);
    bool ragged = false;
    for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t i = 0; i < longest; ++i) {
            const bool real = i < request.prompts[row].size();
            ragged = ragged || !real;
            mask.data[row * longest + i] = real ? 1.0 : 0.0;
            if (real) ids.data[row * longest + i] = request.prompts[row][i];
        }
    fields["input_ids"] = std::move(ids);
    if (ragged) fields.emplace("attention_mask", std::move(mask));
    for (const auto& [name, tensor] : fields)
        if (tensor.shape.rank() == 0 || tensor.shape[0] != static_cast<int64_t>(rows))
            return invalid_argument(fmt::format("the field '{}' is {}, expected {} rows as there are prompts", name,
                                                tensor.shape.text(), rows));
    return fields;
}

class Generation {
public:
    Generation(Decoder& decoder, const Request& request, const Options& options, const OnToken& on_token,
               const StopPoll& stop)
        : decoder_(decoder), request_(request), options_(options), on_token_(on_token), stop_(stop) {}

    Result<Output> run() {
        HK_TRY(check(options_));
        if (request_.prompts.empty()) return invalid_argument("no prompts were given: give at least one");
        for (std::size_t row = 0; row < request_.prompts.size(); ++row)
            if (request_.prompts[row].empty())
                return invalid_argument(
                    fmt::format("prompt {} is empty; it needs at least one token to continue", row));
        const bool beams = options_.beams > 1;
        copies_ = at(beams ? options_.beams : options_.sequences);
        DecodeBatch session;
        session.rows = static_cast<int64_t>(request_.prompts.size() * copies_);
        if (decoder_.encoder_decoder()) {
            if (!options_.decoder_start)
                return invalid_argument("an encoder-decoder needs decoder_start_token_id to begin with");
            starts_.assign(request_.prompts.size(), Ids{*options_.decoder_start});
            HK_ASSIGN(session.sources, sources_of(request_, options_.pad.value_or(0)));
            session.repeats = static_cast<int64_t>(copies_);
        } else {
            for (const auto& [name, tensor] : request_.fields)
                if (tensor.shape != graph::Shape{static_cast<int64_t>(request_.prompts.size())})
                    return invalid_argument(
                        fmt::format("the field '{}' is {}, expected [{}], a number for each prompt: this model has no "
                                    "encoder to read other fields",
                                    name, tensor.shape.text(), request_.prompts.size()));
            starts_ = request_.prompts;
            session.sources = request_.fields;
            find_invocations();
            session.sources.merge(adapter_starts()); // fit_context() needs the fields
            if (!session.sources.empty()) session.repeats = static_cast<int64_t>(copies_);
        }
        std::size_t longest = 0;
        for (const Ids& ids : starts_) longest = std::max(longest, ids.size());
        // The last token is never fed.
        session.length = std::max(request_.length, static_cast<int64_t>(longest) + options_.max_new_tokens - 1);
        HK_TRY(fit_context(session));
        for (std::size_t i = 0; i < starts_.size() && context_ > 0; ++i)
            if (starts_[i].size() > context_) drop_tokens(i, starts_[i].size() - last_half(starts_[i]).size());
        for (auto& [name, tensor] : adapter_starts()) session.sources[name] = tensor;
        if (request_.both_sides && !decoder_.encoder_decoder()) HK_TRY(make_room_for_prompts(session, longest));
        Clock::time_point start = Clock::now();
        if (const Status status = decoder_.begin(session); !status.ok()) return why_not_begun(status, session);
        HK_TRY(check_ids());
        if (request_.begun) HK_TRY(request_.begun());
        Rows rows(decoder_, starts_.size() * copies_, session.prompt_chunk);
        Logits logits(decoder_.host_memory());
        HK_ASSIGN(const bool fed, rows.feed_prompts(first_copies(), logits, stop_, at(request_.prompt_length)));
        if (!fed) return stopped_before_the_first();
        share_logits(rows, logits);
        for (const Ids& ids : starts_) output_.statistics.prompt_tokens += static_cast<int64_t>(ids.size());
        output_.statistics.prompt_seconds = seconds_since(start);
        start = Clock::now();
        HK_TRY(beams ? search(rows, logits) : sample(rows, logits));
        output_.statistics.seconds = seconds_since(start);
        return std::move(output_);
    }

private:
    // Limits the length of rows that may exceed the model's context.
    Status fit_context(DecodeBatch& session) {
        if (!options_.slide_context || options_.beams > 1 || decoder_.encoder_decoder()) return {};
        HK_ASSIGN(const int64_t longest, decoder_.longest(session));
        if (longest == session.length) return {};
        context_ = at(longest);
        session.length = longest;
        output_.context = longest;
        return {};
    }
    // Returns the error of Decoder::begin(), or what it means for the prompts if rows are longer than the context.
    Status why_not_begun(const Status& status, const DecodeBatch& session) const {
        const auto most = std::ranges::max_element(request_.prompts, {}, &Ids::size);
        const auto number = most - request_.prompts.begin() + 1;
        const Result<int64_t> context = decoder_.longest(session);
        if (!context.ok() || context.value() >= session.length)
            return status.with_context(fmt::format("{} new tokens after prompt {}, the longest, which has {} tokens",
                                                   options_.max_new_tokens, number, most->size()));
        if (decoder_.encoder_decoder() || request_.length > context.value())
            return invalid_argument(fmt::format("rows of {} tokens do not fit into the model's context of {}: generate "
                                                "fewer new tokens",
                                                session.length, context.value()));
        return invalid_argument(fmt::format(
            "prompt {} has {} tokens, which do not fit into the model's context of {} with {} new ones: shorten it, or "
            "generate fewer{}",
            number, most->size(), context.value(), options_.max_new_tokens,
            options_.slide_context ? ", or generate without beams, where such rows continue from the last half of it"
                                   : ""));
    }
    // Chooses one chunk for all prompts, now and later, from the sizes of caches, so that few programs are created.
    Status make_room_for_prompts(DecodeBatch& session, std::size_t longest) const {
        DecodeBatch room = session;
        room.length = capacity_for(std::max({static_cast<int64_t>(context_ > 0 ? std::min(longest, context_) : longest),
                                             static_cast<int64_t>(context_ / 2), request_.length}));
        HK_ASSIGN(session.prompt_chunk, decoder_.longest(room));
        return {};
    }
    // Returns the tokens that a row continues from when nothing more fits after `ids`.
    Ids last_half(const Ids& ids) const {
        return {ids.end() - static_cast<std::ptrdiff_t>(std::max<std::size_t>(1, context_ / 2)), ids.end()};
    }

    // Finds where each prompt invokes the adapters that wait for it. What is generated invokes none, as in PEFT and
    // llama.cpp.
    void find_invocations() {
        for (const plugin::Invocation& invocation : decoder_.invocations()) {
            std::vector<int64_t>& places = invoked_at_.emplace_back();
            for (const Ids& prompt : starts_) places.push_back(plugin::last_invocation(prompt, invocation.tokens));
        }
    }
    Fields adapter_starts() const {
        Fields fields;
        for (std::size_t i = 0; i < invoked_at_.size(); ++i) {
            graph::Tensor& tensor = fields[decoder_.invocations()[i].field];
            tensor = {graph::Kind::int32, graph::Shape{static_cast<int64_t>(starts_.size())}, {}};
            for (const int64_t place : invoked_at_[i])
                tensor.data.push_back(static_cast<double>(place < 0 ? plugin::kNeverStarts : place));
        }
        return fields;
    }
    // A prompt's rows have lost their first tokens. An adapter that they invoked stays.
    void drop_tokens(std::size_t prompt, std::size_t tokens) {
        for (std::vector<int64_t>& places : invoked_at_)
            if (places[prompt] >= 0)
                places[prompt] = std::max<int64_t>(0, places[prompt] - static_cast<int64_t>(tokens));
    }

    Status check_ids() const {
        for (const auto& [token, value] : options_.logit_bias)
            if (token < 0 || token >= decoder_.vocabulary())
                return invalid_argument(fmt::format("logit_bias has the token {}; the model knows 0 to {}", token,
                                                    decoder_.vocabulary() - 1));
        for (std::size_t row = 0; row < starts_.size(); ++row)
            for (const int32_t id : starts_[row])
                if (id < 0 || id >= decoder_.vocabulary())
                    return invalid_argument(fmt::format("prompt {} holds the token {}; the model knows 0 to {}", row,
                                                        id, decoder_.vocabulary() - 1));
        return {};
    }

    // Feeds a prompt only into the cache of its first copy; the others read it there.
    std::vector<Ids> first_copies() const {
        std::vector<Ids> prompts(starts_.size() * copies_);
        for (std::size_t i = 0; i < starts_.size(); ++i)
            prompts[i * copies_] = context_ > 0 && starts_[i].size() > context_ ? last_half(starts_[i]) : starts_[i];
        return prompts;
    }
    void share_logits(Rows& rows, Logits& logits) const {
        if (copies_ == 1) return;
        const std::size_t vocabulary = at(decoder_.vocabulary());
        Ids parents(starts_.size() * copies_);
        for (std::size_t row = 0; row < parents.size(); ++row) {
            const std::size_t first = row / copies_ * copies_;
            parents[row] = static_cast<int32_t>(first);
            if (row != first)
                std::copy_n(logits.begin() + static_cast<std::ptrdiff_t>(first * vocabulary), vocabulary,
                            logits.begin() + static_cast<std::ptrdiff_t>(row * vocabulary));
        }
        rows.follow(parents);
    }

    // Returns rows that contain only the prompts.
    Output stopped_before_the_first() {
        output_.stopped = true;
        for (const Ids& ids : starts_)
            for (int64_t i = 0; i < options_.sequences; ++i) output_.rows.push_back({ids, 0, 0.0});
        return std::move(output_);
    }

    std::span<const int32_t> source(std::size_t prompt) const {
        if (!decoder_.encoder_decoder()) return {};
        return request_.prompts[prompt];
    }

    Status sample(Rows& rows, Logits& logits) {
        const std::size_t count = starts_.size() * copies_;
        output_.rows.resize(count);
        for (std::size_t row = 0; row < count; ++row) output_.rows[row].ids = starts_[row / copies_];
        over_.assign(count, 0);
        tokens_.assign(count, 0);
        HK_TRY(choose(logits));
        const bool on_host = request_.chosen_by || request_.chosen_from;
        StepsAtOnce pace(on_host ? 0 : decoder_.steps_at_once(options_));
        while (!output_.stopped && !std::ranges::all_of(over_, [](char o) { return o != 0; })) {
            output_.stopped = stop_.stopped();
            if (output_.stopped) break;
            if (request_.changed) HK_TRY(change(rows));
            if (output_.stopped) break;
            if (const int64_t steps = std::min(pace.next(), room(rows)); steps > 0) {
                const Clock::time_point start = Clock::now();
                HK_TRY(choose_on_device(rows, steps));
                pace.took(steps, seconds_since(start));
            } else {
                HK_TRY(feed(rows, logits));
                if (!output_.stopped) HK_TRY(choose(logits));
            }
        }
        return {};
    }

    // Takes new values of fields, and fills the caches of rows that need them again, up to the token that is fed next.
    Status change(Rows& rows) {
        HK_ASSIGN(const std::optional<FieldChange> change, request_.changed());
        if (!change) return {};
        HK_TRY(decoder_.set_fields(change->fields, change->computed));
        std::vector<Ids> again(over_.size());
        for (const std::size_t prompt : change->computed)
            for (std::size_t row = prompt * copies_; row < (prompt + 1) * copies_; ++row) {
                if (over_[row]) continue;
                const auto end = output_.rows[row].ids.end() - 1; // the last token is not fed yet
                again[row] = {end - static_cast<std::ptrdiff_t>(rows.length(row)), end};
                rows.forget(row);
            }
        Logits unused(decoder_.host_memory());
        HK_ASSIGN(const bool fed, rows.feed_prompts(again, unused, stop_));
        output_.stopped = !fed;
        return {};
    }

    // Adds a token to a row. False: OnToken ended generation.
    bool take(std::size_t row, int32_t token) {
        Output::Row& out = output_.rows[row];
        tokens_[row] = token;
        out.ids.push_back(token);
        ++out.made;
        ++output_.statistics.tokens;
        output_.stopped = on_token_ && !on_token_(row, token);
        over_[row] = static_cast<int64_t>(out.made) >= options_.max_new_tokens ||
                     std::ranges::find(options_.eos, token) != options_.eos.end() ||
                     (request_.ended && request_.ended(row));
        return !output_.stopped;
    }

    // Chooses a token for each row by its scores.
    Status choose(Logits& logits) {
        const Sampler sampler(options_);
        const std::size_t vocabulary = at(decoder_.vocabulary());
        std::vector<float> given;
        for (std::size_t row = 0; row < over_.size(); ++row) {
            if (over_[row]) continue;
            const std::vector<int32_t>& ids = output_.rows[row].ids;
            const std::span<float> scores = std::span(logits).subspan(row * vocabulary, vocabulary);
            const std::size_t prompt = row / copies_;
            if (request_.chosen_from) given.assign(scores.begin(), scores.end());
            sampler.process({ids, static_cast<int64_t>(starts_[prompt].size()), source(prompt)}, scores);
            HK_ASSIGN(const int32_t token, sampler.choose(options_.first_row + row, ids.size(), scores));
            if (request_.chosen_from) request_.chosen_from(row, given, token);
            if (request_.chosen_by) request_.chosen_by(row, scores, token);
            if (!take(row, token)) return {};
        }
        return {};
    }

    // Returns how many tokens every row can take before one fills its context.
    int64_t room(const Rows& rows) const {
        int64_t least = options_.max_new_tokens, most_left = 0;
        for (std::size_t row = 0; row < over_.size(); ++row) {
            if (over_[row]) continue;
            if (context_ > 0)
                least = std::min(least, static_cast<int64_t>(context_) - static_cast<int64_t>(rows.length(row)));
            most_left = std::max(most_left, options_.max_new_tokens - static_cast<int64_t>(output_.rows[row].made));
        }
        return std::min(least, most_left);
    }

    Status choose_on_device(Rows& rows, int64_t steps) {
        std::vector<int64_t> made;
        std::vector<uint64_t> position;
        for (const Output::Row& row : output_.rows) {
            made.push_back(static_cast<int64_t>(row.made));
            position.push_back(row.ids.size());
        }
        Ids chosen(over_.size() * at(steps));
        HK_TRY(rows.choose(tokens_, over_, options_, {{}, steps, made, position}, chosen));
        const std::vector<char> before = over_;
        for (int64_t step = 0; step < steps; ++step)
            for (std::size_t row = 0; row < over_.size(); ++row) {
                if (over_[row]) continue;
                const int32_t token = chosen[row * at(steps) + at(step)];
                if (token < 0) return choice_error(token, row, output_.rows[row].ids.size());
                if (!take(row, token)) return {};
            }
        for (std::size_t row = 0; row < over_.size(); ++row)
            if (!before[row]) rows.fed(row, output_.rows[row].made - at(made[row]) - 1);
        return {};
    }

    // Feeds the next token of every row. A row without room for it restarts from the last half of its text, so that its
    // tokens do not depend on the other rows.
    Status feed(Rows& rows, Logits& logits) {
        if (context_ == 0) return rows.feed(tokens_, over_, logits);
        std::vector<char> waits = over_;
        std::vector<Ids> restarts(over_.size());
        std::vector<char> shortened(starts_.size()); // copies of a prompt are full at once
        bool some_full = false;
        for (std::size_t row = 0; row < over_.size(); ++row) {
            if (over_[row] || rows.length(row) < context_) continue;
            some_full = true;
            waits[row] = 1;
            restarts[row] = last_half(output_.rows[row].ids);
            const std::size_t prompt = row / copies_;
            // The chosen token is not in the cache yet.
            if (!std::exchange(shortened[prompt], 1)) drop_tokens(prompt, rows.length(row) + 1 - restarts[row].size());
            rows.forget(row);
        }
        if (std::ranges::any_of(waits, [](char w) { return w == 0; })) HK_TRY(rows.feed(tokens_, waits, logits));
        if (!some_full) return {};
        if (!invoked_at_.empty()) HK_TRY(decoder_.set_fields(adapter_starts(), {}));
        HK_ASSIGN(const bool fed, rows.feed_prompts(restarts, logits, stop_));
        output_.stopped = !fed;
        return {};
    }

    Status search(Rows& rows, Logits& logits) {
        std::vector<Ids> sources;
        if (decoder_.encoder_decoder()) sources = request_.prompts;
        BeamSearch search(options_, starts_, sources);
        for (;;) {
            HK_TRY(search.step(logits));
            if (search.done()) break;
            output_.stopped = stop_.stopped();
            if (output_.stopped) break;
            rows.follow(search.parents());
            HK_TRY(rows.feed(search.tokens(), {}, logits));
        }
        std::vector<BeamSearch::Sequence> best = search.best();
        for (std::size_t i = 0; i < best.size(); ++i) {
            const std::size_t prompt_length = starts_[i / at(options_.sequences)].size();
            const std::size_t made = best[i].ids.size() - prompt_length;
            output_.statistics.tokens += static_cast<int64_t>(made);
            output_.rows.push_back({std::move(best[i].ids), made, best[i].score});
        }
        for (std::size_t row = 0; on_token_ && row < output_.rows.size(); ++row)
            for (std::size_t i = output_.rows[row].ids.size() - output_.rows[row].made;
                 i < output_.rows[row].ids.size(); ++i)
                if (!on_token_(row, output_.rows[row].ids[i])) return {};
        return {};
    }

    Decoder& decoder_;
    const Request& request_;
    const Options& options_;
    const OnToken& on_token_;
    const StopPoll& stop_;
    std::size_t copies_ = 1;
    std::size_t context_ = 0;                      // maximum tokens per row if rows may exceed it; 0: all fit
    std::vector<Ids> starts_;                      // initial tokens of each row of the decoder, prompt by prompt
    std::vector<std::vector<int64_t>> invoked_at_; // by invocation of the decoder and prompt; -1: not invoked
    std::vector<char> over_;                       // rows that have ended, without beams
    Ids tokens_;                                   // chosen last, not fed yet
    Output output_;
};

} // namespace

Result<Output> generate(Decoder& decoder, const Request& request, const Options& options, const OnToken& on_token,
                        const StopPoll& stop) {
    return Generation(decoder, request, options, on_token, stop).run();
}

} // namespace hekla::generate
