// Learning from answers of which one is preferred: a reward model (Ouyang et al. 2022), direct preference optimization
// (Rafailov et al. 2023) with its variants, and ORPO (Hong et al. 2024), which needs no reference. KTO (Ethayarajh et
// al. 2024) learns from answers that are good or bad, each on its own.
#include "rows.hpp"
#include "rows_of_answers.hpp"

using namespace hekla::plugin;

namespace {

// Means over the pairs that count.
class PairMetrics {
public:
    PairMetrics(Graph& g, Value counts) : g_(g), counts_(counts) {}
    void add(const char* name, Value of_pair) { g_.metric(name, sum_all(of_pair * counts_), sum_all(counts_)); }

private:
    Graph& g_;
    Value counts_; // [B], 0 or 1
};

// Returns the logits of the reference, which is a part of its own.
Value reference_logits(Graph& g, const char* objective, const char* instead, Value logits) {
    if (!g.has_port("teacher.logits")) {
        g.fail(std::string(objective) +
               " needs the model that training begins with as its reference: name its folder in "
               "[teacher] from" +
               instead);
        return logits;
    }
    const Value theirs = g.ask("teacher.logits");
    if (theirs.dim(-1) != logits.dim(-1))
        g.fail("the reference chooses among " + std::to_string(theirs.dim(-1)) + " tokens, the policy among " +
               std::to_string(logits.dim(-1)) + ": both need the same tokenizer");
    return theirs;
}

Value pair_counts(Graph& g) { return to_float32(not_equal(g.input("pair_labels"), static_cast<double>(kIgnored))); }

// A number for each text, such that preferred ones have larger numbers. A row has two answers, or `ranked` of them,
// best first; each pair of a row counts as one part of the row's loss.
class Reward {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    Reward(const Config& c, const hk_tokenizer* tokenizer)
        : tokens_(tokenizer), layout_(c, tokens_, "reward"), ranked_(c.integer("ranked", 0)),
          center_(c.real("center_rewards_coefficient", 0.0)) {
        require(ranked_ == 0 || (ranked_ >= 2 && ranked_ <= 16), "ranked is not 0 or between 2 and 16");
        require(center_ >= 0.0, "center_rewards_coefficient is below 0");
    }
    std::vector<ColumnNeed> columns() const {
        const ColumnNeed prompt{"prompt", HK_COLUMN_TOKENS, HK_COLUMN_OPTIONAL};
        if (ranked_ > 0) return {prompt, {"ranking", HK_COLUMN_CHOICES, HK_COLUMN_TARGET}};
        return {prompt,
                {"chosen", HK_COLUMN_TOKENS, HK_COLUMN_TARGET},
                {"rejected", HK_COLUMN_TOKENS, HK_COLUMN_TARGET},
                {"margin", HK_COLUMN_NUMBERS, HK_COLUMN_OPTIONAL}};
    }
    int64_t example_length(const hk_example& raw) {
        const Example example(raw);
        std::size_t longest = 0;
        for (const Ids answer : answers(example)) longest = std::max(longest, answer.size());
        return static_cast<int64_t>(RowsOfAnswers::prompt_of(example).size() + longest + layout_.special(false));
    }
    // The best texts of all rows, then their next ones: [K B, T]. rank_labels [B, K]: 0 for an answer, else -100.
    std::vector<Field> fields(int64_t batch, int64_t length) {
        std::vector<Field> all = layout_.fields(texts() * batch, length);
        all.push_back({"rank_labels", HK_KIND_INT32, {batch, texts()}});
        all.push_back({"margin", HK_KIND_FLOAT32, {batch}});
        return all;
    }
    void build(Graph& g) {
        const Value labels = g.input("rank_labels"), margin = g.input("margin"), logits = g.ask("logits");
        const int64_t batch = labels.dim(0), count = labels.dim(1);
        if (logits.rank() != 2 || logits.dim(0) != batch * count || logits.dim(1) != 1) {
            g.fail("reward needs a head with one number a text: set model.num_labels = 1 for a family's own "
                   "classifier, or "
                   "head.num_labels = 1");
            return;
        }
        const Value rewards = reshape(to_float32(logits), {count, batch});
        const Value there = transpose(to_float32(not_equal(labels, static_cast<double>(kIgnored))), {1, 0}); // [K, B]
        const auto row = [&](Value of, int64_t i) { return reshape(slice(of, 0, i, 1), {batch}); };
        Value pairs, lost, centered, right, margins;
        const auto add = [](Value& to, Value x) { to = to ? to + x : x; };
        for (int64_t i = 0; i < count; ++i)
            for (int64_t j = i + 1; j < count; ++j) {
                const Value both = row(there, i) * row(there, j), better = row(rewards, i), worse = row(rewards, j);
                add(pairs, both);
                add(lost, both * -log_sigmoid(better - worse - margin));
                if (center_ > 0.0) add(centered, both * (better + worse) * (better + worse));
                add(right, both * to_float32(greater(better - worse, 0.0)));
                add(margins, both * (better - worse));
            }
        const Value real = to_float32(greater(pairs, 0.0)), each = clamp(pairs, 1.0, 1e9); // by row
        const Value rows = sum_all(real);
        g.loss("reward", sum_all(lost / each), rows);
        if (center_ > 0.0) g.loss("center", sum_all(centered / each), rows, center_);
        g.metric("accuracy", sum_all(right), sum_all(pairs));
        g.metric("margin", sum_all(margins), sum_all(pairs));
        g.metric("reward", sum_all(rewards * there), sum_all(there));
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        layout_.write_empty(fields, 0);
        const FieldRows<int32_t> labels = fields.ints("rank_labels");
        labels.fill_from(0, kIgnored);
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Example example = batch[row];
            const std::vector<Ids> all = answers(example);
            if (all.size() > labels.width())
                throw invalid("the ranking has " + std::to_string(all.size()) + " answers, and objective.ranked is " +
                              std::to_string(labels.width()) + ", the length of the longest ranking: raise it");
            const Ids prompt = RowsOfAnswers::prompt_of(example);
            // In prediction the whole text is the prompt.
            if (!example.find("chosen") && !example.find("ranking")) layout_.write(fields, row, prompt, {}, false);
            const std::size_t width = fields.ints("input_ids").width(), special = layout_.special(false);
            for (std::size_t i = 0; i < all.size(); ++i) {
                // What is too long loses the beginning of its prompt first: the end of a text is the answer.
                const std::size_t whole = special + prompt.size() + all[i].size();
                const std::size_t cut = std::min(prompt.size(), whole - std::min(whole, width));
                std::vector<int32_t> text(prompt.begin() + static_cast<std::ptrdiff_t>(cut), prompt.end());
                text.insert(text.end(), all[i].begin(), all[i].end());
                layout_.write(fields, i * labels.rows() + row, text, {}, false);
                labels[row][i] = 0;
            }
            const ColumnView margin = example.find("margin");
            if (margin && !margin.numbers().empty()) fields.floats("margin")[row][0] = margin.numbers()[0];
        }
    }

private:
    int64_t texts() const { return ranked_ > 0 ? ranked_ : 2; }
    // The answers of an example, best first; none where two of a pair are equal, and one of equal ones in a ranking.
    std::vector<Ids> answers(const Example& example) const {
        std::vector<Ids> all;
        if (const ColumnView ranking = ranked_ > 0 ? example.find("ranking") : ColumnView{}) {
            for (std::size_t i = 0; i < ranking.parts(); ++i) {
                const Ids one = ranking.part(i);
                if (std::ranges::none_of(all, [&](Ids other) { return std::ranges::equal(other, one); }))
                    all.push_back(one);
            }
            return all;
        }
        const ColumnView chosen = example.find("chosen"), rejected = example.find("rejected");
        if (!chosen || !rejected || std::ranges::equal(chosen.ids(), rejected.ids())) return all;
        return {chosen.ids(), rejected.ids()};
    }

