// Language models on tasks: scores, files with the harness's keys, a table of several models, and refusals.
#include "tasks.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace hekla::test;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

// Trained until they know a few sentences: tests/fixtures/llama-bos/make.py.
std::string model(const std::string& name) {
    return (fs::path(HEKLA_SOURCE_DIR) / "tests/fixtures/llama-bos" / name).string();
}

const char* const kRows =
    R"({"begin": "the cat", "end": "sat on the mat.", "choices": ["ran to the park.", "sat on the mat."]}
{"begin": "the dog", "end": "ran to the park.", "choices": ["ran to the park.", "is small."]}
{"begin": "a bird", "end": "sang in the tree.", "choices": ["to the shop.", "sang in the tree."]}
{"begin": "we walk", "end": "to the shop.", "choices": ["to the shop.", "sat on the mat."]}
)";

void write_tasks(const Place& place) {
    place.write("rows.jsonl", kRows);
    place.write("sentences.jsonl",
                "{\"text\": \"the cat sat on the mat.\"}\n{\"text\": \"a bird sang in the tree.\"}\n");
    fs::create_directory(place.path("tasks"));
    place.write("tasks/choice.toml", R"(task = "choice"
output_type = "multiple_choice"
dataset = "rows.jsonl"
doc_to_text = "{{begin}}"
doc_to_target = "{{end}}"
doc_to_choice = "{{choices}}"
metadata.version = 2
)");
    place.write("tasks/likely.toml", R"(task = "likely"
output_type = "loglikelihood"
dataset = "rows.jsonl"
doc_to_text = "{{begin}}"
doc_to_target = " {{end}}"
)");
    place.write("tasks/rolling.toml", R"(task = "rolling"
output_type = "loglikelihood_rolling"
dataset = "sentences.jsonl"
doc_to_target = "{{text}}"
)");
    place.write("tasks/written.toml", R"(task = "written"
output_type = "generate_until"
dataset = "rows.jsonl"
doc_to_text = "{{begin}}"
doc_to_target = "{{end}}"
[generation_kwargs]
until = ["."]
max_gen_toks = 24
[[filter_list]]
name = "no-space"
filter = [{function = "regex", regex_pattern = '\S.*'}, {function = "take_first"}]
[[filter_list]]
name = "first-word"
filter = [{function = "regex", regex_pattern = '\S+'}, {function = "take_first"}]
[[metric_list]]
metric = "exact_match"
ignore_punctuation = true
[[metric_list]]
metric = "f1"
)");
}

std::vector<json> lines_of(const std::string& text) {
    std::vector<json> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
    return lines;
}

} // namespace

