// Reinforcement learning: rows of rollouts, the losses of grpo and ppo and their gradients compared with formulas
// written here, and advantages compared with closed forms.
#include "bench.hpp"

#include "graph/gradient.hpp"
#include "plugin/instances/rollout_use.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace policy_test {

using namespace hekla;
using namespace hekla::test;

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

data::EncodedColumn numbers(const char* name, std::vector<float> values) {
    return {name, HK_COLUMN_NUMBERS, {}, std::move(values), {}};
}

std::unique_ptr<plugin::Composition> compose(const Objective& bench, const std::string& objective, json config) {
    plugin::CompositionSpec spec = small_gpt(bench, objective == "ppo" ? "lm+value" : "lm");
    spec.objective = objective;
    spec.objective_config = std::move(config);
    auto made = plugin::Composition::create(registry(), spec, bench.tokenizer.get());
    REQUIRE_MESSAGE(made.ok(), made.message());
    return made.take();
}

// Completions of different lengths, with numbers for every token; ratios around 1, so that some are clipped.
std::vector<batch::DrawnExample> rollouts(const Objective& bench, bool of_ppo) {
    RandomStream random(3, 5);
    std::vector<batch::DrawnExample> all;
    const std::pair<const char*, const char*> texts[] = {{"ab", "cde"}, {"xyz", "q"}, {"m", "nopqr"}, {"hello", "no"}};
    for (const auto& [prompt, completion] : texts) {
        const std::vector<int32_t> ids = bench.ids(completion);
        const auto drawn = [&](double mean, double deviation) {
            std::vector<float> values;
            for (std::size_t i = 0; i < ids.size(); ++i)
                values.push_back(static_cast<float>(mean + deviation * random.next_normal()));
            return values;
        };
        all.push_back(row_of({tokens("prompt", bench.ids(prompt)), tokens("completion", ids),
                              numbers("advantages", drawn(0.0, 1.0)), numbers("old_logps", drawn(-5.0, 0.5))}));
        auto& columns = all.back().example.columns;
        columns.push_back(numbers("ref_logps", drawn(-5.0, 0.5)));
        if (!of_ppo) continue;
        columns.push_back(numbers("returns", drawn(0.5, 0.5)));
        columns.push_back(numbers("old_values", drawn(0.0, 0.3)));
    }
    return all;
}

// A graph of losses with its values and, on request, gradients.
struct Bench {
    Bench(const plugin::Composition& composition, const std::vector<batch::DrawnExample>& examples, int64_t batch,
          int64_t length, std::vector<std::string> ports)
        : ports_(std::move(ports)) {
        REQUIRE(batch::make_fields(composition, examples, nullptr, 3, batch, length, fields_).ok());
        auto described = composition.batch_fields(batch, length);
        REQUIRE(described.ok());
        auto graph = composition.build(HK_MODE_EVALUATE, described.value(), ports_);
        REQUIRE_MESSAGE(graph.ok(), graph.message());
        graph_ = graph.take();
        feeds = feeds_of(graph_, fields_);
    }