    Tokens tokens_;
    RowLayout layout_;
    int64_t ranked_;
    double center_;
};

// A policy that prefers an answer to another by more than its reference does.
class Dpo {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    Dpo(const Config& c, const hk_tokenizer* tokenizer)
        : tokens_(tokenizer), rows_(c, tokens_), beta_(c.real("beta", 0.1)), loss_(c.string("loss_type", "sigmoid")),
          smoothing_(c.real("label_smoothing", 0.0)), sft_(c.real("sft_weight", 0.0)),
          given_(c.boolean("reference_in_data", false)) {
        require(beta_ > 0.0, "beta is not above 0");
        require(loss_ == "sigmoid" || loss_ == "hinge" || loss_ == "ipo" || loss_ == "robust",
                "loss_type is not sigmoid, hinge, ipo or robust");
        require(smoothing_ >= 0.0 && smoothing_ < 0.5, "label_smoothing is not between 0 and 0.5");
        require(smoothing_ == 0.0 || loss_ == "sigmoid" || loss_ == "robust",
                "label_smoothing is for loss_type sigmoid and robust");
        require(sft_ >= 0.0, "sft_weight is below 0");
    }
    std::vector<ColumnNeed> columns() {
        std::vector<ColumnNeed> all = RowsOfAnswers::columns();
        if (given_)
            for (const char* name : kReferenceSums) all.push_back({name, HK_COLUMN_NUMBERS, 0});
        return all;
    }
    int64_t example_length(const hk_example& raw) { return rows_.length(Example(raw)); }
    // ref_chosen_logps and ref_rejected_logps [B], where the data has them.
    std::vector<Field> fields(int64_t batch, int64_t length) {
        std::vector<Field> all = RowsOfAnswers::fields(batch, length);
        if (given_)
            for (const char* name : kReferenceSums) all.push_back({name, HK_KIND_FLOAT32, {batch}});
        return all;
    }
    void build(Graph& g) {
        const Value logits = g.ask("logits");
        const AnswerScores own = answer_scores(g, logits);
        Value chosen, rejected; // logarithms of policy over reference
        if (given_) {
            if (g.has_port("teacher.logits")) {
                g.fail("the log probabilities of the reference are in the data (objective.reference_in_data), and "
                       "[teacher] "
                       "from names a reference too: remove one of the two");
                return;
            }
            chosen = own.chosen - g.input(kReferenceSums[0]);
            rejected = own.rejected - g.input(kReferenceSums[1]);
        } else {
            const Value theirs = reference_logits(
                g, "dpo", ", or set objective.reference_in_data where the data has its log probabilities", logits);
            const AnswerScores reference = answer_scores(g, theirs);
            chosen = own.chosen - reference.chosen;
            rejected = own.rejected - reference.rejected;
        }
        const Value counts = pair_counts(g), pairs = sum_all(counts);
        g.loss("dpo", sum_all(loss_of(own, chosen, rejected) * counts), pairs);
        if (sft_ > 0.0) g.loss("sft", own.nll, own.counted, sft_);
        PairMetrics metrics(g, counts);
        metrics.add("rewards/chosen", chosen * beta_);
        metrics.add("rewards/rejected", rejected * beta_);
        metrics.add("rewards/margins", (chosen - rejected) * beta_);
        metrics.add("rewards/accuracies", to_float32(greater(chosen - rejected, 0.0)));
        metrics.add("logps/chosen", own.chosen);
        metrics.add("logps/rejected", own.rejected);
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        rows_.write(fields, batch);
        if (!given_) return;
        for (uint32_t row = 0; row < batch.size(); ++row)
            for (const char* name : kReferenceSums)
                if (const ColumnView sum = batch[row].find(name); sum && !sum.numbers().empty())
                    fields.floats(name)[row][0] = sum.numbers()[0];
    }

private:
    static constexpr const char* kReferenceSums[2] = {"ref_chosen_logps", "ref_rejected_logps"}; // TRL's names

