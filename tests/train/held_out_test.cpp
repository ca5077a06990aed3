// What a resumed run holds out: what it began with, also if a version began it that did not record the share.
#include "train/run/held_out.hpp"

#include <doctest/doctest.h>

using namespace hekla;
using namespace hekla::train;
using nlohmann::json;

namespace held_out_test {
namespace {

Recipe recipe_of(double fraction, std::vector<std::string> valid = {}, int64_t eval_steps = 10) {
    Recipe recipe;
    recipe.data.valid_fraction = fraction;
    recipe.data.valid = std::move(valid);
    recipe.train.eval_steps = eval_steps;
    return recipe;
}

} // namespace

TEST_CASE("held out: by the keys of [data] alone, and for old checkpoints by train.eval_steps as they were") {
    CHECK(held_out_by(recipe_of(0.2, {}, 0).data) == 0.2);
    CHECK(held_out_by(recipe_of(0.2, {"a"}).data) == 0.0);
    const auto share = [](const Recipe& before, const json& state, const Recipe& now, bool trains = true) {
        const Result<double> found = held_out_of(before, state, now, "run/checkpoint-4", trains);
        return found.ok() ? found.value() : -1.0;
    };
    const json recorded{{kHeldOut, 0.2}}, old = json::object();
    for (const int64_t steps : {0, 10}) // of the resume
        for (const int64_t began : {0, 10}) {
            CHECK(share(recipe_of(0.2, {}, began), recorded, recipe_of(0.2, {}, steps)) == 0.2);
            CHECK(share(recipe_of(0.2, {}, began), old, recipe_of(0.2, {}, steps)) == (began > 0 ? 0.2 : 0.0));
        }
    // An old run that held nothing out may get files, or say so; the share that it names is kept from then on.
    CHECK(share(recipe_of(0.2, {}, 0), old, recipe_of(0.2, {"a"})) == 0.0);
    CHECK(share(recipe_of(0.2, {}, 0), old, recipe_of(0.0)) == 0.0);
    CHECK(share(recipe_of(0.2, {}, 0), json{{kHeldOut, 0.0}}, recipe_of(0.2)) == 0.0);
    // Refused: what moves examples.
    CHECK(share(recipe_of(0.2), recorded, recipe_of(0.2, {"a"})) == -1.0);
    CHECK(share(recipe_of(0.2), recorded, recipe_of(0.3)) == -1.0);
    CHECK(share(recipe_of(0.2), old, recipe_of(0.0)) == -1.0);
    CHECK(share(recipe_of(0.2, {"a"}), json{{kHeldOut, 0.0}}, recipe_of(0.2)) == -1.0);
    CHECK(share(recipe_of(0.2, {"a"}), json{{kHeldOut, 0.0}}, recipe_of(0.9, {"b"})) == 0.0);
    // An evaluation may read other files, and still does not train on what was held out.
    CHECK(share(recipe_of(0.2), recorded, recipe_of(0.2, {"a"}), false) == 0.2);
    CHECK(share(recipe_of(0.2), recorded, recipe_of(0.3), false) == -1.0);
    const Result<double> moved = held_out_of(recipe_of(0.2), recorded, recipe_of(0.2, {"a"}), "run/checkpoint-4", true);
    for (const char* part : {"run/checkpoint-4", "data.valid_fraction = 0.2", "data.valid = [\"a\"]", "20%", "nothing"})
        CHECK_MESSAGE(moved.message().find(part) != std::string::npos, moved.message());
}

} // namespace held_out_test
