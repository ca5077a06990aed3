// The command line without a device: what it prints, to which stream, and with which exit status.
#include "program.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

using hekla::test::has;
using hekla::test::Place;
using hekla::test::Ran;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

// Checks for a failure: exit status 1, one message, nothing on standard output.
void fails_with(const Ran& ran, std::initializer_list<const char*> parts) {
    CAPTURE(ran.out);
    CAPTURE(ran.err);
    CHECK(ran.status == 1);
    CHECK(ran.out.empty());
    CHECK(ran.err.starts_with("hekla: "));
    for (const char* part : parts) {
        CAPTURE(part);
        CHECK(has(ran.err, part));
    }
}

const char* const kPoem = "The quick brown fox jumps over the lazy dog.\nThe quick brown fox jumps over the lazy "
                          "dog.\nNa\xc3\xafve caf\xc3\xa9!\n";

std::string recipe(const std::string& model = "architecture = \"gpt2\"", const std::string& rest = "") {
    return "[model]\n" + model +
           "\nn_layer = 1\nn_head = 2\nn_embd = 8\nn_positions = 16\nvocab_size = 300\n[data]\ntrain = \"text.txt\"\n"
           "[train]\ncontext_length = 16\nper_device_train_batch_size = 2\n" +
           rest + "\n[output]\ndir = \"run\"\n";
}

} // namespace

TEST_CASE("every verb has help with an example") {
    const Place place;
    CHECK(has(place.run({"--version"}).out, "hekla 0.1.0"));
    const Ran first = place.run({}); // the most important verbs
    CHECK(first.status == 0);
    CHECK(first.err.empty());
    for (const char* verb : {"hekla train ", "hekla generate ", "hekla eval ", "hekla inspect ", "hekla doctor"})
        CHECK(has(first.out, verb));
    const Ran all = place.run({"--help"});
    CHECK(all.status == 0);
    const std::vector<std::vector<std::string>> verbs{{"train"},
                                                      {"eval"},
                                                      {"export"},
                                                      {"generate"},
                                                      {"inspect"},
                                                      {"doctor"},
                                                      {"describe"},
                                                      {"replay"},
                                                      {"batches"},
                                                      {"diff"},
                                                      {"tokenize", "train"},
                                                      {"tokenize", "encode"},
                                                      {"tokenize", "decode"},
                                                      {"tokenize", "inspect"},
                                                      {"tokenize", "add"},
                                                      {"tokenize", "speed"},
                                                      {"bench", "matmul"},
                                                      {"bench", "train"},
                                                      {"bench", "generate"},
                                                      {"plugin", "list"}};
    for (std::vector<std::string> verb : verbs) {
        CAPTURE(verb.back());
        CHECK(has(all.out, verb.front()));
        verb.push_back("--help");
        const Ran help = place.run(verb);
        CHECK(help.status == 0);
        CHECK(has(help.out, "Example"));
        CHECK(help.err.empty());
    }
}

TEST_CASE("wrong usage: exit status 2") {
    const Place place;
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"--verbose"},
                                               {"tran"},
                                               {"train"},
                                               {"tokenize"},
                                               {"tokenize", "train", "x", "-o", "y", "--kind", "subwords"},
                                               {"bench", "matmul", "--m", "0"},
                                               {"bench", "train", "no-such-case"},
                                               {"inspect", "x", "--graph", "png"},
                                               {"replay", "x"},
                                               {"replay", "x", "--step", "0"},
                                               {"--no-such-option", "devices"}}) {
        const Ran ran = place.run(arguments);
        CAPTURE(ran.err);
        CHECK(ran.status == 2);
        CHECK(!ran.err.empty());
        CHECK(ran.out.empty());
    }
}

TEST_CASE("a verb that does not exist is named, with the nearest one and those that exist") {
    const Place place;
    const auto error = [&](const std::vector<std::string>& arguments) {
        const Ran ran = place.run(arguments);
        CHECK(ran.status == 2);
        CHECK(ran.out.empty());
        return ran.err;
    };
    const std::string bench = "he verbs are matmul, train, generate, exchange\nSee: hekla bench --help\n";
    CHECK(error({"bench", "NOSUCH"}) == "hekla: error: 'hekla bench' has no verb 'NOSUCH'; t" + bench);
    CHECK(error({"bench", "--device", "0", "trian"}) ==
          "hekla: error: 'hekla bench' has no verb 'trian'; did you mean 'train'? T" + bench);
    CHECK(error({"bench"}) == "hekla: error: 'hekla bench' needs a verb: one of matmul, train, generate, "
                              "exchange\nSee: hekla bench --help\n");
    const std::string program = error({"trian"});
    CHECK(
        program.starts_with("hekla: error: 'hekla' has no verb 'trian'; did you mean 'train'? The verbs are train, "));
    CHECK(!has(program, ", reference")); // it is hidden
    CHECK(error({"plugin", "lst"}).starts_with("hekla: error: 'hekla plugin' has no verb 'lst'; did you mean 'list'?"));
    CHECK(error({"--verbose"}).starts_with("hekla: error: 'hekla' needs a verb: one of train, "));
}

