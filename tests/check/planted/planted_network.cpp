// Two architectures, an objective and a head that are correct unless HEKLA_FAULT names a fault. planted_causal has what
// passes from token to token and from step to step: scans, a loop, a convolution, a cache, positions, running
// statistics and an average of weights. planted_both reads rows in both directions, around their padding.
#include "block.hpp"
#include "collate.hpp"
#include "decoding.hpp"

#include "fault.hpp"

#include <cmath>

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocabulary = 0, width = 0;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("hidden_size", width);
    }
};

std::vector<double> filled(int64_t width, double value) {
    return std::vector<double>(static_cast<std::size_t>(width), value);
}

// 1 for tokens and 0 for padding, [B, T, 1].
Value real_tokens(Graph& g, Value ids) {
    const Value mask = causal_padding(g);
    if (!mask) return g.fill({ids.dim(0), ids.dim(1), 1}, 1.0);
    return reshape(to_float(mask), {ids.dim(0), ids.dim(1), 1});
}

int described = 0; // global state, which plugins must not have

class Causal {
public:
    explicit Causal(const Config& config) : s_(read_settings<Settings>(config)) {}

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        const Value words = g.parameter("words.weight", {s_.vocabulary, s_.width}, normal(0.5));
        const bool decoding = g.mode() == HK_MODE_DECODE;
        Value x = embedding(words, ids);
        if (!(fault("no_places_in_decode") && decoding)) x = x + places(g, ids);
        x = normalized(g, x) * real_tokens(g, ids);
        x = x + scanned(g, x);
        x = x + looped(g, x);
        if (!(fault("no_convolution_of_one_token") && x.dim(1) == 1)) x = x + convolved(g, x);
        x = x + attended(g, x);
        x = x * averaged_scale(g);
        x = mixed(g, x);
        g.offer("hidden", x);
        g.offer("embedding.weight", words);
    }

    bool head(Graph& g, std::string_view id) {
        if (id != "lm") return false;
        g.offer("logits", linear(g.ask("hidden"), g.ask("embedding.weight")));
        return true;
    }

    void write(ConfigWriter& out) { write_settings(out, "planted_causal", s_); }

