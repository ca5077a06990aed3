// Faults of the environment: the device is lost, memory or disk runs out, the data contains NaN, the run's folder
// belongs to another training.
#include "cases.hpp"
#include "small_disk.hpp"

#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>

using namespace hekla::test;
using nlohmann::json;

namespace fs = std::filesystem;

namespace {

Surroundings faults(const std::string& plan) {
    return {.environment = {{"LD_LIBRARY_PATH", HEKLA_FAULT_FOLDER}, {"HEKLA_FAULTS", plan}}};
}

int64_t last_checkpoint(const TestFolder& folder) {
    int64_t last = -1;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder / "run")) {
        const std::string name = entry.path().filename().string();
        CHECK(!has(name, ".tmp"));
        if (name.starts_with("checkpoint-")) last = std::max<int64_t>(last, std::stoll(name.substr(11)));
    }
    return last;
}

} // namespace

TEST_CASE("the disk is full in a training by two ranks: one error, both end, and the next start resumes" *
          doctest::test_suite("long")) {
    const TestFolder folder;
    begin(folder);
    const std::vector<std::string> two{"train.gradient_accumulation_steps=2",
                                       "train.save_steps=2",
                                       "train.save_total_limit=100",
                                       "train.max_steps=60",
                                       "--devices",
                                       "0,0"};
    succeeds(train(folder, {"train.gradient_accumulation_steps=2", "distributed.parts=2", "train.max_steps=60",
                            "train.save_steps=2", "output.dir=undisturbed"}));
    const SmallDisk disk(folder / "disk", "600k");
    if (!disk.mounted()) {
        MESSAGE("skipped: this process may not mount a file system");
        return;
    }
    std::vector<std::string> arguments = two;
    arguments.emplace_back("output.dir=disk/run");
    const Ran full = train(folder, arguments);
    fails(full, {"No space left", "the same command resumes from"});
    fs::copy(folder / "disk/run", folder / "run", fs::copy_options::recursive);
    arguments.back() = "output.dir=run";
    const Ran on = train(folder, arguments);
    succeeds(on);
    CHECK(has(on.err, "resuming after step"));
    CHECK(folder.read("run/model.safetensors") == folder.read("undisturbed/model.safetensors"));
}

TEST_CASE("the device is lost in the middle: an error, the last checkpoint is complete, the next start resumes") {
    const TestFolder folder;
    begin(folder);
    // The right submit is found by bisection: it must be after the first checkpoint and before the end. How many there
    // are before the first step differs from run to run by a hundred, because the device's peak is measured in a fixed
    // time: a step is a submit, and there are more steps than that.
    const std::string steps = "train.max_steps=400", saves = "train.save_steps=40";
    succeeds(train(folder, {steps, saves, "output.dir=undisturbed"}));
    bool hit = false;
    for (int early = 0, late = 1024; late - early > 1;) {
        const int nth = (early + late) / 2;
        fs::remove_all(folder / "run");
        const Ran lost = train(folder, {steps, saves}, faults("vkQueueSubmit2:" + std::to_string(nth) + ":-4"));
        if (lost.status == 0) {
            late = nth;
            continue;
        }
        fails(lost, {"lost"});
        if (!folder.exists("run") || last_checkpoint(folder) < 0) {
            early = nth;
            continue;
        }
        hit = true;
        const int64_t step = last_checkpoint(folder);
        const Ran on = train(folder, {steps, saves});
        succeeds(on);
        CHECK(has(on.err, "resuming after step " + std::to_string(step)));
        CHECK(folder.read("run/model.safetensors") == folder.read("undisturbed/model.safetensors"));
        break;
    }
    CHECK(hit);
}

TEST_CASE("the device is lost before the first step: no files are left") {
    const TestFolder folder;
    begin(folder);
    fails(train(folder, {}, faults("vkQueueSubmit2:3:-4")), {"lost"});
    CHECK(!folder.exists("run"));
}

TEST_CASE("no device memory") {
    const TestFolder folder;
    begin(folder);
    fails(train(folder, {"model.n_embd=512"}, faults("memory=20000000")),
          {"no memory", "12.1 MiB", "make the model smaller"});
    CHECK(!folder.exists("run"));
}

