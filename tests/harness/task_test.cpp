// Task files: what is read, and how each mistake is refused.
#include "harness/prompt.hpp"
#include "harness/task_file.hpp"
#include "support/test_folder.hpp"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <set>

using namespace hekla;
using namespace hekla::harness;

namespace {

namespace fs = std::filesystem;

const std::string kChoice = R"(task = "t"
output_type = "multiple_choice"
dataset = "d.jsonl"
doc_to_text = "Q: {{q}}"
doc_to_target = "{{a}}"
doc_to_choice = ["no", "yes"]
)";
const std::string kWritten = R"(task = "t"
output_type = "generate_until"
dataset = "d.jsonl"
doc_to_text = "Q: {{q}}"
doc_to_target = "{{a}}"
)";

Task parsed(const std::string& text) {
    Result<Task> task = parse_task(text, "t.toml");
    REQUIRE_MESSAGE(task.ok(), task.message());
    return task.take();
}

std::string refusal(const std::string& text) {
    const Result<Task> task = parse_task(text, "t.toml");
    REQUIRE(!task.ok());
    return task.message();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

// A file of rows that is removed at the end.
struct Rows {
    explicit Rows(const std::string& content) : path(folder.write("d.jsonl", content)) {}
    test::TestFolder folder;
    fs::path path;
};

Result<std::vector<Document>> documents_of(const std::string& task, const std::string& rows) {
    const Rows file(rows);
    return read_documents(parsed(task), file.path.string(), {});
}

} // namespace

TEST_CASE("a task has the keys of lm-evaluation-harness and its defaults") {
    const Task choice = parsed(kChoice);
    CHECK(choice.fewshot_delimiter == "\n\n");
    CHECK(choice.target_delimiter == " ");
    CHECK(choice.metrics.size() == 2);
    CHECK(choice.metrics[1].name == "acc_norm");
    CHECK(choice.filters.size() == 1);
    CHECK(choice.filters[0].name == "none");
    CHECK(choice.version == "0");
    const Task written = parsed(kWritten + R"(num_fewshot = 2
repeats = 5
metadata.version = 1.5
[generation_kwargs]
until = "\n"
max_gen_toks = 8
do_sample = true
temperature = 0.5
[[filter_list]]
name = "vote"
filter = [{function = "regex", regex_pattern = "[0-9]+", group_select = -1}, {function = "majority_vote"}]
[[metric_list]]
metric = "exact_match"
aggregation = "mean"
higher_is_better = true
ignore_case = true
[fewshot_config]
sampler = "first_n"
samples = [{q = "1", a = 2}, {q = "3", a = "4"}]
)");
    CHECK(written.until == std::vector<std::string>{"\n"});
    CHECK(written.version == "1.5");
    CHECK(written.filters[0].steps[0].group_select == -1);
    CHECK(written.metrics[0].ignore_case);
    CHECK(written.first_n);
    CHECK(written.samples[0].at("a") == "2");
    CHECK(written.config["generation_kwargs"]["max_gen_toks"] == 8);
    CHECK(parsed(kWritten).until == std::vector<std::string>{"\n\n"});
    // The harness's tasks have it for greedy answers.
    CHECK_FALSE(parsed(kWritten + "[generation_kwargs]\ntemperature = 0.0\n").do_sample);
    CHECK_FALSE(parsed(kWritten + "[generation_kwargs]\ntemperature = 0\ndo_sample = false\n").do_sample);
}

