// Several adapters that are trained at once: each row of a batch has the one that a column of its table names.
#include "program.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace mixed_rows_test {

using hekla::test::has;
using hekla::test::joined;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using nlohmann::json;

namespace {

const char* const kBody = R"([model]
architecture = "gpt2"
n_embd = 32
n_layer = 2
n_head = 2
n_positions = 24
resid_pdrop = 0
embd_pdrop = 0
attn_pdrop = 0
[data]
train = "text.txt"
[tokenizer]
kind = "char"
[train]
max_steps = 60
context_length = 24
per_device_train_batch_size = 8
learning_rate = 3e-3
eval_steps = 0
[output]
dir = "body"
)";

const char* const kMixed = R"([model]
from = "body"
[objective]
id = "completion"
[adapter]
id = "lora"
r = 4
target_modules = "all-linear"
names = ["alice", "bob"]
route_by = "who"
[data]
train = "rows.jsonl"
valid = "rows.jsonl"
[train]
max_steps = 80
context_length = 24
per_device_train_batch_size = 12
learning_rate = 1e-2
eval_steps = 40
save_steps = 40
[output]
dir = "mixed"
)";

// The recipe of an evaluation of the rows of one of them.
std::string evaluation_of(const std::string& rows) {
    return R"([model]
from = "body"
[objective]
id = "completion"
[adapter]
id = "lora"
[data]
train = ")" +
           rows + R"("
valid = ")" +
           rows + R"("
[train]
max_steps = 0
context_length = 24
[output]
dir = "unused"
)";
}

void write(const Place& place) {
    std::string text, all;
    std::string of[3];
    const char* const names[] = {"alice", "bob", ""};
    const char* const answers[] = {"red", "blue", "grey"};
    for (int i = 0; i < 300; ++i) text += "color " + std::to_string(i % 7) + ": grey red blue\n";
    for (int i = 0; i < 90; ++i) {
        const json row{
            {"prompt", "color " + std::to_string(i % 7) + ":"}, {"completion", answers[i % 3]}, {"who", names[i % 3]}};
        all += row.dump() + "\n";
        of[i % 3] += row.dump() + "\n";
    }
    place.write("text.txt", text);
    place.write("rows.jsonl", all);
    place.write("alice.jsonl", of[0]);
    place.write("bob.jsonl", of[1]);
    place.write("body.toml", kBody);
    place.write("mixed.toml", kMixed);
    for (const char* name : {"alice", "bob"})
        place.write(std::string(name) + ".toml", evaluation_of(std::string(name) + ".jsonl"));
    succeed(place.run({"train", "body.toml"}));
}

json scores_with(const Place& place, const std::string& rows_of, const std::string& adapter) {
    return json::parse(
        succeed(place.run({"eval", rows_of + ".toml", "--json", "--adapter", "one=mixed/adapters/" + adapter})).out);
}

} // namespace