    // [B], with the logarithms of policy over reference.
    Value loss_of(const AnswerScores& own, Value chosen, Value rejected) const {
        if (loss_ == "ipo") { // by token, as its authors had meant it
            const Value h = chosen / own.chosen_tokens - rejected / own.rejected_tokens - 1.0 / (2.0 * beta_);
            return h * h;
        }
        const Value h = (chosen - rejected) * beta_;
        if (loss_ == "hinge") return relu(1.0 - h);
        const Value right = -log_sigmoid(h) * (1.0 - smoothing_), wrong = -log_sigmoid(-h) * smoothing_;
        if (loss_ == "robust") return (right - wrong) / (1.0 - 2.0 * smoothing_);
        return smoothing_ > 0.0 ? right + wrong : right;
    }

    Tokens tokens_;
    RowsOfAnswers rows_;
    double beta_;
    std::string loss_;
    double smoothing_, sft_;
    bool given_; // the data has the reference's log probabilities
};

// Fine-tuning on the preferred answers with odds that are larger than those of the others.
class Orpo {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    Orpo(const Config& c, const hk_tokenizer* tokenizer)
        : tokens_(tokenizer), rows_(c, tokens_), beta_(c.real("beta", 0.1)) {
        require(beta_ > 0.0, "beta is not above 0");
    }
    std::vector<ColumnNeed> columns() { return RowsOfAnswers::columns(); }
    int64_t example_length(const hk_example& raw) { return rows_.length(Example(raw)); }
    std::vector<Field> fields(int64_t batch, int64_t length) { return RowsOfAnswers::fields(batch, length); }
    void build(Graph& g) {
        const AnswerScores own = answer_scores(g, g.ask("logits"));
        const Value chosen = own.chosen / own.chosen_tokens, rejected = own.rejected / own.rejected_tokens;
        // log(p / (1 - p)) of the mean log probability; p = 1 has no finite odds.
        const auto log_odds = [](Value mean) { return mean - log(clamp(1.0 - exp(mean), 1e-12, 1.0)); };
        const Value ratio = log_odds(chosen) - log_odds(rejected), counts = pair_counts(g);
        g.loss("sft", own.nll, own.counted);
        g.loss("odds_ratio", sum_all(-log_sigmoid(ratio) * counts), sum_all(counts), beta_);
        PairMetrics metrics(g, counts);
        metrics.add("log_odds_ratio", ratio);
        metrics.add("rewards/accuracies", to_float32(greater(chosen - rejected, 0.0)));
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        rows_.write(FieldSet(storage, count), BatchView(raw));
    }

private:
    Tokens tokens_;
    RowsOfAnswers rows_;
    double beta_;
};

