// `hekla train --model FOLDER --data FILE`: what it finds, the recipe that it writes, and what it refuses.
#include "tasks.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>

using hekla::test::Arguments;
using hekla::test::has;
using hekla::test::joined;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using nlohmann::json;

namespace first_recipe_test {
namespace {

const char* const kWords[] = {"sun", "moon", "cat", "tree"};

std::string lines_of(int count, const auto& row) {
    std::string text;
    for (int i = 0; i < count; ++i) text += row(std::string(kWords[i % 4])).dump() + "\n";
    return text;
}

// Writes models with random weights: `talker` has a chat template, `base` and `writer` (GPT-2) an end token, `reader`
// (BERT) reads in both directions.
void write_models(const Place& place) {
    place.write("talks.jsonl", lines_of(8, [](const std::string& word) {
                    return json{{"messages",
                                 {{{"role", "user"}, {"content", word}}, {{"role", "assistant"}, {"content", word}}}}};
                }));
    place.write("text.txt",
                "the sun and the moon saw a cat in a tree? Below is 1 answer: no.\n<|x|>{}[]\"'\\#,!-_()\n");
    const auto write = [&](const std::string& name, const std::string& model, const std::string& rest) {
        place.write(name + ".toml", fmt::format("[model]\n{}\n[train]\nmax_steps = 1\ncontext_length = 24\n"
                                                "eval_steps = 0\nsave_steps = 0\n{}\n[output]\ndir = \"{}\"\n",
                                                model, rest, name));
        succeed(place.run({"train", name + ".toml"}));
    };
    const std::string llama =
        "architecture = \"llama\"\nhidden_size = 32\nnum_hidden_layers = 2\nnum_attention_heads = "
        "2\nintermediate_size = 64\nmax_position_embeddings = 128\n";
    const std::string data = "[data]\ntrain = \"text.txt\"\nvalid_fraction = 0.0\n";
    const std::string with_end = "[tokenizer]\nkind = \"char\"\nadd_roles = {eos = \"</s>\"}\n";
    write("talker", llama,
          "[objective]\nid = \"chat\"\n[head]\nid = \"lm\"\n[tokenizer]\nkind = \"char\"\nadd = [\"<|im_start|>\", "
          "\"<|im_end|>\"]\n[data]\ntrain = \"talks.jsonl\"\nvalid_fraction = 0.0\nchat_template = \"chatml\"");
    write("base", llama, with_end + data);
    write("writer", "architecture = \"gpt2\"\nn_embd = 16\nn_layer = 1\nn_head = 2\nn_positions = 64\n",
          with_end + data);
    write("reader", std::string(hekla::test::kModel).substr(std::string("[model]\n").size()),
          "[objective]\nid = \"mlm\"\n[head]\nid = \"mlm\"\n[tokenizer]\nkind = \"wordpiece\"\nvocab_size = 90\n" +
              data);
}

Arguments train(const std::string& model, const std::string& data, const std::string& file,
                const Arguments& more = {}) {
    return joined({"train", "--model", model, "--data", data, "-o", file}, more);
}

} // namespace

TEST_CASE("train --model writes a recipe with reasons, and trains the run that the recipe alone trains") {
    const Place place;
    write_models(place);
    // ShareGPT, for a model with a template. A plan comes first.
    place.write("shared.json", [] {
        json rows = json::array();
        for (int i = 0; i < 24; ++i)
            rows.push_back({{"conversations",
                             {{{"from", "human"}, {"value", kWords[i % 4]}}, {{"from", "gpt"}, {"value", "moon"}}}}});
        return rows.dump(1);
    }());
    const Arguments tune = train("talker", "shared.json", "out/a.toml", {"train.max_steps=6", "train.save_steps=2"});
    const Ran first = succeed(place.run(tune));
    CHECK(has(first.err, "model: talker: llama, "));
    CHECK(has(first.err, "data: shared.json: ShareGPT rows (conversations: from, value), in one JSON array, 24 rows"));
    CHECK(has(first.err, "recipe: out/a.toml\n"));
    CHECK(has(first.out, "  total "));
    CHECK(has(first.out, "6 steps left"));
    const std::string recipe = place.read("out/a.toml");
    CHECK(recipe.starts_with("# Written by: hekla train --model talker --data shared.json -o out/a.toml "
                             "train.max_steps=6 train.save_steps=2\n"));
    for (const char* line :
         {"id = \"lora\"  # 24 rows are few", "r = 16  #", "lora_alpha = 32  #", "target_modules = \"all-linear\"  #",
          "id = \"chat\"  # learns what the assistant writes", "max_steps = 6  # given on the command line",
          "bf16 = false", "dir = \"out/a\"", "holds every row", "valid_fraction = 0.0  # too few rows"})
        CHECK_MESSAGE(has(recipe, line), line);
    CHECK(!has(recipe, "chat_template"));
    // The same command resumes; the recipe alone gives the same bits.
    const std::string weights = place.read("out/a/model.safetensors");
    std::filesystem::remove_all(place.path("out/a/checkpoint-6"));
    const Ran again = succeed(place.run(tune));
    CHECK(has(again.err, "out/a.toml: this command wrote it before; it is used as it is"));
    CHECK(has(again.err, "resuming after step 4"));
    CHECK(place.read("out/a/model.safetensors") == weights);
    succeed(place.run({"train", "out/a.toml", "output.dir=out/b"}));
    CHECK(place.read("out/b/model.safetensors") == weights);
    // The result is used as any adapter is.
    succeed(place.run({"chat", "out/a", "--greedy", "--max-new-tokens", "4"}, "moon\n"));
    succeed(place.run({"adapter", "merge", "out/a", "-o", "merged"}));
    // Ranks divide the micro-batches.
    const Ran ranks = place.run(train("talker", "shared.json", "two.toml", {"--devices", "0,0", "train.max_steps=2"}));
    CHECK(ranks.status == 0);
    CHECK(has(place.read("two.toml"), "gradient_accumulation_steps = 2  #"));

    const auto refused = [&](const Arguments& arguments) {
        const Ran ran = place.run(arguments);
        CHECK(ran.status == 1);
        return ran.err;
    };
    CHECK(has(refused(train("talker", "talks.jsonl", "out/a.toml")), "out/a.toml: exists, and this command did not"));
    CHECK(
        has(refused(train("talker", "talks.jsonl", "c.toml", {"output.dir=out/a"})), "out/a: exists; choose another"));
    CHECK(has(refused(train("talker", "talks.jsonl", "c.txt")), "-o c.txt: expected a name that ends in .toml"));
    CHECK(has(refused(train("talker", "talks.jsonl", "talks.jsonl/c.toml")), "cannot be made"));
    CHECK(has(refused(train("talker", "talks.jsonl", "c.toml", {"train.learnin_rate=1"})), "'learning_rate'?"));
    CHECK(has(refused(train("nothing", "talks.jsonl", "c.toml")), "--model nothing: no such folder"));
    CHECK(has(refused(train("talker", "nothing.jsonl", "c.toml")), "--data: nothing.jsonl: no such file"));
    CHECK(has(refused(train("reader", "talks.jsonl", "c.toml")), "bert reads a text in both directions"));
    CHECK(has(refused(train("talker", "talks.jsonl", "c.toml", {"--task", "text"})), "from which --task chat learns"));
    place.write("bad.jsonl", "{\"foo\": 1}\n");
    CHECK(has(refused(train("talker", "bad.jsonl", "c.toml")), "bad.jsonl: no task reads rows of foo. Expected"));
    place.write("bad.jsonl", "");
    CHECK(has(refused(train("talker", "bad.jsonl", "c.toml")), "bad.jsonl: the file is empty"));
    place.write("bad.jsonl", "PAR1");
    CHECK(has(refused(train("talker", "bad.jsonl", "c.toml")), "bad.jsonl: a Parquet file"));
    CHECK(place.run(joined(train("talker", "talks.jsonl", "c.toml"), {"out/a.toml"})).status == 2);
    CHECK(place.run({"train", "--model", "talker"}).status == 2);
    CHECK(place.run({"train"}).status == 2);
    CHECK(!place.exists("c.toml"));
    CHECK(!place.exists("c"));
}

TEST_CASE(
    "train --model puts several conversations into a row, where that saves padding and the model separates them") {
    const Place place;
    write_models(place);
    std::string longest;
    for (int i = 0; i < 16; ++i) longest += kWords[i % 4];
    std::string talks, pairs;
    for (int i = 0; i < 40; ++i) {
        const std::string said = i == 7 ? longest : kWords[i % 4];
        talks +=
            json{{"messages", {{{"role", "user"}, {"content", said}}, {{"role", "assistant"}, {"content", "cat"}}}}}
                .dump() +
            "\n";
        pairs += json{{"prompt", said}, {"completion", "cat"}}.dump() + "\n";
    }
    place.write("varied.jsonl", talks);
    place.write("pairs.jsonl", pairs);
    const Ran packed = succeed(place.run(train("talker", "varied.jsonl", "p.toml", {"train.max_steps=3"})));
    CHECK(has(place.read("p.toml"), "packing = \"rows\"  # a row holds several examples"));
    CHECK_FALSE(has(place.read("p.toml"), "group_by_length"));
    CHECK(has(packed.err, "of the tokens are theirs"));
    // GPT-2 learns a vector for each place of a row.
    succeed(place.run(train("writer", "pairs.jsonl", "w.toml", {"train.max_steps=2"})));
    CHECK_FALSE(has(place.read("w.toml"), "packing"));
    CHECK(has(place.read("w.toml"), "group_by_length = true"));
}

TEST_CASE("train --model chooses the task by the rows and the model") {
    const Place place;
    write_models(place);
    const auto recipe_of = [&](const std::string& model, const std::string& data, const Arguments& more = {}) {
        std::filesystem::remove(place.path("c.toml"));
        std::filesystem::remove_all(place.path("c"));
        succeed(place.run(train(model, data, "c.toml", joined({"train.max_steps=1"}, more))));
        return place.read("c.toml");
    };
    const auto contains = [](const std::string& recipe, const std::vector<const char*>& all) {
        for (const char* one : all) CHECK_MESSAGE(has(recipe, one), one << "\n" << recipe);
    };
    // Alpaca, for a model without a template: one of those with a name that needs no new token.
    place.write("alpaca.jsonl", lines_of(8, [](const std::string& word) {
                    return json{{"instruction", "see"}, {"input", word}, {"output", word}};
                }));
    contains(recipe_of("base", "alpaca.jsonl"), {"chat_template = \"zephyr\"", "needs no token besides the end token"});
    // Preferences: of messages for a model that answers, of texts for one that does not. One row, CR LF.
    place.write("prefer.jsonl", lines_of(8, [](const std::string& word) {
                    return json{{"prompt", {{{"role", "user"}, {"content", word}}}},
                                {"chosen", {{{"role", "assistant"}, {"content", "sun"}}}},
                                {"rejected", {{{"role", "assistant"}, {"content", "no"}}}}};
                }));
    contains(recipe_of("talker", "prefer.jsonl"), {"id = \"dpo\"", "[teacher]\nfrom = \"talker\""});
    place.write("one.jsonl", "{\"prompt\": \"sun\", \"chosen\": \" moon\", \"rejected\": \" cat\"}\r\n");
    contains(recipe_of("base", "one.jsonl"), {"id = \"orpo\"", "per_device_train_batch_size = 1 "});
    place.write("pairs.jsonl", lines_of(8, [](const std::string& word) {
                    return json{{"prompt", word}, {"completion", " " + word}};
                }));
    contains(recipe_of("base", "pairs.jsonl"), {"id = \"completion\"", "rows of prompt and completion"});
    contains(recipe_of("base", "pairs.jsonl", {"--task", "chat"}), {"id = \"chat\""});
    // Plain text on GPT-2, from a file whose name does not tell.
    std::string text;
    for (int i = 0; i < 40; ++i) text += "the sun saw the moon and the cat saw a tree\n";
    place.write("notes.md", text);
    contains(recipe_of("writer", "notes.md"), {"id = \"clm\"", "order = \"shuffle\"", "context_length = 64"});
    // Rows with labels on BERT: all parameters where rows are many. Some are held out. A very long row is cut off.
    std::string table = "sentence\tlabel\n";
    for (int i = 0; i < 300; ++i) table += fmt::format("the {} {}\t{}\n", kWords[i % 4], i, i % 2);
    table += "sun" + std::string(2000, 'x') + " moon tree cat\t1\n";
    place.write("labels.tsv", table);
    contains(recipe_of("reader", "labels.tsv"),
             {"id = \"classification\"", "columns = {", "are trained: the model is small", "rows are evaluated",
              "metric_for_best_model = \"accuracy\"", "context_length = "});
    contains(recipe_of("reader", "labels.tsv", {"adapter.r=4"}),
             {"r = 4  # given on the command line", "id = \"lora\""});
}

} // namespace first_recipe_test
