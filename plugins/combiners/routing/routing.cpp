// Routing: which adapters act on which tokens: all of them alike, or by a router that learns it, soft (a weight for
// each adapter) or hard (the best of them); or by the adapters' own matrices.
#include "block.hpp"
#include "combiner.hpp"
#include "pooling.hpp"

#include <algorithm>
#include <cmath>

using namespace hekla::plugin;

namespace {

constexpr double kSmallest =
    1e-9; // below it a sum of weights counts as zero, and a random number as its logarithm's end

class Average {
public:
    explicit Average(const Config& config) : normalize_(config.boolean("normalize")), weights_(config) {}
    Combined combine(Graph& g, const Site&, const SiteValues&, const std::vector<Branch>& branches) const {
        weights_.check(branches);
        double all = 0.0;
        for (std::size_t i = 0; i < branches.size(); ++i) all += branches[i].acts() ? weights_[i] : 0.0;
        if (!std::isfinite(all) || (normalize_ && std::abs(all) < kSmallest))
            throw invalid("the sum of weights is not finite, or 0; expected another number");
        std::vector<double> shares;
        for (std::size_t i = 0; i < branches.size(); ++i)
            if (branches[i].acts()) shares.push_back(normalize_ ? weights_[i] / all : weights_[i]);
        Value sum;
        const std::vector<Branch> found = acting(branches);
        for (std::size_t i = 0; i < found.size(); ++i) {
            const Value part = found[i].delta * shares[i];
            sum = i == 0 ? part : sum + part;
        }
        Dims ones(std::max<std::size_t>(1, sum.shape().size()), 1); // 0 dimensions after an error
        ones.back() = static_cast<int64_t>(found.size());
        return {sum, weights_of_all(g, branches, g.constant(HK_KIND_FLOAT, ones, shares))};
    }

private:
    bool normalize_;
    BranchWeights weights_;
};

// What soft and hard routing share: the router's probabilities.
class Router {
public:
    explicit Router(const Config& config) : temperature_(config.real("temperature")), per_(config.string("per")) {
        if (per_ != "token" && per_ != "prefix" && per_ != "row")
            throw invalid("per is '" + per_ + "'; expected \"token\", \"prefix\" or \"row\"");
        if (!(temperature_ > 0.0) || !std::isfinite(temperature_))
            throw invalid("temperature is not above 0; expected a positive number");
    }
    // Returns scores [..., number of branches], or [B, 1, ...] of whole rows. A branch that does not act at the site is
    // scored too: choosing it leaves y as it is.
    Value scores(Graph& g, const Site& site, const std::vector<Branch>& branches) const {
        Value x = acting(branches).back().input;
        if (per_ != "token" && x.rank() != 3)
            throw unsupported("per = \"" + per_ + "\" needs values [rows, tokens, width]");
        if (per_ == "prefix") {
            // Of its own for sites of one name and for nested combinations.
            std::string name = "router." + std::string(site.name) + "." + std::to_string(site.kind);
            for (const Branch& branch : branches) name += "." + std::string(branch.name);
            x = prefix_means(g, x, name);
        }
        if (per_ == "row") {
            if (g.mode() == HK_MODE_DECODE)
                throw unsupported("per = \"row\" takes the mean over a row's tokens, which generation does not have: "
                                  "use per = \"token\" or \"prefix\"");
            x = reshape(pool_tokens(g, x, PoolingKind::mean, ""), {x.dim(0), 1, x.dim(2)});
        }
        return linear_layer(g, x, "router", static_cast<int64_t>(branches.size()), {.initializer = normal(0.02)}) *
               (1.0 / temperature_);
    }

private:
    // Returns the mean of each token and those before it, [B, T, D]; in decode mode with the sum of earlier steps.
    static Value prefix_means(Graph& g, Value x, const std::string& name) {
        const std::string sum_name = name + ".sum", count_name = name + ".count";
        const Value sums = cumsum(x, 1) + state_read(g.fill({x.dim(0), 1, x.dim(2)}, 0.0), sum_name);
        const Value counts =
            cumsum(g.fill({x.dim(0), x.dim(1), 1}, 1.0), 1) + state_read(g.fill({x.dim(0), 1, 1}, 0.0), count_name);
        state_write(slice(sums, 1, x.dim(1) - 1, 1), sum_name);
        state_write(slice(counts, 1, x.dim(1) - 1, 1), count_name);
        return sums / counts;
    }
    double temperature_;
    std::string per_;
};

class Soft {
public:
    explicit Soft(const Config& config) : router_(config) {}
    Combined combine(Graph& g, const Site& site, const SiteValues&, const std::vector<Branch>& branches) const {
        const Value weights = softmax(router_.scores(g, site, branches));
        return {weighted_sum(branches, weights), weights};
    }

private:
    Router router_;
};

// Returns 1 for the `count` best of the scores [..., branches], else 0.
Value best_of(Graph& g, Value scores, int64_t count) {
    const Value best = top_k(scores, count).indices;
    const Value number = g.iota(scores.dim(-1));
    Value chosen;
    for (int64_t i = 0; i < count; ++i) {
        const Value one = cast(equal(slice(best, -1, i, 1), number), HK_KIND_FLOAT);
        chosen = i == 0 ? one : chosen + one;
    }
    return chosen;
}

class Hard {
public:
    explicit Hard(const Config& config)
        : router_(config), top_k_(config.integer("top_k")), straight_through_(config.boolean("straight_through")),
          gumbel_(config.boolean("gumbel")), balance_(config.real("balance")) {}

