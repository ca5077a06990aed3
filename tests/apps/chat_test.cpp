// Conversations through the program: training on messages, answers that end at the end of a turn, preferences of
// messages, and errors that name what is wrong.
#include "tasks.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>

using hekla::test::Arguments;
using hekla::test::has;
using hekla::test::joined;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using nlohmann::json;

namespace chat_test {
namespace {

const char* const kRecipe = R"([model]
architecture = "gpt2"
n_layer = 1
n_head = 2
n_embd = 32
n_positions = 96
resid_pdrop = 0.0
embd_pdrop = 0.0
attn_pdrop = 0.0
[objective]
id = "chat"
[data]
train = "talks.jsonl"
valid = "talks.jsonl"
chat_template = "chatml"
[tokenizer]
kind = "char"
add = ["<|im_start|>", "<|im_end|>"]
[train]
max_steps = 120
context_length = 64
per_device_train_batch_size = 8
learning_rate = 0.01
eval_steps = 120
save_steps = 120
[output]
dir = "run"
)";

json message(const char* role, const std::string& content) { return {{"role", role}, {"content", content}}; }

void write_files(const Place& place) {
    const char* const words[] = {"sun", "moon", "cat", "tree"};
    std::string talks;
    for (int i = 0; i < 40; ++i)
        talks += json{{"messages",
                       {message("user", words[i % 4]), message("assistant", std::string("a ") + words[i % 4]),
                        message("user", "bye"), message("assistant", "bye bye")}}}
                     .dump() +
                 "\n";
    place.write("talks.jsonl", talks);
    place.write("chat.toml", kRecipe);
}

} // namespace

