// Tasks whose answers are texts that the model writes: translation, completions, prefixes.
#include "tasks.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace hekla::test;
using nlohmann::json;

TEST_CASE("sequence to sequence: scored by what it writes; generate writes the same, without what it read") {
    const Place place;
    place.write("pairs.tsv", translations());
    place.write("translate.toml", std::string(kTranslator) + R"([train]
max_steps = 240
context_length = 8
per_device_train_batch_size = 16
learning_rate = 1e-2
eval_steps = 60
save_steps = 0
[generate]
examples_while_training = 10
num_beams = 2
[output]
dir = "run"
)");
    const Ran trained = succeed(place.run({"train", "translate.toml"}));
    CHECK(has(trained.err, "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp"));
    const json last = last_evaluation(place, "run");
    for (const char* name : {"eval_bleu", "eval_chrf", "eval_exact_match"}) CHECK(last[name].is_number());
    std::istringstream kept(place.read("run/texts.jsonl"));
    std::size_t lines = 0;
    for (std::string line; std::getline(kept, line); ++lines) CHECK(json::parse(line)["step"] == 240);
    CHECK(lines == 10);

    const json scores = json::parse(
        succeed(place.run({"eval", "translate.toml", "--json", "-o", "said.jsonl", "--report", "said.html"})).out);
    CHECK(scores["exact_match"].get<double>() > 0.5); // the task is learned
    const std::string report = place.read("said.html");
    std::size_t maps = 0;
    for (std::size_t at = report.find("class=\"alignment\""); at != std::string::npos;
         at = report.find("class=\"alignment\"", at + 1))
        ++maps;
    CHECK(maps == 6);
    std::istringstream said(place.read("said.jsonl"));
    std::vector<json> rows;
    double same = 0.0;
    for (std::string line; std::getline(said, line);) {
        rows.push_back(json::parse(line));
        same += rows.back()["said"]["text"] == rows.back()["target"] ? 1.0 : 0.0;
    }
    REQUIRE(rows.size() == 100);
    CHECK(same / 100.0 == doctest::Approx(scores["exact_match"].get<double>()));
    // No text depends on its neighbors in a batch.
    const json other =
        json::parse(succeed(place.run({"eval", "translate.toml", "--json", "train.per_device_eval_batch_size=7"})).out);
    CHECK(other["bleu"].get<double>() == doctest::Approx(scores["bleu"].get<double>()));
    CHECK(other["chrf"].get<double>() == doctest::Approx(scores["chrf"].get<double>()));
    const json some = json::parse(succeed(place.run({"eval", "translate.toml", "--json", "generate.examples=0"})).out);
    CHECK(!some.contains("bleu"));

    const Ran written = succeed(place.run({"generate", "run", "--beams", "2", "--max-new-tokens", "8", "--prompt",
                                           rows[0]["source"].get<std::string>()}));
    CHECK(written.out == rows[0]["said"]["text"].get<std::string>() + "\n");

    // Its attention is shown over what it writes, or what is given as written.
    std::istringstream greedy(succeed(place.run({"generate", "run", "--greedy", "--prompt", "two and three"})).out);
    json words = json::array();
    for (std::string word; greedy >> word;) words.push_back(word);
    words.push_back("(end)");
    succeed(place.run({"inspect", "run", "--attention", "two and three", "-o", "page.html"}));
    CHECK_MESSAGE(has(place.read("page.html"), "\"queries\":" + words.dump()), words.dump());
    succeed(place.run({"inspect", "run", "--attention", "two and three", "--target", "un et un", "-o", "page.html"}));
    CHECK(has(place.read("page.html"), R"x("queries":["un","et","un","(end)"])x"));

    const auto fails = [&](std::vector<std::string> changes, const char* part) {
        std::vector<std::string> command{"train", "translate.toml", "output.dir=x"};
        command.insert(command.end(), changes.begin(), changes.end());
        const Ran ran = place.run(command);
        CAPTURE(ran.err);
        CHECK(ran.status == 1);
        CHECK_MESSAGE(has(ran.err, part), part);
    };
    fails({"generate.num_beam=2"}, "num_beam");
    fails({"generate.num_beams=0"}, "num_beams is 0");
    CHECK(place.run({"generate", "run"}).status == 1); // an encoder has nothing to read
}

TEST_CASE("completions of prompts are scored by what is written behind them") {
    const Place place;
    std::string rows;
    for (int i = 0; i < 40; ++i)
        rows += R"({"prompt": ")" + std::string(i % 2 == 0 ? "ab" : "ba") + R"(=", "completion": ")" +
                (i % 2 == 0 ? "x" : "y") + "\"}\n";
    place.write("rows.jsonl", rows);
    place.write("complete.toml", std::string(kCompletion) + R"([data]
train = "rows.jsonl"
valid = "rows.jsonl"
[train]
max_steps = 30
context_length = 8
per_device_train_batch_size = 8
learning_rate = 1e-2
eval_steps = 30
[generate]
max_new_tokens = 3
)");
    succeed(place.run({"train", "complete.toml"}));
    const json scores = json::parse(succeed(place.run({"eval", "complete.toml", "--json"})).out);
    CHECK(scores["exact_match"].is_number());
    CHECK(scores["chrf"].is_number());
    const std::string both = "objective.bidirectional_prompt=true";
    succeed(
        place.run({"train", "complete.toml", both, "output.dir=both", "train.max_steps=150", "train.eval_steps=0"}));
    const json read_whole =
        json::parse(succeed(place.run({"eval", "complete.toml", both, "output.dir=both", "--json"})).out);
    CHECK(read_whole["exact_match"].get<double>() == 1.0);
    for (const char* reference : {"", "--reference"}) {
        std::vector<std::string> command{"generate", "both", "--prompt", "ba=", "--greedy", "--max-new-tokens", "2"};
        if (*reference != 0) command.emplace_back(reference);
        CHECK(has(succeed(place.run(command)).out, "ba=y"));
    }
}