TEST_CASE("the limits of plugins are options of one group") {
    const Place place;
    const std::string help = hekla::test::succeed(place.run({"--help"})).out;
    const std::size_t begin = help.find("\nLimits for plugin processes:\n");
    REQUIRE(begin != std::string::npos);
    const std::string group = help.substr(begin, help.find("\n\n", begin) - begin);
    for (const char* option : {"--plugin-seconds SECONDS", "--plugin-memory MIB"}) CHECK(has(group, option));
    CHECK(std::ranges::count(group, '-') >= 4);
    CHECK(!has(help, "describe-seconds"));
    for (const char* value : {"--plugin-seconds=0", "--plugin-memory=-1"})
        CHECK(place.run({value, "plugin", "list"}).status == 2);
}

TEST_CASE("wrong input is one error, before a device is created") {
    const Place place;
    place.write("bad.toml", "[train]\nlerning_rate = 1.0\n");
    place.write("no-data.toml", recipe());
    place.write("no-model.toml",
                "[model]\nfrom = \"no-model\"\n[data]\ntrain = \"text.txt\"\n[output]\ndir = \"run\"\n");
    place.write("text.txt", kPoem);
    place.write("empty/notes.md", "");
    struct Case {
        std::vector<std::string> arguments;
        const char* named; // expected in the error
    };
    const std::vector<Case> cases{{{"train", "missing.toml"}, "missing.toml"},
                                  {{"train", "bad.toml"}, "bad.toml:2"},
                                  {{"train", "no-model.toml"}, "no-model"},
                                  {{"train", "no-data.toml", "data.train=\"none.txt\""}, "none.txt"},
                                  {{"train", "--plan", "missing.toml"}, "missing.toml"},
                                  {{"train", "--seeds", "2", "missing.toml"}, "missing.toml"},
                                  {{"eval", "missing.toml"}, "missing.toml"},
                                  {{"eval", "bad.toml", "--seeds", "2"}, "bad.toml:2"},
                                  {{"eval", "no-model.toml"}, "no-model"},
                                  {{"batches", "missing.toml", "--steps", "1", "-o", "b"}, "missing.toml"},
                                  {{"batches", "no-model.toml", "--steps", "1", "-o", "b"}, "no-model"},
                                  {{"generate", "no-model", "--prompt", "a"}, "no-model"},
                                  {{"generate", "empty", "--prompt", "a"}, "empty"},
                                  {{"generate", "empty", "--prompt-file", "no-prompt"}, "no-prompt"},
                                  {{"predict", "no-model", "--text", "a"}, "no-model"},
                                  {{"predict", "empty", "--text", "a"}, "empty"},
                                  {{"embed", "no-model", "a"}, "no-model"},
                                  {{"embed", "empty", "--nearest", "a"}, "empty"},
                                  {{"embed", "empty", "--file", "no-texts"}, "no-texts"},
                                  {{"inspect", "missing.toml"}, "missing.toml"},
                                  {{"inspect", "bad.toml", "--memory", "text"}, "bad.toml:2"},
                                  {{"inspect", "empty", "--attention", "a"}, "empty"},
                                  {{"inspect", "empty", "--graph", "text"}, "empty"},
                                  {{"export", "no-model", "m.hekla"}, "no-model"},
                                  {{"convert", "no-model", "to"}, "no-model"},
                                  {{"verify", "no-fixture"}, "no-fixture"},
                                  {{"verify", "empty"}, "empty"},
                                  {{"replay", "no-run", "--step", "1"}, "no-run"},
                                  {{"replay", "empty", "--step", "1"}, "empty"},
                                  {{"diff", "no-run", "empty"}, "no-run"},
                                  {{"replay-calls", "no-calls"}, "no-calls"},
                                  {{"describe", "no-architecture"}, "no-architecture"},
                                  {{"tokenize", "encode", "no-tokenizer", "--text", "a"}, "no-tokenizer"}};
    for (const Case& one : cases) {
        CAPTURE(one.arguments);
        const Ran ran = place.run(one.arguments);
        CAPTURE(ran.err);
        CHECK(ran.status == 1);
        CHECK(ran.out.empty());
        CHECK(ran.err.starts_with("hekla: error: "));
        CHECK(std::ranges::count(ran.err, '\n') == 1);
        CHECK(has(ran.err, one.named));
        CHECK(!has(ran.err, "GPU"));
    }
    CHECK(!place.exists("run"));
}