TEST_CASE("chat: a model learns to answer, ends its turn, and keeps its template") {
    const Place place;
    write_files(place);
    const Ran trained = succeed(place.run({"train", "chat.toml"}));
    CHECK(has(trained.err, "chat template: chatml; the assistant's turn ends with '<|im_end|>'"));
    CHECK(has(place.read("run/chat_template.jinja"), "<|im_start|>"));
    const Arguments ask{"generate", "run", "--chat", "--greedy", "--max-new-tokens", "40", "--prompt", "moon"};
    CHECK(succeed(place.run(ask)).out == "a moon\n");
    const json answered = json::parse(succeed(place.run(joined(ask, {"--json"}))).out);
    CHECK(answered["rows"][0]["text"] == "a moon");
    CHECK(answered["rows"][0]["messages"][0] == message("user", "moon"));
    // An evaluation writes the last answer of each conversation, given the run's folder alone.
    const Ran evaluated = succeed(place.run({"eval", "run", "-o", "texts.jsonl"}));
    CHECK(has(evaluated.out, "exact_match 1.0000"));
    CHECK(has(evaluated.err, "a sun<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n\n"
                             "reference: bye bye\noutput:    bye bye\n"));
    const std::string texts = place.read("texts.jsonl");
    CHECK(json::parse(texts.substr(0, texts.find('\n')))["said"]["text"] == "bye bye");
    CHECK(std::ranges::count(texts, '\n') == 40);
    // Two prompts, and a longer conversation.
    const Ran two = succeed(place.run(joined(ask, {"--prompt", "cat", "--json"})));
    CHECK(json::parse(two.out)["rows"][1]["text"] == "a cat");
    place.write("more.json",
                json{message("user", "sun"), message("assistant", "a sun"), message("user", "bye")}.dump(1));
    CHECK(succeed(place.run({"generate", "run", "--chat", "--greedy", "--messages", "more.json"})).out == "bye bye\n");
    // Options of how the answer is written, and where it ends.
    const auto answer = [&](const Arguments& more) { return succeed(place.run(joined(ask, more))).out; };
    CHECK(answer({"--stop", "zz", "--stop", "oo"}) == "a m\n");
    CHECK(answer({"--stop", "<|im_end|>"}) == "a moon\n");
    CHECK(answer({"--logit-bias", "m=-inf"}).find('m') == std::string::npos);
    CHECK(has(place.run(joined(ask, {"--logit-bias", "moon=1"})).err, "logit bias 'moon=1': the text is 4 tokens"));
    CHECK(has(place.run(joined(ask, {"--min-p", "2"})).err, "hk_generate_options.min_p is 2, expected 0 to 1"));
    CHECK(has(place.run(joined(ask, {"--stop", "a", "--beams", "2"})).err, "stop_texts is set, but beams is 2"));
    CHECK(place.run(joined(ask, {"--log-probabilities", "2"})).status == 2); // it needs --json
    const json listed = json::parse(answer({"--json", "--log-probabilities", "2"}))["rows"][0];
    CHECK(listed["text"] == "a moon");
    REQUIRE(listed["tokens"].size() == 7); // with the end token
    std::string joined_texts;
    for (const json& token : listed["tokens"]) {
        if (token["text"].get<std::string>().size() == 1) joined_texts += token["text"].get<std::string>();
        REQUIRE(token["likeliest"].size() == 2);
        CHECK(token["likeliest"][0]["id"] == token["id"]);
        CHECK(token["likeliest"][0]["log_probability"] == token["log_probability"]);
        CHECK(token["log_probability"] < 0.0);
        CHECK(token["likeliest"][1]["log_probability"] < token["log_probability"]);
    }
    CHECK(joined_texts == "a moon");
    // As the folder has it: greedy without do_sample, and what is not supported is named.
    const std::string settings = place.read("run/generation_config.json");
    json published = json::parse(settings);
    published["typical_p"] = 0.9;
    published["temperature"] = 0.5;
    place.write("run/generation_config.json", published.dump());
    const Arguments plain{"generate", "run", "--chat", "--as-published", "--prompt", "moon"};
    const Ran greedy = succeed(place.run(plain));
    CHECK(greedy.out == "a moon\n");
    CHECK(has(greedy.err, "generation_config.json: these settings are not supported, and not used: typical_p = 0.9"));
    published["do_sample"] = true;
    published["top_k"] = 1;
    published["temperature"] = 50.0;
    place.write("run/generation_config.json", published.dump());
    CHECK(succeed(place.run(plain)).out == "a moon\n");
    CHECK(succeed(place.run(joined(plain, {"--top-k", "0"}))).out != "a moon\n"); // what is given wins
    CHECK(succeed(place.run(joined(plain, {"--greedy", "--top-k", "0"}))).out == "a moon\n");
    place.write("run/generation_config.json", settings);
    // The folder alone is enough for a second training, and for an exported file.
    place.write("second.toml",
                "[model]\nfrom = \"run\"\n[objective]\nid = \"chat\"\n[head]\nid = \"lm\"\n[data]\ntrain = "
                "\"talks.jsonl\"\n[train]\nmax_steps = 1\ncontext_length = 64\neval_steps = 0\n[output]\n"
                "dir = \"second\"\n");
    succeed(place.run({"train", "second.toml"}));
    CHECK(place.read("second/chat_template.jinja") == place.read("run/chat_template.jinja"));
    // The folder's settings of generation count, and a training from the folder keeps them.
    place.write("run/generation_config.json", R"({"min_new_tokens": 12, "num_beams": 4})");
    CHECK(succeed(place.run(ask)).out.size() > std::string("a moon\n").size());
    place.write("second.toml", place.read("second.toml") + "[generate]\nexamples = 0\n");
    succeed(place.run({"train", "second.toml", "output.dir=third"}));
    CHECK(place.read("third/generation_config.json") == place.read("run/generation_config.json"));
    CHECK(json::parse(place.read("second/generation_config.json")).contains("eos_token_id")); // of a run from nothing
    // Perplexity is that of the assistant's tokens.
    CHECK(has(succeed(place.run({"eval", "chat.toml"})).out, "perplexity "));

    const auto refused = [&](const Arguments& arguments) {
        const Ran ran = place.run(arguments);
        CHECK(ran.status == 1);
        return ran.err;
    };
    place.write("run/generation_config.json", "{");
    CHECK(has(refused(ask), "generation_config.json"));
    // A training reads those of its model from the first text on.
    CHECK(has(refused({"train", "second.toml", "output.dir=fourth", "data.valid=talks.jsonl", "train.eval_steps=1",
                       "generate.examples_while_training=1"}),
              "run/generation_config.json"));
    std::filesystem::remove(place.path("run/generation_config.json"));
    CHECK(has(refused({"generate", "run", "--chat"}), "give --prompt or --messages"));
    place.write("wrong.json", R"({"role": "user"})");
    CHECK(has(refused({"generate", "run", "--chat", "--messages", "wrong.json"}), "expected a list of messages"));
    place.write("wrong.json", R"([{"role": "user"}])");
    CHECK(has(refused({"generate", "run", "--chat", "--messages", "wrong.json"}), "message 1 has no \"content\""));
    CHECK(has(refused(joined(ask, {"--chat-template", "chatlm"})), "'chatlm' is not a chat template"));
    CHECK(has(refused(joined(ask, {"--chat-template", "llama3"})), "'<|eot_id|>' ends the assistant's turn"));
    std::filesystem::remove(place.path("run/chat_template.jinja"));
    CHECK(has(refused(ask), "has no chat template"));
    CHECK(succeed(place.run(joined(ask, {"--chat-template", "chatml"}))).out == "a moon\n");
}