TEST_CASE("mistakes in a task are refused by name") {
    CHECK(refusal(kChoice + "num_fewshots = 2\n") ==
          "t.toml:7: a task has no key 'num_fewshots'; did you mean 'num_fewshot'?");
    CHECK(refusal(kChoice + "[[metric_list]]\nmetric = \"acc_nrom\"\n") ==
          "t.toml:8: metric_list.metric: unknown metric 'acc_nrom'; did you mean 'acc_norm'?");
    CHECK(refusal(kChoice + "[[metric_list]]\nmetric = \"bleu\"\n").find("is not a metric of multiple_choice") !=
          std::string::npos);
    CHECK(refusal(kChoice + "[[metric_list]]\nmetric = \"acc\"\naggregation = \"median\"\n") ==
          "t.toml:9: metric_list.aggregation: is 'median'; that of acc is 'mean'");
    CHECK(refusal(kWritten + "[[filter_list]]\nname = \"n\"\nfilter = [{function = \"take_frist\"}]\n") ==
          "t.toml:8: filter_list.filter.function: 'take_frist' is not one of regex, take_first, majority_vote; did you "
          "mean 'take_first'?");
    CHECK(
        refusal(kWritten + "[[filter_list]]\nname = \"n\"\nfilter = [{function = \"regex\", regex_pattern = \"(\"}]\n")
            .find("'(' is not a regular expression") != std::string::npos);
    CHECK(refusal(kWritten + "generation_kwargs.until = []\n").find("generation_kwargs.until: is empty") !=
          std::string::npos);
    CHECK(refusal(kWritten + "generation_kwargs.until = [\"\"]\n").find("generation_kwargs.until: is empty") !=
          std::string::npos);
    CHECK(refusal(kWritten + "fewshot_delimiter = \"\"\n").find("generation_kwargs.until is missing") !=
          std::string::npos);
    CHECK(refusal(kWritten + "repeats = 3\n").find("do_sample = true") != std::string::npos);
    CHECK(refusal(kWritten + "repeats = 3\n[generation_kwargs]\ndo_sample = true\n[[filter_list]]\nname = \"n\"\n"
                             "filter = [{function = \"regex\"}]\n")
              .find("leaves several responses") != std::string::npos);
    CHECK(refusal(replaced(kChoice, "multiple_choice", "multiple_choise")) ==
          "t.toml:2: output_type: 'multiple_choise' is not one of multiple_choice, loglikelihood, "
          "loglikelihood_rolling, generate_until; did you mean 'multiple_choice'?");
    CHECK(refusal(replaced(kChoice, "doc_to_choice = [\"no\", \"yes\"]\n", "")).find("lacks 'doc_to_choice'") !=
          std::string::npos);
    CHECK(refusal(replaced(kChoice, "{{q}}", "{{q")).find("that does not end") != std::string::npos);
    CHECK(refusal(replaced(kChoice, "{{q}}", "{{q|upper}}")).find("is not the name of a column") != std::string::npos);
    CHECK(refusal(replaced(kWritten, "{{a}}", "a")).find("doc_to_target: names no column") != std::string::npos);
    CHECK(refusal(kWritten + "doc_to_choice = [\"a\", \"b\"]\n").find("is for multiple_choice") != std::string::npos);
    CHECK(refusal(replaced(kChoice, "dataset = \"d.jsonl\"\n", "")).find("lacks 'dataset'") != std::string::npos);
    CHECK(refusal(replaced(kChoice, "\"t\"", "\"a/b\"")).find("lacks 'task'") != std::string::npos);
    CHECK(refusal(replaced(kChoice, "\"multiple_choice\"", "\"loglikelihood_rolling\"")).find("doc_to_text") !=
          std::string::npos);
    CHECK(refusal("task = ").find("t.toml:1:") == 0);
}

