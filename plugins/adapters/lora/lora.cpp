// LoRA (Hu et al. 2021): adds scale * (x A^T) B^T to a linear layer, with the small matrices A [r, in] and B [out, r].
// The scale is applied between the two, to r numbers of a token in place of `out`, in both directions.
// B is initialized to zeros, so the model is unchanged before the first step. DoRA (Liu et al. 2024) trains the length
// of each row of the weight as well. Keys, names and initial values are PEFT's.
//
// With `alora_invocation_tokens` (aLoRA, Greenewald et al. 2025) it acts from the last occurrence of these tokens in a
// row on, and the tokens before, and rows without them, are the body's.
//
// With `slots` it is several adapters at once: the matrices have one more dimension, and each row of the batch uses the
// slot that the field adapter_rows names (-1: none), times adapter_scales.
#include "target_modules.hpp"

#include <cmath>
#include <utility>

using namespace hekla::plugin;

namespace {

class Lora {
public:
    explicit Lora(const Config& config)
        : targets_(config), r_(config.integer("r")), alpha_(config.real("lora_alpha")),
          dropout_(config.real("lora_dropout")), ranks_(config, "rank_pattern"), alphas_(config, "alpha_pattern"),
          bias_(config.string("bias")), rank_stabilized_(config.boolean("use_rslora")),
          dora_(config.boolean("use_dora")), gaussian_(is_gaussian(config)), slots_(config.integer("slots")),
          transposed_(config.boolean("slots_transposed")), invocation_(invocation_tokens(config)) {
        for (const auto& [former, now] :
             {std::pair{"rank", "r"}, {"alpha", "lora_alpha"}, {"targets", "target_modules"}})
            if (config.has(former)) throw invalid(std::string("the key '") + former + "' is called '" + now + "' now");
        if (!std::isfinite(alpha_)) throw invalid("lora_alpha is not finite; expected a number");
        if (!(dropout_ >= 0.0 && dropout_ < 1.0)) throw invalid("lora_dropout is not from 0 to below 1");
        if (bias_ != "none" && bias_ != "all" && bias_ != "lora_only")
            throw invalid("bias is '" + bias_ + "'; expected \"none\", \"all\" or \"lora_only\"");
        for (const auto& [module, rank] : ranks_)
            if (rank < 1 || rank > kMostRank)
                throw invalid("rank_pattern: " + std::to_string(rank) + " for '" + module + "'; expected 1 to 65536");
        for (const auto& [module, alpha] : alphas_)
            if (!std::isfinite(alpha)) throw invalid("alpha_pattern: the number for '" + module + "' is not finite");
        if (transposed_ && slots_ == 0) throw invalid("slots_transposed is for slots, and there are none");
        if (slots_ > 0 && (dora_ || bias_ != "none"))
            throw unsupported("slots need use_dora = false and bias = \"none\": only A and B can differ by row");
        if (!invocation_.empty() && (dora_ || bias_ != "none" || slots_ > 0))
            throw unsupported(
                "alora_invocation_tokens needs use_dora = false, bias = \"none\" and slots = 0: the tokens "
                "before the invocation are the body's");
    }

    bool wants(const Site& site) const { return (site.linear() || site.embedding()) && targets_.wants(site); }

    uint32_t trains(const Site& site) const {
        const bool trained = bias_ == "all" || (bias_ == "lora_only" && wants(site));
        return trained && !site.bias.empty() ? HK_TRAINS_BIAS : 0;
    }

