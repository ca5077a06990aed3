// The command line with a device: a tiny model is trained, inspected, replayed and compared.
#include "program.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

using hekla::test::has;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using nlohmann::json;

namespace fs = std::filesystem;

namespace {

const char* const kTrainingRecipe = R"([model]
architecture = "gpt2"
n_layer = 1
n_head = 2
n_embd = 16
n_positions = 16
resid_pdrop = 0.1
[data]
train = "text.txt"
[tokenizer]
kind = "char"
[train]
max_steps = 6
context_length = 16
per_device_train_batch_size = 4
eval_steps = 3
eval_batches = 2
save_steps = 2
warmup_steps = 2
[output]
dir = "first"
)";

void write_text(const Place& place) {
    std::string text;
    for (int i = 0; i < 60; ++i)
        text += "line " + std::to_string(i * 7919 % 1000) + " of a text that is long enough.\n";
    place.write("text.txt", text);
    place.write("recipe.toml", kTrainingRecipe);
}

} // namespace

TEST_CASE("doctor examines the machine, lists its devices and compares fixtures, by its old names too") {
    const Place place;
    const std::string listed = succeed(place.run({"doctor", "--list", "--json"})).out;
    CHECK(std::ranges::any_of(json::parse(listed), [](const json& d) { return d["usable"].get<bool>(); }));
    CHECK(place.run({"devices", "--json"}).out == listed);
    const json report = json::parse(succeed(place.run({"doctor", "--json", "--report", "report.json"})).out);
    CHECK(json::parse(place.read("report.json")) == report);
    CHECK(report["healthy"] == true);
    CHECK(report["kernel_error"].get<double>() < 1e-6);
    CHECK(report["matmul_gflops"].get<double>() > 0.0);
    const Ran none = place.run({"--device", "no such device", "doctor"});
    CHECK(none.status == 1);
    CHECK(has(none.out, "no such device"));

    const std::string fixture = HEKLA_SOURCE_DIR "/tests/fixtures/models/gpt2-clm";
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"doctor", "--test", fixture, "--reference"}, {"verify", fixture, "--reference"}})
        CHECK(has(succeed(place.run(words)).out, "1 of 1 pass"));
    const std::string kernels = succeed(place.run({"doctor", "--kernels", "--case", "shakespeare-char-cpu"})).out;
    CHECK(place.run({"kernels", "--case", "shakespeare-char-cpu"}).out == kernels);
    for (const std::vector<std::string>& words : {std::vector<std::string>{"doctor", "--test", "--reference"},
                                                  {"doctor", fixture},
                                                  {"doctor", "--bisect"},
                                                  {"doctor", "--list", "--test", fixture},
                                                  {"doctor", "--kernels", "--report", "x.json"}}) {
        const Ran wrong = place.run(words);
        CAPTURE(wrong.err);
        CHECK(wrong.status == 2);
        CHECK(has(wrong.err, "hekla doctor --help"));
    }
}

TEST_CASE("bench matmul checks its product and counts") {
    const Place place;
    const json j = json::parse(
        succeed(place.run({"bench", "matmul", "--m", "33", "--n", "17", "--k", "65", "--seconds", "0", "--json"})).out);
    CHECK(j["case"] == "matmul 33x17x65");
    CHECK(j["gflops"].is_number());
    CHECK(!j["kernels"].empty());
    const std::string text =
        succeed(place.run({"bench", "matmul", "--m", "8", "--n", "8", "--k", "8", "--seconds", "0"})).out;
    CHECK(has(text, "matmul 8x8x8\n"));
    CHECK(has(text, "kernels"));
    // One row for each of the requested kernels, of the transposed product too.
    const Ran chosen = place.run({"bench", "matmul", "--m", "32", "--n", "16", "--k", "24", "--transpose-a",
                                  "--seconds", "0", "--json", "--kernel", "direct.t16x4", "--kernel", "direct.t1x4"});
    std::istringstream rows(succeed(chosen).out);
    for (const char* const kernel : {"direct.t16x4", "direct.t1x4"}) {
        std::string line;
        REQUIRE(std::getline(rows, line));
        CHECK(has(json::parse(line)["kernels"][0].get<std::string>(), std::string(": ") + kernel));
    }
}