TEST_CASE("tasks: a model that knows its sentences, with the harness's keys") {
    const Place place;
    write_tasks(place);
    const Ran ran =
        succeed(place.run({"eval", model("add-bos"), "--tasks", "tasks", "--json", "--log-samples", "-o", "out"}));
    const json all = json::parse(ran.out);
    CHECK(all["results"]["choice"]["acc,none"] == 1.0);
    CHECK(all["results"]["choice"]["acc_stderr,none"] == 0.0);
    CHECK(all["results"]["likely"]["acc,none"] == 1.0);
    CHECK(all["results"]["likely"]["perplexity,none"].get<double>() < 1.5);
    CHECK(all["results"]["likely"]["perplexity_stderr,none"].is_number());
    CHECK(all["results"]["rolling"]["bits_per_byte,none"].get<double>() < 0.5);
    CHECK(all["results"]["written"]["exact_match,no-space"] == 1.0);
    CHECK(all["results"]["written"]["exact_match,first-word"] == 0.0);
    CHECK(all["results"]["written"]["f1,first-word"].get<double>() > 0.2);
    CHECK(all["versions"]["choice"] == 2);
    CHECK(all["n-shot"]["choice"] == 0);
    CHECK(all["n-samples"]["choice"] == json{{"original", 4}, {"effective", 4}});
    CHECK(all["higher_is_better"]["rolling"]["bits_per_byte"] == false);
    CHECK(all["configs"]["written"]["generation_kwargs"]["max_gen_toks"] == 24);
    CHECK(all["group_subtasks"]["choice"].empty());
    CHECK(all["config"]["fewshot_seed"] == 1234);
    CHECK(json::parse(place.read("out/results.json"))["results"] == all["results"]);
    CHECK(has(place.read("out/report.html"), "ECE"));
    CHECK(lines_of(place.read("out/samples_written.jsonl")).size() == 8); // 4 documents, 2 filters

    const std::vector<json> samples = lines_of(place.read("out/samples_choice.jsonl"));
    REQUIRE(samples.size() == 4);
    CHECK(samples[0]["target"] == 1);
    CHECK(samples[0]["arguments"]["gen_args_1"] == json{{"arg_0", "the cat"}, {"arg_1", " sat on the mat."}});
    CHECK(samples[0]["filtered_resps"][1][1] == true);
    CHECK(samples[0]["resps"][1][0] == samples[0]["filtered_resps"][1]);
    CHECK(samples[0]["acc"] == 1.0);

    // Neither other documents nor other tasks change an answer; a limit takes the first documents.
    const json one = json::parse(succeed(place.run({"eval", model("add-bos"), "--tasks", "tasks/choice.toml", "--json",
                                                    "--limit", "1", "--log-samples", "-o", "one"}))
                                     .out);
    CHECK(one["n-samples"]["choice"] == json{{"original", 4}, {"effective", 1}});
    CHECK(lines_of(place.read("one/samples_choice.jsonl"))[0] == samples[0]);
}

TEST_CASE("tasks: several models in one table, demonstrations by seed") {
    const Place place;
    write_tasks(place);
    const Ran ran = succeed(place.run({"eval", model("add-bos"), model("template"), "--tasks", "tasks/choice.toml",
                                       "tasks/rolling.toml", "-o", "out"}));
    CHECK(has(ran.out, "| task    | version | filter | shots | metric"));
    CHECK(has(ran.out, "add-bos |"));
    CHECK(has(ran.out, "template |"));
    CHECK(has(ran.out, "1.0000 ± 0.0000"));
    CHECK(place.exists("out/add-bos/results.json"));
    CHECK(place.exists("out/template/results.json"));
    CHECK(!place.exists("out/add-bos/samples_choice.jsonl"));
    CHECK(has(place.read("out/report.html"), "Tasks: add-bos, template"));

    const auto prompts = [&](const std::string& seed, const std::string& folder) {
        succeed(place.run({"eval", model("add-bos"), "--tasks", "tasks/choice.toml", "--num-fewshot", "2", "--seed",
                           seed, "--log-samples", "-o", folder}));
        std::vector<std::string> all;
        for (const json& sample : lines_of(place.read(folder + "/samples_choice.jsonl")))
            all.push_back(sample["arguments"]["gen_args_0"]["arg_0"]);
        return all;
    };
    const std::vector<std::string> first = prompts("1", "first");
    CHECK(first == prompts("1", "again"));
    CHECK(first != prompts("2", "other"));
    CHECK(first[0].ends_with("\n\nthe cat"));
    CHECK(!has(first[0], "the cat sat on the mat.")); // not its own demonstration

    // The same file by another path is still the data set itself.
    place.write("tasks/choice.toml", place.read("tasks/choice.toml") + "fewshot_dataset = \"./rows.jsonl\"\n");
    CHECK(prompts("1", "same") == first);

    // Several numbers of demonstrations: a row and a folder for each, and a curve; a whole text has none.
    const Ran shots = succeed(place.run({"eval", model("add-bos"), "--tasks", "tasks/choice.toml", "tasks/rolling.toml",
                                         "--num-fewshot", "0,1", "-o", "shots", "--json"}));
    const json by_shots = json::parse(shots.out)["shots"];
    CHECK(by_shots["0"]["n-shot"]["choice"] == 0);
    CHECK(by_shots["1"]["n-shot"]["choice"] == 1);
    CHECK(by_shots["0"]["results"].contains("rolling"));
    CHECK_FALSE(by_shots["1"]["results"].contains("rolling"));
    CHECK(json::parse(place.read("shots/1-shot/results.json"))["n-shot"]["choice"] == 1);
    const std::string curve = place.read("shots/report.html");
    CHECK(has(curve, "Score over demonstrations"));
    CHECK(has(curve, "choice, 1 demonstrations"));

    const Ran listed = succeed(place.run({"eval", "--tasks", "list", "tasks"}));
    CHECK(has(listed.out, "loglikelihood_rolling"));
    CHECK(json::parse(succeed(place.run({"eval", "--tasks", "list", "tasks", "--json"})).out).size() == 4);
}