    std::vector<graph::Tensor> values(const std::vector<graph::ValueId>& wanted) const {
        auto found = graph::evaluate(graph_, feeds, wanted);
        REQUIRE_MESSAGE(found.ok(), found.message());
        return found.take();
    }
    graph::Tensor port(const std::string& name) const { return values({graph_.outputs.at(name)})[0]; }
    // By loss: sum, count, weight.
    std::vector<std::array<double, 3>> losses() const {
        std::vector<graph::ValueId> wanted;
        for (const graph::LossTerm& term : graph_.losses) {
            wanted.push_back(term.sum);
            wanted.push_back(term.count);
        }
        const std::vector<graph::Tensor> found = values(wanted);
        std::vector<std::array<double, 3>> all;
        for (std::size_t i = 0; i < graph_.losses.size(); ++i)
            all.push_back({found[2 * i].data[0], found[2 * i + 1].data[0], graph_.losses[i].weight});
        return all;
    }
    double metric(const std::string& name) const {
        for (const graph::Metric& metric : graph_.metrics)
            if (metric.name == name) {
                const std::vector<graph::Tensor> found = values({metric.sum, metric.count});
                return found[0].data[0] / found[1].data[0];
            }
        FAIL("no metric " << name);
        return 0.0;
    }
    // The gradients of the whole loss, weights and counts included.
    std::map<std::string, graph::Tensor> gradients() const {
        auto differentiated = graph::differentiate(graph_);
        REQUIRE_MESSAGE(differentiated.ok(), differentiated.message());
        graph::Feeds with = feeds;
        const auto terms = losses();
        for (std::size_t i = 0; i < terms.size(); ++i)
            with.step_scalars[fmt::format("loss_scale.{}", i)] = terms[i][2] / terms[i][1];
        std::vector<graph::ValueId> wanted;
        std::vector<std::string> names;
        for (const auto& [name, value] : differentiated->outputs)
            if (name.starts_with("grad.")) {
                names.push_back(name.substr(5));
                wanted.push_back(value);
            }
        auto found = graph::evaluate(differentiated.value(), with, wanted);
        REQUIRE_MESSAGE(found.ok(), found.message());
        std::map<std::string, graph::Tensor> all;
        for (std::size_t i = 0; i < names.size(); ++i) all.emplace(names[i], found.value()[i]);
        return all;
    }
    const std::vector<double>& field(const std::string& name) const { return feeds.fields.at(name).data; }

    graph::Feeds feeds;

private:
    std::vector<std::string> ports_;
    std::vector<data::Field> fields_;
    graph::Graph graph_;
};

// What the formulas below read of a row: its scored tokens only.
struct Token {
    double logp = 0.0, old = 0.0, advantage = 0.0, reference = 0.0;
    double value = 0.0, old_value = 0.0, returned = 0.0;
};
std::vector<std::vector<Token>> rows_of(const Bench& bench, double temperature, bool reference, bool values) {
    const graph::Tensor logits = bench.port("logits");
    const auto length = static_cast<std::size_t>(logits.shape[1]), size = static_cast<std::size_t>(logits.shape[2]);
    const std::vector<double>& labels = bench.field("next_ids");
    const std::vector<double> estimated = values ? bench.port("values").data : std::vector<double>();
    std::vector<std::vector<Token>> rows(labels.size() / length);
    for (std::size_t i = 0; i < labels.size(); ++i) {
        if (labels[i] < 0.0) continue;
        double total = 0.0;
        for (std::size_t v = 0; v < size; ++v) total += std::exp(logits.data[i * size + v] / temperature);
        Token& token = rows[i / length].emplace_back();
        token.logp = logits.data[i * size + static_cast<std::size_t>(labels[i])] / temperature - std::log(total);
        token.old = bench.field("old_logps")[i];
        token.advantage = bench.field("advantages")[i];
        if (reference) token.reference = bench.field("ref_logps")[i];
        if (!values) continue;
        token.value = estimated[i];
        token.old_value = bench.field("old_values")[i];
        token.returned = bench.field("returns")[i];
    }
    return rows;
}

double clipped_loss(const Token& t, double low, double high) {
    const double ratio = std::exp(t.logp - t.old);
    return std::max(-ratio * t.advantage, -std::clamp(ratio, 1.0 - low, 1.0 + high) * t.advantage);
}

// The loss as TRL's GRPOTrainer has it, over one batch.
double grpo_loss(const std::vector<std::vector<Token>>& rows, const std::string& type, double low, double high,
                 double beta, double response_length) {
    double of_rows = 0.0, of_tokens = 0.0, tokens = 0.0, count = 0.0;
    for (const std::vector<Token>& row : rows) {
        if (row.empty()) continue;
        double sum = 0.0;
        for (const Token& t : row) {
            const double d = t.reference - t.logp;
            sum += clipped_loss(t, low, high) + (beta > 0.0 ? beta * (std::exp(d) - d - 1.0) : 0.0);
        }
        of_rows += sum / static_cast<double>(row.size());
        of_tokens += sum;
        tokens += static_cast<double>(row.size());
        count += 1.0;
    }
    if (type == "grpo") return of_rows / count;
    return type == "dr_grpo" ? of_tokens / (count * response_length) : of_tokens / tokens;
}