TEST_CASE("documents have texts, choices and the right one") {
    const auto made = documents_of(kChoice, "{\"q\": \"one\", \"a\": 1}\n{\"q\": \"two\", \"a\": \"no\"}\n");
    REQUIRE_MESSAGE(made.ok(), made.message());
    CHECK(made.value()[0].text == "Q: one");
    CHECK(made.value()[0].gold == 1);
    CHECK(made.value()[0].target == "yes");
    CHECK(made.value()[1].gold == 0);
    const auto listed = documents_of(replaced(kChoice, "[\"no\", \"yes\"]", "\"{{c}}\""),
                                     "{\"q\": \"one\", \"a\": \"z\", \"c\": [\"x\", \"y\", \"z\"]}\n");
    REQUIRE_MESSAGE(listed.ok(), listed.message());
    CHECK(listed.value()[0].gold == 2);
    const auto valued = documents_of(kChoice + "target_values = [\"NEUTRAL\", \"ENTAILMENT\"]\n",
                                     "{\"q\": \"one\", \"a\": \"ENTAILMENT\"}\n");
    REQUIRE_MESSAGE(valued.ok(), valued.message());
    CHECK(valued.value()[0].target == "yes");

    const auto refused = [](const std::string& task, const std::string& rows) {
        const auto documents = documents_of(task, rows);
        REQUIRE(!documents.ok());
        return documents.message();
    };
    CHECK(refused(kChoice, "{\"q\": \"one\", \"a\": 2}\n")
              .find("line 1: the target is 2, expected the index of a choice, 0 "
                    "to 1") != std::string::npos);
    CHECK(refused(kChoice, "{\"q\": \"one\", \"a\": \"maybe\"}\n")
              .find("the target is \"maybe\", expected the index of a "
                    "choice or one of \"no\", \"yes\"") != std::string::npos);
    CHECK(refused(replaced(kChoice, "\"yes\"", "\"no\""), "{\"q\": \"one\", \"a\": 0}\n")
              .find("choices 0 and 1 are both "
                    "\"no\"") != std::string::npos);
    CHECK(refused(replaced(kChoice, "{{q}}", "{{question}}"), "{\"q\": \"one\", \"a\": 0}\n").find("question") !=
          std::string::npos);
    CHECK(refused(replaced(kChoice, "\"yes\"", "\"\""), "{\"q\": \"one\", \"a\": 0}\n").find("choice 1 is empty") !=
          std::string::npos);
}

TEST_CASE("a prompt has its description, its demonstrations and the document's text") {
    const std::string rows = R"({"q": "a", "a": 0}
{"q": "b", "a": 1}
{"q": "c", "a": 0}
{"q": "d", "a": 1}
{"q": "e", "a": 0}
)";
    Task task = parsed(kChoice + "description = \"Answer. \"\n");
    FewShotPool pool;
    pool.documents = documents_of(kChoice, rows).take();
    pool.source = "d.jsonl";
    pool.has_document = true;
    const auto made = [&](int64_t shots, uint64_t seed) {
        Result<Prompts> prompts = Prompts::create(task, pool, shots, seed);
        REQUIRE_MESSAGE(prompts.ok(), prompts.message());
        return prompts.take();
    };
    CHECK(made(0, 1).of(pool.documents[1])->text == "Answer. Q: b");
    task.first_n = true;
    CHECK(made(2, 1).of(pool.documents[1])->text == "Answer. Q: a no\n\nQ: c no\n\nQ: b");
    CHECK(made(2, 1).of(pool.documents[4])->text == "Answer. Q: a no\n\nQ: b yes\n\nQ: e");
    task.first_n = false;
    std::set<std::string> drawn;
    for (uint64_t seed = 0; seed < 40; ++seed) {
        const std::string prompt = made(3, seed).of(pool.documents[2])->text;
        CHECK(prompt == made(3, seed).of(pool.documents[2])->text);
        CHECK(prompt.find("Q: c no") == std::string::npos); // not its own demonstration
        CHECK(std::ranges::count(prompt, ':') == 4);
        for (const char* other : {"Q: a no", "Q: b yes", "Q: d yes", "Q: e no"})
            CHECK(prompt.find(other, prompt.find(other) + 1 == 0 ? 0 : prompt.find(other) + 1) == std::string::npos);
        drawn.insert(prompt);
    }
    CHECK(drawn.size() > 10);
    const std::string all = made(4, 1).of(pool.documents[0])->text;
    CHECK(all.find("Q: a") == all.size() - 4);
    CHECK(Prompts::create(task, pool, 5, 1).message() ==
          "t.toml: num_fewshot is 5, and d.jsonl has 5 documents; expected at least 6, since a document is not its own "
          "demonstration");
    pool.has_document = false;
    CHECK(Prompts::create(task, pool, 5, 1).ok());
}

TEST_CASE("the task files of the project are read") {
    const Result<std::vector<Task>> tasks = read_tasks({(fs::path(HEKLA_SOURCE_DIR) / "apps/tasks").string()});
    REQUIRE_MESSAGE(tasks.ok(), tasks.message());
    CHECK(tasks->size() >= 10);
    const std::string sst2 = (fs::path(HEKLA_SOURCE_DIR) / "apps/tasks/sst2.toml").string();
    CHECK(read_tasks({sst2, sst2}).message().find("are both named 'sst2'") != std::string::npos);
}
