// Decoders of real models: caches, chunks and context shifts do not change the results.
#include "generate/decoder_reference.hpp"
#include "generate/generator.hpp"
#include "graph/builder.hpp"
#include "plugin/composition/compose.hpp"

#include "models.hpp"

#include <algorithm>
#include <random>

using namespace hekla;
using namespace hekla::generate;
using namespace hekla::test;
using graph::Builder;
using graph::Op;
using graph::ValueId;

namespace {

Tensor ids_tensor(const std::vector<Ids>& rows) {
    Tensor tensor{Kind::int32, Shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())}, {}};
    for (const Ids& row : rows) tensor.data.insert(tensor.data.end(), row.begin(), row.end());
    return tensor;
}

// A model that is run over whole rows without caches. scores() returns those of the last of `ids`.
class Plain {
public:
    Plain(const plugin::Composition& composition, bool encodes) : composition_(composition), encodes_(encodes) {}

    // prefix: the number of first positions with bidirectional attention.
    Graph graph(int64_t length, int64_t source, int64_t prefix = 0) const {
        std::vector<plugin::BatchField> fields{{"input_ids", Kind::int32, Shape{1, encodes_ ? source : length}}};
        if (prefix > 0) fields.push_back({"prefix_length", Kind::int32, Shape{1}});
        if (encodes_) fields.push_back({"decoder_input_ids", Kind::int32, Shape{1, length}});
        auto built = composition_.build(HK_MODE_EVALUATE, fields, kLogits);
        REQUIRE_MESSAGE(built.ok(), built.message());
        return built.take();
    }

    std::vector<double> scores(const Ids& ids, const Ids& source, const Fields& weights, int64_t prefix = 0) const {
        const Graph g = graph(static_cast<int64_t>(ids.size()), static_cast<int64_t>(source.size()), prefix);
        graph::Feeds feeds;
        feeds.parameters = weights;
        feeds.fields[encodes_ ? "decoder_input_ids" : "input_ids"] = ids_tensor({ids});
        if (encodes_) feeds.fields["input_ids"] = ids_tensor({source});
        if (prefix > 0) feeds.fields["prefix_length"] = {Kind::int32, Shape{1}, {static_cast<double>(prefix)}};
        const ValueId wanted[] = {g.outputs.at("logits")};
        auto values = graph::evaluate(g, feeds, wanted);
        REQUIRE_MESSAGE(values.ok(), values.message());
        const std::vector<double>& all = values.value()[0].data;
        return {all.end() - kVocabulary, all.end()};
    }

private:
    const plugin::Composition& composition_;
    bool encodes_;
};

} // namespace

TEST_CASE("decoder graph: only the last tokens are scored, and the head computes nothing else") {
    Builder b;
    const ValueId x = b.input("x", Kind::float_, Shape{3, 5, 4});
    const ValueId weight = b.parameter("w", Shape{7, 4}, 0, 0, 0, 0);
    const ValueId bias = b.parameter("b", Shape{7}, 0, 0, 0, 0);
    const ValueId scaled = b(Op::mul, {x, b.scalar(0.5)});
    const ValueId y = b(Op::linear, {scaled, weight});
    b.output("logits", b(Op::add, {y, bias}));
    auto full = b.finish();
    REQUIRE_MESSAGE(full.ok(), full.message());
    auto cut = last_token_only(full.value());
    REQUIRE_MESSAGE(cut.ok(), cut.message());
    for (const graph::Node& node : cut->nodes)
        if (node.op == Op::linear) CHECK(cut->shape(node.outputs[0]) == Shape{3, 1, 7});

    std::mt19937 random(5);
    std::normal_distribution<double> normal;
    graph::Feeds feeds;
    const auto fill = [&](const Shape& shape) {
        Tensor tensor{Kind::float_, shape, {}};
        for (int64_t i = 0; i < shape.elements(); ++i) tensor.data.push_back(normal(random));
        return tensor;
    };
    feeds.fields["x"] = fill(Shape{3, 5, 4});
    feeds.fields["decode.count"] = {Kind::int32, Shape{3}, {5, 0, 2}};
    feeds.parameters["w"] = fill(Shape{7, 4});
    feeds.parameters["b"] = fill(Shape{7});
    const ValueId all[] = {full->outputs.at("logits")}, last[] = {cut->outputs.at("logits")};
    auto a = graph::evaluate(full.value(), feeds, all);
    auto c = graph::evaluate(cut.value(), feeds, last);
    REQUIRE(a.ok());
    REQUIRE_MESSAGE(c.ok(), c.message());
    CHECK(c.value()[0].shape == Shape{3, 1, 7});
    const std::size_t places[] = {4, 0, 1};
    for (std::size_t row = 0; row < 3; ++row)
        for (std::size_t v = 0; v < 7; ++v)
            CHECK(c.value()[0].data[row * 7 + v] == a.value()[0].data[(row * 5 + places[row]) * 7 + v]);
}

