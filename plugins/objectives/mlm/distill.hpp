// Distillation from a teacher (DistilBERT, Sanh et al. 2019): the teacher's distribution at a temperature, the masked
// tokens themselves, and the direction of its last hidden states.
#pragma once

#include "mlm.hpp"

namespace hekla::plugin {

class Distill : public Mlm {
public:
    Distill(const Config& c, const hk_tokenizer* tokenizer)
        : Mlm(c, tokenizer, "distill", MaskingOptions(c)), temperature_(c.real("temperature", 2.0)),
          soft_(c.real("soft_weight", 5.0)), hard_(c.real("mlm_weight", 2.0)), cosine_(c.real("cosine_weight", 1.0)),
          masked_only_(c.boolean("masked_only", false)) {
        require(temperature_ > 0.0, "temperature is not above 0");
        require(soft_ + hard_ + cosine_ > 0.0, "soft_weight, mlm_weight and cosine_weight are all 0");
    }

    // labels cover every position of a row, or only masked_positions with masked_only. real[b, t]: whether there is a
    // token (padding and rows without an example do not count).
    std::vector<Field> fields(int64_t batch, int64_t length) {
        std::vector<Field> all = masked_only_ ? Mlm::fields(batch, length) : layout_.fields(batch, length);
        if (!masked_only_) all.push_back({"labels", HK_KIND_INT32, {batch, length}});
        all.push_back({"real", HK_KIND_INT32, {batch, length}});
        return all;
    }

    void build(Graph& g) {
        const Value logits = g.ask("logits"), labels = g.input("labels"), real = g.input("real");
        if (hard_ > 0.0) g.loss("mlm", token_loss(logits, labels), hard_);
        accuracy_metric(g, "masked_accuracy", logits, labels);
        if (!g.has_port("teacher.logits") || !g.has_port("teacher.hidden")) {
            g.fail("distill needs a teacher with a masked language model's head: name its folder in [teacher] from");
            return;
        }
        if (soft_ > 0.0) soft_targets(g, logits, masked_only_ ? not_equal(labels, -100.0) : real);
        if (cosine_ > 0.0) directions(g, real);
    }

    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        rows_of_text(
            raw, storage, count,
            [&](const FieldSet& fields, uint32_t row, const RowLayout::Placed& placed, const Example& example) {
                std::ranges::copy(fields.ints("attention_mask")[row], fields.ints("real")[row].begin());
                if (masked_only_) {
                    mask(fields, row, placed, example, raw.seed);
                    return;
                }
                const std::span<int32_t> labels = fields.ints("labels")[row];
                std::ranges::fill(labels, kIgnored);
                for (const Masked& one : masked(fields, row, placed, example, raw.seed)) labels[one.place] = one.token;
            });
    }

private:
    // Adds the divergence of the student's distribution from the teacher's at each position that counts, times the
    // square of the temperature, which keeps its gradients as large as the others' (Hinton et al. 2015).
    void soft_targets(Graph& g, Value logits, Value counts) const {
        const Value theirs = g.ask("teacher.logits");
        if (theirs.dim(-1) != logits.dim(-1)) {
            g.fail("the teacher chooses among " + std::to_string(theirs.dim(-1)) + " tokens, the student among " +
                   std::to_string(logits.dim(-1)) + ": both need the same vocab_size");
            return;
        }
        const Value teacher = log_softmax(to_float32(theirs) / temperature_),
                    student = log_softmax(to_float32(logits) / temperature_);
        const Value rows = sum(exp(teacher) * (teacher - student), {2}) * (temperature_ * temperature_);
        g.loss("soft", sum_all(rows * to_float(counts)), sum_all(counts), soft_);
    }

    // Adds 1 - cosine of the last hidden states, at every token.
    void directions(Graph& g, Value real) const {
        const Value student = to_float32(g.ask("hidden")), teacher = to_float32(g.ask("teacher.hidden"));
        if (student.dim(-1) != teacher.dim(-1)) {
            g.fail("the student's states are " + std::to_string(student.dim(-1)) + " wide, the teacher's " +
                   std::to_string(teacher.dim(-1)) + ": make them as wide, or set cosine_weight = 0");
            return;
        }
        const auto length = [](Value x) { return sqrt(sum(x * x, {2}) + 1e-12); };
        const Value cosine = sum(student * teacher, {2}) / (length(student) * length(teacher));
        g.loss("cosine", sum_all((1.0 - cosine) * to_float(real)), sum_all(real), cosine_);
    }

    double temperature_, soft_, hard_, cosine_;
    bool masked_only_;
};

} // namespace hekla::plugin
