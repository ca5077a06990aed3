// Word vectors: the pairs that skip-gram draws, and how often; GloVe's counts, computed by hand; both losses by
// definition.
#include "bench.hpp"

#include "graph/gradient.hpp"
#include "graph/reference.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

namespace word_vectors_test {

using namespace hekla;
using namespace hekla::test;

namespace {

// A text of ids, as the windows that a run draws.
struct Text {
    explicit Text(std::vector<int32_t> given, uint64_t window)
        : ids(std::move(given)),
          examples(data::TokenView(reinterpret_cast<const std::byte*>(ids.data()), ids.size(), 4), window) {}
    batch::DrawnExample draw(uint64_t index, uint64_t epoch = 0) const {
        batch::DrawnExample drawn;
        drawn.epoch = epoch;
        examples.get(index, drawn.example);
        return drawn;
    }
    std::vector<int32_t> ids;
    data::WindowExamples examples;
};

const std::vector<int32_t> kSentence{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};

} // namespace

TEST_CASE("skip_gram: each word draws neighbors within a window, and negatives by their counts") {
    const Objective bench("skip_gram", {{"window", 2}, {"negatives", 3}, {"subsample", 0.0}}, "word_vectors");
    const Text text({0, 1, 2, 3, 4, 5, 6, 7}, 8);
    std::map<int, int> distances;
    int pairs = 0;
    for (uint64_t epoch = 0; epoch < 3000; ++epoch) {
        const Fields fields = collate(bench, {text.draw(0, epoch)}, 1, 8, 1, &text.examples);
        const std::vector<int32_t> words = fields.row("words", 0), neighbors = fields.row("neighbors", 0),
                                   real = fields.row("real", 0);
        for (std::size_t p = 0; p < words.size(); ++p) {
            if (real[p] == 0) continue;
            ++pairs;
            ++distances[std::abs(words[p] - neighbors[p * 4])];
            for (std::size_t k = 1; k < 4; ++k) CHECK(neighbors[p * 4 + k] != neighbors[p * 4]);
        }
    }
    // Window 1 or 2 with equal probability: 14 neighbors at distance 1 (7 on either side), and half of the 12 at
    // distance 2.
    CHECK(distances.size() == 2);
    CHECK(static_cast<double>(distances[1]) / 3000.0 == doctest::Approx(14.0).epsilon(0.01));
    CHECK(static_cast<double>(distances[2]) / 3000.0 == doctest::Approx(6.0).epsilon(0.02));

    // Counts 8, 2 and 1: words are drawn by their counts to the power 3/4; words that do not occur are never drawn.
    const Text uneven({0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 2}, 11);
    std::map<int32_t, double> drawn;
    double total = 0.0;
    for (uint64_t epoch = 0; epoch < 3000; ++epoch) {
        const Fields fields = collate(bench, {uneven.draw(0, epoch)}, 1, 11, 1, &uneven.examples);
        const std::vector<int32_t> neighbors = fields.row("neighbors", 0), real = fields.row("real", 0);
        for (std::size_t p = 0; p < real.size(); ++p)
            for (std::size_t k = 1; k < 4 && real[p] != 0 && neighbors[p * 4] == 1; ++k) {
                drawn[neighbors[p * 4 + k]] += 1.0;
                total += 1.0;
            }
    }
    CHECK(drawn.size() == 2); // 1 was the neighbor, and is excluded
    CHECK(drawn[0] / total == doctest::Approx(std::pow(8.0, 0.75) / (std::pow(8.0, 0.75) + 1.0)).epsilon(0.02));
}

TEST_CASE("skip_gram: some occurrences of frequent words are dropped, unknown ones always") {
    const Objective bench("skip_gram", {{"window", 1}, {"negatives", 1}, {"subsample", 0.05}}, "word_vectors");
    const int32_t unknown = bench.id_of("<unk>");
    std::vector<int32_t> ids(90, 0);
    for (int32_t i = 1; i <= 9; ++i) ids.push_back(i);
    ids.push_back(unknown);
    const Text text(ids, 100);
    double frequent = 0.0;
    for (uint64_t epoch = 0; epoch < 500; ++epoch) {
        const Fields fields = collate(bench, {text.draw(0, epoch)}, 1, 100, 1, &text.examples);
        const std::vector<int32_t> words = fields.row("words", 0), real = fields.row("real", 0);
        for (std::size_t p = 0; p < words.size(); ++p) {
            if (real[p] == 0) continue;
            CHECK(words[p] != unknown);
            frequent += words[p] == 0 ? 1.0 : 0.0;
        }
    }
    // 90 of 99 known words are the same one: it is kept with probability sqrt(0.05 / s) + 0.05 / s; each has two
    // neighbors, except the first.
    const double share = 90.0 / 99.0, stays = std::sqrt(0.05 / share) + 0.05 / share;
    CHECK(frequent / 500.0 == doctest::Approx(90.0 * stays * 2.0 - 1.0).epsilon(0.03));
}

TEST_CASE("skip_gram and glove: the same fields for any threads in any order") {
    for (const char* id : {"skip_gram", "glove"}) {
        const Objective bench(id, json::object(), "word_vectors");
        const Text text(kSentence, 6);
        std::vector<Fields> fields(6);
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < fields.size(); ++i)
            threads.emplace_back([&, i] { fields[i] = collate(bench, {text.draw(i)}, 1, 6, 5, &text.examples); });
        for (std::thread& thread : threads) thread.join();
        const Objective again(id, json::object(), "word_vectors");
        for (std::size_t i = fields.size(); i-- > 0;) {
            const Fields one = collate(again, {text.draw(i)}, 1, 6, 5, &text.examples);
            CHECK(one.row("words", 0) == fields[i].row("words", 0));
            CHECK(one.row("neighbors", 0) == fields[i].row("neighbors", 0));
        }
    }
}