TEST_CASE("no device") {
    const TestFolder folder;
    begin(folder);
    fails(train(folder, {"--device", "no such device"}), {"no such device"});
    fails(train(folder, {}, faults("vkCreateInstance:1:-9")), {});
    CHECK(!folder.exists("run"));
}

TEST_CASE("a full disk") {
    const TestFolder folder;
    begin(folder);
    SUBCASE("in the middle: the checkpoint fails, the older ones stay") {
        const SmallDisk disk(folder / "run", "300k");
        if (!disk.mounted()) {
            MESSAGE("no file system may be mounted here: ", std::strerror(errno));
            return;
        }
        fails(train(folder, {"train.max_steps=400", "train.save_total_limit=100"}),
              {"No space left", "the same command resumes from run/checkpoint-"});
        const int64_t step = last_checkpoint(folder);
        REQUIRE(step >= 8);
        // When space is available again it continues.
        fs::remove_all(folder / "run/checkpoint-4");
        const Ran on = train(folder, {"train.max_steps=" + std::to_string(step + 1), "train.save_total_limit=1"});
        CAPTURE(on.err);
        CHECK(on.status == 0);
        CHECK(has(on.err, "resuming after step " + std::to_string(step)));
    }
    SUBCASE("before the first step: no files are left") {
        const SmallDisk disk(folder / "run", "4k");
        if (!disk.mounted()) return;
        fails(train(folder), {"No space left"});
        CHECK(listing(folder / "run").empty());
    }
}

TEST_CASE("one NaN in the data: the update is skipped and the run continues") {
    const TestFolder folder;
    begin(folder);
    const Ran one = train(folder, {"objective.id=nan_once", "--plugin-path", HEKLA_BROKEN_PLUGINS});
    CAPTURE(one.err);
    CHECK(one.status == 0);
    CHECK(count_of(one.err, "the update was skipped") == 1);
    CHECK(folder.exists("run/bad_step_7.json"));
    CHECK(has(folder.read("run/bad_step_7.json"), "\"scale\""));
    CHECK(count_of(folder.read("run/train_log.jsonl"), "\"skipped\":true") == 1);
}

TEST_CASE("NaN in all further data: the run stops, the last checkpoint is good, the batch is saved") {
    const TestFolder folder;
    begin(folder);
    fails(train(folder, {"objective.id=nan_forever", "train.max_bad_steps=3", "train.save_steps=2", "--plugin-path",
                         HEKLA_BROKEN_PLUGINS}),
          {"3 updates in a row", "after step 9", "checkpoint-8", "bad_step_9.json"});
    CHECK(last_checkpoint(folder) == 8);
    // The saved weights are those before the first bad step.
    CHECK(folder.read("run/checkpoint-8/model.safetensors") == folder.read("run/checkpoint-6/model.safetensors"));
}

TEST_CASE("a learning rate at which the model diverges") {
    const TestFolder folder;
    begin(folder);
    const Ran one =
        train(folder, {"train.learning_rate=1e38", "train.min_learning_rate=1e38", "train.warmup_steps=0",
                       "train.max_grad_norm=0", "train.max_bad_steps=2", "train.save_steps=0", "train.eval_steps=0"});
    fails(one, {"2 updates in a row", "There is no checkpoint yet", "smaller learning_rate"});
}

TEST_CASE("a learning rate at which the model diverges leaves the good checkpoints") {
    const TestFolder folder;
    begin(folder);
    succeeds(train(folder, {"train.max_steps=10", "train.save_steps=1", "train.save_total_limit=2"}));
    const std::string before = listing(folder / "run/checkpoint-10");
    const Ran blown = train(folder, {"train.max_steps=20", "train.save_steps=1", "train.save_total_limit=2",
                                     "train.learning_rate=1e30", "train.min_learning_rate=1e30", "train.warmup_steps=0",
                                     "train.max_grad_norm=0", "train.max_bad_steps=4"});
    fails(blown, {"4 updates in a row", "The last good checkpoint is run/checkpoint-", "hekla replay run --step",
                  "gradient of tensor"});
    // The last applied update is not in a checkpoint, and the resumed state is finite.
    CHECK(listing(folder / "run/checkpoint-10") == before);
    CHECK(last_checkpoint(folder) == 10);
    const Ran on = train(folder, {"train.max_steps=12"});
    succeeds(on);
    CHECK(has(on.err, "resuming after step 10"));
    CHECK(count_of(folder.read("run/train_log.jsonl"), "\"skipped\":true") == 0);
}