TEST_CASE("decoder: cached, chunked, ragged generation equals whole rows") {
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    for (const Model& model : models()) {
        CAPTURE(model.architecture);
        const auto composition = compose(registry, model);
        const Plain plain(*composition, model.encodes);
        const Fields weights = random_weights(plain.graph(2, 2), 3);
        auto decoder = make_reference_decoder(*composition, weights);
        REQUIRE_MESSAGE(decoder.ok(), decoder.message());
        CHECK(decoder.value()->encoder_decoder() == model.encodes);

        Options o;
        o.max_new_tokens = 6;
        o.decoder_start = 1;
        Request request;
        for (const int length : {3, 20, 9}) request.prompts.push_back(some_ids(length, length));
        for (const int64_t beams : {1, 3}) {
            o.beams = beams;
            const auto output = generate::generate(*decoder.value(), request, o);
            REQUIRE_MESSAGE(output.ok(), output.message());
            for (std::size_t row = 0; row < request.prompts.size(); ++row) {
                const Ids& ids = output->rows[row].ids;
                const std::size_t begin = ids.size() - 6;
                double score = 0.0;
                for (std::size_t i = begin; i < ids.size(); ++i) {
                    const std::vector<double> scores = plain.scores(
                        Ids(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(i)), request.prompts[row], weights);
                    const auto token = static_cast<std::size_t>(ids[i]);
                    if (beams == 1)
                        CHECK(static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin()) == token);
                    double sum = 0.0;
                    for (const double s : scores) sum += std::exp(s);
                    score += scores[token] - std::log(sum);
                }
                if (beams > 1) CHECK(output->rows[row].score == doctest::Approx(score / 6).epsilon(1e-5));
            }
        }
    }
}

TEST_CASE("decoder: prompts with bidirectional attention equal whole rows with a prefix") {
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    for (const Model& model : models()) {
        if (model.encodes) continue;
        CAPTURE(model.architecture);
        const auto composition = compose(registry, model);
        const Plain plain(*composition, false);
        const Fields weights = random_weights(plain.graph(2, 2), 3);
        auto decoder = make_reference_decoder(*composition, weights);
        REQUIRE_MESSAGE(decoder.ok(), decoder.message());
        Options o;
        Request request;
        request.both_sides = true;
        for (const int length : {3, 20, 1}) request.prompts.push_back(some_ids(length, length));
        bool differs = false; // from causal attention
        // The last is longer than a context of 48, so it continues from its last 24 tokens, read as a whole.
        for (const auto& [beams, made] : {std::pair(1, 6), std::pair(3, 6), std::pair(1, 36)}) {
            o.beams = beams;
            o.max_new_tokens = made;
            o.slide_context = made > 6;
            const auto output = generate::generate(*decoder.value(), request, o);
            REQUIRE_MESSAGE(output.ok(), output.message());
            for (std::size_t row = 0; row < request.prompts.size(); ++row) {
                const Ids& ids = output->rows[row].ids;
                std::size_t begin = 0, prompt = request.prompts[row].size();
                for (std::size_t i = prompt; i < ids.size(); ++i) {
                    if (o.slide_context && i - begin > 48) {
                        begin = i - 24;
                        prompt = i;
                    }
                    const auto next_id = [&](int64_t prefix) {
                        const std::vector<double> scores =
                            plain.scores(Ids(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                             ids.begin() + static_cast<std::ptrdiff_t>(i)),
                                         {}, weights, prefix);
                        return std::ranges::max_element(scores) - scores.begin();
                    };
                    if (beams == 1) CHECK(next_id(static_cast<int64_t>(prompt - begin)) == ids[i]);
                    differs = differs || next_id(0) != ids[i];
                }
            }
        }
        CHECK(differs);
    }
}

TEST_CASE("decoder: unused positions of a chunk may be past a model's last position") {
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    const Model model = models()[0];
    const auto composition = compose(registry, model);
    const Plain plain(*composition, false);
    const Fields weights = random_weights(plain.graph(2, 2), 4);
    auto decoder = make_reference_decoder(*composition, weights);
    REQUIRE_MESSAGE(decoder.ok(), decoder.message());
    REQUIRE(decoder.value()->begin({.rows = 1, .length = 48, .sources = {}}).ok());
    const Ids ids = some_ids(48, 2);
    const Ids rows(static_cast<std::size_t>(decoder.value()->capacity()), 0);
    Logits logits;
    for (int32_t start = 0; start < 48;) {
        const int32_t count = std::min(14, 48 - start); // of 16: the last chunk uses 6, at 42
        Ids tokens(16, 0);
        std::copy_n(ids.begin() + start, count, tokens.begin());
        const Status status =
            decoder.value()->decode({16, tokens, std::span(&start, 1), std::span(&count, 1), rows, {}}, logits);
        REQUIRE_MESSAGE(status.ok(), status.message());
        start += count;
    }
    const std::vector<double> scores = plain.scores(ids, {}, weights);
    for (std::size_t i = 0; i < scores.size(); ++i) CHECK(logits[i] == doctest::Approx(scores[i]).epsilon(1e-5));
}

TEST_CASE("decoder: rows up to the last position of a model, and no further") {
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    const Model model = models()[0];
    const auto composition = compose(registry, model);
    const Plain plain(*composition, false);
    const Fields weights = random_weights(plain.graph(2, 2), 4);
    auto decoder = make_reference_decoder(*composition, weights);
    REQUIRE_MESSAGE(decoder.ok(), decoder.message());
    Options o;
    o.max_new_tokens = 3;
    const Ids prompt = some_ids(46, 2); // 46 + 3 - 1 = 48 positions are processed
    const auto output = generate::generate(*decoder.value(), {{prompt, some_ids(2, 1)}, {}}, o);
    REQUIRE_MESSAGE(output.ok(), output.message());
    Ids ids = prompt;
    for (int i = 0; i < 3; ++i) {
        const std::vector<double> scores = plain.scores(ids, {}, weights);
        ids.push_back(static_cast<int32_t>(std::ranges::max_element(scores) - scores.begin()));
    }
    CHECK(output->rows[0].ids == ids);
    o.max_new_tokens = 4;
    const auto longer = generate::generate(*decoder.value(), {{prompt}, {}}, o);
    REQUIRE(!longer.ok());
    CHECK_MESSAGE(longer.message().find("context of 48") != std::string::npos, longer.message());
}
