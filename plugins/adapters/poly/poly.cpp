// Poly (Ponti et al. 2023) and multi-head routing (Caccia et al. 2023): LoRA for several tasks. The matrices A and B of
// a task are means of those of a few skills, with weights that are trained for each task, and for each of n_splits
// parts of the inputs and outputs by themselves. Keys, names and initial values are PEFT's.
//
// Each row of the batch has the task that the field adapter_rows names (-1: none); with the key `task` all rows have
// that one, and the result is a change of the weight.
#include "target_modules.hpp"

#include <cmath>

using namespace hekla::plugin;

namespace {

constexpr double kSmallestSum = 1e-12;                // added to the sum of weights
constexpr double kSmallestDraw = 1.1920928955078e-07; // random numbers are this far from 0 and 1

class Poly {
public:
    explicit Poly(const Config& config)
        : targets_(config), r_(config.integer("r")), tasks_(config.integer("n_tasks")),
          skills_(config.integer("n_skills")), splits_(config.integer("n_splits")), task_(config.integer("task")),
          sample_(config.boolean("sample")) {
        if (const std::string type = config.string("poly_type"); type != "poly")
            throw unsupported("poly_type is '" + type + "'; expected \"poly\"");
        if (task_ >= tasks_)
            throw invalid("task is " + std::to_string(task_) + "; expected 0 to " + std::to_string(tasks_ - 1) +
                          ", or -1: each row has its own");
        if (tasks_ == 1) task_ = 0;
    }

    bool wants(const Site& site) const { return site.linear() && targets_.wants(site); }

    SiteAnswer adapt(Graph& g, const Site& site, const SiteValues& v) const {
        const Value logits = parameter(g, "poly_router.module_logits", {tasks_, splits_ * skills_}, 1e-3);
        if (task_ >= 0) {
            const Matrices m = matrices(g, site, slice(logits, 0, task_, 1));
            const Value inside = linear(v.x, reshape(m.a, {r_, site.in})) * scale();
            return delta(linear(inside, reshape(m.b, {site.out, r_})), v.x);
        }
        if (!g.has_field("adapter_rows"))
            throw invalid("the batch has no field adapter_rows, which names the task of each row");
        const Value rows = g.input("adapter_rows");
        if (v.x.rank() < 2 || rows.rank() != 1 || v.x.dim(0) != rows.dim(0))
            throw unsupported("the values of '" + std::string(site.name) + "' have no dimension of the batch's rows");
        const Value zero = g.fill(rows.shape(), 0.0, HK_KIND_INT32);
        const Matrices m = matrices(g, site, embedding(logits, maximum(rows, zero)));
        const Value x = reshape(v.x, {rows.dim(0), -1, site.in});
        const Value acts = reshape(1.0 - cast(less(rows, zero), HK_KIND_FLOAT), {rows.dim(0), 1, 1});
        const Value inside = matmul(x, m.a, {.transpose_b = 1}) * (acts * scale());
        return delta(reshape(matmul(inside, m.b, {.transpose_b = 1}), v.y.shape()), v.x);
    }

    MergedSite merge(Graph& g, const Site& site, const SiteValues& v) const {
        if (task_ < 0) throw unsupported("several tasks cannot be merged: set the key `task` to one of them");
        const Value logits = parameter(g, "poly_router.module_logits", {tasks_, splits_ * skills_}, 1e-3);
        const Matrices m = matrices(g, site, slice(logits, 0, task_, 1));
        return {v.weight + matmul(reshape(m.b, {site.out, r_}), reshape(m.a, {r_, site.in})) * scale(), v.bias};
    }

    void write(ConfigWriter& out) const {
        out.set("peft_type", "POLY");
        out.set("r", r_);
        out.set("poly_type", "poly");
        out.set("n_tasks", tasks_);
        out.set("n_skills", skills_);
        out.set("n_splits", splits_);
        out.set("init_weights", true);
        targets_.write(out);
    }

private:
    struct Matrices {
        Value a, b; // [rows, r, in], [rows, out, r]
    };
    double scale() const { return 1.0 / static_cast<double>(r_); }
    static Value parameter(Graph& g, const char* name, const Dims& dims, double bound) {
        return g.parameter(name, dims, bound > 0.0 ? uniform(-bound, bound) : zeros());
    }
    // Returns the means of the skills for rows with these logits [rows, splits * skills].
    Matrices matrices(Graph& g, const Site& site, Value logits) const {
        if (site.in % splits_ != 0 || site.out % splits_ != 0)
            throw unsupported("'" + std::string(site.name) + "' has " + std::to_string(site.in) + " inputs and " +
                              std::to_string(site.out) + " outputs, which n_splits = " + std::to_string(splits_) +
                              " does not divide");
        const int64_t in = site.in / splits_, out = site.out / splits_, rows = logits.dim(0);
        const Value a =
            parameter(g, "poly_lora_A", {splits_, skills_, in, r_}, 1.0 / std::sqrt(static_cast<double>(in)));
        const Value b = parameter(g, "poly_lora_B", {splits_, skills_, r_, out}, 0.0);
        Value weights = reshape(logits, {rows, splits_, 1, skills_});
        if (g.training() && sample_) { // a relaxed Bernoulli variable of temperature 1 (Maddison et al. 2017)
            const Value drawn = clamp(random_uniform(g, weights.shape()), kSmallestDraw, 1.0 - kSmallestDraw);
            weights = weights + (log(drawn) - log(1.0 - drawn));
        }
        weights = sigmoid(weights);
        weights = weights / (sum(weights, {-1}, {.keep = 1}) + kSmallestSum);
        // [rows, splits, 1, skills] x [splits, skills, ...] -> [rows, splits, 1, ...]
        const Value of_a = matmul(weights, reshape(a, {splits_, skills_, in * r_}));
        const Value of_b = matmul(weights, reshape(b, {splits_, skills_, r_ * out}));
        return {transpose(reshape(of_a, {rows, site.in, r_}), {0, 2, 1}),
                reshape(transpose(reshape(of_b, {rows, splits_, r_, out}), {0, 1, 3, 2}), {rows, site.out, r_})};
    }

    TargetModules targets_;
    int64_t r_, tasks_, skills_, splits_;
    int64_t task_; // -1: of rows
    bool sample_;
};

} // namespace

HEKLA_PLUGIN({HK_ADAPTER_INTERFACE, "poly", adapter<Poly>()})
