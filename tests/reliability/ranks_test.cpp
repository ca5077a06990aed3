// Trainings by several ranks: the result is the same for every number of them, bit for bit, before and after a resume
// with another number, and what cannot work is refused with what would.
#include "cases.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

using namespace hekla::test;
using nlohmann::json;

namespace ranks_test {
namespace {

// "0,0,0": several ranks on the first device.
std::string devices(int ranks) {
    std::string text = "0";
    for (int rank = 1; rank < ranks; ++rank) text += ",0";
    return text;
}

// Checks that trainings by these numbers of ranks give the same. Returns the messages of the last one.
std::string agree(const TestFolder& folder, std::vector<std::string> overrides, int steps,
                  const std::vector<int>& counts) {
    overrides.push_back("distributed.parts=8");
    overrides.push_back("train.gradient_accumulation_steps=8");
    overrides.push_back("train.max_steps=" + std::to_string(steps));
    std::string expected, said;
    for (const int ranks : counts) {
        CAPTURE(ranks);
        const std::string dir = "ranks-" + std::to_string(ranks);
        std::vector<std::string> arguments = overrides;
        arguments.push_back("output.dir=" + dir);
        if (ranks > 1) arguments.insert(arguments.end(), {"--devices", devices(ranks)});
        const Ran ended = train(folder, arguments);
        succeeds(ended);
        const std::string result = outcome(folder, dir, steps);
        if (expected.empty()) expected = result;
        CHECK(result == expected);
        said = ended.err;
    }
    return said;
}

void begin_windows(const TestFolder& folder) {
    begin(folder);
    std::string recipe = kRecipe;
    recipe.replace(recipe.find("per_device_train_batch_size = 4"), 31, "per_device_train_batch_size = 1");
    folder.write("recipe.toml", recipe);
}

void begin_table(const TestFolder& folder) {
    std::string rows;
    for (int i = 0; i < 200; ++i) {
        rows += i % 5 == 0 ? "rare\t" : "often\t";
        for (int word = 0; word <= i * 7 % 11; ++word) rows += "word" + std::to_string((i + word) % 13) + " ";
        rows += "\n";
    }
    folder.write("rows.tsv", rows);
    folder.write("recipe.toml", R"([model]
architecture = "bert"
hidden_size = 16
num_hidden_layers = 1
num_attention_heads = 2
intermediate_size = 32
max_position_embeddings = 32
[objective]
id = "classification"
[head]
id = "classifier"
[data]
format = "tsv"
train = "rows.tsv"
valid = "rows.tsv"
columns = {text = "2", label = "1"}
[tokenizer]
kind = "wordpiece"
vocab_size = 80
[train]
context_length = 32
per_device_train_batch_size = 2
eval_steps = 3
save_steps = 3
[output]
dir = "run"
)");
}

void begin_adapter(const TestFolder& folder) {
    folder.write("text.txt", some_text());
    folder.write("body.toml", R"([model]
architecture = "t5"
d_model = 16
d_kv = 8
d_ff = 32
num_layers = 1
num_heads = 2
[objective]
id = "span_corruption"
[head]
id = "lm"
[data]
train = "text.txt"
[tokenizer]
kind = "unigram"
vocab_size = 80
[train]
max_steps = 1
context_length = 24
per_device_train_batch_size = 2
eval_steps = 0
[output]
dir = "body"
)");
    succeeds(run(folder, {"train", "body.toml"}));
    folder.write("recipe.toml", R"([model]
from = "body"
[objective]
id = "span_corruption"
[adapter]
id = "lora"
r = 3
[data]
train = "text.txt"
[train]
context_length = 24
per_device_train_batch_size = 1
eval_steps = 3
eval_batches = 2
save_steps = 3
[output]
dir = "run"
)");
}

} // namespace

TEST_CASE("windows of a text, with dropout") {
    const TestFolder folder;
    begin_windows(folder);
    agree(folder, {}, 6, {1, 2, 3, 8});
    const json log = json::parse(
        folder.read("ranks-2/train_log.jsonl").substr(0, folder.read("ranks-2/train_log.jsonl").find('\n')));
    CHECK(log["exchanged_bytes"].get<uint64_t>() > 0);
    CHECK(log["exchange_seconds"].get<double>() >= 0.0);
}

TEST_CASE("rows of a table, by length") {
    const TestFolder folder;
    begin_table(folder);
    agree(folder, {"train.group_by_length=true"}, 6, {1, 2, 4});
}

TEST_CASE("rows of several completions") {
    const TestFolder folder;
    std::string rows;
    for (int i = 0; i < 60; ++i)
        rows += json{{"prompt", "ask " + std::to_string(i)}, {"completion", std::string(1 + i * 7 % 11, 'a')}}.dump() +
                "\n";
    folder.write("rows.jsonl", rows);
    folder.write("recipe.toml", R"([model]
architecture = "llama"
hidden_size = 16
num_hidden_layers = 1
num_attention_heads = 2
intermediate_size = 32
max_position_embeddings = 64
[objective]
id = "completion"
[data]
train = "rows.jsonl"
packing = "rows"
[tokenizer]
kind = "char"
[train]
context_length = 48
per_device_train_batch_size = 1
eval_steps = 3
save_steps = 3
[output]
dir = "run"
)");
    agree(folder, {}, 6, {1, 2, 4});
}

TEST_CASE("rows of a table, with balanced classes") {
    const TestFolder folder;
    begin_table(folder);
    agree(folder, {"data.class_balanced=true"}, 6, {1, 3});
}

TEST_CASE("the outputs of frozen layers, of which each rank computes a part") {
    const TestFolder folder;
    begin_table(folder);
    const std::string said =
        agree(folder, {"train.freeze=[\"body\"]", "train.per_device_train_batch_size=3"}, 6, {1, 2, 3});
    CHECK(has(said, "computing the frozen layers"));
}

TEST_CASE("an adapter over a frozen encoder and decoder with tied embeddings" * doctest::test_suite("long")) {
    const TestFolder folder;
    begin_adapter(folder);
    agree(folder, {}, 6, {1, 3});
}

TEST_CASE("moments of 16 bits, which are rounded at random") {
    const TestFolder folder;
    begin_windows(folder);
    agree(folder, {"train.moments_dtype=bfloat16", "model.n_embd=64", "model.n_layer=3"}, 5, {1, 3});
}

TEST_CASE("momentum, a moving average and a clipped norm") {
    const TestFolder folder;
    begin_windows(folder);
    agree(folder,
          {"train.optim=sgd", "train.momentum=0.9", "train.ema_decay=0.9", "train.max_grad_norm=0.1",
           "train.eval_steps=2", "train.eval_batches=7"},
          5, {1, 2, 3});
}

TEST_CASE("the texts that an evaluation of a moving average writes" * doctest::test_suite("long")) {
    const TestFolder folder;
    std::string pairs;
    for (int i = 0; i < 60; ++i)
        pairs += "word" + std::to_string(i % 7) + " word" + std::to_string(i % 11) + "\tword" + std::to_string(i % 11) +
                 " word" + std::to_string(i % 7) + "\n";
    folder.write("pairs.tsv", pairs);
    folder.write("recipe.toml", R"([model]
architecture = "t5"
d_model = 16
d_kv = 8
d_ff = 32
num_layers = 1
num_heads = 2
[objective]
id = "seq2seq"
[head]
id = "lm"
[data]
train = "pairs.tsv"
valid = "pairs.tsv"
format = "tsv"
columns = ["source", "target"]
[tokenizer]
kind = "words"
vocab_size = 30
[train]
context_length = 8
per_device_train_batch_size = 2
learning_rate = 1e-2
ema_decay = 0.9
eval_steps = 3
save_steps = 3
[generate]
examples_while_training = 11
do_sample = true
[output]
dir = "run"
)");
    agree(folder, {}, 6, {1, 2, 3});
    const std::string texts = folder.read("ranks-1/texts.jsonl");
    CHECK(std::ranges::count(texts, '\n') == 11);
    for (const std::string dir : {"ranks-2", "ranks-3"}) CHECK(folder.read(dir + "/texts.jsonl") == texts);
}

TEST_CASE("a batch of each rank is that of a step, and stays when the run resumes") {
    const TestFolder folder;
    begin_windows(folder);
    const auto with = [](std::vector<std::string> arguments) {
        arguments.insert(arguments.end(),
                         {"distributed.parts=4", "train.lr_scheduler_type=constant", "train.eval_steps=3"});
        return arguments;
    };
    const auto of_rank = [&](std::vector<std::string> arguments) {
        arguments.insert(arguments.end(), {"distributed.batch=rank", "train.gradient_accumulation_steps=2"});
        return with(arguments);
    };
    succeeds(train(folder, with({"train.gradient_accumulation_steps=4", "train.max_steps=6", "output.dir=whole"})));
    succeeds(train(folder, of_rank({"train.max_steps=3", "output.dir=run", "--devices", "0,0"})));
    CHECK(has(folder.read("run/checkpoint-3/recipe.toml"), "gradient_accumulation_steps = 4"));
    succeeds(train(folder, of_rank({"train.max_steps=6", "output.dir=run"}))); // on one rank
    CHECK(outcome(folder, "run", 6) == outcome(folder, "whole", 6));
    fails(train(folder, with({"distributed.batch=rank", "train.gradient_accumulation_steps=3", "output.dir=run"})),
          {"run: its steps have 4 micro-batches, and train.gradient_accumulation_steps = 3, those of one rank"});
    fails(train(folder, of_rank({"distributed.mode=diloco", "output.dir=other"})),
          {"distributed.batch = \"rank\" and mode = \"diloco\""});
}

TEST_CASE("unequal shares change nothing") {
    const TestFolder folder;
    begin_windows(folder);
    const std::vector<std::string> both{"distributed.parts=8", "train.gradient_accumulation_steps=8",
                                        "train.max_steps=4"};
    std::string expected;
    for (const std::string& shares : {std::string(), std::string("[3, 5]"), std::string("[6, 1, 1]")}) {
        CAPTURE(shares);
        std::vector<std::string> arguments = both;
        const std::string dir = "shares-" + std::to_string(shares.size());
        arguments.push_back("output.dir=" + dir);
        if (!shares.empty()) {
            arguments.push_back("distributed.shares=" + shares);
            arguments.insert(arguments.end(), {"--devices", devices(shares.size() > 6 ? 3 : 2)});
        }
        succeeds(train(folder, arguments));
        const std::string result = outcome(folder, dir, 4);
        if (expected.empty()) expected = result;
        CHECK(result == expected);
    }
    std::vector<std::string> arguments = both;
    arguments.insert(arguments.end(), {"distributed.shares=[3, 4]", "output.dir=other", "--devices", "0,0"});
    fails(train(folder, arguments),
          {"distributed.shares = [3, 4]: expected 2 numbers of at least 1, one for each rank, "
           "whose sum is distributed.parts = 8"});
}

TEST_CASE("shares by measured speed change nothing") {
    const TestFolder folder;
    begin_windows(folder);
    agree(folder, {"distributed.balance=measured", "train.save_steps=2"}, 8, {1, 2, 3});
}

TEST_CASE("gradients that are sent in 16 bits: half the bytes, nearly the same losses") {
    const TestFolder folder;
    begin_windows(folder);
    const auto last = [&](const std::string& dir) {
        const std::string log = folder.read(dir + "/train_log.jsonl");
        return json::parse(log.substr(log.rfind("{\"step\":5,\"loss")));
    };
    for (const std::string exchange : {"f32", "bf16"})
        succeeds(train(folder, {"train.gradient_accumulation_steps=2", "train.max_steps=5", "train.eval_steps=0",
                                "distributed.exchange=" + exchange, "output.dir=" + exchange, "--devices", "0,0"}));
    CHECK(last("bf16")["loss"] == doctest::Approx(last("f32")["loss"].get<double>()).epsilon(1e-3));
    CHECK(last("bf16")["loss"] != last("f32")["loss"]);
    const auto bytes = [&](const std::string& dir) { return last(dir)["exchanged_bytes"].get<double>(); };
    CHECK(bytes("bf16") < 0.8 * bytes("f32")); // parameters are sent in 32 bits
}

TEST_CASE("a run goes on with other numbers of ranks") {
    const TestFolder folder;
    begin_windows(folder);
    const std::vector<std::string> all{"distributed.parts=8", "train.gradient_accumulation_steps=8",
                                       "train.save_steps=1", "train.eval_steps=0", "train.lr_scheduler_type=constant"};
    const auto with = [&](std::vector<std::string> more, int ranks) {
        more.insert(more.end(), all.begin(), all.end());
        if (ranks > 1) more.insert(more.end(), {"--devices", devices(ranks)});
        return train(folder, more);
    };
    succeeds(with({"train.max_steps=7", "output.dir=undisturbed"}, 1));
    int step = 0;
    for (const int ranks : {3, 1, 8, 2}) {
        step += ranks == 1 ? 1 : 2;
        const Ran ended = with({"train.max_steps=" + std::to_string(step), "output.dir=run"}, ranks);
        succeeds(ended);
        CHECK(!has(ended.err, "changed settings: distributed"));
    }
    REQUIRE(step == 7);
    CHECK(outcome(folder, "run", 7) == outcome(folder, "undisturbed", 7));
}

TEST_CASE("islands: the same result every time, and after a resume") {
    const TestFolder folder;
    begin_windows(folder);
    const std::vector<std::string> all{"distributed.mode=diloco",
                                       "distributed.inner_steps=3",
                                       "train.save_steps=3",
                                       "train.eval_steps=6",
                                       "train.lr_scheduler_type=constant",
                                       "--devices",
                                       "0,0,0"};
    const auto with = [&](const std::string& dir, int steps) {
        std::vector<std::string> arguments = all;
        arguments.insert(arguments.begin(), {"output.dir=" + dir, "train.max_steps=" + std::to_string(steps)});
        return train(folder, arguments);
    };
    succeeds(with("undisturbed", 12));
    succeeds(with("run", 6));
    CHECK(folder.exists("run/checkpoint-6/outer.safetensors"));
    CHECK(folder.exists("run/checkpoint-6/optimizer.island-2.safetensors"));
    succeeds(with("run", 12));
    CHECK(outcome(folder, "run", 12) == outcome(folder, "undisturbed", 12));
    for (const std::string file : {"outer", "optimizer.island-1", "optimizer.island-2"})
        CHECK(folder.read("run/checkpoint-12/" + file + ".safetensors") ==
              folder.read("undisturbed/checkpoint-12/" + file + ".safetensors"));
    // An evaluation does not need to know that there were islands.
    const Ran evaluated = run(folder, {"eval", "recipe.toml", "output.dir=run"});
    succeeds(evaluated);
    CHECK(!has(evaluated.err, "distributed"));
    // Islands see other rows and have other moments.
    CHECK(folder.read("run/checkpoint-12/optimizer.island-1.safetensors") !=
          folder.read("run/checkpoint-12/optimizer.island-2.safetensors"));
    // Bytes are exchanged once in three steps.
    const std::string log = folder.read("run/train_log.jsonl");
    CHECK(count_of(log, "exchanged_bytes") == 4);
    succeeds(with("run", 15)); // and once more, with an island that is new
    std::vector<std::string> more = all;
    more.back() = "0,0,0,0";
    more.insert(more.begin(), {"output.dir=run", "train.max_steps=18"});
    const Ran grown = train(folder, more);
    succeeds(grown);
    CHECK(has(grown.err, "island 3 is new"));
}

TEST_CASE("one island with an outer step of 1 and no momentum is a plain training") {
    const TestFolder folder;
    begin_windows(folder);
    const auto last = [&](const std::string& dir) {
        const std::string log = folder.read(dir + "/train_log.jsonl");
        return json::parse(log.substr(log.rfind("{\"step\":8,\"loss")))["loss"].get<double>();
    };
    succeeds(train(folder, {"train.max_steps=8", "train.eval_steps=0", "train.save_steps=0", "output.dir=plain"}));
    succeeds(train(folder, {"train.max_steps=8", "train.eval_steps=0", "train.save_steps=0", "output.dir=island",
                            "distributed.mode=diloco", "distributed.inner_steps=2", "distributed.outer_momentum=0",
                            "distributed.outer_learning_rate=1"}));
    CHECK(last("island") == doctest::Approx(last("plain")).epsilon(1e-5));
    fails(train(folder, {"distributed.mode=diloco", "distributed.inner_steps=7", "output.dir=none"}),
          {"train.eval_steps = 6: expected a multiple of distributed.inner_steps = 7"});
    fails(train(folder, {"distributed.mode=diloco", "distributed.parts=4", "output.dir=none"}),
          {"distributed.parts = 4", "remove `parts`"});
}

TEST_CASE("the number of parts is that of the ranks that a run starts with") {
    const TestFolder folder;
    begin_windows(folder);
    const std::vector<std::string> four{"train.gradient_accumulation_steps=4", "train.max_steps=2",
                                        "train.save_steps=1"};
    std::vector<std::string> arguments = four;
    arguments.insert(arguments.end(), {"--devices", "0,0"});
    succeeds(train(folder, arguments));
    CHECK(has(folder.read("run/recipe.toml"), "parts = 2"));
    arguments = four;
    arguments.emplace_back("train.max_steps=3");
    succeeds(train(folder, arguments)); // one rank continues with two parts
    CHECK(has(folder.read("run/checkpoint-3/recipe.toml"), "parts = 2"));
    arguments.emplace_back("train.max_steps=4");
    arguments.insert(arguments.end(), {"--devices", "0,0,0"});
    fails(train(folder, arguments), {"3 ranks need distributed.parts = 3 or more; it is 2"});
}

TEST_CASE("a plan knows what is exchanged, to the byte") {
    const TestFolder folder;
    begin_windows(folder);
    for (const std::string mode : {"sync", "diloco"})
        for (const int ranks : {2, 3}) {
            CAPTURE(mode);
            CAPTURE(ranks);
            const std::string dir = mode + std::to_string(ranks);
            std::vector<std::string> arguments{"train.gradient_accumulation_steps=6",
                                               "train.max_steps=2",
                                               "train.save_steps=2",
                                               "train.eval_steps=0",
                                               "distributed.mode=" + mode,
                                               "distributed.inner_steps=2",
                                               "output.dir=" + dir};
            if (mode == "sync") arguments.emplace_back("distributed.parts=6");
            std::vector<std::string> planned = arguments;
            planned.insert(planned.end(),
                           {"--plan-for", "cpu", "--ranks", std::to_string(ranks), "--link", "1gbit,50us", "--json"});
            const Ran plan = train(folder, planned);
            succeeds(plan);
            const json report = json::parse(plan.out);
            arguments.insert(arguments.end(), {"--devices", devices(ranks)});
            succeeds(train(folder, arguments));
            const std::string log = folder.read(dir + "/train_log.jsonl");
            const json last = json::parse(log.substr(log.rfind("{\"step\":2")));
            CHECK(report["exchanged_bytes"] == last["exchanged_bytes"]);
            CHECK(report["exchange_seconds"].get<double>() >= report["exposed_seconds"].get<double>());
            CHECK(report["exposed_seconds"].get<double>() > 0.0);
        }
    const Ran text = train(folder, {"train.gradient_accumulation_steps=64", "distributed.parts=64", "--plan-for",
                                    "desktop", "--ranks", "64", "--nodes", "8", "--link", "25gbit,20us"});
    succeeds(text);
    CHECK(has(text.out, "64 ranks: rank 0 sends and receives"));
    CHECK(has(text.out, "of it to compute"));
    const Ran measured = train(folder, {"train.gradient_accumulation_steps=6", "distributed.parts=6", "--plan",
                                        "--json", "--ranks", "4", "--link", "25gbit,20us"}); // 2, 2, 1 and 1 parts
    succeeds(measured);
    CHECK(json::parse(measured.out)["time"] == "measured");
    CHECK(json::parse(measured.out)["exchange_seconds"].get<double>() > 0.0);
    fails(train(folder, {"--plan-for", "cpu", "--ranks", "2", "--link", "fast"}), {"--link fast: expected a rate"});
}

TEST_CASE("what cannot be divided is refused with what can") {
    const TestFolder folder;
    begin(folder);
    fails(train(folder, {"--devices", "0,0"}),
          {"distributed.parts = 2 does not divide train.gradient_accumulation_steps = 1",
           "train.gradient_accumulation_steps = 2 and train.per_device_train_batch_size = 2, which is the same batch"});
    fails(train(folder, {"--devices", "0,0,0"}), {"distributed.parts = 3 does not divide the 4 rows of a step"});
    fails(train(folder, {"distributed.parts=2", "train.gradient_accumulation_steps=4", "--devices", "0,0,0"}),
          {"3 ranks need distributed.parts = 3 or more; it is 2"});
    fails(train(folder, {"--devices", "0,7"}), {"--devices 0,7: '7' is not the number of a device", "0 ("});
    fails(train(folder, {"--devices", ""}), {"'' is not the number of a device"});
    CHECK(!folder.exists("run")); // nothing is left of a training that did not start
}

TEST_CASE("ranks on one device are warned, and an error of rank 0 ends all") {
    const TestFolder folder;
    begin_windows(folder);
    const std::vector<std::string> two{"train.gradient_accumulation_steps=2", "--devices", "0,0"};
    std::vector<std::string> arguments = two;
    arguments.emplace_back("train.max_steps=1");
    const Ran ended = train(folder, arguments);
    succeeds(ended);
    CHECK(has(ended.err, "ranks 0 and 1 use the same device"));
    arguments = two;
    arguments.emplace_back("data.train=missing.txt");
    fails(train(folder, arguments), {"missing.txt"});
}

TEST_CASE("Ctrl+C stops all ranks, and one goes on") {
    const TestFolder folder;
    begin_windows(folder);
    const std::vector<std::string> arguments{"train",
                                             "recipe.toml",
                                             "train.gradient_accumulation_steps=2",
                                             "train.max_steps=100000",
                                             "train.save_steps=0",
                                             "train.eval_steps=0",
                                             "--devices",
                                             "0,0"};
    Process process(folder, arguments);
    wait_for_step(folder, process, 3);
    process.send(SIGINT);
    const Ran stopped = process.wait();
    CAPTURE(stopped.err);
    CHECK(stopped.status == 128 + SIGINT);
    CHECK(has(stopped.err, "the same command resumes"));
    const std::string log = folder.read("run/train_log.jsonl");
    const int64_t step = json::parse(log.substr(log.rfind('{')))["step"];
    const Ran on = train(folder, {"train.gradient_accumulation_steps=2", "train.eval_steps=0",
                                  "train.max_steps=" + std::to_string(step + 2)});
    succeeds(on);
    CHECK(has(on.err, "resuming after step " + std::to_string(step)));
}

} // namespace ranks_test