TEST_CASE("a run whose last update is not usable fails, and its model is not written") {
    const TestFolder folder;
    begin(folder);
    fails(train(folder, {"train.max_steps=1", "train.learning_rate=1e38", "train.min_learning_rate=1e38",
                         "train.warmup_steps=0", "train.max_grad_norm=0", "train.eval_steps=0"}),
          {"the weights after step 1 cannot be used", "There is no checkpoint yet"});
    CHECK(last_checkpoint(folder) == -1);
    CHECK(!folder.exists("run/model.safetensors"));
}

TEST_CASE("non-finite weights are rejected: the file and the tensor are named") {
    const TestFolder folder;
    begin(folder);
    succeeds(train(folder, {"train.max_steps=2", "train.eval_steps=0"}));
    std::string weights = folder.read("run/model.safetensors");
    weights.replace(weights.size() - 4, 4, std::string("\x00\x00\xc0\x7f", 4)); // NaN, little-endian
    folder.write("run/model.safetensors", weights);
    for (const char* old : {"run/checkpoint-2", "run/best"}) fs::remove_all(folder / old);
    const std::initializer_list<std::string> named{"run/model.safetensors", "tensor \"", "is nan"};
    fails(train(folder, {"model.from=run", "model.architecture=", "output.dir=tuned"}), named);
    CHECK(!folder.exists("tuned"));
    fails(run(folder, {"convert", "run", "converted"}), named);
    CHECK(!folder.exists("converted"));
    fails(run(folder, {"export", "run", "run.hekla"}), named);
    CHECK(!folder.exists("run.hekla"));
    succeeds(run(folder, {"convert", "run", "converted", "--allow-non-finite"}));
    succeeds(run(folder, {"export", "run", "run.hekla", "--allow-non-finite"}));
}

TEST_CASE("each of several losses and each metric is shown by name") {
    const TestFolder folder;
    begin(folder);
    const Ran trained = train(folder, {"objective.id=two_losses", "train.max_steps=6", "train.eval_steps=6",
                                       "train.gradient_accumulation_steps=2", "--plugin-path", HEKLA_BROKEN_PLUGINS});
    succeeds(trained);
    CHECK_MESSAGE(has(trained.err, " (next "), trained.err);
    CHECK_MESSAGE(has(trained.err, ", size "), trained.err);
    CHECK_MESSAGE(has(trained.err, " | hits "), trained.err);
    CHECK_MESSAGE(has(trained.err, " | loss.size "), trained.err); // of the evaluation
    const std::string log = folder.read("run/train_log.jsonl");
    const json first = json::parse(log.substr(0, log.find('\n')));
    const double next = first["losses"]["next"], size = first["losses"]["size"], hits = first["metrics"]["hits"];
    CHECK(std::abs(first["loss"].get<double>() - (next + 0.5 * size)) < 1e-4 * first["loss"].get<double>());
    CHECK(next > 0.0);
    CHECK(size > 0.0);
    CHECK(hits >= 0.0);
    CHECK(hits <= 1.0);
    for (const char* name : {"next, mean of 32", "size, mean of 32"}) CHECK(has(folder.read("run/loss.svg"), name));
    CHECK(has(folder.read("run/metrics.svg"), "hits, mean of 32"));
}

TEST_CASE("plan and train of a finished run") {
    const TestFolder folder;
    begin(folder);
    succeeds(train(folder, {"train.max_steps=2"}));
    const Ran plan = train(folder, {"train.max_steps=2", "--plan"});
    succeeds(plan);
    CHECK_MESSAGE(has(plan.out, "the run is finished"), plan.out);
    const Ran again = train(folder, {"train.max_steps=2"});
    succeeds(again);
    CHECK_MESSAGE(has(again.err, "this run is finished: 2 of 2 steps"), again.err);
}