    SiteAnswer adapt(Graph& g, const Site& site, const SiteValues& v) {
        if (slots_ > 0) return adapt_by_row(g, site, v);
        if (!invocation_.empty() && !site.linear())
            throw unsupported("alora_invocation_tokens: '" + std::string(site.name) +
                              "' is an embedding; expected linear layers");
        const auto [a, b] = matrices(g, site);
        const bool drops = site.linear() && g.training() && dropout_ > 0.0;
        const Value x = drops ? dropout(v.x, dropout_) : v.x;
        const Value inside = site.linear() ? linear(x, a) : embedding(transpose(a, {1, 0}), x);
        const Value change = linear(inside * scale(site), b);
        const Value in = site.linear() ? v.x : Value{}; // ids cannot be compared with
        if (!invocation_.empty()) return delta(change * invoked(g, site, v.x), in);
        if (!dora_) return site.linear() ? low_rank_delta(change, in, a, b) : delta(change, in);
        const Value factor = magnitude(g, site, v) / stop_gradient(lengths(site, v.weight + product(site, a, b)));
        const Value plain = drops ? linear(x, v.weight) : v.bias ? v.y - v.bias : v.y;
        return delta((factor - 1.0) * plain + factor * change, in);
    }

    MergedSite merge(Graph& g, const Site& site, const SiteValues& v) {
        if (slots_ > 0) throw unsupported("slots cannot be merged: the rows of a batch use different ones");
        if (!invocation_.empty())
            throw unsupported("alora_invocation_tokens: what it adds depends on the place in the row, which no weight "
                              "does; use it unmerged");
        const auto [a, b] = matrices(g, site);
        const Value changed = v.weight + product(site, a, b);
        if (!dora_) return {changed, v.bias};
        const Value factor = magnitude(g, site, v) / lengths(site, changed);
        return {changed * (site.linear() ? reshape(factor, {site.out, 1}) : factor), v.bias};
    }