double ppo_loss(const std::vector<std::vector<Token>>& rows, double clip, double clip_value, double weight) {
    double policy = 0.0, value = 0.0, tokens = 0.0;
    for (const std::vector<Token>& row : rows)
        for (const Token& t : row) {
            policy += clipped_loss(t, clip, clip);
            const double near = std::clamp(t.value, t.old_value - clip_value, t.old_value + clip_value);
            value += 0.5 * std::max(std::pow(t.value - t.returned, 2.0), std::pow(near - t.returned, 2.0));
            tokens += 1.0;
        }
    return (policy + weight * value) / tokens;
}

// Compares gradients with finite differences of a loss that is a function of the network's outputs.
template<class Loss>
void check_gradients(Bench& bench, const Loss& loss) {
    const std::map<std::string, graph::Tensor> gradients = bench.gradients();
    std::size_t checked = 0;
    for (auto& [name, tensor] : bench.feeds.parameters) {
        if (!gradients.contains(name)) continue;
        const std::vector<double>& own = gradients.at(name).data;
        // Where it is largest, and somewhere else.
        const auto largest = static_cast<std::size_t>(
            std::ranges::max_element(own, {}, [](double g) { return std::abs(g); }) - own.begin());
        for (const std::size_t i : {largest, own.size() / 2}) {
            constexpr double kStep = 1e-6;
            const double before = tensor.data[i];
            tensor.data[i] = before + kStep;
            const double more = loss();
            tensor.data[i] = before - kStep;
            const double less = loss();
            tensor.data[i] = before;
            CAPTURE(name);
            CAPTURE(i);
            CHECK(own[i] == doctest::Approx((more - less) / (2.0 * kStep)).epsilon(1e-4).scale(1e-3));
            ++checked;
        }
    }
    CHECK(checked > 20);
}

double total_of(const std::vector<std::array<double, 3>>& losses) {
    double total = 0.0;
    for (const auto& [sum, count, weight] : losses) total += weight * sum / count;
    return total;
}

// Rollouts of one token count per row, for weigh().
struct Given {
    std::vector<uint64_t> begins{0};
    std::vector<float> logps, ref_logps, values;
    std::vector<double> scores;
    std::vector<uint8_t> ended;
    void add(std::vector<float> own, std::vector<float> reference, std::vector<float> estimated, double score,
             bool end = true) {
        begins.push_back(begins.back() + own.size());
        logps.insert(logps.end(), own.begin(), own.end());
        ref_logps.insert(ref_logps.end(), reference.begin(), reference.end());
        values.insert(values.end(), estimated.begin(), estimated.end());
        scores.push_back(score);
        ended.push_back(end ? 1 : 0);
    }
    hk_rollouts raw(uint32_t generations, double kl_coef) const {
        hk_rollouts all{};
        all.struct_size = sizeof all;
        all.generations = generations;
        all.rows = scores.size();
        all.begins = begins.data();
        all.logps = logps.data();
        all.ref_logps = ref_logps.data();
        all.values = values.data();
        all.scores = scores.data();
        all.ended = ended.data();
        all.kl_coef = kl_coef;
        return all;
    }
};

std::unique_ptr<plugin::RolloutUse> use_of(const std::string& objective, const json& config) {
    auto made = plugin::RolloutUse::create(registry(), objective, config);
    REQUIRE_MESSAGE(made.ok(), made.message());
    return made.take();
}

plugin::RolloutUse::Weighed weighed(const std::string& objective, const json& config, const Given& given,
                                    uint32_t generations, double kl_coef = 0.0) {
    auto made = use_of(objective, config)->weigh(given.raw(generations, kl_coef));
    REQUIRE_MESSAGE(made.ok(), made.message());
    return made.take();
}