TEST_CASE("standard output that cannot be written is an error") {
    const Place place;
    place.write("text.txt", kPoem);
    hekla::test::succeed(place.run({"tokenize", "train", "text.txt", "--kind", "char", "-o", "t"}));
    place.write("graph.txt",
                hekla::test::succeed(place.run({"describe", "gpt2", "--set", "n_layer=1", "--set", "n_embd=8", "--set",
                                                "n_head=2", "--set", "vocab_size=50", "--set", "n_positions=16"}))
                    .out);
    const std::vector<std::vector<std::string>> verbs{
        {},
        {"--help"},
        {"--version"},
        {"train", "--help"},
        {"devices"},
        {"devices", "--json"},
        {"doctor"},
        {"describe", "gpt2"},
        {"inspect", "graph.txt"},
        {"inspect", "graph.txt", "--graph", "svg"},
        {"plugin", "list"},
        {"plugin", "list", "--json"},
        {"tokenize", "train", "text.txt", "--kind", "char", "-o", "t"},
        {"tokenize", "encode", "t", "--text", "fox"},
        {"tokenize", "encode", "t", "--text", "fox", "--json"},
        {"tokenize", "decode", "t", "1", "2"},
        {"tokenize", "inspect", "t"},
        {"tokenize", "speed", "t", "text.txt", "--seconds", "0"},
        {"completion", "bash"},
        {"bench", "matmul", "--m", "8", "--n", "8", "--k", "8", "--seconds", "0"}};
    for (const std::vector<std::string>& verb : verbs)
        for (const char* output : {"/dev/full", ""}) {
            CAPTURE(verb);
            CAPTURE(output);
            const Ran ran = place.run_into(output, verb);
            CAPTURE(ran.err);
            CHECK(ran.status == 1);
            CHECK(has(ran.err, "hekla: error: cannot write to standard output"));
            CHECK(ran.err.find("error:") == ran.err.rfind("error:"));
        }
    CHECK(place.run_into("", {"inspect", "graph.txt", "-o", "summary"}).status == 0); // without output nothing can fail
}

TEST_CASE("docs/cli.md and the manual page are generated from the program's options") {
    const Place place;
    const Ran reference = hekla::test::succeed(place.run({"reference", "markdown"}));
    std::ifstream file(std::string(HEKLA_SOURCE_DIR) + "/docs/cli.md");
    const std::string committed{std::istreambuf_iterator<char>(file), {}};
    const std::size_t same =
        static_cast<std::size_t>(std::ranges::mismatch(committed, reference.out).in1 - committed.begin());
    CHECK_MESSAGE(committed == reference.out,
                  "docs/cli.md differs; run: build/bin/hekla reference markdown > docs/cli.md\n"
                      << reference.out.substr(std::min(same, reference.out.size()), 200));
    const std::string manual = hekla::test::succeed(place.run({"reference", "man"})).out;
    for (const char* part : {".TH HEKLA 1", ".SH EXIT STATUS", "hekla tokenize train", "\\-\\-max\\-new\\-tokens"})
        CHECK(has(manual, part));
    place.write("hekla.1", manual);
    if (std::system("command -v man >/dev/null && command -v groff >/dev/null") == 0)
        CHECK(std::system(("test -z \"$(man --warnings -E UTF-8 -l -Tutf8 " + place.path("hekla.1").string() +
                           " 2>&1 >/dev/null)\"")
                              .c_str()) == 0);
}

// The words of a command line without expansions.
std::vector<std::string> words_of(const std::string& line) {
    std::vector<std::string> words;
    bool open = true;
    char quote = 0;
    for (const char c : line) {
        if (quote == 0 && c == ' ') {
            open = true;
            continue;
        }
        if (open) words.emplace_back();
        open = false;
        if (c == quote || (quote == 0 && (c == '"' || c == '\''))) {
            quote = quote == 0 ? c : 0;
        } else {
            words.back() += c;
        }
    }
    return words;
}

TEST_CASE("every verb of the reference has an example, and the examples are right usage") {
    const Place place;
    std::istringstream lines(hekla::test::succeed(place.run({"reference", "markdown"})).out);
    std::map<std::string, int> examples; // by verb; -1: a verb of verbs
    std::string verb;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("## hekla ")) examples[verb = line.substr(3)] = 0;
        if (line.starts_with("    " + verb + " ") && has(line, " VERB ...")) examples[verb] = -1;
        if (!line.starts_with("hekla ")) continue;
        CAPTURE(line);
        if (examples[verb] >= 0) ++examples[verb];
        std::vector<std::string> words = words_of(line.substr(0, line.find(" > ")));
        words.erase(words.begin());
        // All but this option must be accepted: the error for it comes last.
        words.insert(std::ranges::find(words, "--"), "--no-such-option");
        const Ran ran = place.run(words);
        CHECK(ran.status == 2);
        const std::string first = ran.err.substr(0, ran.err.find('\n') + 1); // an example may be of another verb
        CHECK(first.starts_with("hekla: error: 'hekla "));
        CHECK(first.ends_with("' does not expect '--no-such-option'\n"));
    }
    CHECK(examples.size() > 20);
    for (const auto& [name, count] : examples) CHECK_MESSAGE(count != 0, name);
}