private:
    // A cosine of the token's place for each channel.
    Value places(Graph& g, Value ids) const {
        std::vector<double> rates;
        for (int64_t i = 0; i < s_.width; ++i) rates.push_back(0.5 / static_cast<double>(i + 1));
        Value at = to_float(g.positions(ids.dim(0), ids.dim(1)));
        if (fault("counts_from_zero"))
            at = broadcast(reshape(to_float(g.iota(ids.dim(1))), {1, ids.dim(1)}), ids.shape()) + 0.0 * at;
        if (fault("counts_from_one_in_decode") && g.mode() == HK_MODE_DECODE) at = at + 1.0;
        return cos(reshape(at, {ids.dim(0), ids.dim(1), 1}) * g.constant(HK_KIND_FLOAT, {s_.width}, rates));
    }

    // Batch normalization, with a momentum of 0.2.
    Value normalized(Graph& g, Value x) const {
        const Value mean_so_far = g.buffer("norm.running_mean", HK_KIND_FLOAT, {s_.width}, filled(s_.width, 0.0));
        const Value variance_so_far = g.buffer("norm.running_var", HK_KIND_FLOAT, {s_.width}, filled(s_.width, 1.0));
        const Value of_batch = mean(x, {0, 1});
        const Value variance = mean((x - of_batch) * (x - of_batch), {0, 1});
        const bool by_batch = g.training() || fault("normalizes_by_batch") ||
                              (fault("normalizes_by_chunk") && g.mode() == HK_MODE_DECODE);
        if (g.training()) {
            const auto moved = [](Value buffer, Value to) { return 0.8 * buffer + 0.2 * to; };
            Value next_mean = moved(mean_so_far, of_batch), next_variance = moved(variance_so_far, variance);
            if (fault("forgets_the_mean")) next_variance = moved(variance_so_far, mean(x * x, {0, 1}));
            if (fault("deviation_for_variance")) next_variance = moved(variance_so_far, sqrt(variance));
            if (fault("swaps_statistics"))
                next_mean = moved(mean_so_far, variance), next_variance = moved(variance_so_far, of_batch);
            if (fault("first_row_alone")) next_mean = moved(mean_so_far, mean(slice(x, 0, 0, 1), {0, 1}));
            if (fault("statistics_explode")) next_mean = mean_so_far * 2.0 + of_batch;
            if (fault("statistics_divide_by_zero")) next_variance = variance / (of_batch - of_batch);
            if (fault("updates_another_shape")) next_mean = reshape(next_mean, {1, s_.width});
            buffer_update(mean_so_far, next_mean);
            buffer_update(variance_so_far, next_variance);
            if (fault("updates_twice")) buffer_update(mean_so_far, of_batch);
            if (fault("updates_a_parameter")) buffer_update(g.parameter("norm.weight", {s_.width}), of_batch);
        }
        return (x - (by_batch ? of_batch : mean_so_far)) * rsqrt((by_batch ? variance : variance_so_far) + 1e-5);
    }

    // Two decaying sums over earlier tokens.
    Value scanned(Graph& g, Value x) const {
        Value y;
        for (const char* const name : {"slow", "fast"}) {
            const Dims dims{x.dim(0), s_.width};
            const int64_t length = x.dim(1);
            Value rate = sigmoid(g.parameter(std::string(name) + ".rate", {s_.width}, normal(0.5)));
            if (fault("stops_rate")) rate = stop_gradient(rate);
            const bool other = fault("swaps_states");
            std::string state = std::string("state.") + name;
            if (fault("names_states_by_count")) state += std::to_string(++described);
            Value before =
                state_read(g.fill(dims, fault("begins_with_one") && g.mode() == HK_MODE_ENCODE ? 1.0 : 0.0), state);
            if (fault("ignores_the_initial_state")) before = before * 0.0;
            if (fault("adds_the_state_twice")) before = before * 2.0;
            Value one = scan_linear(x, broadcast(rate, x.shape()), 1, {.initial = before});
            if (fault("scans_backwards")) one = scan_linear(x, broadcast(rate, x.shape()), 1, {.reverse = 1});
            if (fault("scans_across_rows")) {
                const Dims flat{1, x.dim(0) * length, s_.width};
                one = one * 0.0 + reshape(scan_linear(reshape(x, flat), broadcast(rate, flat), 1), x.shape());
            }
            int64_t at = length - 1;
            if (fault("keeps_the_last_but_one")) at = std::max<int64_t>(0, length - 2);
            if (fault("keeps_the_first")) at = 0;
            Value kept = reshape(slice(fault("keeps_the_token") ? x : one, 1, at, 1), dims);
            if (fault("keeps_half_in_chunks") && length > 1) kept = kept * 0.5;
            if (fault("state_of_another_shape")) kept = reshape(kept, {x.dim(0), s_.width, 1});
            if (other) state = state == "state.slow" ? "state.fast" : "state.slow";
            state_write(kept, state);
            y = y ? y + one : one;
        }
        return y * 0.2;
    }

    // A recurrent layer, a token a step.
    Value looped(Graph& g, Value x) const {
        const Value rate = g.parameter("loop.rate", {s_.width}, normal(0.5));
        const Value nothing = g.fill({x.dim(0), s_.width}, 0.0);
        const Value before = state_read(nothing, "loop");
        const Value t = loop_index(g, x.dim(1), {.reverse = fault("loops_backwards") ? 1 : 0});
        const Value h = loop_state(t, fault("loop_begins_with_zeros") ? nothing : before);
        Value next = tanh(loop_step(t, x) + rate * h);
        if (fault("loop_counts_its_steps")) next = next + 0.1 * to_float(t);
        if (fault("loop_changes_the_shape")) next = reshape(next, {x.dim(0), 1, s_.width});
        Value last = fault("loop_has_no_next") ? before : loop_next(h, next);
        if (fault("loop_has_two")) last = loop_next(h, next * 0.5);
        if (fault("loop_keeps_its_beginning")) last = before + 0.0 * last;
        state_write(fault("loop_keeps_one_step") ? next : last, "loop");
        return 0.2 * loop_collect(t, next);
    }

    // Each channel of three tokens.
    Value convolved(Graph& g, Value x) const {
        const Value weight = g.parameter("conv.weight", {s_.width, 1, 3}, normal(0.3));
        const Value nothing = g.fill({x.dim(0), 2, s_.width}, 0.0);
        const Value before = state_read(nothing, "conv");
        const Value all = concat({before, x}, 1);
        if (fault("keeps_one_of_two_tokens"))
            state_write(concat({slice(nothing, 1, 0, 1), slice(all, 1, x.dim(1) + 1, 1)}, 1), "conv");
        else
            state_write(slice(all, 1, x.dim(1), 2), "conv");
        if (fault("centers_the_convolution"))
            return conv1d(pad(x, 1, {.before = 1, .after = 1}), weight, {.groups = s_.width});
        if (fault("pads_every_chunk")) return conv1d(pad(x, 1, {.before = 2}), weight, {.groups = s_.width});
        return conv1d(all, weight, {.groups = s_.width});
    }

    Value attended(Graph& g, Value x) const {
        const auto part = [&](const char* name) {
            return split_heads(linear_layer(g, x, std::string("attention.") + name, s_.width), 2);
        };
        const Value q = part("q"), k = part("k"), v = part("v");
        AttentionOptions options{.causal = fault("attends_to_later_tokens") ? 0 : 1, .cache = "attention"};
        if (fault("window_in_whole_rows") && g.mode() != HK_MODE_DECODE) options.window = 3;
        if (fault("other_scale_in_decode") && g.mode() == HK_MODE_DECODE) options.scale = 1.0;
        return merge_heads(attention(q, k, v, options));
    }

    // A scale that evaluation reads as an average over steps.
    Value averaged_scale(Graph& g) const {
        const Value scale = g.parameter("scale", {s_.width}, ones());
        const Value average = g.buffer("scale.average", HK_KIND_FLOAT, {s_.width}, filled(s_.width, 1.0));
        if (g.training()) {
            const Value of = fault("averages_the_square") ? scale * scale : scale;
            buffer_update(average, 0.9 * average + (fault("forgets_a_tenth") ? 0.0 : 0.1) * of);
        }
        const bool decoding = g.mode() == HK_MODE_DECODE;
        return g.training() || (fault("weights_in_decode") && decoding) ? scale : average;
    }

    // What is mixed in by some faults.
    Value mixed(Graph& g, Value x) const {
        const int64_t rows = x.dim(0), length = x.dim(1);
        if (fault("subtracts_the_mean_of_tokens")) x = x - mean(x, {1}, {.keep = 1});
        if (fault("adds_the_last_token")) x = x + slice(x, 1, length - 1, 1);
        if (fault("greatest_of_the_row")) x = x + max(x, {1}, {.keep = 1});
        if (fault("numbers_the_rows")) x = x + reshape(to_float(g.iota(rows)), {rows, 1, 1}) * 0.1;
        if (fault("divides_by_rows")) x = x / static_cast<double>(rows);
        if (fault("adds_another_row")) x = x + 0.1 * flip(x, 0);
        if (fault("divides_by_length")) x = x / static_cast<double>(length);
        if (fault("drops_in_evaluation")) x = x * to_float(less(random_uniform(g, x.shape()), 0.9));
        if (fault("noise_for_all_rows")) x = x + 0.01 * random_normal(g, {s_.width});
        if (fault("stops_half")) x = 0.5 * x + 0.5 * stop_gradient(x);
        return x;
    }

    Settings s_;
};

