// Word vectors, from text to the file that others read.
#include "tasks.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace hekla::test;
using nlohmann::json;

namespace fs = std::filesystem;

TEST_CASE("word vectors: trained, their nearest neighbors, and word2vec's file") {
    const Place place;
    std::string text;
    for (int i = 0; i < 300; ++i)
        text += std::string(i % 2 == 0 ? "cats and dogs run home . " : "red or blue paint dries slowly . ");
    place.write("text.txt", text);
    place.write("vectors.toml", R"([model]
architecture = "word_vectors"
vector_size = 8
[objective]
id = "skip_gram"
subsample = 0.0
[head]
id = ""
[data]
train = "text.txt"
[tokenizer]
kind = "words"
vocab_size = 30
[train]
max_steps = 60
context_length = 32
per_device_train_batch_size = 8
learning_rate = 0.03
weight_decay = 0.0
max_grad_norm = 0.0
eval_steps = 30
save_steps = 30
[output]
dir = "run"
)");
    succeed(place.run({"train", "vectors.toml"}));
    // One of six by chance.
    CHECK(last_evaluation(place, "run")["eval_neighbor_accuracy"].get<double>() > 0.2);
    const json near =
        json::parse(succeed(place.run({"embed", "run", "--nearest", "cats", "--neighbors", "3", "--json"})).out);
    CHECK(near["word"] == "cats");
    REQUIRE(near["nearest"].size() == 3);
    CHECK(near["nearest"][0]["cosine"].get<double>() >= near["nearest"][2]["cosine"].get<double>());
    CHECK(has(place.run({"embed", "run", "--nearest", "zebra"}).err, "'zebra' is not in the vocabulary"));
    CHECK(place.run({"embed", "run", "cats", "--nearest", "cats"}).status == 2);
    succeed(place.run({"embed", "run", "-o", "vectors.vec"}));
    std::istringstream file(place.read("vectors.vec"));
    std::size_t rows = 0, width = 0;
    file >> rows >> width;
    CHECK(width == 8);
    for (std::size_t row = 0; row < rows; ++row) {
        std::string word;
        double number = 0.0;
        file >> word;
        for (std::size_t i = 0; i < width; ++i) file >> number;
    }
    CHECK(!file.fail());
    // A text's feature is the mean of its words'.
    const auto vector_of = [&](const std::string& text) {
        return json::parse(succeed(place.run({"embed", "run", text})).out)["embedding"].get<std::vector<double>>();
    };
    CHECK(vector_of("cats dogs").size() == 8);

    // How well cosines agree with what people say, by the definition of Pearson's correlation.
    const std::vector<std::pair<std::string, std::string>> texts{
        {"cats run home", "dogs run home"}, {"red paint dries", "cats and dogs"}, {"blue paint", "red paint"}};
    const std::vector<double> said{4.5, 1.0, 4.0};
    std::string table = "a\tb\tlikeness\n";
    std::vector<double> cosines;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        table += texts[i].first + "\t" + texts[i].second + "\t" + std::to_string(said[i]) + "\n";
        const std::vector<double> a = vector_of(texts[i].first), b = vector_of(texts[i].second);
        double ab = 0.0, aa = 0.0, bb = 0.0;
        for (std::size_t k = 0; k < a.size(); ++k) ab += a[k] * b[k], aa += a[k] * a[k], bb += b[k] * b[k];
        cosines.push_back(ab / std::sqrt(aa * bb));
    }
    double mean_c = 0.0, mean_s = 0.0, cs = 0.0, cc = 0.0, ss = 0.0;
    for (std::size_t i = 0; i < 3; ++i) mean_c += cosines[i] / 3.0, mean_s += said[i] / 3.0;
    for (std::size_t i = 0; i < 3; ++i) {
        const double c = cosines[i] - mean_c, s = said[i] - mean_s;
        cs += c * s, cc += c * c, ss += s * s;
    }
    place.write("pairs.tsv", table);
    const std::vector<std::string> pairs{"embed",    "run",      "--pairs",  "pairs.tsv",      "--column", "text_a=a",
                                         "--column", "text_b=b", "--column", "score=likeness", "--json"};
    const json likeness = json::parse(succeed(place.run(pairs)).out);
    CHECK(likeness["pairs"] == 3);
    CHECK(likeness["pearson"].get<double>() == doctest::Approx(cs / std::sqrt(cc * ss)).epsilon(1e-4));
    place.write("pairs.tsv", table + "cats\tdogs\tmuch\n");
    const Ran much = place.run(pairs);
    CHECK(much.status == 1);
    CHECK(has(much.err, "pairs.tsv: line 5: the score 'much' is not a number"));

    std::string glove = place.read("vectors.toml");
    glove.replace(glove.find("id = \"skip_gram\"\nsubsample = 0.0"), 32, "id = \"glove\"\nwindow = 4\nmost = 50");
    place.write("vectors.toml", glove);
    succeed(place.run({"train", "vectors.toml", "output.dir=glove", "model.vectors=sum"}));
    fs::remove_all(place.path("glove/checkpoint-60"));
    const std::string before = place.read("glove/model.safetensors");
    succeed(place.run({"train", "vectors.toml", "output.dir=glove", "model.vectors=sum"}));
    CHECK(place.read("glove/model.safetensors") == before);
}