TEST_CASE("a misspelled option gets the nearest one, `help VERB` is that verb's help, and a closed pipe is silent") {
    const Place place;
    const auto error = [&](const std::vector<std::string>& words) {
        const Ran ran = place.run(words);
        CHECK(ran.status == 2);
        return ran.err;
    };
    CHECK(error({"train", "--hlp"}) == "hekla: error: 'hekla train' has no option '--hlp'; did you mean '--help'?\n"
                                       "See: hekla train --help\n");
    CHECK(error({"generate", "out", "--promt=x", "--seeds", "1"}) ==
          "hekla: error: 'hekla generate' has no option '--promt'; did you mean '--prompt'?\n"
          "See: hekla generate --help\n");
    CHECK(error({"generate", "out", "--foo", "1", "--bar", "2"}) ==
          "hekla: error: 'hekla generate' does not expect '--foo 1 --bar 2'\nSee: hekla generate --help\n");
    CHECK(has(error({"train"}), "hekla: error: 'hekla train': recipe is required\nSee: hekla train --help\n"));
    CHECK(hekla::test::succeed(place.run({"help", "train"})).out ==
          hekla::test::succeed(place.run({"train", "--help"})).out);
    CHECK(hekla::test::succeed(place.run({"help"})).out == hekla::test::succeed(place.run({"--help"})).out);
    for (const char* words : {"--help", "reference markdown", "recipe keys"}) {
        const std::string command =
            fmt::format("'{}' {} 2>error | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}", HEKLA_PROGRAM, words);
        place.write("pipe.sh", command);
        CHECK(std::system(("cd '" + place.path("").string() + "' && bash pipe.sh").c_str()) == 0);
        CHECK(place.read("error") == "");
    }
}

TEST_CASE("without a Vulkan driver each verb says what to install, and train before it trains a tokenizer") {
    const Place place;
    place.write("text.txt", "some text\n");
    place.write("r.toml", "model.architecture = \"gpt2\"\ndata.train = \"text.txt\"\ntokenizer.kind = \"char\"\n"
                          "output.dir = \"out\"\n");
    for (const char* words : {"devices", "doctor", "train r.toml"}) {
        CAPTURE(words);
        place.write("run.sh", fmt::format("export VK_DRIVER_FILES=/nowhere VK_ICD_FILENAMES=/nowhere\n"
                                          "'{}' {} >all 2>&1; echo \"status $?\" >>all",
                                          HEKLA_PROGRAM, words));
        CHECK(std::system(("cd '" + place.path("").string() + "' && bash run.sh").c_str()) == 0);
        const std::string all = place.read("all");
        CAPTURE(all);
        CHECK(has(all, "Mesa's drivers, for AMD, Intel and any CPU"));
        CHECK(has(all, "status 1"));
        CHECK(!has(all, "training a tokenizer"));
    }
}

// Returns the shell's completions for a command line whose last word is being typed.
std::vector<std::string> completed(const Place& place, std::vector<std::string> words) {
    std::string list;
    for (const std::string& word : words) list += " '" + word + "'";
    place.write("complete.sh", "source ./hekla.bash\nCOMP_WORDS=(" + list +
                                   ")\nCOMP_CWORD=" + std::to_string(words.size() - 1) +
                                   "\n_hekla\nprintf '%s\\n' \"${COMPREPLY[@]}\" > found\n");
    REQUIRE(std::system(("cd '" + place.path("").string() + "' && bash complete.sh").c_str()) == 0);
    std::istringstream found(place.read("found"));
    std::vector<std::string> all;
    for (std::string line; std::getline(found, line);)
        if (!line.empty()) all.push_back(line);
    std::ranges::sort(all);
    return all;
}

TEST_CASE("bash completes verbs, options, values, files and recipe keys") {
    using Words = std::vector<std::string>;
    const Place place;
    place.write("hekla.bash", hekla::test::succeed(place.run({"completion", "bash"})).out);
    place.write("small.toml", "");
    place.write("small.txt", "");
    place.write("out/run", "");
    CHECK(completed(place, {"hekla", "tr"}) == Words{"train"});
    CHECK(completed(place, {"hekla", "tokenize", "e"}) == Words{"encode"});
    CHECK(completed(place, {"hekla", "--device", "0", "tokenize", "de"}) == Words{"decode"});
    CHECK(completed(place, {"hekla", "train", "--pl"}) ==
          Words{"--plan", "--plan-for", "--plugin-memory", "--plugin-path", "--plugin-seconds"});
    CHECK(completed(place, {"hekla", "train", "--plan-for", ""}) == Words{"cpu", "desktop", "mobile"});
    CHECK(completed(place, {"hekla", "train", "--plan-for", "=", "d"}) == Words{"desktop"});
    CHECK(completed(place, {"hekla", "--measure-kernels", "g"}) == Words{"gpus"});
    CHECK(completed(place, {"hekla", "tokenize", "train", "--kind", "w"}) == Words{"wordpiece", "words"});
    CHECK(completed(place, {"hekla", "train", "small"}) == Words{"small.toml"});
    CHECK(completed(place, {"hekla", "generate", "sma"}) == Words{"small.toml", "small.txt"});
    CHECK(completed(place, {"hekla", "replay", "o"}) == Words{"out"});
    CHECK(completed(place, {"hekla", "train", "small.toml", "train.max_st"}) == Words{"train.max_steps="});
    CHECK(completed(place, {"hekla", "eval", "small.toml", "train.seed", "=", "1", "train.max_st"}) ==
          Words{"train.max_steps="});
    CHECK(completed(place, {"hekla", "train", "small.toml", "train.seed", "=", "1"}).empty());
    CHECK(completed(place, {"hekla", "bench", "train", "gpt2-124m-"}) == Words{"gpt2-124m-short"});
    CHECK(completed(place, {"hekla", "completion", ""}) == Words{"bash", "fish", "zsh"});
    for (const char* shell : {"zsh", "fish"}) {
        const std::string script = hekla::test::succeed(place.run({"completion", shell})).out;
        place.write("script", script);
        CHECK(has(script, "train.max_steps"));
        if (std::system((std::string("command -v ") + shell + " >/dev/null").c_str()) == 0)
            CHECK(std::system((std::string(shell) + " -n '" + place.path("script").string() + "'").c_str()) == 0);
        if (shell == std::string("fish") && std::system("command -v fish >/dev/null") == 0) {
            const std::string folder = place.path("").string();
            CHECK(std::system(("cd '" + folder +
                               "' && fish -c 'source script; complete -C \"hekla --device 0 tokenize e\"' > found 2>&1")
                                  .c_str()) == 0);
            CHECK(place.read("found") == "encode\tConvert text to token ids\n");
        }
    }
}