TEST_CASE("bench train --profile shows the time of every kernel") {
    const Place place;
    const auto run = [&](std::vector<std::string> more) {
        std::vector<std::string> words{"bench", "train", "shakespeare-char-cpu", "--seconds", "0", "--profile"};
        words.insert(words.end(), more.begin(), more.end());
        return succeed(place.run(words)).out;
    };
    double percent = 0.0;
    bool attention = false;
    const json measured = json::parse(run({"--json"}));
    for (const json& row : measured["profile"]) {
        percent += row["percent"].get<double>();
        attention = attention || row["kernel"].get<std::string>().starts_with("attention/");
        CHECK(row["dispatches"].get<int64_t>() > 0);
    }
    CHECK(std::abs(percent - 100.0) < 5.0); // rounded rows
    CHECK(attention);
    CHECK(has(run({}), "dispatches         ms  percent"));
}

TEST_CASE("a run: train, inspect, replay, diff") {
    const Place place;
    write_text(place);
    succeed(place.run({"train", "recipe.toml"}));
    CHECK(place.exists("first/checkpoint-6/MANIFEST.json"));
    succeed(place.run({"train", "recipe.toml", "output.dir=second"}));
    succeed(place.run({"train", "recipe.toml", "output.dir=other", "train.learning_rate=2e-3"}));

    SUBCASE("inspect prints whether its checkpoints are complete") {
        const json run = json::parse(succeed(place.run({"inspect", "first", "--json"})).out);
        CHECK(run["kind"] == "run");
        CHECK(run["checkpoints"].size() == 3);
        const json checkpoint = json::parse(succeed(place.run({"inspect", "first/checkpoint-6", "--json"})).out);
        CHECK(checkpoint["step"] == 6);
        CHECK(checkpoint["tensors"].size() == 16); // two tables, twelve of the block, two of the last norm
        CHECK(has(succeed(place.run({"inspect", "first/checkpoint-6", "--graph", "text", "--length", "8"})).out,
                  "hekla graph 1"));

        std::fstream file(place.path("first/checkpoint-6/model.safetensors"),
                          std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(-3, std::ios::end);
        file.put('\x55');
        file.close();
        const Ran damaged = place.run({"inspect", "first"});
        CHECK(damaged.status == 1);
        CHECK(has(damaged.out, "NOT USABLE"));
        CHECK(place.run({"inspect", "first/checkpoint-6"}).status == 1);
    }

    SUBCASE("replay gives the same bits, and prints so") {
        const json replayed =
            json::parse(succeed(place.run({"replay", "first", "--step", "4", "-o", "replayed", "--json"})).out);
        CHECK(replayed["from_checkpoint"] == 2);
        CHECK(replayed["same_loss_as_log"] == true);
        CHECK(replayed["finite"] == true);
        CHECK(has(place.read("replayed/batch.txt"), "of a text"));
        const json gradients =
            json::parse(succeed(place.run({"inspect", "replayed/gradients.safetensors", "--json"})).out);
        CHECK(gradients["tensors"].size() == replayed["gradient_norms"].size());
        CHECK(json::parse(succeed(place.run({"replay", "first", "--step", "1", "--json"})).out)["from_checkpoint"] ==
              0);
        CHECK(place.run({"replay", "first", "--step", "7"}).status == 1);
        // A log with another loss is an error: the run's bits are not reproduced.
        std::string log = place.read("first/train_log.jsonl");
        const std::size_t at = log.find("\"loss\":", log.find("\"step\":4"));
        log.insert(at + 7, "1");
        place.write("first/train_log.jsonl", log);
        const Ran differs = place.run({"replay", "first", "--step", "4"});
        CHECK(differs.status == 1);
        CHECK(has(differs.out, "NOT the same bits"));
    }

    SUBCASE("batches: the inputs of the steps, and the model before the first") {
        succeed(place.run({"batches", "recipe.toml", "output.dir=none", "--steps", "4", "-o", "given"}));
        CHECK(!place.exists("none"));
        CHECK(!place.exists("given/step-5.safetensors"));
        for (const char* step : {"1", "4"}) {
            succeed(place.run({"replay", "first", "--step", step, "-o", "replayed"}));
            const std::string file = place.read(std::string("given/step-") + step + ".safetensors");
            uint64_t size = 0;
            std::memcpy(&size, file.data(), 8);
            const json header = json::parse(file.substr(8, size));
            for (const json& field : json::parse(place.read("replayed/batch.json"))) {
                const json& tensor = header["0." + field["field"].get<std::string>()];
                CHECK(tensor["dtype"] == "I32");
                CHECK(tensor["shape"] == field["shape"]);
                std::vector<int32_t> values(field["values"].size());
                std::memcpy(values.data(), file.data() + 8 + size + tensor["data_offsets"][0].get<std::size_t>(),
                            values.size() * 4);
                CHECK(json(values) == field["values"]);
            }
        }
        succeed(place.run({"train", "recipe.toml", "output.dir=again", "model.from=given/model", "tokenizer.from=first",
                           "model.architecture=", "train.max_steps=1"}));
        const auto first_step = [&](const std::string& run) {
            const std::string log = place.read(run + "/train_log.jsonl");
            return json::parse(log.substr(0, log.find('\n')));
        };
        CHECK(first_step("again")["loss"] == first_step("first")["loss"]);
        const Ran twice = place.run({"batches", "recipe.toml", "output.dir=none", "--steps", "1", "-o", "given"});
        CHECK(twice.status == 1);
        CHECK(has(twice.err, "given: exists already"));
        CHECK(has(place.run({"batches", "recipe.toml", "--steps", "1", "-o", "x"}).err, "first: a run exists there"));
    }

    SUBCASE("diff finds where runs diverge") {
        const json same = json::parse(succeed(place.run({"diff", "first", "second", "--json"})).out);
        CHECK(same["equal"] == true);
        CHECK(same["checkpoints_in_both"] == json::array({2, 4, 6}));
        const Ran parted = place.run({"diff", "first", "other", "--json"});
        CHECK(parted.status == 1);
        const json j = json::parse(parted.out);
        CHECK(j["equal"] == false);
        CHECK(j["step"] == 1); // its learning rate
        CHECK(j["checkpoint"] == 2);
        CHECK(j["recipe"]["first"] == json::array({"[train] learning_rate = 0.001"}));
    }
}

TEST_CASE("train.logging_steps: a line of progress with the means of its steps, and a log of every step") {
    const Place place;
    write_text(place);
    const Ran ran = succeed(place.run({"train", "recipe.toml", "train.max_steps=7", "train.logging_steps=3",
                                       "train.eval_steps=0", "data.valid_fraction=0"}));
    std::vector<double> losses;
    std::istringstream log(place.read("first/train_log.jsonl"));
    for (std::string line; std::getline(log, line);) losses.push_back(json::parse(line)["loss"].get<double>());
    REQUIRE(losses.size() == 7);
    const auto line_of = [](int step, double loss) {
        char text[64];
        std::snprintf(text, sizeof text, "step %d/7 | loss %.4f ", step, loss);
        return std::string(text);
    };
    const std::string three = line_of(3, (losses[0] + losses[1] + losses[2]) / 3.0),
                      six = line_of(6, (losses[3] + losses[4] + losses[5]) / 3.0), seven = line_of(7, losses[6]);
    for (const std::string& line : {three, six, seven}) CHECK_MESSAGE(has(ran.err, line), line << "\n" << ran.err);
    for (const char* other : {"step 1/7", "step 2/7", "step 4/7", "step 5/7"}) CHECK(!has(ran.err, other));
}

TEST_CASE("training, evaluation and generation cause no validation messages") {
    const Place place;
    write_text(place);
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"--validate", "train", "recipe.toml"},
          {"--validate", "eval", "recipe.toml"},
          {"--validate", "generate", "first", "--prompt", "of a", "--max-new-tokens", "9"},
          {"--validate", "generate", "first", "--prompt", "of a", "--max-new-tokens", "9", "--dtype", "bf16"}}) {
        const Ran ran = succeed(place.run(command));
        CHECK_MESSAGE(!has(ran.err, "Vulkan validation"), ran.err);
    }
}