TEST_CASE("each row of a batch trains the adapter that it names, and each adapter is saved alone" *
          doctest::test_suite("long")) {
    const Place place;
    write(place);
    const Ran trained = succeed(place.run({"train", "mixed.toml"}));
    CHECK_MESSAGE(has(trained.err, "train: rows of adapters: alice 30, bob 30"), trained.err);
    // Alone on its rows it is what it was among the others, in texts too, and it has learned its own and not the
    // other's.
    for (const std::string name : {"alice", "bob"}) {
        const std::string rows = "data.valid=" + name + ".jsonl";
        const json among = json::parse(succeed(place.run({"eval", "mixed.toml", "--json", rows})).out);
        const json alone = scores_with(place, name, name);
        CHECK(alone["loss"].get<double>() == doctest::Approx(among["loss"].get<double>()).epsilon(1e-6));
        CHECK(alone["chrf"] == among["chrf"]);
        CHECK(scores_with(place, name, name == "bob" ? "alice" : "bob")["loss"].get<double>() >
              alone["loss"].get<double>() + 0.5);
    }
    // Interrupted and resumed, with the same bits.
    succeed(place.run({"train", "mixed.toml", "output.dir=whole", "train.lr_scheduler_type=constant"}));
    succeed(place.run({"train", "mixed.toml", "output.dir=again", "train.lr_scheduler_type=constant"}));
    std::filesystem::remove_all(place.path("again/checkpoint-80"));
    succeed(place.run({"train", "mixed.toml", "output.dir=again", "train.lr_scheduler_type=constant"}));
    CHECK(place.read("again/model.safetensors") == place.read("whole/model.safetensors"));
    CHECK(place.read("again/adapters/bob/model.safetensors") == place.read("whole/adapters/bob/model.safetensors"));
    // Merged with the body it has the body's tokenizer.
    succeed(place.run({"adapter", "merge", "mixed/adapters/alice", "-o", "merged"}));
    const auto text_of = [&](const std::vector<std::string>& model) {
        return succeed(place.run(joined(joined({"generate"}, model),
                                        {"--prompt", "color 1:", "--max-new-tokens", "4", "--greedy"})))
            .out;
    };
    CHECK(text_of({"merged"}) == text_of({"body", "--adapter", "a=mixed/adapters/alice"}));
    // Rows of a generation choose among them; what was trained together is not one adapter.
    succeed(place.run({"generate", "body", "--adapter", "a=mixed/adapters/alice", "--adapter", "b=mixed/adapters/bob",
                       "--adapter-rows", "b,a,-", "--prompt", "color 1:", "--prompt", "color 1:", "--prompt",
                       "color 1:", "--max-new-tokens", "4"}));
    const Ran together = place.run({"generate", "mixed", "--prompt", "color 1:"});
    CHECK(together.status == 1);
    CHECK_MESSAGE(has(together.err, "contains several adapters"), together.err);
    CHECK(has(together.err, "mixed/adapters"));
}