TEST_CASE("tasks: prompts in the model's chat template") {
    const Place place;
    write_tasks(place);
    fs::copy(model("template"), place.path("chat"), fs::copy_options::recursive);
    const std::string text = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
                             "{% if add_generation_prompt %}[assistant] {% endif %}";
    place.write("chat/chat_template.jinja", text);
    const auto arguments = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"eval", "chat", "--tasks", "tasks/choice.toml", "tasks/written.toml", "--json",
                                   "--num-fewshot", "1", "--log-samples", "-o", "out"});
        const json all = json::parse(succeed(place.run(more)).out);
        return std::pair(all, lines_of(place.read("out/samples_choice.jsonl"))[3]["arguments"]["gen_args_0"]);
    };
    const auto [turns, of_turns] = arguments({"--apply-chat-template", "--system-instruction", "Go on."});
    CHECK(turns["chat_template"] == text);
    CHECK(turns["chat_template_sha"].get<std::string>().size() == 64);
    CHECK(turns["system_instruction"] == "Go on.");
    CHECK(turns["fewshot_as_multiturn"] == true);
    CHECK(has(place.read("out/report.html"), "prompts in the model's own chat template, demonstrations as turns, after "
                                             "the instruction &quot;Go on.&quot;"));
    const std::string prompt = of_turns["arg_0"];
    CHECK(prompt.starts_with("[system] Go on.\n[user] "));
    CHECK(prompt.ends_with("\n[user] we walk\n[assistant] "));
    CHECK(of_turns["arg_1"] == "to the shop.");
    const auto [one, of_one] = arguments({"--apply-chat-template", "--fewshot-as-multiturn", "false"});
    CHECK(one["fewshot_as_multiturn"] == false);
    CHECK(one["system_instruction"].is_null());
    CHECK(of_one["arg_0"].get<std::string>().ends_with(".\n\nwe walk\n[assistant] "));
    const auto [plain, of_plain] = arguments({});
    CHECK(plain["chat_template"].is_null());
    CHECK(of_plain["arg_1"] == " to the shop.");

    const auto refused = [&](const std::string& from, const char* why) {
        const Ran ran = place.run({"eval", from, "--tasks", "tasks/choice.toml", "--apply-chat-template"});
        CHECK(ran.status == 1);
        CHECK_MESSAGE(has(ran.err, why), ran.err);
    };
    refused(model("template"), "chat template");
    place.write("chat/chat_template.jinja", "{{ raise_exception('never') }}");
    refused("chat", "rows.jsonl: line 1");
}