// The quickstart generates more text than its model's context holds.
TEST_CASE("a text longer than the model's context continues from its last half, with a message") {
    const Place place;
    write_text(place);
    succeed(place.run({"train", "recipe.toml"}));
    const std::vector<std::string> longer{"generate", "first", "--prompt", "of a", "--max-new-tokens", "50"};
    const Ran slid = succeed(place.run(longer));
    CHECK(has(slid.err, "the model's context is 16 tokens; longer text continues from the last 8"));
    CHECK(has(slid.err, "50 tokens in"));
    std::vector<std::string> beams = longer;
    beams.insert(beams.end(), {"--beams", "2"});
    const Ran refused = place.run(beams);
    CHECK(refused.status == 1);
    CHECK(has(refused.err, "context of 16"));
}

TEST_CASE("recomputed activations give the same run, bit for bit") {
    const Place place;
    write_text(place);
    succeed(place.run({"train", "recipe.toml"}));
    succeed(place.run({"train", "recipe.toml", "output.dir=second", "train.gradient_checkpointing=true"}));
    const json parted = json::parse(place.run({"diff", "first", "second", "--json"}).out);
    CHECK(parted["step"].is_null());
    CHECK(parted["checkpoint"].is_null());
}

TEST_CASE("16-bit training is close to float32, resumes with the same bits, and can be replayed") {
    const Place place;
    write_text(place);
    const auto last_loss = [&](const std::string& run) {
        const std::string log = place.read(run + "/train_log.jsonl");
        double loss = 0.0;
        for (std::size_t begin = 0; begin < log.size(); begin = log.find('\n', begin) + 1) {
            const json record = json::parse(log.substr(begin, log.find('\n', begin) - begin));
            if (record.contains("loss")) loss = record["loss"].get<double>();
        }
        return loss;
    };
    succeed(place.run({"train", "recipe.toml"}));
    for (const std::string type : {"bf16", "fp16"}) {
        CAPTURE(type);
        const std::string key = "train." + type + "=true";
        succeed(place.run({"train", "recipe.toml", key, "output.dir=" + type}));
        CHECK(std::abs(last_loss(type) - last_loss("first")) < 2e-2);
        CHECK(last_loss(type) != last_loss("first"));
        // Repeats the steps after the second checkpoint.
        fs::copy(place.path(type), place.path(type + "-again"), fs::copy_options::recursive);
        for (const char* later : {"checkpoint-4", "checkpoint-6"}) fs::remove_all(place.path(type + "-again/" + later));
        succeed(place.run({"train", "recipe.toml", key, "output.dir=" + type + "-again"}));
        const json parted = json::parse(place.run({"diff", type, type + "-again", "--json"}).out);
        CHECK(parted["step"].is_null());
        CHECK(parted["checkpoint"].is_null());
        const json replayed = json::parse(succeed(place.run({"replay", type, "--step", "4", "--json"})).out);
        CHECK(replayed["same_loss_as_log"] == true);
    }
    // A run in float32 can be resumed in float16.
    fs::copy(place.path("first"), place.path("mixed"), fs::copy_options::recursive);
    for (const char* later : {"checkpoint-4", "checkpoint-6"}) fs::remove_all(place.path("mixed") / later);
    succeed(place.run({"train", "recipe.toml", "train.fp16=true", "output.dir=mixed"}));
    const Ran both = place.run({"train", "recipe.toml", "train.bf16=true", "train.fp16=true", "output.dir=both"});
    CHECK(both.status == 1);
    CHECK(has(both.err, "remove one"));
}

