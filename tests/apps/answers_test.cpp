// Answers that are parts of a text.
#include "tasks.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace hekla::test;
using nlohmann::json;

TEST_CASE("answers that stand in a text: learnt, scored, asked; parts that are not there are refused") {
    const Place place;
    const char* const names[] = {"Anna", "Bert", "Clara", "Dora"};
    std::string rows;
    for (int i = 0; i < 48; ++i) {
        const std::string context =
            std::string("the old house of ") + names[i % 4] + " stands " + (i % 3 == 0 ? "far" : "near") + " here .";
        rows +=
            json{{"question", "whose house ?"}, {"context", context}, {"answer", names[i % 4]}, {"start", 17}}.dump() +
            "\n";
    }
    place.write("rows.jsonl", rows);
    place.write("qa.toml", std::string(kModel) + R"([objective]
id = "extractive_qa"
[head]
id = "span"
dropout = 0.0
[data]
train = "rows.jsonl"
valid = "rows.jsonl"
[tokenizer]
kind = "wordpiece"
vocab_size = 60
[train]
max_steps = 40
context_length = 32
per_device_train_batch_size = 16
learning_rate = 5e-3
eval_steps = 20
save_steps = 0
[output]
dir = "run"
)");
    succeed(place.run({"train", "qa.toml"}));
    const json scores = json::parse(succeed(place.run({"eval", "qa.toml", "--json", "-o", "said.jsonl"})).out);
    CHECK(scores["span_f1"].get<double>() >= scores["exact_match"].get<double>());
    CHECK(scores["start_accuracy"].get<double>() > 0.5); // one of the two is learned
    const json first = json::parse(place.read("said.jsonl").substr(0, place.read("said.jsonl").find('\n')));
    CHECK(first["answer"] == "Anna");
    CHECK(first["said"]["span"].size() == 2);
    const json asked = json::parse(succeed(place.run({"predict", "run", "--text", "whose house ?", "--second",
                                                      "the old house of Anna stands far here ."}))
                                       .out);
    CHECK(asked["text"] == first["said"]["text"]);
    // SQuAD's form: lists of answers, of which training reads the first.
    std::istringstream lines(rows);
    std::string lists;
    for (std::string line; std::getline(lines, line);) {
        const json row = json::parse(line);
        lists += json{{"question", row["question"]},
                      {"context", row["context"]},
                      {"answers", {{"text", {row["answer"], "the old house"}}, {"answer_start", {17, 0}}}}}
                     .dump() +
                 "\n";
    }
    place.write("lists.jsonl", lists);
    succeed(place.run({"train", "qa.toml", "data.train=lists.jsonl", "data.valid=lists.jsonl", "output.dir=lists",
                       "data.columns={question = \"question\", context = \"context\", answer = \"answers.text\", "
                       "start = \"answers.answer_start\"}"}));
    CHECK(place.read("lists/model.safetensors") == place.read("run/model.safetensors"));
    place.write("absent.jsonl",
                rows + json{{"question", "whose ?"}, {"context", "a house"}, {"answer", "Emil"}}.dump());
    const Ran absent = place.run({"train", "qa.toml", "data.train=absent.jsonl", "output.dir=x"});
    CHECK(absent.status == 1);
    CHECK(has(absent.err, "absent.jsonl: line 49"));
    CHECK(has(absent.err, "'Emil' does not occur in the text"));
    place.write("shifted.jsonl",
                rows + json{{"question", "whose ?"}, {"context", "a house"}, {"answer", "house"}, {"start", 1}}.dump());
    CHECK(has(place.run({"train", "qa.toml", "data.train=shifted.jsonl", "output.dir=x"}).err,
              "'house' is not at character 1"));
}
