// What a run holds out for validation, through the program: it depends on the keys of [data] alone, an evaluation reads
// the same, and a resume keeps it or is refused.
#include "tasks.hpp"

#include <doctest/doctest.h>
#include <filesystem>

using hekla::test::Arguments;
using hekla::test::has;
using hekla::test::joined;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::rows;
using hekla::test::succeed;
using hekla::test::write_task;

namespace held_out_test {
namespace {

void write_text(const Place& place) {
    std::string text;
    for (int i = 0; i < 120; ++i) text += "line " + std::to_string(i * 7919 % 1000) + " of a text.\n";
    place.write("text.txt", text);
    place.write("other.txt", text.substr(0, 400));
    place.write("text.toml", R"([model]
architecture = "gpt2"
n_layer = 1
n_head = 2
n_embd = 16
n_positions = 16
[data]
train = "text.txt"
[tokenizer]
kind = "char"
[train]
max_steps = 4
context_length = 16
per_device_train_batch_size = 4
learning_rate = 1e-2
eval_steps = 0
[output]
dir = "run"
)");
}

// Writes a classification of rows without files for validation.
void write_table(const Place& place) {
    write_task(place);
    std::string recipe = place.read("task.toml");
    const std::string valid = "valid = \"valid.tsv\"\n";
    recipe.erase(recipe.find(valid), valid.size());
    place.write("table.toml", recipe);
}

void refuses(const Ran& ran, std::initializer_list<const char*> parts) {
    CAPTURE(ran.err);
    CHECK(ran.status == 1);
    for (const char* part : parts) CHECK_MESSAGE(has(ran.err, part), part);
}

std::string loss_of(const Ran& ran) {
    CAPTURE(ran.out);
    const std::size_t at = ran.out.find("loss");
    REQUIRE(at != std::string::npos);
    return ran.out.substr(at, ran.out.find('\n', at) - at);
}

} // namespace

TEST_CASE("held out: the same with and without evaluations, for training, eval and a resume" *
          doctest::test_suite("long")) {
    const Place place;
    write_text(place);
    write_table(place);
    for (const std::string recipe : {"text.toml", "table.toml"}) {
        CAPTURE(recipe);
        const std::string dir = recipe == "text.toml" ? "t" : "c";
        const Arguments never{"train", recipe, "train.max_steps=4", "train.eval_steps=0", "output.dir=" + dir + "0"};
        const Arguments often{"train", recipe, "train.max_steps=4", "train.eval_steps=2", "output.dir=" + dir + "2"};
        succeed(place.run(never));
        succeed(place.run(often));
        CHECK(place.read(dir + "0/model.safetensors") == place.read(dir + "2/model.safetensors"));
        const std::string loss = loss_of(succeed(place.run({"eval", recipe, "output.dir=" + dir + "2"})));
        for (const char* steps : {"train.eval_steps=0", "train.eval_steps=7"})
            CHECK(loss_of(succeed(place.run({"eval", recipe, steps, "output.dir=" + dir + "0"}))) == loss);
        // The other way on: the same rows are trained on.
        const Arguments longer{"train.max_steps=6", "train.lr_scheduler_type=constant"};
        succeed(place.run(joined({"train", recipe, "train.eval_steps=2", "output.dir=" + dir + "0"}, longer)));
        succeed(place.run(joined({"train", recipe, "train.eval_steps=0", "output.dir=" + dir + "2"}, longer)));
        CHECK(place.read(dir + "0/model.safetensors") == place.read(dir + "2/model.safetensors"));
    }
}

TEST_CASE("held out: a resume that moves examples between training and validation is refused by name") {
    const Place place;
    write_text(place);
    write_table(place);
    for (const auto& [recipe, valid] :
         {std::pair("text.toml", "data.valid=other.txt"), std::pair("table.toml", "data.valid=valid.tsv")}) {
        CAPTURE(recipe);
        succeed(place.run({"train", recipe, "output.dir=held"}));
        succeed(place.run({"train", recipe, valid, "output.dir=own"}));
        const auto resumed = [&](const Arguments& changes) {
            return place.run(joined({"train", recipe, "train.max_steps=8"}, changes));
        };
        refuses(resumed({valid, "output.dir=held"}),
                {"data.valid_fraction = 0.1", "data.valid = [", "holds out 10%", "put the old value back"});
        refuses(resumed({"data.valid_fraction=0.2", "output.dir=held"}), {"data.valid_fraction = 0.1", "= 0.2"});
        refuses(resumed({"data.valid_fraction=0", "output.dir=held"}),
                {"data.valid_fraction = 0 ", "hold out nothing"});
        refuses(resumed({"data.valid=[]", "output.dir=own"}), {"data.valid = [", "data.valid_fraction = 0.1"});
        succeed(resumed({valid, "data.valid_fraction=0.3", "output.dir=own"}));
        // An evaluation trains nothing.
        succeed(place.run({"eval", recipe, valid, "output.dir=held"}));
        refuses(place.run({"eval", recipe, "data.valid_fraction=0.5", "output.dir=held"}), {"= 0.5"});
        std::filesystem::remove_all(place.path("held"));
        std::filesystem::remove_all(place.path("own"));
    }
}

TEST_CASE("held out: nothing to validate on is an error where something needs it, with the number of rows") {
    const Place place;
    write_text(place);
    write_table(place);
    place.write("few.tsv", rows(0, 6));
    const auto few = [&](const Arguments& changes) {
        return place.run(joined({"train", "table.toml", "data.train=few.tsv", "data.labels=[\"negative\",\"positive\"]",
                                 "data.valid_fraction=0.01", "output.dir=few"},
                                changes));
    };
    refuses(few({}),
            {"train.eval_steps = 3 needs validation data", "data.valid_fraction = 0.01 of 6 rows", "data.valid"});
    refuses(few({"train.early_stopping_patience=2"}), {"train.early_stopping_patience = 2", "6 rows"});
    succeed(few({"train.eval_steps=0"}));
    refuses(place.run({"eval", "table.toml", "data.train=few.tsv", "data.labels=[\"negative\",\"positive\"]",
                       "data.valid_fraction=0.01", "output.dir=few"}),
            {"no validation data", "6 rows"});
    for (const char* key : {"train.early_stopping_patience=2", "train.load_best_model_at_end=true"}) {
        refuses(place.run({"train", "text.toml", key}), {"train.eval_steps = 0"});
        refuses(place.run({"train", "text.toml", key, "train.eval_steps=2", "data.valid_fraction=0"}),
                {"data.valid_fraction = 0 holds nothing out"});
    }
    place.write("short.txt", "a text of 30 characters, or so.");
    refuses(place.run({"train", "text.toml", "train.eval_steps=2", "data.train=short.txt"}),
            {"train.eval_steps = 2", "31 tokens", "a row of 17 tokens"});
}

} // namespace held_out_test