TEST_CASE("glove: counts by inverse distance, across window borders too") {
    const Objective bench("glove", {{"window", 2}, {"entries", 4000}, {"most", 2.0}, {"power", 0.5}}, "word_vectors");
    const Text text({0, 1, 2, 0, 1}, 2); // pieces 0 1 | 2 0 | and the rest, 1
    const Fields fields = collate(bench, {text.draw(0)}, 1, 2, 1, &text.examples);
    std::map<std::pair<int32_t, int32_t>, double> counts;
    std::map<std::pair<int32_t, int32_t>, int> drawn;
    const std::vector<int32_t> words = fields.row("words", 0), neighbors = fields.row("neighbors", 0);
    const std::vector<float> logs = fields.row<float>("log_count", 0), weights = fields.row<float>("weight", 0);
    for (std::size_t i = 0; i < words.size(); ++i) {
        const double count = std::exp(static_cast<double>(logs[i]));
        counts[{words[i], neighbors[i]}] = count;
        ++drawn[{words[i], neighbors[i]}];
        CHECK(static_cast<double>(weights[i]) == doctest::Approx(std::min(1.0, std::sqrt(count / 2.0))).epsilon(1e-5));
    }
    // 0-1 adjacent twice, and once with a word between them; 1-2 and 0-2 once each.
    const std::map<std::pair<int32_t, int32_t>, double> expected{{{0, 1}, 2.5}, {{1, 0}, 2.5}, {{1, 2}, 1.5},
                                                                 {{2, 1}, 1.5}, {{0, 2}, 1.5}, {{2, 0}, 1.5}};
    REQUIRE(counts.size() == expected.size());
    for (const auto& [pair, count] : expected) {
        CHECK(counts[pair] == doctest::Approx(count).epsilon(1e-5));
        CHECK(static_cast<double>(drawn[pair]) / 4000.0 == doctest::Approx(1.0 / 6.0).epsilon(0.1));
    }
}