TEST_CASE("no steps, no saves, no validation") {
    const TestFolder folder;
    begin(folder);
    const Ran none = train(folder, {"train.max_steps=0"});
    succeeds(none);
    CHECK(has(none.err, "done: 0 steps\n"));
    CHECK(folder.exists("run/model.safetensors")); // as it was initialized
    CHECK(folder.read("run/train_log.jsonl").empty());
    succeeds(train(folder, {"train.max_steps=3", "train.save_steps=0"}));
    CHECK(last_checkpoint(folder) == 3);
    // A finished run that is started again has nothing to do and is unchanged.
    const std::string weights = folder.read("run/model.safetensors");
    const std::string log = folder.read("run/train_log.jsonl");
    succeeds(train(folder, {"train.max_steps=3", "train.save_steps=0"}));
    CHECK(folder.read("run/model.safetensors") == weights);
    CHECK(folder.read("run/train_log.jsonl") == log);

    succeeds(train(folder, {"train.max_steps=2", "data.valid_fraction=0.0", "output.dir=blind"}));
    fails(run(folder, {"eval", "recipe.toml", "data.valid_fraction=0.0", "output.dir=blind"}),
          {"no validation data", "data.valid"});
}

TEST_CASE("plan and eval create no folder") {
    const TestFolder folder;
    begin(folder);
    const Ran plan = train(folder, {"--plan"});
    succeeds(plan);
    CHECK(has(plan.out, "most expensive operations"));
    CHECK(!folder.exists("run"));
    fails(run(folder, {"eval", "recipe.toml"}), {"run", "there is no checkpoint", "train first"});
    CHECK(!folder.exists("run"));
}

TEST_CASE("resuming with another recipe") {
    const TestFolder folder;
    begin(folder);
    succeeds(train(folder, {"train.max_steps=4"}));
    const std::string before = listing(folder / "run");
    const auto refused = [&](std::vector<std::string> overrides, std::initializer_list<std::string> parts) {
        fails(train(folder, std::move(overrides)), parts);
        CHECK(listing(folder / "run") == before);
    };
    refused({"model.n_embd=32"}, {"checkpoint-4", "model.n_embd = 16", "has 32", "[output] dir"});
    refused({"model.architecture=gpt"},
            {"checkpoint-4", "model.architecture = \"gpt2\"", "has \"gpt\"", "[output] dir"});
    refused({"tokenizer.kind=bpe", "tokenizer.vocab_size=300"}, {"checkpoint-4", "tokenizer.", "[output] dir"});
    refused({"train.optim=sgd"}, {"checkpoint-4", "train.optim", "[output] dir"});
    folder.write("text.txt", some_text() + "line 1 of a text that is long enough.\n");
    fails(train(folder), {"checkpoint-4", "other data", "[output] dir"});
    folder.write("text.txt", some_text() + "\xc3\xa9\n");
    fails(train(folder), {"text.txt", "resumes with the tokenizer", "U+00E9"});
    folder.write("text.txt", some_text());
    // Allowed changes are reported.
    const Ran on = train(folder, {"train.max_steps=6", "train.learning_rate=2e-3"});
    succeeds(on);
    CHECK(has(on.err, "train.learning_rate 0.001 -> 0.002"));
    CHECK(has(on.err, "resuming after step 4"));
}

TEST_CASE("a damaged checkpoint is skipped") {
    const TestFolder folder;
    begin(folder);
    succeeds(train(folder, {"train.max_steps=8"}));
    std::string weights = folder.read("run/checkpoint-8/model.safetensors");
    weights[weights.size() - 3] = static_cast<char>(weights[weights.size() - 3] ^ 1);
    folder.write("run/checkpoint-8/model.safetensors", weights);
    const Ran on = train(folder, {"train.max_steps=8"});
    succeeds(on);
    CHECK(has(on.err, "checkpoint not used"));
    CHECK(has(on.err, "resuming after step 4"));
}
