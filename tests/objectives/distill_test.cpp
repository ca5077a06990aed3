// Distillation: a student and its frozen teacher in one graph; the losses are compared with sums computed here.
#include "bench.hpp"

#include "graph/gradient.hpp"

#include <algorithm>
#include <cmath>

namespace distill_test {

using namespace hekla;
using namespace hekla::test;

namespace {

plugin::CompositionSpec small_bert(const Objective& bench, int64_t layers, int64_t width = 8) {
    plugin::CompositionSpec spec;
    spec.architecture = "bert";
    spec.config = {{"hidden_size", width},
                   {"num_hidden_layers", layers},
                   {"num_attention_heads", 2},
                   {"intermediate_size", 12},
                   {"max_position_embeddings", 16},
                   {"vocab_size", bench.tokenizer->vocabulary_size()},
                   {"hidden_dropout_prob", 0.5},
                   {"attention_probs_dropout_prob", 0.5},
                   {"pad_token_id", bench.id_of("<pad>")}};
    spec.head = "mlm";
    return spec;
}

Result<std::unique_ptr<plugin::Composition>> distilling(const Objective& bench, json config,
                                                        int64_t teacher_width = 8) {
    plugin::CompositionSpec spec = small_bert(bench, 1);
    spec.objective = "distill";
    spec.objective_config = std::move(config);
    spec.teacher = std::make_shared<const plugin::CompositionSpec>(small_bert(bench, 2, teacher_width));
    return plugin::Composition::create(registry(), spec, bench.tokenizer.get());
}

} // namespace

TEST_CASE("distill: masking, and the positions that count") {
    const Objective distill("distill");
    const std::vector<int32_t> text = distill.ids("abcdefghijklmn");
    const Fields fields = collate(distill, {example_of(text)}, 2, 16);
    const std::vector<int32_t> ids = fields.row("input_ids", 0), labels = fields.row("labels", 0);
    std::size_t asked = 0;
    for (std::size_t t = 0; t < 16; ++t) {
        if (labels[t] == -100) continue;
        ++asked;
        CHECK(labels[t] == text[t - 1]); // after <cls>
    }
    CHECK(asked == 2); // 15 percent of 14
    CHECK(fields.row("real", 0) == std::vector<int32_t>(16, 1));
    CHECK(fields.row("real", 1) == std::vector<int32_t>(16, 0)); // not an example
    CHECK(fields.row("labels", 1) == std::vector<int32_t>(16, -100));
    const Objective masked("distill", {{"masked_only", true}});
    const Fields few = collate(masked, {example_of(text)}, 1, 16);
    CHECK(few.row("masked_positions", 0).size() == few.row("labels", 0).size());
    // The masks equal those of masked language modeling for the same seed and example.
    const Objective mlm("mlm");
    CHECK(collate(mlm, {example_of(text)}, 1, 16).row("input_ids", 0) == ids);
}

TEST_CASE("distill: the losses equal those of the paper's code, and the teacher gets no gradient") {
    const Objective bench("mlm");
    for (const bool masked_only : {false, true}) {
        CAPTURE(masked_only);
        auto composition = distilling(bench, {{"temperature", 3.0}, {"masked_only", masked_only}});
        REQUIRE_MESSAGE(composition.ok(), composition.message());
        std::vector<data::Field> fields;
        const std::vector<batch::DrawnExample> examples{example_of(bench.ids("abcdefghij")),
                                                        example_of(bench.ids("the end. no"), 1)};
        REQUIRE(batch::make_fields(*composition.value(), examples, nullptr, 3, 3, 12, fields).ok());
        auto described = composition.value()->batch_fields(3, 12);
        REQUIRE(described.ok());
        const std::vector<std::string> ports{"logits", "teacher.logits", "hidden", "teacher.hidden"};
        auto graph = composition.value()->build(HK_MODE_EVALUATE, described.value(), ports);
        REQUIRE_MESSAGE(graph.ok(), graph.message());
        REQUIRE(graph->losses.size() == 3);
        const graph::Feeds feeds = feeds_of(graph.value(), fields);
        std::vector<graph::ValueId> wanted;
        for (const graph::LossTerm& term : graph->losses) {
            wanted.push_back(term.sum);
            wanted.push_back(term.count);
        }
        for (const std::string& port : ports) wanted.push_back(graph->outputs.at(port));
        auto values = graph::evaluate(graph.value(), feeds, wanted);
        REQUIRE_MESSAGE(values.ok(), values.message());
        const graph::Tensor &student = values.value()[6], &teacher = values.value()[7], &hidden = values.value()[8],
                            &theirs = values.value()[9];
        const auto size = static_cast<std::size_t>(student.shape[2]);
        const std::vector<double>& labels = feeds.fields.at("labels").data;
        const std::vector<double>& real = feeds.fields.at("real").data;
        const auto log_probability = [&](const graph::Tensor& logits, std::size_t place, double temperature) {
            std::vector<double> row(size);
            double total = 0.0;
            for (std::size_t v = 0; v < size; ++v) total += std::exp(logits.data[place * size + v] / temperature);
            for (std::size_t v = 0; v < size; ++v)
                row[v] = logits.data[place * size + v] / temperature - std::log(total);
            return row;
        };
        double mlm = 0.0, masks = 0.0, soft = 0.0, places = 0.0, cosine = 0.0, tokens = 0.0;
        for (std::size_t place = 0; place < labels.size(); ++place) {
            if (labels[place] >= 0) {
                mlm -= log_probability(student, place, 1.0)[static_cast<std::size_t>(labels[place])];
                masks += 1.0;
            }
            if (masked_only ? labels[place] < 0 : real[place] == 0.0) continue;
            places += 1.0;
            const std::vector<double> p = log_probability(teacher, place, 3.0),
                                      q = log_probability(student, place, 3.0);
            for (std::size_t v = 0; v < size; ++v) soft += 9.0 * std::exp(p[v]) * (p[v] - q[v]);
        }
        for (std::size_t place = 0; place < real.size(); ++place) {
            if (real[place] == 0.0) continue;
            tokens += 1.0;
            double dot = 0.0, a = 0.0, b = 0.0;
            for (std::size_t d = 0; d < 8; ++d) {
                const double x = hidden.data[place * 8 + d], y = theirs.data[place * 8 + d];
                dot += x * y;
                a += x * x;
                b += y * y;
            }
            cosine += 1.0 - dot / std::sqrt(a * b);
        }
        const double expected[] = {mlm, masks, soft, places, cosine, tokens};
        const double weights[] = {2.0, 5.0, 1.0};
        for (std::size_t i = 0; i < 6; ++i)
            CHECK(values.value()[i].data[0] == doctest::Approx(expected[i]).epsilon(1e-9));
        for (std::size_t i = 0; i < 3; ++i) CHECK(graph->losses[i].weight == weights[i]);
        CHECK(tokens == 24.0);

        // In training the teacher is still in evaluation mode, and frozen, so it has no gradient.
        auto training = composition.value()->build(HK_MODE_TRAIN, described.value());
        REQUIRE_MESSAGE(training.ok(), training.message());
        for (const graph::Node& node : training->nodes)
            CHECK(!(node.op == graph::Op::dropout && training->scope_path(node.scope).starts_with("teacher")));
        std::set<std::string, std::less<>> frozen;
        std::size_t own = 0;
        for (const auto& [name, value] : training->parameters())
            if (name.starts_with(plugin::kTeacher))
                frozen.insert(name);
            else
                ++own;
        CHECK(!frozen.empty());
        auto differentiated = graph::differentiate(training.take(), frozen);
        REQUIRE_MESSAGE(differentiated.ok(), differentiated.message());
        std::size_t gradients = 0;
        for (const auto& [name, value] : differentiated->outputs)
            if (name.starts_with("grad.")) {
                ++gradients;
                CHECK(!name.starts_with("grad.teacher."));
            }
        CHECK(gradients == own);
    }
}

TEST_CASE("distill: unsuitable teachers are rejected") {
    const Objective bench("mlm");
    const Objective alone("distill", {}, "bert", "mlm");
    auto fields = alone.composition->batch_fields(2, 12);
    CHECK(alone.composition->build(HK_MODE_TRAIN, fields.value()).message().find("[teacher] from") !=
          std::string::npos);
    auto wide = distilling(bench, {}, 16);
    REQUIRE(wide.ok());
    CHECK(wide.value()->build(HK_MODE_TRAIN, fields.value()).message().find("cosine_weight = 0") != std::string::npos);
    auto without = distilling(bench, {{"cosine_weight", 0.0}}, 16);
    REQUIRE(without.ok());
    CHECK(without.value()->build(HK_MODE_TRAIN, fields.value()).ok());
    CHECK(!distilling(bench, {{"temperature", 0.0}}).ok());
}

} // namespace distill_test