// What is typed into `hekla chat`, and what it prints.
TEST_CASE("hekla chat answers line by line, as generate answers the same messages") {
    const Place place;
    write_files(place);
    succeed(place.run({"train", "chat.toml"}));
    const Arguments chat{"chat", "run", "--greedy", "--max-new-tokens", "40", "--context", "16"};
    const Ran talked = succeed(place.run(chat, "moon\nbye\n/save talk.json\n/new\ncat\n\n/quit\nsun\n"));
    CHECK(talked.out == "a moon\nbye bye\na cat\n");
    const json talk = json::parse(place.read("talk.json"));
    CHECK(talk == json{message("user", "moon"), message("assistant", "a moon"), message("user", "bye"),
                       message("assistant", "bye bye")});
    // It continues from what was saved, with another message of the system.
    const std::string more = "/system be brief\n/save more.json\nbye\n";
    const std::string after = succeed(place.run(joined(chat, {"--messages", "talk.json"}), more)).out;
    json asked = json::parse(place.read("more.json"));
    CHECK(asked.size() == 5);
    CHECK(asked[0] == message("system", "be brief"));
    asked.push_back(message("user", "bye"));
    place.write("asked.json", asked.dump());
    CHECK(after == succeed(place.run({"generate", "run", "--chat", "--greedy", "--max-new-tokens", "40", "--messages",
                                      "asked.json"}))
                       .out);
    // A line that continues, and a message that begins with a slash.
    succeed(place.run(chat, "sun\\\nmoon\n//bye\n/save lines.json\n"));
    const json lines = json::parse(place.read("lines.json"));
    CHECK(lines[0]["content"] == "sun\nmoon");
    CHECK(lines[2]["content"] == "/bye");
    // Without an adapter it answers as before.
    CHECK(succeed(place.run(chat, "moon\n/adapter\nmoon\n")).out.starts_with("a moon\n"));

    const auto refused = [&](const Arguments& arguments, const std::string& input) {
        const Ran ran = place.run(arguments, input);
        CHECK(ran.status == 1);
        return ran.err;
    };
    CHECK(has(refused(chat, "/sytem x\n"), "'/sytem' is not a command"));
    CHECK(has(refused(chat, "/save\n"), "/save needs the name of a file"));
    CHECK(has(refused(chat, "/adapter nowhere\nmoon\n"), "nowhere"));
    CHECK(has(refused({"chat", "nowhere"}, "moon\n"), "nowhere"));
    place.write("wrong.json", R"({"role": "user"})");
    CHECK(has(refused(joined(chat, {"--messages", "wrong.json"}), "moon\n"), "expected a list of messages"));
    CHECK(has(refused(joined(chat, {"--chat-template", "chatlm"}), "moon\n"), "'chatlm' is not a chat template"));
}