TEST_CASE("tokenize: a folder is replaced when the new tokenizer is complete, and leftovers are removed") {
    const Place place;
    place.write("text.txt", kPoem);
    hekla::test::succeed(place.run({"tokenize", "train", "text.txt", "--kind", "char", "-o", "t"}));
    const std::string before = place.read("t/tokenizer.json");
    place.write("t/notes.txt", "mine");
    place.write("t.tmp-abcdef/tokenizer.json", "{"); // left by a killed run
    place.write("latin.txt", "na\xefve\n");
    fails_with(place.run({"tokenize", "train", "latin.txt", "--kind", "char", "-o", "t"}), {"latin.txt"});
    CHECK(place.read("t/tokenizer.json") == before);
    place.write("more.txt", "another text, 0123456789\n");
    hekla::test::succeed(place.run({"tokenize", "train", "more.txt", "--kind", "char", "-o", "t/"}));
    CHECK(place.read("t/tokenizer.json") != before);
    CHECK(!place.exists("t/notes.txt")); // the new folder replaced the old one, and is not a mixture
    CHECK(!place.exists("t.tmp-abcdef"));
}

TEST_CASE("tokenize: every kind trains, takes special tokens, and measures its speed") {
    const Place place;
    place.write("text.txt", kPoem);
    for (const char* kind : {"bpe", "wordpiece", "unigram", "sentencepiece-bpe", "words", "char"}) {
        CAPTURE(kind);
        const Ran trained =
            place.run({"tokenize", "train", "text.txt", "--kind", kind, "--vocab-size", "280", "-o", kind, "--json"});
        CAPTURE(trained.err);
        REQUIRE(trained.status == 0);
        const int size = json::parse(trained.out)["vocabulary_size"].get<int>();
        const std::string larger = std::string(kind) + "-pairs";
        const Ran added =
            place.run({"tokenize", "add", kind, "-t", "[DELIM]", "-t", "[EXTRACT]", "-o", larger, "--json"});
        CAPTURE(added.err);
        REQUIRE(added.status == 0);
        CHECK(json::parse(added.out)["vocabulary_size"].get<int>() == size + 2);
        const json j = json::parse(place.run({"tokenize", "encode", larger, "--text", "fox[DELIM]fox", "--json"}).out);
        CHECK(std::ranges::count(j["ids"], json(size)) == 1);
        const json speed =
            json::parse(place.run({"tokenize", "speed", kind, "text.txt", "--seconds", "0", "--json"}).out);
        CHECK(speed["megabytes_per_second"].get<double>() > 0.0);
    }
    fails_with(place.run({"tokenize", "train", "text.txt", "--kind", "wordpiece", "--vocab-size", "6", "-o", "small"}),
               {"need at least"});
}