    Combined combine(Graph& g, const Site& site, const SiteValues&, const std::vector<Branch>& branches) const {
        const auto count = static_cast<int64_t>(branches.size());
        Value scores = router_.scores(g, site, branches);
        if (gumbel_ && g.training()) {
            const Value uniform = clamp(random_uniform(g, scores.shape()), kSmallest, 1.0);
            scores = scores - log(clamp(-log(uniform), kSmallest, -std::log(kSmallest)));
        }
        const Value soft = softmax(scores);
        if (top_k_ >= count) return {weighted_sum(branches, soft), soft};
        const Value chosen = best_of(g, scores, top_k_);
        const Value kept = chosen * soft;
        const Value hard = kept / sum(kept, {-1}, {.keep = 1});
        // The value of `hard`, the gradient of `soft`.
        const Value weights = straight_through_ ? stop_gradient(hard) + (soft - stop_gradient(soft)) : hard;
        return {weighted_sum(branches, weights), weights, loss(g, chosen, soft)};
    }

private:
    // Switch Transformer, equation 4: the number of adapters times the sum of the share of tokens that chose an adapter
    // times the mean of its probability. 1 if all are chosen equally often; of tokens that are not padding.
    Value loss(Graph& g, Value chosen, Value soft) const {
        if (balance_ == 0.0 || !g.training()) return {};
        std::vector<int64_t> axes;
        for (int64_t i = 0; i + 1 < soft.rank(); ++i) axes.push_back(i);
        Value mask = g.fill({1}, 1.0), tokens = g.fill({}, 1.0);
        for (const int64_t axis : axes) tokens = tokens * static_cast<double>(soft.dim(static_cast<int>(axis)));
        if (g.has_field("attention_mask") && soft.rank() == 3) {
            const Value given = g.input("attention_mask");
            if (given.rank() == 2 && given.dim(0) == soft.dim(0) && given.dim(1) == soft.dim(1)) {
                mask = reshape(cast(given, HK_KIND_FLOAT), {soft.dim(0), soft.dim(1), 1});
                tokens = sum(mask, {0, 1, 2});
            }
        }
        const Value share = sum(stop_gradient(chosen) * mask, axes) / (tokens * static_cast<double>(top_k_));
        const Value probability = sum(soft * mask, axes) / tokens;
        return sum(share * probability, {0}) * (balance_ * static_cast<double>(soft.dim(-1)));
    }