class Both {
public:
    explicit Both(const Config& config) : s_(read_settings<Settings>(config)) {}

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        const Value words = g.parameter("words.weight", {s_.vocabulary, s_.width}, normal(0.5));
        const Value real = real_tokens(g, ids);
        Value x = embedding(words, ids);
        const Value seen = fault("averages_padding") ? x : x * real;
        const Value count = fault("divides_by_all_tokens") ? g.fill({ids.dim(0), 1, 1}, static_cast<double>(ids.dim(1)))
                                                           : sum(real, {1}, {.keep = 1});
        x = x + sum(seen, {1}, {.keep = 1}) / maximum(count, g.number(1.0));
        const Value later = fault("scans_padding") ? x : x * real;
        x = x + 0.2 * scan_linear(later, g.fill(x.shape(), 0.5), 1, {.reverse = 1});
        const auto part = [&](const char* name) {
            return split_heads(linear_layer(g, x, std::string("attention.") + name, s_.width), 2);
        };
        const Value q = part("q"), k = part("k"), v = part("v");
        AttentionOptions options;
        if (!fault("attends_to_padding")) options.key_padding = optional_input(g, "attention_mask");
        x = x + merge_heads(attention(q, k, v, options));
        if (fault("places_from_the_end"))
            x = x + reshape(to_float(g.iota(ids.dim(1), ids.dim(1), -1)), {1, ids.dim(1), 1}) * 0.01;
        g.offer("hidden", x);
        g.offer("embedding.weight", words);
    }

    bool head(Graph&, std::string_view) { return false; }
    void write(ConfigWriter& out) { write_settings(out, "planted_both", s_); }