TEST_CASE("tokenize: text to ids and back") {
    const Place place;
    place.write("text.txt", kPoem);
    for (const char* kind : {"bpe", "char"}) {
        CAPTURE(kind);
        const std::string folder = std::string("tokenizer-") + kind;
        const Ran trained =
            place.run({"tokenize", "train", "text.txt", "--kind", kind, "--vocab-size", "300", "-o", folder, "--json"});
        CAPTURE(trained.err);
        REQUIRE(trained.status == 0);
        CHECK(json::parse(trained.out)["vocabulary_size"].get<int>() > 20);
        CHECK(place.exists(folder + "/tokenizer.json"));

        const Ran ids = place.run({"tokenize", "encode", folder, "text.txt"});
        REQUIRE(ids.status == 0);
        CHECK(place.run({"tokenize", "decode", folder}, ids.out).out == kPoem);
        CHECK(place.run({"tokenize", "encode", folder}, kPoem).out == ids.out); // from standard input

        const Ran encoded = place.run({"tokenize", "encode", folder, "--text", "The fox", "--json"});
        REQUIRE(encoded.status == 0);
        const json j = json::parse(encoded.out);
        CHECK(j["ids"].size() == j["tokens"].size());
        CHECK(j["bytes"].back()[1] == 7);
        CHECK(json::parse(place.run({"tokenize", "decode", folder, j["ids"].dump(), "--json"}).out)["text"] ==
              "The fox");

        const json about = json::parse(place.run({"tokenize", "inspect", folder, "text.txt", "--json"}).out);
        CHECK(about["vocabulary_size"] == json::parse(trained.out)["vocabulary_size"]);
        CHECK(about["text"]["bytes"].get<std::size_t>() == std::strlen(kPoem));
        CHECK(about["special"].size() == (std::string(kind) == "bpe" ? 1 : 0));
        fails_with(place.run({"tokenize", "decode", folder, "99999"}), {"token 99999 does not exist"});
        fails_with(place.run({"tokenize", "decode", folder, "12a"}), {"'12a' is not a token id"});
    }
    fails_with(place.run({"tokenize", "encode", "tokenizer-char", "--text", "@"}), {"--text"});
}

TEST_CASE("tokenize: input that cannot be used leaves no files") {
    const Place place;
    place.write("empty.txt", "");
    place.write("latin.txt", "first line\nna\xefve\n");
    fails_with(place.run({"tokenize", "train", "missing.txt", "-o", "t"}), {"missing.txt"});
    fails_with(place.run({"tokenize", "train", "empty.txt", "-o", "t"}), {});
    fails_with(place.run({"tokenize", "train", "latin.txt", "-o", "t"}), {"latin.txt", "line 2", "byte offset 13"});
    CHECK(!place.exists("t"));
    place.write("file", "");
    fails_with(place.run({"tokenize", "train", "latin.txt", "-o", "file"}), {"file is not a folder"});
    fails_with(place.run({"tokenize", "inspect", "no-folder"}), {"no-folder"});
}