TEST_CASE("a prefix before texts; right answers told apart by a column of the files" * doctest::test_suite("long")) {
    const Place place;
    // What an odd row asks for cannot be known: its completion is drawn.
    std::string rows;
    for (int i = 0; i < 60; ++i)
        rows += json{{"prompt", i % 2 == 0 ? "ab=" : "ba="},
                     {"completion", i % 2 == 0 ? "x" : std::string(1, "yz"[i * 7919 / 3 % 2])},
                     {"kind", i % 2}}
                    .dump() +
                "\n";
    place.write("rows.jsonl", rows);
    place.write("complete.toml", std::string(kCompletion) + R"([data]
train = "rows.jsonl"
valid = "rows.jsonl"
prefix = {prompt = "do "}
group = "kind"
[train]
max_steps = 60
context_length = 12
per_device_train_batch_size = 8
learning_rate = 1e-2
eval_steps = 60
[generate]
max_new_tokens = 1
)");
    succeed(place.run({"train", "complete.toml"}));
    const Ran told =
        succeed(place.run({"eval", "complete.toml", "--json", "-o", "said.jsonl", "--report", "page.html"}));
    const json scores = json::parse(told.out);
    std::size_t right[2] = {0, 0}, all[2] = {0, 0};
    std::istringstream lines(place.read("said.jsonl"));
    for (std::string line; std::getline(lines, line);) {
        const json row = json::parse(line);
        CHECK(row["prompt"].get<std::string>().starts_with("do "));
        const int kind = std::stoi(row["group"].get<std::string>());
        ++all[kind];
        right[kind] += row["said"]["text"] == row["completion"] ? 1 : 0;
    }
    CHECK(all[0] == 30);
    CHECK(right[0] == 30);
    CHECK(right[1] < 30);
    for (const int kind : {0, 1})
        CHECK(scores["right where kind = " + std::to_string(kind)].get<double>() ==
              doctest::Approx(static_cast<double>(right[kind]) / static_cast<double>(all[kind])));
    CHECK(has(place.read("page.html"), "<h2>By kind</h2>"));
    CHECK(has(place.read("page.html"), "Correct, by kind"));
    // A prompt may be the text alone, or the text with its prefix.
    CHECK(json::parse(place.read("run/config.json"))["hekla"]["prefix"] == json{{"prompt", "do "}});
    const auto written = [&](const std::string& prompt) {
        const std::string out =
            succeed(place.run({"generate", "run", "--prompt", prompt, "--greedy", "--max-new-tokens", "1"})).out;
        REQUIRE(out.starts_with(prompt));
        return out.substr(prompt.size());
    };
    CHECK(written("ab=") == "x\n");
    CHECK(written("do ab=") == "x\n");
    const Ran nothing = place.run({"eval", "complete.toml", "data.group=sort"});
    CHECK(nothing.status == 1);
    CHECK(has(nothing.err, "no example has this column"));
    const Ran wrong = place.run({"train", "complete.toml", "data.prefix={label = \"a \"}", "output.dir=x"});
    CHECK(wrong.status == 1);
    CHECK(has(wrong.err, "the objective 'completion' reads no text column 'label'"));
    // The same prompts and completions from other columns.
    std::string others;
    std::istringstream read_rows(rows);
    for (std::string line; std::getline(read_rows, line);) {
        const json row = json::parse(line);
        const std::string letters = row["prompt"].get<std::string>();
        others +=
            json{{"a", letters.substr(0, 1)}, {"b", letters.substr(1, 1)}, {"answer", row["completion"]}}.dump() + "\n";
    }
    place.write("others.jsonl", others);
    const std::vector<std::string> composed{"train",
                                            "complete.toml",
                                            "data.train=others.jsonl",
                                            "data.valid=others.jsonl",
                                            "data.group=",
                                            "data.prefix={}",
                                            "data.templates={prompt = \"do {a}{b}=\"}",
                                            "data.columns={completion = \"answer\"}",
                                            "output.dir=composed"};
    succeed(place.run(composed));
    CHECK(place.read("composed/model.safetensors") == place.read("run/model.safetensors"));
    const auto refused = [&](const std::string& templates) {
        const Ran ran = place.run({"train", "complete.toml", "data.templates=" + templates, "output.dir=x"});
        CHECK(ran.status == 1);
        return ran.err;
    };
    CHECK(has(refused("{prompt = \"{a\"}"), "character 1 is a '{' without its partner"));
    CHECK(has(refused("{label = \"{a}\"}"), "the objective 'completion' has no column 'label'"));
    CHECK(has(refused("{prompt = \"{a}\"}"), "rows.jsonl: line 1: no template of \"prompt\""));
    CHECK(has(refused("{prompt = 3}"), "a table of strings or arrays of strings"));
    const Ran large = place.run({"train", "complete.toml", "data.max_bytes=20", "output.dir=x"});
    CHECK(large.status == 1);
    CHECK(has(large.err, "rows.jsonl: line 1"));
}
