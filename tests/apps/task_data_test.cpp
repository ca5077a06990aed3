// Rows of tasks: tagging, regression, pairs and choices from their files, and bad rows.
#include "tasks.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>

using namespace hekla::test;
using nlohmann::json;

namespace fs = std::filesystem;

TEST_CASE("tasks: bad data is one clear error, or left out and counted") {
    const Place place;
    write_task(place);
    const auto fails = [&](std::vector<std::string> changes, std::initializer_list<const char*> parts) {
        std::vector<std::string> command{"train", "task.toml"};
        command.insert(command.end(), changes.begin(), changes.end());
        const Ran ran = place.run(command);
        CAPTURE(changes);
        CAPTURE(ran.err);
        CHECK(ran.status == 1);
        for (const char* part : parts) CHECK_MESSAGE(has(ran.err, part), part);
        fs::remove_all(place.path("run"));
    };
    place.write("one.tsv", "a\tpositive\nb\tpositive\n");
    fails({"data.train=one.tsv"}, {"one.tsv", "every example has the label 'positive'"});
    place.write("unknown.tsv", rows(0, 5) + "a film\tsplendid\n");
    fails({"data.valid=unknown.tsv"},
          {"unknown.tsv: line 6", "'splendid' is not one of negative, positive", "data.on_bad"});
    place.write("empty.tsv", rows(0, 5) + "\tpositive\n");
    fails({"data.train=empty.tsv"}, {"empty.tsv: line 6", "empty"});
    place.write("none.tsv", "");
    fails({"data.train=none.tsv"}, {"none.tsv"});
    fails({"data.columns=[\"sentence\", \"label\"]"}, {"sentence", "text"});
    fails({"objective.id=tagging", "head.id=tagger"}, {"words"});
    fails({"objective.id=regression"}, {"'regression' reads", "'score' is missing"});
    fails({"head.id=nothing"}, {"nothing"});
    fails({"train.metric_for_best_model=f7", "train.eval_steps=1"}, {"f7", "accuracy"});
    fails({"data.labels=[\"positive\", \"negative\", \"neutral\"]", "model.num_labels=2"},
          {"num_labels = 2", "3 classes"});
    place.write("mixed.tsv", rows(0, 30) + "\tpositive\na film\tsplendid\nanother\tpositive\n");
    const Ran skipped = succeed(place.run({"train", "task.toml", "data.train=mixed.tsv", "data.on_bad=skip",
                                           "data.labels=[\"negative\", \"positive\"]"}));
    CHECK(has(skipped.err, "left out: 1 empty (first: mixed.tsv: line 31"));
    CHECK(has(skipped.err, "left out: 1 with an unknown label (first: mixed.tsv: line 32"));
    CHECK(has(skipped.err, "train: 31 examples"));
}

TEST_CASE("tasks: tagging, regression, pairs and choices from their files") {
    const Place place;
    write_task(place);
    place.write("tagged.conllu", [] {
        std::string text;
        for (int i = 0; i < 12; ++i)
            text += "1\tthe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n2\tfilm\tfilm\tNOUN\tNN\t_\t3\tnsubj\t_\t_"
                    "\n3\tends\tend\tVERB\tVBZ\t_\t0\troot\t_\t_\n\n";
        return text;
    }());
    const std::vector<std::string> common{"train.max_steps=2", "train.eval_steps=2", "data.valid_fraction=0"};
    const auto train = [&](std::vector<std::string> changes) {
        std::vector<std::string> command{"train", "task.toml"};
        command.insert(command.end(), common.begin(), common.end());
        command.insert(command.end(), changes.begin(), changes.end());
        return succeed(place.run(command));
    };
    train({"output.dir=tags", "objective.id=tagging", "head.id=tagger", "data.train=tagged.conllu",
           "data.valid=tagged.conllu", "data.format=conllu", "data.columns={}"});
    const json tags = json::parse(succeed(place.run({"predict", "tags", "--text", "the film ends well"})).out);
    CHECK(tags["label_names"].size() == 4);
    // Words after the end of a row have no prediction, which is not a class of its own.
    std::string long_sentence;
    for (int i = 1; i <= 40; ++i) long_sentence += std::to_string(i) + "\tfilm\tfilm\tNOUN\tNN\t_\t0\troot\t_\t_\n";
    place.write("long.conllu", place.read("tagged.conllu") + long_sentence + "\n");
    std::vector<std::string> evaluation{"eval",
                                        "task.toml",
                                        "output.dir=tags",
                                        "objective.id=tagging",
                                        "head.id=tagger",
                                        "data.train=tagged.conllu",
                                        "data.valid=long.conllu",
                                        "data.format=conllu",
                                        "data.columns={}",
                                        "--report",
                                        "tags.html"};
    evaluation.insert(evaluation.end(), common.begin(), common.end());
    succeed(place.run(evaluation));
    const std::string page = place.read("tags.html");
    CHECK(!has(page, "(nothing)"));
    CHECK(has(page, "<th>not predicted</th></tr>")); // the last column
    CHECK(!has(page, "<tr><th>not predicted"));
    CHECK(!has(page, "<td>not predicted"));
    CHECK(
        has(page, " of 76, the words after the place where train.context_length cuts their row. They count as wrong."));

    std::string pairs = "id\tA\tB\trelated\n";
    for (int i = 0; i < 20; ++i)
        pairs +=
            std::to_string(i) + "\ta film " + std::to_string(i) + "\tanother film\t" + std::to_string(i % 5) + ".5\n";
    place.write("pairs.tsv", pairs);
    train({"output.dir=related", "objective.id=regression", "head.id=classifier", "data.train=pairs.tsv",
           "data.valid=pairs.tsv", "data.columns={text = \"A\", text_b = \"B\", score = \"related\"}"});
    const json value =
        json::parse(succeed(place.run({"predict", "related", "--text", "a film", "--second", "no film"})).out);
    CHECK(std::isfinite(value["value"].get<double>()));

    std::string choices;
    for (int i = 0; i < 16; ++i)
        choices += R"({"text": "once )" + std::to_string(i) + R"(", "choices": ["it ended", "it began"], "choice": )" +
                   std::to_string(i % 2) + "}\n";
    place.write("choices.jsonl", choices);
    train({"output.dir=choices", "objective.id=multiple_choice", "head.id=multiple_choice", "data.train=choices.jsonl",
           "data.valid=choices.jsonl", "data.format=jsonl", "data.columns={}"});
}

TEST_CASE("tasks: train.disable_dropout turns off the dropout of the head too") {
    const Place place;
    write_task(place);
    const auto first_loss = [&](const std::string& dir, const std::string& rate, const std::string& off) {
        succeed(place.run({"train", "task.toml", "train.max_steps=1", "model.classifier_dropout=" + rate,
                           "train.disable_dropout=" + off, "output.dir=" + dir}));
        return training_steps(place, dir).at(0)["loss"].get<double>();
    };
    CHECK(first_loss("off", "0.5", "true") == first_loss("none", "0.0", "true"));
    CHECK(first_loss("on", "0.5", "false") != first_loss("plain", "0.0", "false"));
}