std::vector<float> column(const plugin::RolloutUse::Weighed& weighed, const std::string& name) {
    for (const auto& [found, values] : weighed.columns)
        if (found == name) return values;
    FAIL("no column " << name);
    return {};
}

double metric(const plugin::RolloutUse::Weighed& weighed, const std::string& name) {
    for (const auto& [found, value] : weighed.metrics)
        if (found == name) return value;
    FAIL("no metric " << name);
    return 0.0;
}

} // namespace

TEST_CASE("rows of rollouts: tokens of the completion are scored, and their numbers are where they are predicted") {
    const Objective task("grpo", {{"beta", 0.1}}, "gpt2", "lm");
    std::vector<batch::DrawnExample> examples{
        row_of({tokens("prompt", task.ids("ab")), tokens("completion", task.ids("cd")), numbers("advantages", {1, 2}),
                numbers("old_logps", {-1, -2}), numbers("ref_logps", {-3, -4})}),
        row_of({tokens("prompt", task.ids("x")), tokens("completion", task.ids("yz")), numbers("advantages", {5, 6}),
                numbers("old_logps", {-5, -6}), numbers("ref_logps", {-7, -8}), numbers("completion_mask", {0, 1})})};
    const Fields fields = collate(task, examples, 3, 5);
    const int32_t pad = task.id_of("<pad>");
    CHECK(task.text(fields.row("input_ids", 0)) == "abc<pad><pad>"); // the last token is only predicted
    CHECK(fields.row("next_ids", 0) == std::vector<int32_t>{-100, task.ids("c")[0], task.ids("d")[0], -100, -100});
    CHECK(fields.row<float>("advantages", 0) == std::vector<float>{0, 1, 2, 0, 0});
    CHECK(fields.row<float>("old_logps", 0) == std::vector<float>{0, -1, -2, 0, 0});
    CHECK(fields.row<float>("ref_logps", 0) == std::vector<float>{0, -3, -4, 0, 0});
    CHECK(fields.row("row_labels", 0)[0] == 0);
    CHECK(fields.row("next_ids", 1) == std::vector<int32_t>{-100, task.ids("z")[0], -100, -100, -100}); // masked
    CHECK(fields.row<float>("advantages", 1) == std::vector<float>{5, 6, 0, 0, 0});
    CHECK(fields.row("row_labels", 1)[0] == 0);
    // A missing row has no weight.
    CHECK(fields.row("input_ids", 2) == std::vector<int32_t>(5, pad));
    CHECK(fields.row("row_labels", 2)[0] == -100);
    // A column of another length is refused.
    examples[0].example.columns[2].numbers = {1};
    std::vector<data::Field> made;
    const Status refused = batch::make_fields(*task.composition, examples, nullptr, 1, 2, 5, made);
    CHECK(refused.message().find("'advantages' has 1 numbers, expected one for each of the 2 tokens") !=
          std::string::npos);
}