TEST_CASE("tasks: what cannot be evaluated is one error") {
    const Place place;
    write_tasks(place);
    const auto refused = [&](const std::string& task, const Arguments& more = {}) {
        place.write("t.toml", task);
        const Ran ran = place.run(joined({"eval", model("add-bos"), "--tasks", "t.toml"}, more));
        CHECK(ran.status == 1);
        return ran.err;
    };
    const std::string choice = place.read("tasks/choice.toml");
    CHECK(has(refused(choice + "fewshot = 1\n"), "t.toml:8: a task has no key 'fewshot'"));
    CHECK(has(refused(choice, {"--num-fewshot", "4"}), "t.toml: num_fewshot is 4, and rows.jsonl has 4 documents"));
    place.write("rows.jsonl", std::string(kRows) + R"({"begin": "we", "end": "", "choices": ["x"]})" + "\n");
    CHECK(has(refused(choice), "rows.jsonl: line 5"));
    place.write("rows.jsonl", R"({"begin": "we", "end": "walk", "choices": ["walk", "walk"]})"
                              "\n");
    CHECK(has(refused(choice), "choices 0 and 1 are both \"walk\""));
    std::string longer = "walk";
    while (longer.size() < 600) longer += " to the shop.";
    place.write("rows.jsonl",
                std::string(kRows) + json{{"begin", "we"}, {"end", longer}, {"choices", {"x", longer}}}.dump() + "\n");
    CHECK(has(refused(choice), "t.toml: rows.jsonl: line 5: choice 1: "));
    place.write("rows.jsonl", R"({"begin": "we", "choices": ["walk", "run"]})"
                              "\n");
    const std::string missing_target = refused(choice);
    CHECK(has(missing_target, "rows.jsonl: line 1: there is no \"end\"; correct it"));
    CHECK_FALSE(has(missing_target, "data.on_bad")); // which a task does not have
    place.write("rows.jsonl", kRows);
    std::string written = place.read("tasks/written.toml");
    written.replace(written.find("max_gen_toks = 24"), 17, "max_gen_toks = 64");
    CHECK(has(refused(written), "generation_kwargs.max_gen_toks is 64, and the model has 64 positions"));
    const Ran missing = place.run({"eval", model("add-bos"), "--tasks", "nothing.toml"});
    CHECK(missing.status == 1);
    CHECK(has(missing.err, "nothing.toml"));
    CHECK(place.run({"eval", "--tasks", "tasks/choice.toml"}).status == 2);
    CHECK(place.run({"eval"}).status == 2);
    CHECK(place.run({"eval", "recipe.toml", "--limit", "3"}).status != 0); // needs --tasks
    const Ran bert = place.run(
        {"eval", (fs::path(HEKLA_SOURCE_DIR) / "tests/fixtures/models/bert-pretraining").string(), "--tasks", "tasks"});
    CHECK(bert.status == 1);
}

TEST_CASE(
    "tasks: a large vocabulary, whose logits are never in memory as a whole, on the device as in the interpreter") {
    const Place place;
    std::string text;
    for (int word = 0; word < 20000; ++word) text += "w" + std::to_string(word) + (word % 12 == 11 ? "\n" : " ");
    place.write("text.txt", text);
    place.write("run.toml", R"([model]
architecture = "gpt2"
n_embd = 8
n_layer = 1
n_head = 2
n_positions = 32
[objective]
id = "clm"
[head]
id = "lm"
[tokenizer]
kind = "words"
vocab_size = 20000
[data]
valid_fraction = 0.0
train = "text.txt"
[train]
max_steps = 2
context_length = 16
per_device_train_batch_size = 2
eval_steps = 0
save_steps = 0
learning_rate = 0.1
[output]
dir = "run"
)");
    succeed(place.run({"train", "run.toml"}));
    std::string rows;
    for (int i = 0; i < 40; ++i) {
        std::string words;
        for (int k = 0; k < 1 + i % 20; ++k) words += "w" + std::to_string(i * 70 + k) + " ";
        rows += json{{"text", words}, {"end", "w" + std::to_string(19000 - i)}}.dump() + "\n";
    }
    place.write("rows.jsonl", rows);
    place.write("t.toml", R"(task = "t"
output_type = "loglikelihood"
dataset = "rows.jsonl"
doc_to_text = "{{text}}"
doc_to_target = "{{end}}"
)");
    const auto samples = [&](const Arguments& more) {
        succeed(place.run(joined({"eval", "run", "--tasks", "t.toml", "--log-samples", "-o", "out"}, more)));
        return lines_of(place.read("out/samples_t.jsonl"));
    };
    const std::vector<json> device = samples({}), exact = samples({"--reference"}), few = samples({"--limit", "7"});
    REQUIRE(device.size() == 40);
    for (std::size_t i = 0; i < device.size(); ++i) {
        const double expected = exact[i]["filtered_resps"][0][0];
        CHECK(device[i]["filtered_resps"][0][0].get<double>() == doctest::Approx(expected).epsilon(1e-5));
        CHECK(device[i]["filtered_resps"][0][1] == exact[i]["filtered_resps"][0][1]);
    }
    for (std::size_t i = 0; i < few.size(); ++i) CHECK(few[i] == device[i]);
}