TEST_CASE("skip_gram and glove: losses by definition; a batch without a corpus is rejected") {
    const Text text(kSentence, 6);
    for (const char* id : {"skip_gram", "glove"}) {
        CAPTURE(id);
        const bool skips = std::string_view(id) == "skip_gram";
        const Objective bench(id,
                              skips ? json{{"negatives", 2}, {"window", 1}, {"subsample", 0.0}} : json{{"entries", 5}},
                              "word_vectors");
        const Fields fields = collate(bench, {text.draw(2)}, 2, 6, 1, &text.examples); // the second row is empty
        auto described = bench.composition->batch_fields(2, 6);
        REQUIRE(described.ok());
        auto graph = bench.composition->build(HK_MODE_TRAIN, described.value());
        REQUIRE_MESSAGE(graph.ok(), graph.message());
        graph::Feeds feeds;
        for (const data::Field& field : fields.all) {
            const bool ints = field.kind == data::FieldKind::int32;
            graph::Tensor tensor{ints ? graph::Kind::int32 : graph::Kind::float32, graph::Shape(field.shape), {}};
            for (std::size_t row = 0; row < 2; ++row) {
                if (ints)
                    for (const int32_t value : fields.row(field.name, row)) tensor.data.push_back(value);
                else
                    for (const float value : fields.row<float>(field.name, row))
                        tensor.data.push_back(static_cast<double>(value));
            }
            feeds.fields.emplace(field.name, std::move(tensor));
        }
        for (const auto& [name, value] : graph->parameters()) {
            graph::Tensor tensor{graph::Kind::float32, graph->shape(value), {}};
            for (int64_t i = 0; i < tensor.shape.elements(); ++i)
                tensor.data.push_back(std::sin(static_cast<double>(i * i % 97) + static_cast<double>(name.size())));
            feeds.parameters.emplace(name, std::move(tensor));
        }
        const auto values =
            graph::evaluate(graph.value(), feeds, std::vector{graph->losses[0].sum, graph->losses[0].count});
        REQUIRE_MESSAGE(values.ok(), values.message());
        const auto row_of = [&](const char* name, int32_t id) {
            const graph::Tensor& table = feeds.parameters.at(name);
            const auto width = static_cast<std::size_t>(table.shape[1]);
            return std::span(table.data).subspan(static_cast<std::size_t>(id) * width, width);
        };
        const auto product = [&](int32_t word, int32_t neighbor) {
            double sum = 0.0;
            for (std::size_t d = 0; d < row_of("words.weight", word).size(); ++d)
                sum += row_of("words.weight", word)[d] * row_of("neighbors.weight", neighbor)[d];
            return sum;
        };
        const std::vector<int32_t> words = fields.row("words", 0), neighbors = fields.row("neighbors", 0);
        double loss = 0.0, count = 0.0;
        for (std::size_t p = 0; p < words.size(); ++p) {
            if (skips) {
                if (fields.row("real", 0)[p] == 0) continue;
                for (std::size_t k = 0; k < 3; ++k) {
                    const double x = product(words[p], neighbors[p * 3 + k]);
                    loss += std::log1p(std::exp(k == 0 ? -x : x));
                }
            } else {
                const double difference = product(words[p], neighbors[p]) + row_of("words.bias", words[p])[0] +
                                          row_of("neighbors.bias", neighbors[p])[0] -
                                          static_cast<double>(fields.row<float>("log_count", 0)[p]);
                loss += static_cast<double>(fields.row<float>("weight", 0)[p]) * difference * difference;
            }
            count += 1.0;
        }
        CHECK(count > 0.0);
        CHECK(values.value()[0].data[0] == doctest::Approx(loss).epsilon(1e-6));
        CHECK(values.value()[1].data[0] == count);
        auto differentiated = graph::differentiate(graph.take());
        REQUIRE(differentiated.ok());
        CHECK(differentiated->outputs.contains("grad.words.weight"));
        CHECK(differentiated->outputs.contains("grad.neighbors.weight"));
        CHECK(differentiated->outputs.contains("grad.words.bias") == !skips);

        std::vector<data::Field> none;
        CHECK(batch::make_fields(*bench.composition, std::vector{text.draw(0)}, nullptr, 1, 1, 6, none)
                  .message()
                  .find("corpus") != std::string::npos);
    }
}

} // namespace word_vectors_test