TEST_CASE("chat: data that cannot be used is one error with its line") {
    const Place place;
    write_files(place);
    const auto refused = [&](const std::string& line, const Arguments& more = {}) {
        place.write("bad.jsonl", line + "\n");
        const Ran ran = place.run(joined({"train", "chat.toml", "data.train=bad.jsonl", "data.valid=bad.jsonl"}, more));
        CHECK(ran.status == 1);
        return ran.err;
    };
    const std::string good = json{{"messages", {message("user", "a"), message("assistant", "b")}}}.dump();
    CHECK(has(refused(good + "\n" + json{{"messages", {message("user", "a")}}}.dump()),
              "bad.jsonl: line 2: \"messages\": the conversation has no message of the role \"assistant\""));
    CHECK(has(refused(R"({"messages": "hello"})"), "bad.jsonl: line 1: \"messages\" is a text, expected a list"));
    CHECK(has(refused(R"({"messages": [{"who": "human", "value": "x"}]})"), "messages with \"role\" and \"content\""));
    CHECK(has(refused(good, {"data.chat_template="}), "set data.chat_template to one of chatml"));
    CHECK(has(refused(good, {"data.chat_template=nothing"}), "'nothing' is not a chat template"));
    CHECK(has(refused(good, {"tokenizer.add=[]"}), "tokenizer.add = [\"<|im_end|>\"]"));
    CHECK(has(refused(good, {"data.prefix={messages=\"x\"}"}), "[data] prefix"));
    place.write("broken.jinja", "{% for m in messages %}\n{{ m.content | nonsense }}{% endfor %}");
    CHECK(has(refused(good, {"data.chat_template=broken.jinja"}), "line 2: there is no filter 'nonsense'"));
}

TEST_CASE("chat: preferences of messages, with their prompt or within them") {
    const Place place;
    write_files(place);
    const json user = message("user", "sun"), yes = message("assistant", "yes"), no = message("assistant", "no");
    std::string apart, whole;
    for (int i = 0; i < 16; ++i) {
        apart += json{{"prompt", json::array({user})}, {"chosen", json::array({yes})}, {"rejected", json::array({no})}}
                     .dump() +
                 "\n";
        whole += json{{"prompt", "sun"}, {"chosen", {user, yes}}, {"rejected", {user, no}}}.dump() + "\n";
    }
    place.write("apart.jsonl", apart);
    place.write("whole.jsonl", whole);
    const auto batches = [&](const std::string& file, const std::string& folder) {
        succeed(
            place.run({"batches", "chat.toml", "objective.id=orpo", "data.train=" + file, "data.valid=" + file,
                       "train.max_steps=1", "train.eval_steps=0", "output.dir=none", "--steps", "1", "-o", folder}));
        return place.read(folder + "/step-1.safetensors");
    };
    CHECK(batches("apart.jsonl", "first") == batches("whole.jsonl", "second")); // TRL's implicit prompt
    std::string alone; // a text before answers alone is what the user writes
    for (int i = 0; i < 16; ++i) alone += json{{"question", "sun"}, {"chosen", yes}, {"rejected", no}}.dump() + "\n";
    place.write("alone.jsonl", alone);
    CHECK(batches("alone.jsonl", "third") == batches("whole.jsonl", "fourth"));
    const auto refused = [&](const json& row) {
        place.write("bad.jsonl", row.dump() + "\n");
        const Ran ran =
            place.run({"train", "chat.toml", "objective.id=orpo", "data.train=bad.jsonl", "data.valid=bad.jsonl"});
        CHECK(ran.status == 1);
        return ran.err;
    };
    CHECK(has(refused({{"prompt", json::array({user})}, {"chosen", "yes"}, {"rejected", json::array({no})}}),
              "\"prompt\" has messages and \"chosen\" is a text"));
    CHECK(has(refused({{"prompt", "sun"}, {"chosen", {user, yes}}, {"rejected", {message("user", "moon"), no}}}),
              "do not begin like those of"));
    CHECK(has(refused({{"prompt", {user, yes}}, {"chosen", json::array({yes})}, {"rejected", json::array({no})}}),
              "the prompt ends with a message of the assistant"));
}

} // namespace chat_test