TEST_CASE("grpo: losses of all types and their gradients equal the formulas, and parts add up to the whole") {
    const Objective bench("clm", json::object(), "gpt2", "lm");
    const std::vector<batch::DrawnExample> examples = rollouts(bench, false);
    for (const char* type : {"grpo", "bnpo", "dr_grpo", "dapo"})
        for (const auto& [beta, temperature, high] : {std::tuple{0.0, 1.0, 0.2}, {0.3, 0.7, 0.28}}) {
            CAPTURE(type);
            CAPTURE(beta);
            const json config{{"loss_type", type},    {"beta", beta},         {"temperature", temperature},
                              {"epsilon_high", high}, {"response_length", 6}, {"epsilon", 0.2}};
            const auto composition = compose(bench, "grpo", config);
            Bench whole(*composition, examples, 5, 10, {"logits"});
            const auto expected = [&] {
                return grpo_loss(rows_of(whole, temperature, beta > 0.0, false), type, 0.2, high, beta, 6.0);
            };
            const auto losses = whole.losses();
            REQUIRE(losses.size() == 1);
            CHECK(total_of(losses) == doctest::Approx(expected()).epsilon(1e-9));
            check_gradients(whole, expected);
            // Micro-batches: sums and counts add up.
            double sum = 0.0, count = 0.0;
            for (const std::size_t first : {0U, 2U}) {
                Bench part(*composition, {examples.begin() + first, examples.begin() + first + 2}, 2, 10, {"logits"});
                part.feeds.parameters = whole.feeds.parameters;
                sum += part.losses()[0][0];
                count += part.losses()[0][1];
            }
            CHECK(sum == doctest::Approx(losses[0][0]).epsilon(1e-12));
            CHECK(count == losses[0][1]);
        }
    // What is logged: ratios that are clipped, and how far they are from 1.
    const auto composition = compose(bench, "grpo", {{"beta", 0.2}});
    const Bench made(*composition, examples, 5, 10, {"logits"});
    double clipped = 0.0, apart = 0.0, ratios = 0.0, divergence = 0.0, tokens = 0.0;
    for (const std::vector<Token>& row : rows_of(made, 1.0, true, false))
        for (const Token& t : row) {
            const double ratio = std::exp(t.logp - t.old), d = t.reference - t.logp;
            clipped += -std::clamp(ratio, 0.8, 1.2) * t.advantage > -ratio * t.advantage ? 1.0 : 0.0;
            apart += 0.5 * (t.logp - t.old) * (t.logp - t.old);
            ratios += ratio;
            divergence += std::exp(d) - d - 1.0;
            tokens += 1.0;
        }
    REQUIRE(clipped > 0.0);
    CHECK(made.metric("policy/clipfrac_avg") == doctest::Approx(clipped / tokens));
    CHECK(made.metric("policy/approxkl_avg") == doctest::Approx(apart / tokens));
    CHECK(made.metric("val/ratio") == doctest::Approx(ratios / tokens));
    CHECK(made.metric("kl") == doctest::Approx(divergence / tokens));
}

TEST_CASE("ppo: losses of policy and values and their gradients equal the formulas") {
    const Objective bench("clm", json::object(), "gpt2", "lm");
    const std::vector<batch::DrawnExample> examples = rollouts(bench, true);
    for (const auto& [temperature, clip, clip_value, weight] :
         {std::tuple{1.0, 0.2, 0.2, 0.1}, {0.7, 0.1, 0.05, 0.5}}) {
        const auto composition = compose(
            bench, "ppo",
            {{"temperature", temperature}, {"cliprange", clip}, {"cliprange_value", clip_value}, {"vf_coef", weight}});
        Bench made(*composition, examples, 5, 10, {"logits", "values"});
        const auto expected = [&] {
            return ppo_loss(rows_of(made, temperature, false, true), clip, clip_value, weight);
        };
        CHECK(total_of(made.losses()) == doctest::Approx(expected()).epsilon(1e-9));
        check_gradients(made, expected);
    }
    // Without a value head the error tells which one.
    plugin::CompositionSpec spec = small_gpt(bench, "lm");
    spec.objective = "ppo";
    auto wrong = plugin::Composition::create(registry(), spec, bench.tokenizer.get());
    REQUIRE(wrong.ok());
    auto fields = wrong.value()->batch_fields(2, 8);
    REQUIRE(fields.ok());
    const auto built = wrong.value()->build(HK_MODE_TRAIN, fields.value());
    REQUIRE_FALSE(built.ok());
    CHECK(built.message().find("head.id = \"lm+value\"") != std::string::npos);
    for (const auto& [objective, config] : {std::pair{"ppo", json{{"kl_target", 6.0}, {"kl_coef", 0.0}}},
                                            {"ppo", {{"kl_estimator", "k2"}}},
                                            {"ppo", {{"lam", 1.5}}},
                                            {"grpo", {{"loss_type", "sapo"}}},
                                            {"grpo", {{"scale_rewards", "row"}}},
                                            {"grpo", {{"num_iterations", 0}}},
                                            {"grpo", {{"temperature", 0.0}}}}) {
        plugin::CompositionSpec refused = small_gpt(bench, "lm+value");
        refused.objective = objective;
        refused.objective_config = config;
        CHECK_FALSE(plugin::Composition::create(registry(), refused, bench.tokenizer.get()).ok());
    }
}

