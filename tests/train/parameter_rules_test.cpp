// Which parameters are frozen, and which have another learning rate.
#include "train/update/parameter_rules.hpp"

#include <doctest/doctest.h>

using namespace hekla;
using namespace hekla::train;

namespace {

const std::vector<std::string> kNames{"bert.embeddings.word_embeddings.weight",
                                      "bert.encoder.layer.0.output.dense.weight",
                                      "bert.encoder.layer.1.output.dense.weight",
                                      "bert.encoder.layer.2.output.dense.weight",
                                      "bert.pooler.dense.weight",
                                      "classifier.weight"};
const std::set<std::string> kBody(kNames.begin(), kNames.begin() + 4);

Result<ParameterRules> rules(const std::function<void(TrainSection&)>& change) {
    Recipe recipe;
    recipe.train.learning_rate = 1e-3;
    change(recipe.train);
    return parameter_rules(recipe, kNames, kBody);
}

} // namespace

TEST_CASE("depth: embeddings, layers, then the rest; a decoder's layers come after its encoder's") {
    const Depth bert = depths(kNames, kBody);
    CHECK(bert.layers == 3);
    for (std::size_t i = 0; i < 4; ++i) CHECK(bert.of.at(kNames[i]) == static_cast<int64_t>(i));
    CHECK(bert.of.at("classifier.weight") == 4);
    const std::vector<std::string> t5{"shared.weight", "encoder.block.0.layer.0.SelfAttention.q.weight",
                                      "encoder.block.1.layer.1.DenseReluDense.wi.weight",
                                      "decoder.block.0.layer.2.DenseReluDense.wi.weight",
                                      "decoder.final_layer_norm.weight"};
    const Depth both = depths(t5, {t5.begin(), t5.end()});
    CHECK(both.layers == 3);
    CHECK(both.of.at(t5[0]) == 0);
    CHECK(both.of.at(t5[2]) == 2);
    CHECK(both.of.at(t5[3]) == 3);
    CHECK(both.of.at(t5[4]) == 4);
}

TEST_CASE("freeze: patterns, ranges of layers, the embeddings, the body") {
    const auto frozen = [](std::vector<std::string> freeze) {
        auto made = rules([&](TrainSection& t) { t.freeze = freeze; });
        REQUIRE_MESSAGE(made.ok(), made.message());
        return made.take();
    };
    CHECK(frozen({}).frozen.empty());
    CHECK(!frozen({}).body_frozen);
    CHECK(frozen({"embeddings"}).frozen == std::set<std::string, std::less<>>{kNames[0]});
    CHECK(frozen({"layers:0-1"}).frozen == std::set<std::string, std::less<>>{kNames[1], kNames[2]});
    CHECK(frozen({"layers:2"}).frozen == std::set<std::string, std::less<>>{kNames[3]});
    CHECK(frozen({"*.dense.weight"}).frozen.size() == 4);
    CHECK(frozen({"body"}).frozen.size() == 4);
    CHECK(frozen({"body"}).body_frozen);
    CHECK(frozen({"bert.*"}).body_frozen);
    for (const char* wrong : {"layers:1-3", "layers:2-1", "layers:x", "bert.decoder.*"})
        CHECK_MESSAGE(rules([&](TrainSection& t) { t.freeze = {wrong}; }).code() == Code::invalid_argument, wrong);
    CHECK(rules([](TrainSection& t) { t.freeze = {"*"}; }).message().find("nothing to train") != std::string::npos);
}

TEST_CASE("learning rates: decay by layer, and by pattern") {
    auto decayed = rules([](TrainSection& t) { t.layer_lr_decay = 0.5; });
    REQUIRE(decayed.ok());
    CHECK(decayed->factors.at(kNames[0]) == 0.0625); // four layers follow, including the head
    CHECK(decayed->factors.at(kNames[3]) == 0.5);
    CHECK(!decayed->factors.contains("classifier.weight"));
    auto single = rules([](TrainSection& t) { t.learning_rates = {{"classifier.*", 5e-3}, {"bert.*", 1e-4}}; });
    REQUIRE(single.ok());
    CHECK(single->factors.at("classifier.weight") == doctest::Approx(5.0));
    CHECK(single->factors.at(kNames[2]) == doctest::Approx(0.1));
    CHECK(!rules([](TrainSection& t) { t.learning_rates = {{"clasifier.*", 5e-3}}; }).ok());
}