TEST_CASE("JSON nested 100,000 deep is one error in every file that is read") {
    const Place place;
    const std::string arrays = std::string(100'000, '[') + std::string(100'000, ']');
    std::string steps;
    for (int i = 0; i < 50'000; ++i) steps += R"({"type":"Sequence","normalizers":[)";
    steps += R"({"type":"Lowercase"})";
    for (int i = 0; i < 50'000; ++i) steps += "]}";
    place.write("t/tokenizer.json",
                R"({"normalizer":)" + steps + R"(,"model":{"type":"Unigram","unk_id":0,"vocab":[["a",0.0]]}})");
    fails_with(place.run({"tokenize", "encode", "t", "--text", "a"}),
               {"t/tokenizer.json: line 1", "nested deeper than 64"});
    place.write("m/config.json", R"({"model_type":)" + arrays + "}");
    fails_with(place.run({"inspect", "m"}), {"m/config.json: line 1", "nested deeper than 64"});
    fails_with(place.run({"generate", "m", "--prompt", "a"}), {"m/config.json: line 1", "nested deeper than 64"});
    place.write("p/bad.json", R"({"plugin": "p", "provides": [{"parameters": [{"default": )" + arrays + "}]}]}");
    const Ran listed = place.run({"--plugin-path", "p", "plugin", "list"});
    CHECK(listed.status < 128); // only a warning: the other plugins are listed
    CHECK(has(listed.err, "p/bad.json: line 1"));
    CHECK(has(listed.err, "nested deeper than 64"));
}

TEST_CASE("plugin new of a program that is not installed names an installation, and how it is made") {
    const Place place;
    const std::string build = fs::path(HEKLA_PROGRAM).parent_path().parent_path().string();
    for (const char* language : {"cpp", "rust"}) {
        const std::string folder = std::string("mine-") + language;
        const std::string out = hekla::test::succeed(place.run({"plugin", "new", "--kind", "head", "--lang", language,
                                                                "mine", "-o", folder}))
                                    .out;
        CHECK(has(out, "cmake --install " + build + " --prefix /opt/hekla\n"));
        for (const auto& file : fs::recursive_directory_iterator(place.path(folder)))
            if (file.is_regular_file())
                CHECK_MESSAGE(!has(place.read(fs::relative(file.path(), place.path("")).string()), build),
                              file.path().string());
        CHECK(has(place.read(folder + "/ci.sh"), "HEKLA:=/opt/hekla}"));
    }
}

TEST_CASE("plugin list only reads manifests") {
    const Place place;
    const Ran listed = place.run({"plugin", "list", "--json"});
    REQUIRE(listed.status == 0);
    bool gpt2 = false;
    for (const json& plugin : json::parse(listed.out))
        for (const json& offer : plugin["provides"])
            gpt2 = gpt2 || (offer["interface"] == "hekla.architecture/1" && offer["id"] == "gpt2");
    CHECK(gpt2);
    // A library that cannot be loaded does not matter here; its path is printed.
    place.write("mine/broken.so", "this is no library");
    place.write("mine/broken.json",
                R"({"plugin": "broken", "library": "broken.so", "version": "1.0.0", "licence": "MIT", "abi_major": 1,
        "abi_minor_needed": 0, "provides": [{"interface": "hekla.objective/1", "id": "broken", "about": "nothing", "parameters": []}]})");
    const Ran mine = place.run({"--plugin-path", "mine", "plugin", "list"});
    CHECK(mine.status == 0);
    CHECK(has(mine.out, "broken.so"));
    fails_with(place.run({"--plugin-path", "mine", "describe", "gpt2", "--head", "lm", "--objective", "broken"}),
               {"broken"});
}

TEST_CASE("describe: a graph as text that can be parsed again") {
    const Place place;
    const std::vector<std::string> small{"--set",    "n_layer=1", "--set",         "n_embd=8", "--set",
                                         "n_head=2", "--set",     "vocab_size=50", "--set",    "n_positions=16"};
    const auto describe = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"describe"});
        more.insert(more.end(), small.begin(), small.end());
        return place.run(more);
    };
    const Ran text = describe({"gpt2", "--head", "lm", "--objective", "clm", "--batch", "2", "--length", "4"});
    CAPTURE(text.err);
    REQUIRE(text.status == 0);
    CHECK(text.out.starts_with("hekla graph 1\n"));
    CHECK(has(text.out, "loss \"clm\""));
    // The object that a training writes into a folder's config.json is not a key of the architecture.
    place.write("config.json", R"({"model_type": "gpt2", "hekla": {"architecture": "gpt2", "head": "lm"}})");
    CHECK(describe({"gpt2", "--config", "config.json", "--head", "lm", "--objective", "clm", "--batch", "2", "--length",
                    "4"})
              .out == text.out);
    place.write("graph.txt", text.out);
    CHECK(place.run({"inspect", "graph.txt", "--graph", "text"}).out == text.out);
    CHECK(has(place.run({"inspect", "graph.txt", "--graph", "svg"}).out, "<svg"));
    const json summary = json::parse(place.run({"inspect", "graph.txt", "--json"}).out);
    CHECK(summary["parameters"] ==
          50 * 8 + 16 * 8 + 2 * 2 * 8 + 8 * 24 + 24 + 8 * 8 + 8 + 8 * 32 + 32 + 32 * 8 + 8 + 2 * 8);
    CHECK(has(describe({"gpt2", "--head", "lm", "--objective", "clm", "--backward"}).out, "output \"grad."));
    CHECK(place.run({"inspect", "graph.txt", "--graph", "svg", "-o", "graph.svg"}).out.empty());
    CHECK(has(place.read("graph.svg"), "<svg"));

    fails_with(describe({"gpt3"}), {"gpt3", "gpt2"});
    fails_with(describe({"gpt2", "--set", "n_layr=2"}), {"n_layr", "did you mean 'n_layer'?"});
    fails_with(describe({"gpt2", "--objective", "clm", "--field", "input_ids:int64:2x4"}), {"int64"});
    fails_with(describe({"gpt2", "--field", "input_ids:int32:2y4"}), {"NAME:KIND:SIZES"});
    fails_with(describe({"gpt2", "--config", "nothing.json"}), {"nothing.json"});
    place.write("cut.txt", text.out.substr(0, text.out.size() / 2));
    fails_with(place.run({"inspect", "cut.txt"}), {"cut.txt"});
}

TEST_CASE("describe: long constants are shortened on standard output, but not in a file") {
    const Place place;
    const std::string shortened = hekla::test::succeed(place.run({"describe", "xlnet"})).out;
    const std::string whole = hekla::test::succeed(place.run({"describe", "xlnet", "--full"})).out;
    CHECK(has(shortened, " numbers]"));
    CHECK(!has(whole, " numbers]"));
    CHECK(shortened.size() * 4 < whole.size());
    CHECK(std::ranges::count(shortened, '\n') == std::ranges::count(whole, '\n'));
    hekla::test::succeed(place.run({"describe", "xlnet", "-o", "graph.txt"}));
    CHECK(place.read("graph.txt") == whole);
    CHECK(place.run({"inspect", "graph.txt", "--graph", "text"}).out == whole);
}

TEST_CASE("inspect: PyTorch files are read as data") {
    const Place place;
    const std::string folder = std::string(HEKLA_SOURCE_DIR) + "/tests/fixtures/pytorch/";
    for (const char* name : {"zip.bin", "legacy.bin"}) {
        const json shown = json::parse(place.run({"inspect", folder + name, "--json"}).out);
        CHECK(shown["kind"] == "tensors");
        CHECK(!shown["tensors"].empty());
        CHECK(shown["tensors"][0].contains("shape"));
    }
    fails_with(place.run({"inspect", folder + "runs_code.bin"}), {"runs_code.bin", "would run code: refused"});
}

