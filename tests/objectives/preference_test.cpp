// Preferences: rows of answers, and the losses of reward, dpo, orpo and kto compared with sums computed here from the
// logits.
#include "bench.hpp"

#include <algorithm>
#include <cmath>

namespace preference_test {

using namespace hekla;
using namespace hekla::test;

namespace {

batch::DrawnExample pair(const Objective& o, const char* prompt, const char* chosen, const char* rejected) {
    return row_of(
        {tokens("prompt", o.ids(prompt)), tokens("chosen", o.ids(chosen)), tokens("rejected", o.ids(rejected))});
}

std::unique_ptr<plugin::Composition> compose(const Objective& bench, plugin::CompositionSpec spec,
                                             const std::string& objective, json config, bool reference = false) {
    spec.objective = objective;
    spec.objective_config = std::move(config);
    if (reference) spec.teacher = std::make_shared<const plugin::CompositionSpec>(small_gpt(bench));
    auto made = plugin::Composition::create(registry(), spec, bench.tokenizer.get());
    REQUIRE_MESSAGE(made.ok(), made.message());
    return made.take();
}

// The values of a composition: sums and counts of its losses, and ports.
struct Computed {
    std::vector<double> sums, counts, weights;
    std::map<std::string, graph::Tensor> ports;
    std::map<std::string, std::vector<double>> fields;
};
// same: the reference has the policy's weights.
Computed compute(const plugin::Composition& composition, const std::vector<batch::DrawnExample>& examples,
                 int64_t batch, int64_t length, const std::vector<std::string>& ports, bool same = false) {
    std::vector<data::Field> fields;
    REQUIRE(batch::make_fields(composition, examples, nullptr, 3, batch, length, fields).ok());
    auto described = composition.batch_fields(batch, length);
    REQUIRE(described.ok());
    auto graph = composition.build(HK_MODE_EVALUATE, described.value(), ports);
    REQUIRE_MESSAGE(graph.ok(), graph.message());
    graph::Feeds feeds = feeds_of(graph.value(), fields);
    if (same)
        for (auto& [name, tensor] : feeds.parameters)
            if (name.starts_with(plugin::kTeacher))
                tensor = feeds.parameters.at(name.substr(std::string_view(plugin::kTeacher).size()));
    std::vector<graph::ValueId> wanted;
    for (const graph::LossTerm& term : graph->losses) {
        wanted.push_back(term.sum);
        wanted.push_back(term.count);
    }
    for (const std::string& port : ports) wanted.push_back(graph->outputs.at(port));
    auto values = graph::evaluate(graph.value(), feeds, wanted);
    REQUIRE_MESSAGE(values.ok(), values.message());
    Computed made;
    std::size_t at = 0;
    for (const graph::LossTerm& term : graph->losses) {
        made.sums.push_back(values.value()[at++].data[0]);
        made.counts.push_back(values.value()[at++].data[0]);
        made.weights.push_back(term.weight);
    }
    for (const std::string& port : ports) made.ports[port] = values.value()[at++];
    for (const auto& [name, tensor] : feeds.fields) made.fields[name] = tensor.data;
    return made;
}

// Log probabilities of the scored tokens of each row, and their numbers.
struct Rows {
    std::vector<double> sums, tokens;
};
Rows rows_of(const graph::Tensor& logits, const std::vector<double>& labels) {
    const auto size = static_cast<std::size_t>(logits.shape[2]), length = static_cast<std::size_t>(logits.shape[1]);
    Rows rows;
    for (std::size_t row = 0; row < labels.size() / length; ++row) {
        double sum = 0.0, tokens = 0.0;
        for (std::size_t t = 0; t < length; ++t) {
            const std::size_t place = row * length + t;
            if (labels[place] < 0.0) continue;
            double total = 0.0;
            for (std::size_t v = 0; v < size; ++v) total += std::exp(logits.data[place * size + v]);
            sum += logits.data[place * size + static_cast<std::size_t>(labels[place])] - std::log(total);
            tokens += 1.0;
        }
        rows.sums.push_back(sum);
        rows.tokens.push_back(tokens);
    }
    return rows;
}

double log_sigmoid(double x) { return -std::log1p(std::exp(-x)); }

} // namespace

TEST_CASE("rows of answers: the chosen ones come first, prompts are not scored, the end token is") {
    const Objective task("orpo", json::object(), "gpt2", "lm");
    const int32_t eos = task.id_of("<eos>"), pad = task.id_of("<pad>");
    const Fields fields = collate(task, {pair(task, "ab", "cd", "e"), pair(task, "ab", "cd", "cd")}, 3, 5);
    CHECK(task.text(fields.row("input_ids", 0)) == "abcd<pad>");
    CHECK(fields.row("next_ids", 0) == std::vector<int32_t>{-100, task.ids("c")[0], task.ids("d")[0], eos, -100});
    CHECK(task.text(fields.row("input_ids", 3)) == "abe<pad><pad>");
    CHECK(fields.row("next_ids", 3) == std::vector<int32_t>{-100, task.ids("e")[0], eos, -100, -100});
    CHECK(fields.row("attention_mask", 3) == std::vector<int32_t>{1, 1, 1, 0, 0});
    CHECK(fields.row("pair_labels", 0)[0] == 0);
    // Equal answers and a missing row do not count.
    for (const std::size_t row : {1, 2}) {
        CHECK(fields.row("pair_labels", row)[0] == -100);
        CHECK(fields.row("next_ids", row) == std::vector<int32_t>(5, -100));
        CHECK(fields.row("input_ids", row) == std::vector<int32_t>(5, pad));
    }
    // A long row loses the beginning of its prompt.
    const Fields cut = collate(task, {pair(task, "abcdef", "gh", "i")}, 1, 4);
    CHECK(task.text(cut.row("input_ids", 0)) == "efgh");
    CHECK(cut.row("next_ids", 0)[3] == eos);
    // An answer that is too long keeps its beginning, and the token that predicts it.
    const Fields end = collate(task, {pair(task, "abc", "defghi", "j")}, 1, 4);
    CHECK(task.text(end.row("input_ids", 0)) == "cdef");
    CHECK(end.row("next_ids", 0) == task.ids("defg"));
    CHECK(task.text(end.row("input_ids", 1)) == "abcj");
    // Without a prompt the first token is not scored.
    const Fields free =
        collate(task, {row_of({tokens("chosen", task.ids("ab")), tokens("rejected", task.ids("c"))})}, 1, 4);
    CHECK(free.row("next_ids", 0) == std::vector<int32_t>{task.ids("b")[0], eos, -100, -100});
}

TEST_CASE("reward: rows of pairs and of rankings") {
    const Objective task("reward", json::object(), "gpt2", "classifier");
    const Fields fields = collate(task, {pair(task, "ab", "c", "d")}, 2, 6);
    CHECK(fields.field("input_ids").shape == std::vector<int64_t>{4, 6});
    CHECK(fields.row("rank_labels", 0) == std::vector<int32_t>{0, 0});
    CHECK(fields.row("rank_labels", 1) == std::vector<int32_t>{-100, -100});
    // A long row loses the beginning of its prompt, then the end of its answer.
    const Fields cut = collate(task, {pair(task, "abcdef", "gh", "ijklmnop")}, 1, 6);
    CHECK(task.text(cut.row("input_ids", 0)).find("gh") != std::string::npos);
    CHECK(task.text(cut.row("input_ids", 0)).find("ab") == std::string::npos);
    CHECK(task.text(cut.row("input_ids", 1)).find("ijk") != std::string::npos);
    CHECK(task.text(cut.row("input_ids", 1)).find("f") == std::string::npos);
    const Objective ranked("reward", {{"ranked", 3}}, "gpt2", "classifier");
    const batch::DrawnExample drawn =
        row_of({tokens("prompt", ranked.ids("ab")), {"ranking", HK_COLUMN_CHOICES, ranked.ids("cde"), {}, {0, 1}}});
    const Fields three = collate(ranked, {drawn}, 1, 6);
    CHECK(three.row("rank_labels", 0) == std::vector<int32_t>{0, 0, -100});
    CHECK(three.field("input_ids").shape == std::vector<int64_t>{3, 6});
}

TEST_CASE("dpo: the losses of all types equal the formulas, and log 2 where policy and reference are the same") {
    const Objective bench("clm", json::object(), "gpt2", "lm");
    const std::vector<batch::DrawnExample> examples{pair(bench, "ab", "cde", "f"), pair(bench, "xyz", "b", "qqqq"),
                                                    pair(bench, "m", "n", "n")};
    const std::vector<std::string> ports{"logits", "teacher.logits"};
    const auto same = compose(bench, small_gpt(bench), "dpo", {{"beta", 0.3}}, true);
    const Computed first = compute(*same, examples, 4, 9, ports, true);
    CHECK(first.counts[0] == 2.0);
    CHECK(first.sums[0] / 2.0 == doctest::Approx(std::log(2.0)).epsilon(1e-12));
    for (const auto& [type, smoothing] :
         {std::pair{"sigmoid", 0.0}, {"sigmoid", 0.1}, {"hinge", 0.0}, {"ipo", 0.0}, {"robust", 0.2}}) {
        CAPTURE(type);
        const double beta = 0.3;
        const auto composition =
            compose(bench, small_gpt(bench), "dpo",
                    {{"beta", beta}, {"loss_type", type}, {"label_smoothing", smoothing}, {"sft_weight", 0.5}}, true);
        const Computed made = compute(*composition, examples, 4, 9, ports);
        const Rows own = rows_of(made.ports.at("logits"), made.fields.at("next_ids")),
                   theirs = rows_of(made.ports.at("teacher.logits"), made.fields.at("next_ids"));
        double expected = 0.0, nll = 0.0, tokens = 0.0;
        for (std::size_t b = 0; b < 2; ++b) { // the third pair is equal, the fourth row empty
            const double chosen = own.sums[b] - theirs.sums[b], rejected = own.sums[4 + b] - theirs.sums[4 + b];
            const double h = beta * (chosen - rejected), e = smoothing;
            if (std::string(type) == "sigmoid") expected += -log_sigmoid(h) * (1 - e) - log_sigmoid(-h) * e;
            if (std::string(type) == "hinge") expected += std::max(0.0, 1.0 - h);
            if (std::string(type) == "robust")
                expected += (-log_sigmoid(h) * (1 - e) + log_sigmoid(-h) * e) / (1 - 2 * e);
            if (std::string(type) == "ipo")
                expected += std::pow(chosen / own.tokens[b] - rejected / own.tokens[4 + b] - 1.0 / (2.0 * beta), 2.0);
            nll -= own.sums[b];
            tokens += own.tokens[b];
        }
        REQUIRE(made.sums.size() == 2);
        CHECK(made.sums[0] == doctest::Approx(expected).epsilon(1e-9));
        CHECK(made.counts[0] == 2.0);
        CHECK(made.sums[1] == doctest::Approx(nll).epsilon(1e-9));
        CHECK(made.counts[1] == tokens);
        CHECK(made.weights == std::vector<double>{1.0, 0.5});
    }
    // Without a reference, or with another vocabulary, the error names what is missing.
    const auto refused = [&](const plugin::CompositionSpec& spec) {
        auto made = plugin::Composition::create(registry(), spec, bench.tokenizer.get());
        REQUIRE_MESSAGE(made.ok(), made.message());
        auto fields = made.value()->batch_fields(2, 8);
        REQUIRE(fields.ok());
        auto built = made.value()->build(HK_MODE_TRAIN, fields.value());
        REQUIRE_FALSE(built.ok());
        return built.message();
    };
    plugin::CompositionSpec spec = small_gpt(bench);
    spec.objective = "dpo";
    CHECK(refused(spec).find("[teacher] from") != std::string::npos);
    plugin::CompositionSpec larger = small_gpt(bench);
    larger.config["vocab_size"] = bench.tokenizer->vocabulary_size() + 3;
    spec.teacher = std::make_shared<const plugin::CompositionSpec>(larger);
    CHECK(refused(spec).find("both need the same tokenizer") != std::string::npos);
    for (const json& config : {json{{"beta", 0.0}}, json{{"loss_type", "kto"}}, json{{"label_smoothing", 0.6}},
                               json{{"loss_type", "ipo"}, {"label_smoothing", 0.1}}}) {
        plugin::CompositionSpec wrong = small_gpt(bench);
        wrong.objective = "dpo";
        wrong.objective_config = config;
        CHECK_FALSE(plugin::Composition::create(registry(), wrong, bench.tokenizer.get()).ok());
    }
}

TEST_CASE("dpo: the reference's log probabilities come from the data where it has them") {
    const Objective bench("clm", json::object(), "gpt2", "lm");
    std::vector<batch::DrawnExample> examples{pair(bench, "ab", "cde", "f"), pair(bench, "xyz", "b", "qqqq")};
    const float chosen[] = {-7.5F, -3.25F}, rejected[] = {-4.0F, -9.75F};
    for (std::size_t b = 0; b < 2; ++b) {
        examples[b].example.columns.push_back({"ref_chosen_logps", HK_COLUMN_NUMBERS, {}, {chosen[b]}, {}});
        examples[b].example.columns.push_back({"ref_rejected_logps", HK_COLUMN_NUMBERS, {}, {rejected[b]}, {}});
    }
    const auto given = compose(bench, small_gpt(bench), "dpo", {{"beta", 0.3}, {"reference_in_data", true}});
    const Computed made = compute(*given, examples, 3, 9, {"logits"});
    const Rows own = rows_of(made.ports.at("logits"), made.fields.at("next_ids"));
    double expected = 0.0;
    for (std::size_t b = 0; b < 2; ++b)
        expected -= log_sigmoid(0.3 * ((own.sums[b] - static_cast<double>(chosen[b])) -
                                       (own.sums[3 + b] - static_cast<double>(rejected[b]))));
    CHECK(made.sums[0] == doctest::Approx(expected).epsilon(1e-9));
    CHECK(made.counts[0] == 2.0);
    auto columns = given->columns();
    REQUIRE(columns.ok());
    for (const char* name : {"ref_chosen_logps", "ref_rejected_logps"}) {
        const auto found = std::ranges::find(columns.value(), name, &plugin::ColumnNeed::name);
        REQUIRE(found != columns.value().end());
        CHECK_FALSE(found->optional); // a row without it is refused with its line
    }
    // A reference and the columns: which of the two is meant is unknown.
    const auto both = compose(bench, small_gpt(bench), "dpo", {{"reference_in_data", true}}, true);
    auto fields = both->batch_fields(2, 8);
    REQUIRE(fields.ok());
    const auto built = both->build(HK_MODE_TRAIN, fields.value());
    REQUIRE_FALSE(built.ok());
    CHECK(built.message().find("remove one of the two") != std::string::npos);
}

TEST_CASE("kto: the loss equals the formula, and rows of other completions estimate the divergence") {
    const Objective bench("clm", json::object(), "gpt2", "lm");
    const auto row = [&](const char* prompt, const char* completion, float label) {
        return row_of({tokens("prompt", bench.ids(prompt)),
                       tokens("completion", bench.ids(completion)),
                       {"label", HK_COLUMN_NUMBERS, {}, {label}, {}}});
    };
    const std::vector<batch::DrawnExample> examples{row("ab", "cde", 1.0F), row("xyz", "b", 0.0F),
                                                    row("m", "nopq", 1.0F)};
    const std::vector<std::string> ports{"logits", "teacher.logits"};
    const double beta = 0.3, desirable = 1.5, undesirable = 0.7;
    const auto composition =
        compose(bench, small_gpt(bench), "kto",
                {{"beta", beta}, {"desirable_weight", desirable}, {"undesirable_weight", undesirable}}, true);
    const Computed made = compute(*composition, examples, 4, 9, ports);
    const Rows own = rows_of(made.ports.at("logits"), made.fields.at("next_ids")),
               theirs = rows_of(made.ports.at("teacher.logits"), made.fields.at("next_ids"));
    const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
    double divergence = 0.0, expected = 0.0;
    for (std::size_t b = 0; b < 3; ++b) divergence += (own.sums[4 + b] - theirs.sums[4 + b]) / 3.0;
    divergence = std::max(divergence, 0.0);
    for (std::size_t b = 0; b < 3; ++b) {
        const double change = own.sums[b] - theirs.sums[b];
        expected += b == 1 ? undesirable * (1.0 - sigmoid(beta * (divergence - change)))
                           : desirable * (1.0 - sigmoid(beta * (change - divergence)));
    }
    CHECK(made.counts[0] == 3.0); // the fourth row has no example
    CHECK(made.sums[0] == doctest::Approx(expected).epsilon(1e-9));
    // Where policy and reference are the same, every row loses one half of its weight.
    const Computed same = compute(*composition, examples, 4, 9, ports, true);
    CHECK(same.sums[0] == doctest::Approx(0.5 * (2.0 * desirable + undesirable)).epsilon(1e-9));

    // Each prompt with the completion of the row before; a single row has none.
    const Objective task("orpo", json::object(), "gpt2", "lm"); // the same characters
    std::vector<data::Field> fields;
    REQUIRE(batch::make_fields(*composition, examples, nullptr, 3, 4, 9, fields).ok());
    const Fields named{fields};
    CHECK(task.text(named.row("input_ids", 4)).starts_with("abnopq<pad>"));
    CHECK(task.text(named.row("input_ids", 5)).starts_with("xyzcde<pad>"));
    CHECK(named.row<float>("counts", 7)[0] == 0.0F);
    std::vector<data::Field> alone;
    REQUIRE(batch::make_fields(*composition, std::vector{examples[0]}, nullptr, 3, 1, 9, alone).ok());
    const Fields single{alone};
    CHECK(single.row<float>("counts", 0)[0] == 1.0F);
    CHECK(single.row<float>("counts", 1)[0] == 0.0F);
    // A label that is neither.
    CHECK_FALSE(batch::make_fields(*composition, std::vector{row("a", "b", 0.5F)}, nullptr, 3, 1, 9, alone).ok());
}

TEST_CASE("answers of messages end with their own token, and no other is added") {
    const Objective task("orpo", json::object(), "gpt2", "lm");
    const int32_t end = task.ids("!")[0];
    auto chosen = tokens("chosen", task.ids("cd!")), rejected = tokens("rejected", task.ids("e!"));
    chosen.kind = rejected.kind = HK_COLUMN_MESSAGES;
    const Fields fields = collate(task, {row_of({tokens("prompt", task.ids("ab")), chosen, rejected})}, 1, 6);
    CHECK(task.text(fields.row("input_ids", 0)) == "abcd<pad><pad>");
    CHECK(fields.row("next_ids", 0) == std::vector<int32_t>{-100, task.ids("c")[0], task.ids("d")[0], end, -100, -100});
}

TEST_CASE("orpo: the losses equal the formulas") {
    const Objective bench("clm", json::object(), "gpt2", "lm");
    const std::vector<batch::DrawnExample> examples{pair(bench, "ab", "cde", "f"), pair(bench, "xyz", "b", "qqqq")};
    const auto composition = compose(bench, small_gpt(bench), "orpo", {{"beta", 0.4}});
    const Computed made = compute(*composition, examples, 3, 9, {"logits"});
    const Rows own = rows_of(made.ports.at("logits"), made.fields.at("next_ids"));
    double odds = 0.0, nll = 0.0;
    for (std::size_t b = 0; b < 2; ++b) {
        const double c = own.sums[b] / own.tokens[b], r = own.sums[3 + b] / own.tokens[3 + b];
        odds -= log_sigmoid((c - r) - (std::log1p(-std::exp(c)) - std::log1p(-std::exp(r))));
        nll -= own.sums[b];
    }
    REQUIRE(made.sums.size() == 2);
    CHECK(made.sums[0] == doctest::Approx(nll).epsilon(1e-9));
    CHECK(made.sums[1] == doctest::Approx(odds).epsilon(1e-9));
    CHECK(made.weights == std::vector<double>{1.0, 0.4});
}

TEST_CASE("reward: the losses of pairs, margins and rankings equal the formulas") {
    const Objective bench("clm", json::object(), "gpt2", "lm");
    plugin::CompositionSpec spec = small_gpt(bench);
    spec.head = "classifier";
    spec.config["num_labels"] = 1;
    const auto pairs = compose(bench, spec, "reward", {{"center_rewards_coefficient", 0.01}});
    std::vector<batch::DrawnExample> examples{pair(bench, "ab", "cde", "f"), pair(bench, "xyz", "b", "qqqq"),
                                              pair(bench, "m", "n", "n")};
    examples[1].example.columns.push_back({"margin", HK_COLUMN_NUMBERS, {}, {0.75F}, {}});
    const Computed made = compute(*pairs, examples, 4, 10, {"logits"});
    const std::vector<double>& r = made.ports.at("logits").data;
    REQUIRE(r.size() == 8);
    double expected = 0.0, center = 0.0;
    for (std::size_t b = 0; b < 2; ++b) {
        expected -= log_sigmoid(r[b] - r[4 + b] - (b == 1 ? 0.75 : 0.0));
        center += (r[b] + r[4 + b]) * (r[b] + r[4 + b]);
    }
    CHECK(made.sums[0] == doctest::Approx(expected).epsilon(1e-9));
    CHECK(made.counts[0] == 2.0);
    CHECK(made.sums[1] == doctest::Approx(center).epsilon(1e-9));
    CHECK(made.weights == std::vector<double>{1.0, 0.01});

    // Rankings of three, of which one row has two: every pair of a row is an equal part of the row's loss.
    const auto ranked = compose(bench, spec, "reward", {{"ranked", 3}});
    const std::vector<int32_t> letters = bench.ids("cdefg");
    const std::vector<batch::DrawnExample> lists{
        row_of({tokens("prompt", bench.ids("ab")), {"ranking", HK_COLUMN_CHOICES, letters, {}, {0, 2, 3}}}),
        row_of({tokens("prompt", bench.ids("x")), {"ranking", HK_COLUMN_CHOICES, letters, {}, {0, 1}}})};
    const Computed three = compute(*ranked, lists, 2, 10, {"logits"});
    const std::vector<double>& s = three.ports.at("logits").data; // [3 x 2]
    const auto lost = [&](std::size_t better, std::size_t worse) { return -log_sigmoid(s[better] - s[worse]); };
    CHECK(three.sums[0] == doctest::Approx((lost(0, 2) + lost(0, 4) + lost(2, 4)) / 3.0 + lost(1, 3)).epsilon(1e-9));
    CHECK(three.counts[0] == 2.0);
    // A ranking of two is the same as a pair.
    const auto two = compose(bench, spec, "reward", {{"ranked", 2}});
    const auto one = compose(bench, spec, "reward", json::object());
    const std::vector<batch::DrawnExample> list{
        row_of({tokens("prompt", bench.ids("ab")), {"ranking", HK_COLUMN_CHOICES, bench.ids("cdef"), {}, {0, 3}}})};
    CHECK(compute(*two, list, 1, 10, {"logits"}).sums[0] ==
          compute(*one, {pair(bench, "ab", "cde", "f")}, 1, 10, {"logits"}).sums[0]);

    spec.config["num_labels"] = 2;
    spec.objective = "reward";
    auto wrong = plugin::Composition::create(registry(), spec, bench.tokenizer.get());
    REQUIRE(wrong.ok());
    auto fields = wrong.value()->batch_fields(2, 8);
    REQUIRE(fields.ok());
    const auto built = wrong.value()->build(HK_MODE_TRAIN, fields.value());
    REQUIRE_FALSE(built.ok());
    CHECK(built.message().find("model.num_labels = 1") != std::string::npos);
}

} // namespace preference_test