TEST_CASE("a run keeps its kernel choices") {
    const Place place;
    write_text(place);
    const std::vector<std::string> train{"--measure-kernels", "always", "train", "recipe.toml"};
    succeed(place.run(train));
    const json kernels = json::parse(place.read("first/kernels.json"));
    CHECK(kernels["kernel_choices"].size() > 4);
    // With kernel choices in the record that measuring would never make: the checkpoint's are used, or the folder's if
    // there is no checkpoint.
    const auto plainest = [](json record) {
        for (json& line : record["kernel_choices"]) {
            const std::string text = line.get<std::string>();
            if (text.starts_with("matmul ")) line = text.substr(0, text.rfind(": ")) + ": direct.t4x4";
        }
        return record;
    };
    fs::create_directories(place.path("second"));
    place.write("second/kernels.json", plainest(kernels).dump());
    std::vector<std::string> again = train;
    again.insert(again.end(), {"output.dir=second", "train.max_steps=2"});
    succeed(place.run(again));
    const json kept = json::parse(place.read("second/kernels.json"));
    CHECK(kept["kernel_choices"] == plainest(kernels)["kernel_choices"]);
    CHECK(kept["peak_flops"] >= kernels["peak_flops"]); // the fastest of what was measured
    const json state = json::parse(place.read("second/checkpoint-2/trainer_state.json"));
    CHECK(state["kernel_choices"] == plainest(kernels)["kernel_choices"]);
    place.write("second/kernels.json", kernels.dump());
    again.back() = "train.max_steps=4";
    const Ran resumed = succeed(place.run(again));
    CHECK(!has(resumed.err, "kernels chosen here"));
    CHECK(json::parse(place.read("second/checkpoint-4/trainer_state.json"))["kernel_choices"] ==
          state["kernel_choices"]);
    // Those of another device or version are not used.
    json foreign = plainest(kernels);
    foreign["kernels_of"] = "another";
    fs::create_directories(place.path("third"));
    place.write("third/kernels.json", foreign.dump());
    succeed(place.run({"train", "recipe.toml", "output.dir=third", "train.max_steps=1"}));
    CHECK(json::parse(place.read("third/kernels.json"))["kernels_of"] == kernels["kernels_of"]);
    CHECK(json::parse(place.read("third/kernels.json"))["kernel_choices"] != foreign["kernel_choices"]);
}