TEST_CASE("each row of a batch trains the task that it names, and each task is an adapter" *
          doctest::test_suite("long")) {
    const Place place;
    write(place);
    const std::vector<std::string> train{"train",
                                         "mixed.toml",
                                         "adapter.id=poly",
                                         "adapter.n_skills=3",
                                         "adapter.n_splits=2",
                                         "train.max_steps=160",
                                         "train.lr_scheduler_type=constant"};
    succeed(place.run(train));
    for (const std::string name : {"alice", "bob"}) {
        const json among =
            json::parse(succeed(place.run(joined({"eval", "mixed.toml", "--json", "data.valid=" + name + ".jsonl"},
                                                 {train.begin() + 2, train.end()})))
                            .out);
        const json alone = scores_with(place, name, name);
        CHECK(alone["loss"].get<double>() == doctest::Approx(among["loss"].get<double>()).epsilon(1e-6));
        CHECK(scores_with(place, name, name == "bob" ? "alice" : "bob")["loss"].get<double>() >
              alone["loss"].get<double>() + 0.2);
    }
    // Interrupted and resumed, with the same bits: the draws are those of the step.
    succeed(place.run(joined(train, {"output.dir=again"})));
    std::filesystem::remove_all(place.path("again/checkpoint-160"));
    succeed(place.run(joined(train, {"output.dir=again"})));
    CHECK(place.read("again/model.safetensors") == place.read("mixed/model.safetensors"));
    CHECK(place.read("again/adapters/bob/model.safetensors") == place.read("mixed/model.safetensors"));
    CHECK(json::parse(place.read("mixed/adapters/bob/config.json"))["hekla"]["adapter_config"]["task"] == 1);
    // A task is used, mixed with others, merged and written for PEFT like any adapter.
    const auto text = [&](const std::vector<std::string>& options) {
        return succeed(place.run(joined(joined({"generate"}, options), {"--max-new-tokens", "4", "--greedy"}))).out;
    };
    const std::vector<std::string> prompt{"body", "--prompt", "color 1:"};
    const std::string alice = text(joined(prompt, {"--adapter", "a=mixed/adapters/alice"})),
                      bob = text(joined(prompt, {"--adapter", "b=mixed/adapters/bob"}));
    CHECK(alice != bob);
    CHECK(bob == text(joined(prompt, {"--adapter", "b=mixed/adapters/bob", "--reference"})));
    const std::string both =
        text(joined(prompt, {"--adapter", "a=mixed/adapters/alice", "--adapter", "b=mixed/adapters/bob",
                             "--adapter-rows", "b,a", "--prompt", "color 1:"}));
    CHECK(both == "--- 1\n" + bob + "--- 2\n" + alice);
    succeed(place.run({"adapter", "convert", "mixed/adapters/alice", "-o", "peft"}));
    const json peft = json::parse(place.read("peft/adapter_config.json"));
    CHECK(peft["peft_type"] == "POLY");
    CHECK(peft["n_tasks"] == 2);
    CHECK(peft["task_type"] == "CAUSAL_LM"); // without it PEFT hands on no tasks
    CHECK_FALSE(peft.contains("task"));
    CHECK(has(place.run({"adapter", "convert", "mixed/adapters/alice", "-o", "no", "--format", "gguf"}).err,
              "GGUF has no form of the adapter 'poly'"));
    // Several tasks are not one adapter.
    const std::vector<std::string> used{"generate", "body", "--adapter", "a=peft", "--prompt", "color 1:"};
    for (const Ran& ran : {place.run({"generate", "mixed", "--prompt", "color 1:"}), place.run(used)}) {
        CHECK(ran.status == 1);
        CHECK_MESSAGE(has(ran.err, "is trained for 2 tasks, from which the rows of its training chose"), ran.err);
    }
    json chosen = peft;
    chosen["task"] = 0;
    place.write("peft/adapter_config.json", chosen.dump());
    CHECK(alice == text(joined(prompt, {"--adapter", "a=peft"})));
    succeed(place.run({"adapter", "merge", "peft", "-o", "merged"}));
    CHECK(alice == text({"merged", "--prompt", "color 1:"}));
    chosen["task"] = 2;
    place.write("peft/adapter_config.json", chosen.dump());
    CHECK(has(place.run(used).err, "task is 2; expected 0 to 1, or -1: each row has its own"));
    const auto refused = [&](std::vector<std::string> settings, const std::string& reason) {
        const Ran ran = place.run(joined(train, joined({"output.dir=none"}, settings)));
        CHECK(ran.status == 1);
        CHECK_MESSAGE(has(ran.err, reason), ran.err);
    };
    refused({"adapter.n_tasks=2"}, "remove `n_tasks`");
    refused({"adapter.n_splits=3"}, "which n_splits = 3 does not divide");
    refused({"adapter.poly_type=other"}, "poly_type is 'other'; expected \"poly\"");
    refused({"adapter.names=[]", "adapter.route_by=", "adapter.n_tasks=2"},
            "each row has its own adapter or task: set `names` and `route_by`");
}

TEST_CASE("rows and names that do not fit are one error") {
    const Place place;
    write(place);
    const auto refused = [&](std::vector<std::string> settings) {
        settings.insert(settings.begin(), {"train", "mixed.toml", "output.dir=none"});
        const Ran ran = place.run(settings);
        CHECK(ran.status == 1);
        return ran.err;
    };
    const auto says = [](const std::string& err, const std::string& text) { CHECK_MESSAGE(has(err, text), err); };
    says(refused({R"(adapter.names=["alice", "bop"])"}), "rows.jsonl: line 2: the column 'who' has 'bob', which is "
                                                         "not among adapter.names; did you mean 'bop'?");
    says(refused({R"(adapter.names=["alice", "bob", "eve"])"}), "no row to train on has 'eve' in the column 'who'");
    says(refused({"adapter.route_by=whom"}), "no row to train on has 'alice' in the column 'whom'");
    says(refused({"adapter.route_by="}), "not `route_by`");
    says(refused({"adapter.names=[]"}), "not `names`");
    says(refused({R"(adapter.names=["bob", "bob"])"}), "adapter.names has 'bob' twice");
    says(refused({R"(adapter.names=["../x", "bob"])"}), "adapter.names");
    says(refused({"adapter.slots=2"}), "remove `slots`");
    says(refused({"adapter.use_dora=true"}), "use_dora = false");
    says(refused({"adapter.id=ia3"}), "does not have the key `slots` or `n_tasks`");
    says(refused({"objective.id=clm"}), "reads plain text, which has no columns");
}

} // namespace mixed_rows_test