    Router router_;
    int64_t top_k_;
    bool straight_through_, gumbel_;
    double balance_;
};

// Arrow (Ostapenko et al. 2024): routing without training. The prototype of a LoRA at a layer is the input that its
// change B A of the weight makes longest; a token uses the LoRAs whose prototypes its input is most along. Keys and
// computation are PEFT's, but for the prototypes, which PEFT approximates by 15 iterations from a random vector.
class Arrow {
public:
    explicit Arrow(const Config& config)
        : top_k_(config.integer("top_k")), temperature_(config.real("router_temperature")) {
        if (!(temperature_ > 0.0) || !std::isfinite(temperature_))
            throw invalid("router_temperature is not above 0; expected a positive number");
    }

    Combined combine(Graph& g, const Site& site, const SiteValues&, const std::vector<Branch>& branches) const {
        const std::vector<Branch> found = acting(branches);
        for (const Branch& branch : found)
            if (!branch.a || !branch.b)
                throw unsupported("arrow compares LoRA's matrices at linear layers, and '" + std::string(branch.name) +
                                  "' at '" + std::string(site.name) +
                                  "' has none: expected LoRA, without DoRA, aLoRA "
                                  "or slots, and no combination");
        const Value prototypes = initial_parameter(g, "prototypes", directions(found), HK_INITIAL_FIXED);
        const Value scores = abs(linear(found.back().input, prototypes));
        Value weights = softmax(scores * (1.0 / temperature_));
        if (top_k_ < static_cast<int64_t>(found.size())) {
            const Value kept = best_of(g, scores, top_k_) * weights;
            weights = kept / sum(kept, {-1}, {.keep = 1});
        }
        return {weighted_sum(found, weights), weights_of_all(g, branches, weights)};
    }

private:
    // Returns the first right singular vectors of the branches' B A, [branches, in]: A^T u, with the first eigenvector
    // u of B^T B A A^T, all of whose columns become its multiples as the matrix is squared again and again. The largest
    // element of a vector is positive.
    static Value directions(const std::vector<Branch>& branches) {
        int64_t rank = 1;
        for (const Branch& branch : branches) rank = std::max(rank, branch.a.dim(0));
        std::vector<Value> as, bs;
        const auto count = static_cast<int64_t>(branches.size());
        for (const Branch& branch : branches) {
            const Value a = pad(branch.a, 0, {.after = rank - branch.a.dim(0)});
            const Value b = pad(branch.b, 1, {.after = rank - branch.b.dim(1)});
            as.push_back(reshape(a, {1, rank, a.dim(1)}));
            bs.push_back(reshape(b, {1, b.dim(0), rank}));
        }
        const Value a = concat(as, 0), b = concat(bs, 0);
        Value power = matmul(matmul(b, b, {.transpose_a = 1}), matmul(a, a, {.transpose_b = 1}));
        for (int i = 0; i < kSquarings; ++i) {
            power = power / max(abs(power), {1, 2}, {.keep = 1});
            power = matmul(power, power);
        }
        const Value longest = reshape(argmax(sum(power * power, {1})), {count, 1});
        const Value u = gather(transpose(power, {0, 2, 1}), longest, {.batch_dimensions = 1}); // [branches, 1, rank]
        const Value v = reshape(matmul(u, a), {count, a.dim(2)});
        const Value largest = gather(v, reshape(argmax(abs(v)), {count, 1}), {.batch_dimensions = 1});
        return v * sign(largest) / sqrt(sum(v * v, {1}, {.keep = 1}));
    }
    static constexpr int kSquarings = 14;

    int64_t top_k_;
    double temperature_;
};

} // namespace

HEKLA_PLUGIN({HK_COMBINER_INTERFACE, "average", combiner<Average>()}, {HK_COMBINER_INTERFACE, "soft", combiner<Soft>()},
             {HK_COMBINER_INTERFACE, "hard", combiner<Hard>()}, {HK_COMBINER_INTERFACE, "arrow", combiner<Arrow>()})