TEST_CASE("inspect: files of the wrong kind or with damage") {
    const Place place;
    const std::string header =
        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"I32","shape":[1,1],"data_offsets":[8,12]}})";
    std::string good(8, '\0');
    good[0] = static_cast<char>(header.size());
    good += header + std::string(12, '\0');
    place.write("good.safetensors", good);
    const json j = json::parse(place.run({"inspect", "good.safetensors", "--json"}).out);
    CHECK(j["numbers"] == 3);
    CHECK(j["tensors"][0]["name"] == "a");
    CHECK(j["tensors"][1]["shape"] == json::array({1, 1}));
    place.write("short.safetensors", good.substr(0, good.size() - 1));
    fails_with(place.run({"inspect", "short.safetensors"}), {"short.safetensors"});
    place.write("what.txt", "what is this");
    fails_with(place.run({"inspect", "what.txt"}), {"what.txt", ".safetensors"});
    fails_with(place.run({"inspect", "nothing"}), {"nothing", "is not a folder"});
    place.write("folder/notes.md", "");
    fails_with(place.run({"inspect", "folder"}), {"not a run, a checkpoint or a model"});
    fails_with(place.run({"replay", "folder", "--step", "1"}), {"folder", "no recipe.toml"});
    fails_with(place.run({"diff", "folder", "folder"}), {"folder", "no recipe.toml"});
}

TEST_CASE("inspect: valid and invalid recipes") {
    const Place place;
    const auto inspect = [&](const std::string& content) {
        place.write("r.toml", content);
        return place.run({"inspect", "r.toml", "--graph", "text"});
    };
    const Ran good = inspect(recipe());
    CAPTURE(good.err);
    CHECK(good.status == 0);
    CHECK(has(good.out, "shape=[2, 16]"));
    fails_with(inspect(recipe("architecture = \"gpt2\"", "lerning_rate = 1.0")),
               {"r.toml:", "lerning_rate", "did you mean 'learning_rate'?"});
    fails_with(inspect(recipe("architecture = \"gpt2\"", "max_steps = \"many\"")),
               {"r.toml:", "train.max_steps", "expected an integer"});
    fails_with(inspect(recipe("architecture = \"gpt2\"\nn_layers = 2")), {"n_layers", "did you mean 'n_layer'?"});
    fails_with(inspect(recipe("architecture = \"gpt\"\nn_head = 3\nn_head = 4")), {"r.toml:"});
    place.write("r.toml", recipe());
    const auto overridden = [&](const std::string& text) { return place.run({"inspect", "r.toml", text}); };
    fails_with(overridden("train.max_steps=many"),
               {"override 'train.max_steps=many': train.max_steps: is \"many\", expected an integer"});
    fails_with(overridden("train.lerning_rate=1.0"),
               {"override 'train.lerning_rate=1.0': [train] has no key 'lerning_rate'; did you mean 'learning_rate'?"});
    fails_with(overridden("trian.max_steps=1"),
               {"override 'trian.max_steps=1': there is no section [trian]; did you mean [train]?"});
    fails_with(inspect("[modle]\n"), {"[modle]", "did you mean [model]?"});
    fails_with(inspect(recipe() + "[train\n"), {"r.toml:"});
    CHECK(!place.exists("run"));
}

TEST_CASE("all recipes in the repository are valid") {
    const Place place;
    const std::string folder = std::string(HEKLA_SOURCE_DIR) + "/apps/recipes/";
    const auto graph_of = [&](const std::string& name, std::vector<std::string> overrides) {
        overrides.insert(overrides.begin(),
                         {"inspect", folder + name, "--json", "output.dir=\"" + place.path("none").string() + "\""});
        const Ran ran = place.run_in(HEKLA_SOURCE_DIR, overrides);
        CAPTURE(ran.err);
        REQUIRE(ran.status == 0);
        return json::parse(ran.out);
    };
    CHECK(graph_of("shakespeare-char-cpu.toml", {"model.vocab_size=65"})["parameters"] == 809'856);
    CHECK(graph_of("shakespeare-char.toml", {"model.vocab_size=65"})["parameters"] == 10'770'816);
    CHECK(graph_of("gpt2-124m.toml", {"tokenizer.from=\"\"", "tokenizer.kind=\"char\"",
                                      "model.vocab_size=50257"})["parameters"] == 124'439'808);
    CHECK(graph_of("quickstart.toml", {})["parameters"] == 932'608);
    CHECK(graph_of("ladder-model.toml", {"data.train=README.md", "data.valid=README.md", "tokenizer.kind=\"char\"",
                                         "model.vocab_size=257"})["parameters"] == 61'760);
    for (const auto& [name, parameters] : std::map<std::string, int>{{"bert-mlm.toml", 1'858'752},
                                                                     {"bilm.toml", 2'584'384},
                                                                     {"flaubert.toml", 1'841'728},
                                                                     {"gpt.toml", 1'833'472},
                                                                     {"skip-gram.toml", 1'616'000},
                                                                     {"xlnet.toml", 1'891'264}})
        CHECK_MESSAGE(graph_of(name, {"data.train=README.md", "data.valid=README.md", "tokenizer.from=\"\"",
                                      "tokenizer.kind=\"char\"", "model.vocab_size=8000"})["parameters"] == parameters,
                      name);
}