TEST_CASE("replay names the first value that is not finite") {
    const Place place;
    write_text(place);
    // A learning rate at which every model diverges: the update is skipped, and the run continues or stops; both are
    // logged.
    const Ran trained = place.run({"train", "recipe.toml", "train.learning_rate=1e38", "train.min_learning_rate=1e38",
                                   "train.warmup_steps=0", "train.max_grad_norm=0", "train.eval_steps=0"});
    CAPTURE(trained.err);
    int64_t bad = 0;
    const std::string log = place.read("first/train_log.jsonl");
    for (std::size_t begin = 0; begin < log.size() && bad == 0; begin = log.find('\n', begin) + 1) {
        const json record = json::parse(log.substr(begin, log.find('\n', begin) - begin));
        if (record.value("skipped", false)) bad = record["step"].get<int64_t>();
    }
    REQUIRE(bad > 0);
    const json replayed =
        json::parse(succeed(place.run({"replay", "first", "--step", std::to_string(bad), "--json"})).out);
    CHECK(replayed["finite"] == false);
    CHECK(replayed["first_non_finite"].is_object());
    CHECK(!replayed["first_non_finite"]["node"].get<std::string>().empty());
    // Parameters of 1e38 overflow float32, but not float64.
    if (!has(replayed["first_non_finite"]["node"].get<std::string>(), "before the step"))
        CHECK(replayed["float64"] == "finite");
}