// A policy that makes desirable completions more likely than its reference does, and others less likely, by more than
// it changes anyway: the divergence of the two, estimated from prompts with the completions of other rows.
class Kto {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    Kto(const Config& c, const hk_tokenizer* tokenizer)
        : tokens_(tokenizer), pad_(padding_id(c, tokens_)), end_(tokens_.role("eos")), beta_(c.real("beta", 0.1)),
          desirable_(c.real("desirable_weight", 1.0)), undesirable_(c.real("undesirable_weight", 1.0)) {
        require(beta_ > 0.0, "beta is not above 0");
        require(desirable_ >= 0.0 && undesirable_ >= 0.0, "desirable_weight or undesirable_weight is below 0");
    }
    std::vector<ColumnNeed> columns() {
        return {{"prompt", HK_COLUMN_TOKENS, 0},
                {"completion", HK_COLUMN_TOKENS, HK_COLUMN_TARGET},
                {"label", HK_COLUMN_NUMBERS, 0}};
    }
    int64_t example_length(const hk_example& raw) {
        return length_of_completion(tokens_.begun(Example(raw).get("prompt")), Example(raw));
    }
    // The completions of all rows, then those of other rows after the same prompts: [2B, T]. desirable [B]: 1 or 0.
    // counts [2B]: 1 where a row counts.
    std::vector<Field> fields(int64_t batch, int64_t length) {
        return {{"input_ids", HK_KIND_INT32, {2 * batch, length}},
                {"attention_mask", HK_KIND_INT32, {2 * batch, length}},
                {"next_ids", HK_KIND_INT32, {2 * batch, length}},
                {"desirable", HK_KIND_FLOAT32, {batch}},
                {"counts", HK_KIND_FLOAT32, {2 * batch}}};
    }
    void build(Graph& g) {
        const Value logits = g.ask("logits"), labels = g.input("next_ids"), counts = g.input("counts");
        const Value desirable = g.input("desirable");
        const Value theirs = reference_logits(g, "kto", "", logits);
        const int64_t rows = labels.dim(0) / 2;
        const Value own = -sum(cross_entropy(logits, labels), {1});
        const Value ratio = own + sum(cross_entropy(theirs, labels), {1});
        const auto half = [&](Value of, int64_t i) { return slice(of, 0, i * rows, rows); };
        const Value real = half(counts, 0), others = half(counts, 1), change = half(ratio, 0);
        const Value divergence =
            stop_gradient(clamp(sum_all(half(ratio, 1) * others) / clamp(sum_all(others), 1.0, 1e9), 0.0, 1e9));
        const Value gain = (change - divergence) * beta_ * (desirable * 2.0 - 1.0);
        const Value weight = desirable * desirable_ + (1.0 - desirable) * undesirable_;
        g.loss("kto", sum_all((1.0 - sigmoid(gain)) * weight * real), sum_all(real));
        const Value good = desirable * real, bad = (1.0 - desirable) * real, logps = half(own, 0);
        g.metric("rewards/chosen", sum_all(change * good) * beta_, sum_all(good));
        g.metric("rewards/rejected", sum_all(change * bad) * beta_, sum_all(bad));
        g.metric("logps/chosen", sum_all(logps * good), sum_all(good));
        g.metric("logps/rejected", sum_all(logps * bad), sum_all(bad));
        const Value any = clamp(sum_all(others), 0.0, 1.0);
        g.metric("kl", divergence * any, any);
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        clear_answers(fields, pad_);
        const std::size_t rows = fields.floats("desirable").rows();
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Example example = batch[row];
            const ColumnView completion = example.find("completion"), label = example.find("label");
            if (!completion || completion.ids().empty() || !label || label.numbers().empty()) continue;
            const float value = label.numbers()[0];
            if (value != 0.0F && value != 1.0F)
                throw invalid("label is neither of two: expected true or false, or 1 or 0");
            const std::vector<int32_t> prompt = tokens_.begun(example.get("prompt"));
            write_row(fields, row, prompt, completion);
            fields.floats("desirable")[row][0] = value;
            // The completion of the row before, as TRL takes it.
            const Example other = batch[(row + batch.size() - 1) % batch.size()];
            if (const ColumnView theirs = other.find("completion"); batch.size() > 1 && theirs && !theirs.ids().empty())
                write_row(fields, rows + row, prompt, theirs);
        }
    }

private:
    void write_row(const FieldSet& fields, std::size_t row, Ids prompt, const ColumnView& completion) const {
        write_answer(fields.ints("input_ids")[row], fields.ints("next_ids")[row], fields.ints("attention_mask")[row],
                     prompt, completion.ids(), completion.is_messages() ? std::nullopt : end_);
        fields.floats("counts")[row][0] = 1.0F;
    }

    Tokens tokens_;
    int32_t pad_;
    std::optional<int32_t> end_;
    double beta_, desirable_, undesirable_;
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "reward", objective<Reward>()}, {HK_OBJECTIVE_INTERFACE, "dpo", objective<Dpo>()},
             {HK_OBJECTIVE_INTERFACE, "orpo", objective<Orpo>()}, {HK_OBJECTIVE_INTERFACE, "kto", objective<Kto>()})
