// hekla export: buffers that training has written are in the file as they are in the run.
#include "program.hpp"

#include <doctest/doctest.h>

namespace exported_buffers_test {

using hekla::test::Arguments;
using hekla::test::joined;
using hekla::test::Place;
using hekla::test::succeed;

namespace {

const char* const kRecipe = R"([model]
architecture = "normed"
[data]
valid_fraction = 0.0
train = "text.txt"
[train]
max_steps = 12
context_length = 8
learning_rate = 0.05
eval_steps = 0
save_steps = 6
[output]
dir = "run"
)";

} // namespace

TEST_CASE("an exported file has the running statistics and the averaged weights of its run") {
    const Place place;
    std::string text;
    for (int i = 0; i < 20; ++i) text += "the quick brown fox jumps over the lazy dog and runs away\n";
    place.write("text.txt", text);
    place.write("recipe.toml", kRecipe);
    const Arguments plugins{"--plugin-path", HEKLA_TRAIN_PLUGINS};
    succeed(place.run(joined(plugins, {"train", "recipe.toml"})));
    const auto features = [&](const char* model, const Arguments& options) {
        succeed(place.run(joined(options, {"embed", model, "a lazy fox", "--pooling", "none", "-o", "features.npy"})));
        return place.read("features.npy");
    };
    for (const char* checkpoint : {"run/checkpoint-6", "run"}) {
        CAPTURE(checkpoint);
        succeed(place.run(joined(plugins, {"export", checkpoint, "model.hekla"})));
        CHECK(features("model.hekla", {}) == features(checkpoint, plugins)); // the file needs no plugin
    }
    CHECK(features("run", plugins) != features("run/checkpoint-6", plugins));
}

} // namespace exported_buffers_test