TEST_CASE("grpo: advantages are scores against those of their group") {
    Given given;
    for (const double score : {1.0, 0.0, 0.0, 3.0, 2.0, 2.0}) given.add({-1, -2}, {-1, -2}, {}, score, score != 3.0);
    const auto advantages = [&](const json& config) { return column(weighed("grpo", config, given, 3), "advantages"); };
    const double third = 1.0 / 3.0, deviation = std::sqrt((4.0 + 1.0 + 1.0) / 9.0 / 2.0) / 1.0;
    std::vector<float> all = advantages({{"scale_rewards", "none"}});
    REQUIRE(all.size() == 12);
    CHECK(all[0] == doctest::Approx(1.0 - third));
    CHECK(all[1] == all[0]); // each token of a row has it
    CHECK(all[2] == doctest::Approx(-third));
    CHECK(all[6] == doctest::Approx(3.0 - 7.0 / 3.0));
    all = advantages({{"scale_rewards", "group"}});
    CHECK(all[0] == doctest::Approx((1.0 - third) / (deviation + 1e-4)));
    CHECK(all[6] == doctest::Approx((2.0 * third) / (deviation + 1e-4)));
    double squares = 0.0;
    for (const double score : given.scores) squares += std::pow(score - 8.0 / 6.0, 2.0);
    all = advantages({{"scale_rewards", "batch"}});
    CHECK(all[0] == doctest::Approx((1.0 - third) / (std::sqrt(squares / 5.0) + 1e-4)));
    all = advantages({{"scale_rewards", "none"}, {"advantage", "rloo"}});
    CHECK(all[0] == doctest::Approx(1.0)); // the others have 0
    CHECK(all[2] == doctest::Approx(-0.5));
    // A completion without a score has no advantage, and the others of its group are compared without it.
    given.scores[0] = kNone;
    all = advantages({{"scale_rewards", "none"}});
    CHECK(all[0] == 0.0F);
    CHECK(all[2] == 0.0F); // the other two are equal
    given.scores[1] = kNone;
    CHECK(advantages({{"scale_rewards", "group"}})[4] == 0.0F); // alone
    CHECK(column(weighed("grpo", {{"mask_truncated_completions", true}}, given, 3), "completion_mask") ==
          std::vector<float>{1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1});
    CHECK(column(weighed("grpo", {{"beta", 0.1}}, given, 3), "ref_logps") == given.ref_logps);
    CHECK(use_of("grpo", {{"num_iterations", 3}})->needs().epochs == 3);
    CHECK_FALSE(use_of("grpo", json::object())->needs().reference);
    CHECK(use_of("grpo", {{"beta", 0.1}})->needs().reference);
    CHECK(use_of("grpo", json::object())->needs().least_generations == 2);
}

