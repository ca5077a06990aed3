// Features: rows of any length in one call equal each row alone, on the device and in the interpreter; pooling; errors.
#include "support.hpp"

#include <cmath>
#include <map>

using namespace hekla;
using namespace hekla::test;

namespace {

using Rows = std::map<std::size_t, Tensor>;

Rows embed(infer::Model& model, std::span<const std::vector<int32_t>> rows, const infer::EmbedOptions& options) {
    Rows result;
    const Status status = infer::embed_rows(model, rows, options, [&](std::size_t row, const Tensor& values) {
        CHECK(result.emplace(row, values).second);
        return true;
    });
    REQUIRE_MESSAGE(status.ok(), status.message());
    return result;
}

double distance(const Tensor& a, const Tensor& b) {
    REQUIRE(a.shape == b.shape);
    double worst = 0.0;
    for (std::size_t i = 0; i < a.data.size(); ++i) worst = std::max(worst, std::abs(a.data[i] - b.data[i]));
    return worst;
}

const std::vector<std::vector<int32_t>> kRows{{7, 9, 11, 4}, {3}, {8, 6, 7, 5, 3, 9}, {12, 13, 14, 15}};

TEST_CASE("rows together equal rows alone, padded or not") {
    for (const char* name : {"bert-pretraining", "gpt2-clm", "bilstm-lm", "t5-span-corruption", "roberta-mlm"}) {
        CAPTURE(name);
        infer::Model model = open_fixture(name, &device());
        infer::Model exact = open_fixture(name, nullptr);
        for (const infer::Pooling pooling :
             {infer::Pooling::none, infer::Pooling::first, infer::Pooling::last, infer::Pooling::mean}) {
            infer::EmbedOptions options;
            options.port = std::string(name) == "t5-span-corruption" ? "encoder.hidden" : "hidden";
            options.pooling = pooling;
            options.batch = 3;
            const Rows together = embed(model, kRows, options);
            REQUIRE(together.size() == kRows.size());
            for (std::size_t i = 0; i < kRows.size(); ++i) {
                const Rows alone = embed(exact, {&kRows[i], 1}, options);
                if (pooling == infer::Pooling::none)
                    CHECK(alone.at(0).shape[0] == static_cast<int64_t>(kRows[i].size()));
                CHECK(distance(together.at(i), alone.at(0)) < 1e-5);
            }
        }
    }
}

TEST_CASE("pooled ports and scores keep their own shape") {
    infer::Model model = open_fixture("bert-pretraining", &device());
    const Rows pooled = embed(model, kRows, {.port = "pooled"});
    CHECK(pooled.at(2).shape == Shape{32});
    const Rows all = embed(model, kRows, {.port = "layer.1.hidden", .pooling = infer::Pooling::none});
    const Rows mean = embed(model, kRows, {.port = "layer.1.hidden"});
    const Tensor& tokens = all.at(2);
    double sum = 0.0;
    for (int64_t t = 0; t < tokens.shape[0]; ++t) sum += tokens.data[static_cast<std::size_t>(t * tokens.shape[1])];
    CHECK(mean.at(2).data[0] == doctest::Approx(sum / static_cast<double>(tokens.shape[0])));
}

TEST_CASE("an image is passed as a field") {
    infer::Model model = open_fixture("vit-classifier", &device());
    const Tensors fields = fixture_fields("vit-classifier");
    std::size_t rows = 0;
    const Status status =
        infer::embed_fields(model, fields, {.pooling = infer::Pooling::first}, [&](std::size_t, const Tensor& values) {
            CHECK(values.shape.rank() == 1);
            ++rows;
            return true;
        });
    CHECK_MESSAGE(status.ok(), status.message());
    CHECK(rows == 2);
}

TEST_CASE("invalid options are errors") {
    infer::Model model = open_fixture("gpt2-clm", nullptr);
    const auto refused = [&](std::span<const std::vector<int32_t>> rows, const infer::EmbedOptions& options) {
        return infer::embed_rows(model, rows, options, [](std::size_t, const Tensor&) { return true; });
    };
    const Status port = refused(kRows, {.port = "pooled"});
    CHECK(port.code() == Code::not_found);
    CHECK(port.message().find("layer.1.hidden") != std::string::npos);
    const std::vector<std::vector<int32_t>> empty{{1}, {}};
    CHECK(refused(empty, {}).message() == "row 2 has no tokens");
    CHECK(infer::pooling_named("max").message().find("mean") != std::string::npos);
    CHECK(infer::embed_rows(model, kRows, {}, [](std::size_t, const Tensor&) { return false; }).code() ==
          Code::cancelled);
}

TEST_CASE("every row of every attention map sums to 1, and maps match the attention's output") {
    int maps = 0;
    for (const std::string& name : fixture_names()) {
        CAPTURE(name);
        infer::Model model = open_fixture(name, &device());
        const Tensors fields = fixture_fields(name);
        const auto forward = infer::Forward::create(model, fields, {"hidden"}, true);
        REQUIRE_MESSAGE(forward.ok(), forward.message());
        const Result<Tensors> outputs = forward.value()->run(fields);
        REQUIRE_MESSAGE(outputs.ok(), outputs.message());
        for (const graph::AttentionMap& map : forward.value()->attention_maps()) {
            CAPTURE(map.place);
            const Tensor& weights = outputs->at(map.output);
            REQUIRE(weights.shape == map.shape);
            const int64_t keys = map.shape[3];
            for (std::size_t row = 0; row < weights.data.size() / static_cast<std::size_t>(keys); ++row) {
                double sum = 0.0;
                for (int64_t k = 0; k < keys; ++k)
                    sum += weights.data[row * static_cast<std::size_t>(keys) + static_cast<std::size_t>(k)];
                CHECK(sum == doctest::Approx(1.0).epsilon(1e-5));
            }
            ++maps;
        }
        // requesting the maps does not change the network's output
        CHECK(distance(outputs->at("hidden"), run_port(model, fields, "hidden")) < 1e-6);
    }
    CHECK(maps > 40);
}

} // namespace
