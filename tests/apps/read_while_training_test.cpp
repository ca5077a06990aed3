// Verbs that read a run while its training replaces the checkpoint all the time.
#include "program.hpp"

#include "model/checkpoint.hpp"

#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <thread>

namespace read_while_training_test {

using namespace hekla::test;

TEST_CASE("a run can be evaluated, embedded and continued in text while its training replaces the checkpoint") {
    const Place place;
    std::string text;
    for (int i = 0; i < 60; ++i)
        text += "line " + std::to_string(i * 7919 % 1000) + " of a text that is long enough.\n";
    place.write("text.txt", text);
    place.write("recipe.toml", R"([model]
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
max_steps = 100000
context_length = 16
per_device_train_batch_size = 4
save_steps = 4
save_total_limit = 1
[output]
dir = "out"
)");
    std::atomic<bool> ended = false;
    Ran trained;
    std::thread training([&] {
        trained = place.run_copy("/bin/sh",
                                 {"-c", "'" HEKLA_PROGRAM "' train recipe.toml & training=$!; while [ ! -e stop ] && "
                                        "kill -0 $training; do sleep 0.05; done; kill -INT $training; wait $training"});
        ended = true;
    });
    // Any checkpoint: a certain one may be replaced before it is looked for.
    const auto has_checkpoint = [&] {
        const auto steps = hekla::model::list_checkpoints(place.path("out"));
        return steps.ok() && !steps.value().empty();
    };
    while (!ended && !has_checkpoint()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (int i = 0; i < 5; ++i)
        for (const Arguments& arguments :
             {Arguments{"eval", "out"}, Arguments{"generate", "out", "--prompt", "line", "--max-new-tokens", "2"},
              Arguments{"embed", "out", "line"}}) {
            const Ran ran = place.run(arguments);
            CAPTURE(arguments[0]);
            CAPTURE(ran.err);
            CHECK(ran.status == 0);
            CHECK_FALSE(has(ran.err, "checkpoint not used"));
        }
    CHECK_FALSE(ended);
    place.write("stop", "");
    training.join();
    CAPTURE(trained.err);
    CHECK(trained.status == 130);
}

} // namespace read_while_training_test