    void write(ConfigWriter& out) const {
        if (slots_ > 0) throw unsupported("PEFT has no form of several adapters in one folder");
        out.set("peft_type", "LORA");
        out.set("r", r_);
        out.set("lora_alpha", alpha_);
        out.set("lora_dropout", dropout_);
        out.set("use_rslora", rank_stabilized_);
        out.set("use_dora", dora_);
        out.set("bias", bias_);
        if (gaussian_)
            out.set("init_lora_weights", "gaussian");
        else
            out.set("init_lora_weights", true);
        if (!invocation_.empty()) out.set("alora_invocation_tokens", invocation_);
        targets_.write(out);
    }

private:
    static constexpr int64_t kMostRank = 65536;
    static bool is_gaussian(const Config& config) {
        const std::string key = "init_lora_weights";
        const auto refuse = [] {
            throw unsupported("init_lora_weights: expected true (B is zeros, as in PEFT) or \"gaussian\"");
        };
        try {
            if (!config.boolean(key)) refuse();
            return false;
        } catch (const Error& e) {
            if (e.code() == HK_UNSUPPORTED) throw;
        }
        if (config.string(key) != "gaussian") refuse();
        return true;
    }
    // The host checks that they are ids.
    static std::vector<int64_t> invocation_tokens(const Config& config) {
        const std::string key = "alora_invocation_tokens";
        std::vector<int64_t> ids;
        for (uint64_t i = 0, count = config.has(key) ? config.count(key) : 0; i < count; ++i)
            ids.push_back(config.integer(key + "." + std::to_string(i)));
        return ids;
    }
    // Returns 1 for the tokens from the invocation on, and 0 for the others: [B, T, 1].
    static Value invoked(Graph& g, const Site& site, Value x) {
        const Value start = g.input("adapter_start");
        const bool of_tokens = x.rank() == 3 && start.rank() == 1 && x.dim(0) == start.dim(0) &&
                               (!g.has_field("input_ids") || x.dim(1) == g.input("input_ids").dim(1));
        if (!of_tokens)
            throw unsupported("alora_invocation_tokens: the values of '" + std::string(site.name) +
                              "' are not [rows, tokens, width]");
        const Value place = g.positions(x.dim(0), x.dim(1));
        const Value before = cast(less(place, reshape(start, {start.dim(0), 1})), HK_KIND_FLOAT);
        return reshape(1.0 - before, {x.dim(0), x.dim(1), 1});
    }
    SiteAnswer adapt_by_row(Graph& g, const Site& site, const SiteValues& v) const {
        if (!site.linear())
            throw unsupported("slots act at linear layers, and '" + std::string(site.name) + "' is an embedding");
        if (!g.has_field("adapter_rows"))
            throw invalid("the batch has no field adapter_rows, which names the slot of each row");
        const Value rows = g.input("adapter_rows");
        if (v.x.rank() < 2 || rows.rank() != 1 || v.x.dim(0) != rows.dim(0))
            throw unsupported("the values of '" + std::string(site.name) + "' have no dimension of the batch's rows");
        const int64_t r = ranks_.of(site.name, r_);
        const Value a = g.parameter("lora_A.weight", {slots_, r, site.in}, start_of_a(site, r));
        const Value b = transposed_ ? g.parameter("lora_B.transposed", {slots_, r, site.out}, zeros())
                                    : g.parameter("lora_B.weight", {slots_, site.out, r}, zeros());
        const Value x = g.training() && dropout_ > 0.0 ? dropout(v.x, dropout_) : v.x;
        const Value inside = row_linear(x, a, rows);
        if (!g.has_field("adapter_scales")) return delta(row_linear(inside * scale(site), b, rows, {transposed_}), v.x);
        Dims column(static_cast<std::size_t>(inside.rank()), 1);
        column[0] = rows.dim(0);
        const Value scales = reshape(g.input("adapter_scales"), column) * scale(site);
        return delta(row_linear(inside * scales, b, rows, {transposed_}), v.x);
    }
    struct Matrices {
        Value a, b; // [r, in], [out, r]
    };
    // torch's kaiming_uniform_ with a = sqrt(5), or a normal distribution of standard deviation 1 / r.
    Initializer start_of_a(const Site& site, int64_t r) const {
        const double bound = 1.0 / std::sqrt(static_cast<double>(std::max<int64_t>(site.in, 1)));
        return gaussian_ ? normal(1.0 / static_cast<double>(r)) : uniform(-bound, bound);
    }
    Matrices matrices(Graph& g, const Site& site) const {
        const int64_t r = ranks_.of(site.name, r_);
        if (!site.linear()) // PEFT: A is zeros and B normal
            return {g.parameter("lora_embedding_A", {r, site.in}, zeros()),
                    g.parameter("lora_embedding_B", {site.out, r}, normal(1.0))};
        return {g.parameter("lora_A.weight", {r, site.in}, start_of_a(site, r)),
                g.parameter("lora_B.weight", {site.out, r}, zeros())};
    }
    // What is added to the weight: [out, in], or an embedding's [in, out].
    Value product(const Site& site, Value a, Value b) const {
        const Value change = matmul(b, a) * scale(site);
        return site.linear() ? change : transpose(change, {1, 0});
    }
    // The length of what makes each output: [out].
    static Value lengths(const Site& site, Value weight) { return sqrt(sum(weight * weight, {site.linear() ? 1 : 0})); }
    static Value magnitude(Graph& g, const Site& site, const SiteValues& v) {
        return initial_parameter(g, "lora_magnitude_vector", lengths(site, v.weight));
    }
    double scale(const Site& site) const {
        const auto r = static_cast<double>(ranks_.of(site.name, r_));
        return alphas_.of(site.name, alpha_) / (rank_stabilized_ ? std::sqrt(r) : r);
    }

    TargetModules targets_;
    int64_t r_;
    double alpha_, dropout_;
    NumbersByModule<int64_t> ranks_;
    NumbersByModule<double> alphas_;
    std::string bias_;
    bool rank_stabilized_, dora_, gaussian_;
    int64_t slots_;                   // 0: one adapter
    bool transposed_;                 // B of slots is [r, out]
    std::vector<int64_t> invocation_; // empty: it acts on all tokens
};

} // namespace

HEKLA_PLUGIN({HK_ADAPTER_INTERFACE, "lora", adapter<Lora>()})