TEST_CASE("tasks: an encoder-decoder reads the prompt and is scored by what its decoder writes" *
          doctest::test_suite("long")) {
    const Place place;
    place.write("pairs.tsv", translations());
    place.write("run.toml", std::string(kTranslator) + R"([train]
max_steps = 240
context_length = 8
per_device_train_batch_size = 16
learning_rate = 1e-2
eval_steps = 0
save_steps = 0
[output]
dir = "run"
)");
    succeed(place.run({"train", "run.toml"}));
    const std::string task = R"(dataset = "pairs.tsv"
doc_to_text = "{{1}}"
doc_to_target = "{{2}}"
target_delimiter = ""
)";
    place.write("likely.toml", "task = \"likely\"\noutput_type = \"loglikelihood\"\n" + task);
    place.write("written.toml", "task = \"written\"\noutput_type = \"generate_until\"\n" + task +
                                    "generation_kwargs.max_gen_toks = 5\n");
    place.write("choice.toml", "task = \"choice\"\noutput_type = \"multiple_choice\"\n" + task +
                                   "doc_to_choice = [\"{{2}}\", \"cinq et cinq et cinq\"]\n");
    const auto evaluated = [&](const Arguments& more) {
        return json::parse(
            succeed(place.run(joined({"eval", "run", "--tasks", "likely.toml", "written.toml", "choice.toml", "--limit",
                                      "20", "--json", "--log-samples", "-o", "out"},
                                     more)))
                .out)["results"];
    };
    const json device = evaluated({});
    const std::vector<json> likely = lines_of(place.read("out/samples_likely.jsonl"));
    const std::vector<json> written = lines_of(place.read("out/samples_written.jsonl"));
    CHECK(device["written"]["exact_match,none"].get<double>() > 0.5); // the task is learned
    CHECK(device["choice"]["acc,none"] == 1.0);
    const json exact = evaluated({"--reference"});
    const std::vector<json> reference = lines_of(place.read("out/samples_likely.jsonl"));
    REQUIRE(likely.size() == 20);
    for (std::size_t i = 0; i < likely.size(); ++i)
        CHECK(likely[i]["filtered_resps"][0][0].get<double>() ==
              doctest::Approx(reference[i]["filtered_resps"][0][0].get<double>()).epsilon(1e-4));
    CHECK(device["likely"]["acc,none"] == exact["likely"]["acc,none"]);
    CHECK(lines_of(place.read("out/samples_written.jsonl")) == written);
    place.write("rolling.toml", "task = \"rolling\"\noutput_type = \"loglikelihood_rolling\"\ndataset = "
                                "\"pairs.tsv\"\ndoc_to_target = \"{{1}}\"\n");
    const Ran refused = place.run({"eval", "run", "--tasks", "rolling.toml"});
    CHECK(refused.status == 1);
    CHECK(has(refused.err, "needs a language model without an encoder"));
}