TEST_CASE("ppo: advantages equal the closed forms, whitened; the divergence is paid for by every token") {
    Given given;
    given.add({-1.0F, -2.0F, -0.5F}, {-1.5F, -1.0F, -0.5F}, {0.3F, -0.2F, 0.9F}, 2.0);
    given.add({-3.0F, -1.0F}, {-2.0F, -1.0F}, {0.1F, 0.4F}, -1.0, false);
    const double kl = 0.1;
    // Rewards of the tokens: -kl_coef (logp - ref), and the score at the last one.
    const std::vector<std::vector<double>> rewards{{-kl * 0.5, kl * 1.0, 2.0}, {kl * 1.0, -1.0}};
    const auto returns_of = [&](const json& more) {
        json config{{"kl_coef", kl}};
        config.update(more);
        return weighed("ppo", config, given, 1, kl);
    };
    // lam = 1: what is left to come. lam = 0: the error of one step.
    const plugin::RolloutUse::Weighed sum = returns_of({{"lam", 1.0}}), one = returns_of({{"lam", 0.0}});
    const std::vector<float> whole = column(sum, "returns"), step = column(one, "returns");
    std::vector<double> left, errors;
    std::size_t at = 0;
    for (std::size_t row = 0; row < rewards.size(); ++row)
        for (std::size_t t = 0; t < rewards[row].size(); ++t, ++at) {
            double rest = 0.0;
            for (std::size_t k = t; k < rewards[row].size(); ++k) rest += rewards[row][k];
            const double value = static_cast<double>(given.values[at]);
            const double next = t + 1 < rewards[row].size() ? static_cast<double>(given.values[at + 1]) : 0.0;
            CHECK(whole[at] == doctest::Approx(rest).epsilon(1e-6));
            CHECK(step[at] == doctest::Approx(rewards[row][t] + next).epsilon(1e-6));
            left.push_back(rest - value);
            errors.push_back(rewards[row][t] + next - value);
        }
    // Advantages have mean 0 and an unbiased variance of 1, in the same order.
    for (const auto& [made, raw] : {std::pair(&sum, &left), std::pair(&one, &errors)}) {
        const std::vector<float> white = column(*made, "advantages");
        double mean = 0.0, squares = 0.0;
        for (const double x : *raw) mean += x / 5.0;
        for (const double x : *raw) squares += (x - mean) * (x - mean);
        for (std::size_t i = 0; i < 5; ++i)
            CHECK(white[i] == doctest::Approx(((*raw)[i] - mean) / std::sqrt(squares / 4.0 + 1e-8)).epsilon(1e-5));
    }
    CHECK(metric(sum, "objective/non_score_reward") == doctest::Approx(kl * (-0.5 + 1.0 + 1.0) / 2.0));
    CHECK(metric(sum, "objective/rlhf_reward") == doctest::Approx(kl * 1.5 / 2.0 + 0.5));
    // k3 is never negative.
    const double third = std::exp(-0.5) + 0.5 - 1.0;
    CHECK(column(returns_of({{"lam", 0.0}, {"kl_estimator", "k3"}}), "returns")[0] ==
          doctest::Approx(-kl * third - 0.2));
    // Rewards are scaled to a variance of 1 around their mean.
    const std::vector<float> scaled = column(returns_of({{"lam", 0.0}, {"whiten_rewards", true}}), "returns");
    const std::vector<double> flat{-0.05, 0.1, 2.0, 0.1, -1.0};
    double mean = 0.0, squares = 0.0;
    for (const double x : flat) mean += x / 5.0;
    for (const double x : flat) squares += (x - mean) * (x - mean);
    CHECK(scaled[0] == doctest::Approx((-0.05 - mean) / std::sqrt(squares / 4.0 + 1e-8) + mean - 0.2).epsilon(1e-5));
    // A completion without a score teaches nothing.
    given.scores[1] = kNone;
    CHECK(column(returns_of(json::object()), "completion_mask") == std::vector<float>{1, 1, 1, 0, 0});
    // The controller: 20% of the rows' share of the horizon at most.
    given.scores[1] = 0.0;
    const json adaptive{{"kl_coef", kl}, {"kl_target", 0.5}, {"kl_horizon", 10.0}};
    CHECK(weighed("ppo", adaptive, given, 1, kl).kl_coef == doctest::Approx(kl * (1.0 - 0.2 * 2.0 / 10.0)));
    CHECK(weighed("ppo", {{"kl_coef", kl}}, given, 1, kl).kl_coef == kl);
}

TEST_CASE("weigh: a column that is not finite is refused") {
    Given given;
    given.add({-std::numeric_limits<float>::infinity()}, {-1}, {}, 1.0);
    given.add({-1}, {-1}, {}, 0.0);
    const auto made = use_of("grpo", json::object())->weigh(given.raw(2, 0.0));
    REQUIRE_FALSE(made.ok());
    CHECK(made.message().find("'old_logps' has -inf for token 1 of 2") != std::string::npos);
    CHECK(plugin::learns_from_rollouts(registry(), "grpo"));
    CHECK_FALSE(plugin::learns_from_rollouts(registry(), "dpo"));
}

} // namespace policy_test