private:
    Settings s_;
};

// The next token.
class Next {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_WINDOW;
    Next(const Config&, const hk_tokenizer*) {}

    int64_t tokens_per_example(int64_t length) { return length + 1; }
    std::vector<Field> fields(int64_t batch, int64_t length) {
        return {{"input_ids", HK_KIND_INT32, {batch, length}}, {"next_ids", HK_KIND_INT32, {batch, length}}};
    }

    void build(Graph& g) {
        Value labels = g.input("next_ids");
        const Value logits = g.ask("logits");
        const int64_t rows = labels.dim(0), length = labels.dim(1);
        if (fault("shifts_across_rows"))
            labels = reshape(
                concat({slice(reshape(labels, {-1}), 0, 1, rows * length - 1), g.fill({1}, kIgnored, HK_KIND_INT32)},
                       0),
                {rows, length});
        if (fault("scores_padding")) labels = where(equal(labels, static_cast<double>(kIgnored)), g.integer(1), labels);
        Value surprise = cross_entropy(logits, labels);
        if (fault("first_row_alone_counts")) surprise = slice(surprise, 0, 0, 1);
        Value total = sum_all(surprise);
        Value counted = sum_all(not_equal(labels, static_cast<double>(kIgnored)));
        if (fault("a_mean_for_a_sum")) total = total / maximum(to_float(counted), g.number(1.0));
        if (fault("times_rows")) total = total * static_cast<double>(rows);
        if (fault("counts_padding")) counted = sum_all(g.fill({rows, length}, 1.0, HK_KIND_INT32));
        if (fault("counts_rows")) counted = g.integer(1);
        if (fault("noise_in_the_loss")) total = total * (1.0 + 0.01 * sum_all(random_normal(g, {1})));
        g.loss("next", total, counted);
    }

    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        const FieldRows<int32_t> ids = fields.ints("input_ids"), next = fields.ints("next_ids");
        next.fill_from(0, kIgnored);
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Ids tokens = batch[row].get("text").ids();
            if (tokens.size() < 2) continue;
            const std::size_t size = std::min(tokens.size() - 1, ids.width());
            std::ranges::copy(tokens.first(size), ids[row].begin());
            std::ranges::copy(tokens.subspan(1, size), next[row].begin());
            if (fault("writes_the_number_of_rows")) ids[row][0] = static_cast<int32_t>(ids.rows() % 5);
            if (fault("repeats_the_row_before") && row > 0) ids[row][0] = ids[row - 1][0];
            if (fault("last_row_differs") && row + 1 == batch.size()) next[row][0] = kIgnored;
        }
    }
};

// The class of a row, from its last token.
class Head {
public:
    explicit Head(const Config& c) : labels_(c.integer("num_labels")) {}

    void build(Graph& g) {
        const Value hidden = g.ask("hidden");
        g.offer("logits", linear_layer(g, mean(hidden, {1}), "out", labels_));
    }
    static std::vector<const char*> ports() { return {"logits"}; }
    std::string decode(const DecodeInput& in, std::size_t row) const {
        const std::span<const float> logits = in.row(in.output("logits"), row);
        double sum = 0.0;
        for (const float one : logits) sum += std::exp(static_cast<double>(one));
        if (fault("softmax_overflows")) return "{\"of_all\": " + std::to_string(std::exp(logits[0]) / sum) + "}";
        if (fault("a_list_for_a_row")) return "[" + std::to_string(best_of(logits)) + "]";
        if (fault("half_an_object")) return "{\"label\": " + std::to_string(best_of(logits));
        return "{\"label\": " + std::to_string(best_of(logits)) + "}";
    }

private:
    int64_t labels_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "planted_causal", architecture<Causal>()},
             {HK_ARCHITECTURE_INTERFACE, "planted_both", architecture<Both>()},
             {HK_OBJECTIVE_INTERFACE, "planted_next", objective<Next>()},
             {HK_HEAD_INTERFACE, "planted_head", decoding_head<Head>()})
