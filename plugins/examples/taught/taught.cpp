// taught: a language model with a teacher, which has the student's weights averaged over steps (Tarvainen and Valpola
// 2017). The objective taught_next adds the squared distance of the student's logits from the teacher's; evaluation and
// generation use the teacher.
#include "block.hpp"
#include "collate.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocabulary = 0, width = 0;
    double decay = 0.0;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("hidden_size", width);
        v("decay", decay);
    }
};

struct Weights {
    Value words, up, down;
};

// x + down gelu(up x)
Value network(const Weights& w, Value ids) {
    const Value x = embedding(w.words, ids);
    return x + linear(gelu(linear(x, w.up)), w.down);
}

class Taught {
public:
    explicit Taught(const Config& config) : s_(read_settings<Settings>(config)) {}

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        const Value words = g.parameter("words.weight", {s_.vocabulary, s_.width}, normal(0.1));
        const Value up = g.parameter("up.weight", {4 * s_.width, s_.width}, normal(0.1));
        const Value down = g.parameter("down.weight", {s_.width, 4 * s_.width}, normal(0.1));
        const Weights student{words, up, down};
        // Of the averages, which begin with zeros, this part is known: 0 before the first step, and nearly 1 later.
        const Value known = averaged(g, "known", g.fill({1}, 1.0), {1});
        const Value divisor = maximum(known, g.number(1e-6));
        const Value mean_words = averaged(g, "words", words, words.shape()) / divisor;
        const Value mean_up = averaged(g, "up", up, up.shape()) / divisor;
        const Value mean_down = averaged(g, "down", down, down.shape()) / divisor;
        const Weights teacher{mean_words, mean_up, mean_down};
        const Value of_teacher = network(teacher, ids);
        g.offer("hidden", g.training() ? network(student, ids) : of_teacher);
        g.offer("embedding.weight", g.training() ? words : mean_words);
        g.offer("average.logits", linear(of_teacher, mean_words));
        g.offer("average.known", known);
    }

    bool head(Graph& g, std::string_view id) {
        if (id != "lm") return false;
        const Value hidden = g.ask("hidden");
        g.offer("logits", linear(hidden, g.ask("embedding.weight")));
        return true;
    }

    void write(ConfigWriter& out) { write_settings(out, "taught", s_); }

private:
    // The average from before the step; a step moves it toward `value`.
    Value averaged(Graph& g, const std::string& name, Value value, const Dims& dims) const {
        std::size_t elements = 1;
        for (const int64_t dim : dims) elements *= static_cast<std::size_t>(dim);
        const Value average = g.buffer("average." + name, HK_KIND_FLOAT, dims, std::vector<double>(elements, 0.0));
        if (g.training()) buffer_update(average, average * s_.decay + value * (1.0 - s_.decay));
        return average;
    }

    Settings s_;
};

class TaughtNext {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_WINDOW;
    TaughtNext(const Config& config, const hk_tokenizer*) : weight_(config.real("weight")) {}

    int64_t tokens_per_example(int64_t length) { return length + 1; }

    std::vector<Field> fields(int64_t batch, int64_t length) {
        return {{"input_ids", HK_KIND_INT32, {batch, length}}, {"next_ids", HK_KIND_INT32, {batch, length}}};
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
        }
    }

    void build(Graph& g) {
        const Value logits = g.ask("logits"), labels = g.input("next_ids");
        const Value counts = not_equal(labels, static_cast<double>(kIgnored));
        const Value count = sum_all(counts);
        g.loss("next", sum_all(cross_entropy(logits, labels)), count);
        if (!g.training()) return;
        const Value apart = logits - g.ask("average.logits");
        const Value of_token = mean(apart * apart, {2}) * to_float(counts);
        g.loss("teacher", sum_all(of_token * g.ask("average.known")), count, weight_);
    }

private:
    double weight_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "taught", architecture<Taught>()},
             {HK_OBJECTIVE_INTERFACE, "taught_next", objective<TaughtNext>()})