TEST_CASE("train: invalid training settings are one clear error") {
    const Place place;
    write_text(place);
    place.write("empty.txt", "");
    place.write("latin.txt", "good\nna\xefve\n");
    place.write("short.txt", "ten bytes.");
    const auto fails = [&](const std::string& change, std::initializer_list<const char*> parts) {
        const Ran ran = place.run({"train", "recipe.toml", change});
        CAPTURE(change);
        CAPTURE(ran.err);
        CHECK(ran.status == 1);
        for (const char* part : parts) CHECK(has(ran.err, part));
        fs::remove_all(place.path("first"));
    };
    fails("data.train=missing.txt", {"missing.txt"});
    fails("data.train=empty.txt", {"empty.txt", "empty"});
    fails("data.train=latin.txt", {"latin.txt", "line 2", "byte offset 7", "UTF-8"});
    fails("data.train=short.txt", {"a window is 17"});
    fails("train.context_length=64", {"64", "n_positions = 16"});
    fails("model.architecture=gpt3", {"gpt3", "did you mean 'gpt2'?"});
    fails("model.n_head=3", {"n_head = 3"});
    fails("head.id=nothing", {"'nothing'"});
    fails("train.lerning_rate=1.0", {"lerning_rate", "did you mean 'learning_rate'?"});
    fails("output.dir=/proc/run", {"/proc/run"});
    // A checkpoint with another model size.
    succeed(place.run({"train", "recipe.toml", "train.max_steps=2"}));
    fails("model.n_embd=32", {"checkpoint-2", "model.n_embd = 16", "has 32"});
}

TEST_CASE("the calls of a training and of a generation are captured and replayed, and a difference is found") {
    const Place place;
    write_text(place);
    succeed(place.run({"--capture", "train.jsonl", "train", "recipe.toml"}));
    const Ran again = succeed(place.run({"replay-calls", "train.jsonl"}));
    CHECK_MESSAGE(has(again.out, "1 calls made again, 0 left out, 0 differences"), again.out);
    const std::vector<std::string> generate{"--capture", "text.jsonl",       "generate", "first",  "--prompt",
                                            "line",      "--max-new-tokens", "12",       "--seed", "3"};
    const std::string text = succeed(place.run(generate)).out;
    const json same = json::parse(succeed(place.run({"replay-calls", "text.jsonl", "--json"})).out);
    CHECK(same.at("calls") == 1);
    CHECK(same.at("differences").empty());
    CHECK(!place.exists("run-2")); // replayed trainings write elsewhere

    // Another seed gives another text; a different loss is named; so is an unreadable line.
    const auto changed = [&](const char* name, const std::string& from, const std::string& to) {
        std::string lines = place.read(name);
        const std::size_t at = lines.find(from);
        REQUIRE(at != std::string::npos);
        lines.replace(at, from.size(), to);
        place.write("changed.jsonl", lines);
        return place.run({"replay-calls", "changed.jsonl"});
    };
    const Ran other_text = changed("text.jsonl", "\"seed\":3", "\"seed\":4");
    CHECK(other_text.status == 1);
    CHECK_MESSAGE(has(other_text.out, "row 0"), other_text.out);
    const Ran other_loss = changed("train.jsonl", "\"step\":3,\"loss\":", "\"step\":3,\"loss\":1");
    CHECK(other_loss.status == 1);
    CHECK_MESSAGE(has(other_loss.out, "the loss of step 3 is"), other_loss.out);
    const Ran other_end = changed("text.jsonl", "\"model\":\"", "\"model\":\"nowhere/");
    CHECK(other_end.status == 1);
    CHECK_MESSAGE(has(other_end.out, "hk_generate succeeded there, and here: "), other_end.out);
    const Ran broken = changed("text.jsonl", "\"arguments\":{", "\"arguments\":[");
    CHECK(broken.status == 1);
    CHECK_MESSAGE(has(broken.err, "changed.jsonl:"), broken.err);
    place.write("no.jsonl", "{\"step\": 1}\n");
    const Ran none = place.run({"replay-calls", "no.jsonl"});
    CHECK(none.status == 1);
    CHECK_MESSAGE(has(none.err, "no.jsonl:1: not a recording of calls"), none.err);
    CHECK(place.run({"replay-calls", "nowhere.jsonl"}).status == 1);
}
