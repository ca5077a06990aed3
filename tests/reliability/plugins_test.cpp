// Plugins that crash in their own processes, and plugins that describe another graph when a run resumes.
#include "cases.hpp"

#include <csignal>
#include <nlohmann/json.hpp>

using namespace hekla::test;
using nlohmann::json;

namespace {

Surroundings fault(const std::string& name, const std::string& once = "") {
    Surroundings around{.environment = {{"HEKLA_FAULT", name}}};
    if (!once.empty()) around.environment["HEKLA_FAULT_ONCE"] = once;
    return around;
}

Ran train_faulty(const TestFolder& folder, std::vector<std::string> overrides, const Surroundings& around = {}) {
    overrides.insert(overrides.end(), {"--plugin-path", HEKLA_FAULTS_FOLDER});
    return train(folder, overrides, around);
}

void begin_faulty(const TestFolder& folder) {
    begin(folder);
    folder.write("recipe.toml", R"([model]
architecture = "faulty"
width = 16
depth = 1
[head]
id = "faulty_head"
[objective]
id = "faulty_next"
[data]
train = "text.txt"
[tokenizer]
kind = "char"
[train]
max_steps = 8
context_length = 16
per_device_train_batch_size = 4
eval_steps = 4
eval_batches = 2
save_steps = 4
[output]
dir = "run"
)");
}

} // namespace

TEST_CASE("a plugin that crashes while it describes is one error, and leaves no files") {
    const TestFolder folder;
    begin_faulty(folder);
    const std::string who = std::string("plugin 'faulty' (") + HEKLA_FAULTS_FOLDER + "/faulty.so)";
    fails(train_faulty(folder, {}, fault("abort_in_build")),
          {who + " crashed with SIGABRT (Aborted) in build()", "to see it again: `hekla --plugin-path",
           "hekla plugin check"});
    fails(train_faulty(folder, {"--plugin-seconds", "1"}, fault("hang_in_build")),
          {who + " timed out after 1 s in build()"});
    fails(train_faulty(folder, {}, fault("throw_in_create")), {"threw", "thrown by create", HEKLA_FAULTS_FOLDER});
    CHECK(!folder.exists("run"));
}

TEST_CASE("the same bits in and out of process; a worker that crashes is named and its batch repeated") {
    const TestFolder folder;
    begin_faulty(folder);
    succeeds(train_faulty(folder, {"output.dir=here", "--describe-in", "process"}));
    succeeds(train_faulty(folder, {"output.dir=child"}));
    const std::string model = folder.read("here/model.safetensors");
    CHECK(folder.read("child/model.safetensors") == model);
    succeeds(train_faulty(folder, {"output.dir=isolated", "plugins.isolate=true"}));
    CHECK(folder.read("isolated/model.safetensors") == model);
    const Ran crashed = train_faulty(folder, {"output.dir=crashed", "plugins.isolate=true"},
                                     fault("crash_once_in_collate", (folder / "mark").string()));
    succeeds(crashed);
    CHECK(folder.exists("mark"));
    CHECK(has(crashed.err, "crashed with SIGSEGV (Segmentation fault) in collate()"));
    CHECK(has(crashed.err, "restarting its process (restart 1 of at most 16) and repeating the batch"));
    CHECK(folder.read("crashed/model.safetensors") == model);
    fails(train_faulty(folder, {"output.dir=always", "--isolate-plugins"}, fault("crash_in_collate")),
          {"in collate(), 3 times with the same batch (seed 1337, examples ", "hekla plugin check"});
}

TEST_CASE("a collate that crashes in this process is named") {
    const TestFolder folder;
    begin_faulty(folder);
    const Ran crashed = train_faulty(folder, {}, fault("crash_in_collate"));
    CAPTURE(crashed.err);
    CHECK(crashed.status == 128 + SIGSEGV);
    CHECK(has(crashed.err, std::string("hekla: error: crashed in collate() of plugin 'faulty' (") +
                               HEKLA_FAULTS_FOLDER + "/faulty.so)"));
    CHECK(has(crashed.err, "plugins.isolate = true"));
}

TEST_CASE("a run whose plugin describes another graph reports it, resumes if the weights match, and else fails") {
    const TestFolder folder;
    begin_faulty(folder);
    succeeds(train_faulty(folder, {"train.max_steps=4"}));
    const json record = json::parse(folder.read("run/checkpoint-4/plugins.json"));
    CHECK(record["parts"][0]["plugin"] == "faulty");
    CHECK(record["parts"].size() == 3);
    CHECK(json::parse(folder.read("run/plugins.json"))["parts"].size() == 2);
    const Ran same = train_faulty(folder, {"train.max_steps=5"});
    succeeds(same);
    CHECK(!has(same.err, "another graph"));
    const Ran other = train_faulty(folder, {"train.max_steps=6"}, fault("computes_otherwise"));
    succeeds(other);
    CHECK(has(other.err, "architecture 'faulty' (plugin faulty 1.0.0, another build) describes another graph than when "
                         "this was made:"));
    CHECK(has(other.err, "+ %"));
    CHECK(has(other.err, "Every weight has its place, so the run resumes"));
    // So does the model.
    const Ran predicted = run(folder, {"eval", "recipe.toml", "--plugin-path", HEKLA_FAULTS_FOLDER});
    succeeds(predicted);
    CHECK(has(predicted.err, "describes another graph")); // it was last saved with the other build
    fails(train_faulty(folder, {"train.max_steps=8"}, fault("has_more_weights")),
          {"describes another graph", "more.weight", "Install the plugin that the run began with"});
}

TEST_CASE("a converted model keeps the record of its plugins") {
    const TestFolder folder;
    begin(folder);
    succeeds(train(folder, {"train.max_steps=2"}));
    succeeds(run(folder, {"convert", "run", "converted"}));
    for (const char* file : {"plugins.json", "plugins.txt"}) {
        CAPTURE(file);
        CHECK(!folder.read(std::string("run/") + file).empty());
        CHECK(folder.read(std::string("converted/") + file) == folder.read(std::string("run/") + file));
    }
    const json record = json::parse(folder.read("converted/plugins.json"));
    CHECK(!record["parts"][0]["library_sha256"].get<std::string>().empty());
}
