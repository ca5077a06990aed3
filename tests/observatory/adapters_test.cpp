// The adapters of the Observatory: opened, chosen, mixed while a text is written, and compared; where combiners weigh.
#include "failure.hpp"
#include "models/adapter_writing.hpp"
#include "models/model.hpp"
#include "models/word_difference.hpp"
#include "support/test_folder.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <thread>

namespace fs = std::filesystem;
using namespace observatory;

namespace {

constexpr int64_t kTokens = 24;

// A trained body, and adapters of it, in a temporary folder.
class Folders {
public:
    std::string at(const std::string& name) const { return (root_ / name).string(); }
    void train(hk::Context& context, const std::string& out, const std::string& text,
               std::vector<std::string> more) const {
        {
            std::ofstream file(root_ / (out + ".txt"));
            file << "line 1 of the text, and some more\n"; // every character: the tokenizer is the body's
            for (int i = 0; i < 100; ++i) file << text;
            std::ofstream(root_ / "recipe.toml")
                << "[model]\narchitecture = \"gpt2\"\nn_embd = 32\nn_layer = 2\nn_head = 2\nn_positions = 512\n"
                   "[objective]\nid = \"clm\"\n[head]\nid = \"lm\"\n[tokenizer]\nkind = \"char\"\n[train]\n"
                   "max_steps = 60\nlearning_rate = 2e-2\ncontext_length = 32\nper_device_train_batch_size = 4\n"
                   "save_steps = 0\neval_steps = 0\n";
        }
        more.push_back("data.train=" + at(out + ".txt"));
        more.push_back("output.dir=" + at(out));
        std::vector<hk_string> overrides;
        for (const std::string& one : more) overrides.push_back(hk::view(one));
        const std::string recipe = at("recipe.toml");
        hk_train_options options{};
        options.struct_size = sizeof options;
        options.recipe = hk::view(recipe);
        options.overrides = overrides.data();
        options.override_count = overrides.size();
        hk::Error error;
        const bool trained = error.take(hk_train(context.c(), &options, nullptr, error.c()));
        REQUIRE_MESSAGE(trained, error.message());
    }

private:
    hekla::test::TestFolder root_;
};

struct App {
    App() : device({"", false, nullptr}), engine(device, {{HEKLA_PLUGIN_FOLDER}, ""}) {
        const auto train = [&](const char* out, const char* text, std::vector<std::string> more) {
            folders.train(engine.cpp_context(), out, text, std::move(more));
        };
        const std::string from = "model.from=" + folders.at("body"), all = "adapter.target_modules=\"all-linear\"";
        train("body", "line 1 of the text, and some more\n", {});
        train("a", "line line line of text\n", {from, all, "adapter.id=lora", "adapter.r=2"});
        train("b", "line 1 and more and more\n", {from, all, "adapter.id=lora", "adapter.r=5"});
        train("small", "some text, some text\n", {from, "adapter.id=ia3"});
        train("other", "more of the text\n", {"train.seed=9", "train.max_steps=2"});
        fs::copy(folders.at("a"), folders.at("broken"), fs::copy_options::recursive);
        fs::resize_file(folders.at("broken") + "/model.safetensors", 100);
    }
    ~App() {
        engine.jobs().drain();
        device.wait_idle();
    }
    App(const App&) = delete;
    App& operator=(const App&) = delete;
    // Runs frames until `done` returns true.
    void frames(const std::function<bool()>& done, double budget = 1e6) {
        engine.budget = budget;
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
        while (!done()) {
            REQUIRE(std::chrono::steady_clock::now() < end);
            engine.advance(VK_NULL_HANDLE, hk_timeline{0, ++frame});
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
    }
    void opened(Adapters& adapters) {
        frames([&] {
            adapters.update();
            return !adapters.is_opening();
        });
    }
    void written(AdapterWriting& writing) {
        frames([&] {
            writing.update();
            return writing.state() == AdapterWriting::State::done || !writing.problem().empty();
        });
        REQUIRE_MESSAGE(writing.problem().empty(), writing.problem());
    }
    // Returns what the body writes with adapters "NAME=FOLDER:SCALE", all of which act, without the Observatory.
    std::string expected(const std::string& prompt, int64_t tokens, const std::vector<std::string>& adapters) {
        std::string text;
        const std::string model = folders.at("body");
        const hk_string prompt_view = hk::view(prompt);
        std::vector<hk_string> uses;
        for (const std::string& one : adapters) uses.push_back(hk::view(one));
        hk_generate_options options{};
        hk_generate_defaults(&options);
        options.model = hk::view(model);
        options.prompts = &prompt_view;
        options.prompt_count = 1;
        options.max_new_tokens = tokens;
        options.greedy = 1;
        options.adapters = uses.data();
        options.adapter_count = uses.size();
        options.user = &text;
        options.text = [](void* user, uint64_t, hk_string piece) {
            static_cast<std::string*>(user)->append(hk::view(piece));
        };
        hk::Error error;
        const bool done = error.take(hk_generate(engine.context(), &options, nullptr, error.c()));
        REQUIRE_MESSAGE(done, error.message());
        return text;
    }
    AdapterWritingOptions options(std::vector<AdapterUse> rows, int64_t tokens = kTokens) const {
        AdapterWritingOptions options;
        options.model = folders.at("body");
        options.prompt = "line ";
        options.tokens = tokens;
        options.rows = std::move(rows);
        return options;
    }
    Device device;
    Engine engine;
    Folders folders;
    uint64_t frame = 0;
};

} // namespace

TEST_CASE("adapters are described, and what does not fit the model is refused in the engine's words") {
    App app;
    Adapters adapters(app.engine);
    const std::string body = app.folders.at("body");
    adapters.open(body, app.folders.at("a"));
    adapters.open(body, app.folders.at("b"), "a", 0.5F);
    adapters.open(body, app.folders.at("small"));
    adapters.open(body, app.folders.at("broken"));
    adapters.open(app.folders.at("other"), app.folders.at("a"), "of another body");
    adapters.open(body, app.folders.at("nowhere"));
    adapters.open(body, app.folders.at("body"), "the body");
    CHECK(adapters.is_opening());
    app.opened(adapters);
    const std::vector<Adapter>& all = adapters.all();
    REQUIRE(all.size() == 7);
    const auto is_ready = [&](std::size_t i, const char* name, const char* kind, int64_t rank, int64_t parameters) {
        CAPTURE(i);
        CHECK_MESSAGE(all[i].state == Adapter::State::ready, all[i].problem);
        CHECK(all[i].name == name);
        CHECK(all[i].kind == kind);
        CHECK(all[i].rank == rank);
        CHECK(all[i].least_rank == rank);
        CHECK(all[i].parameters == parameters);
    };
    // Rank 2 at [32, 96], [32, 32], [32, 128] and [128, 32] of two layers.
    is_ready(0, "a", "lora", 2, 2 * 2 * (32 + 96 + 32 + 32 + 32 + 128 + 128 + 32));
    is_ready(1, "a-2", "lora", 5, 2 * 5 * (32 + 96 + 32 + 32 + 32 + 128 + 128 + 32));
    CHECK(all[0].slot_problem.empty());
    CHECK(all[0].share > 0.0);
    CHECK(all[1].scale == 0.5F);
    is_ready(2, "small", "ia3", 0, all[2].parameters);
    CHECK(all[2].slot_problem.find("it is 'ia3', and slots are for 'lora'") != std::string::npos);
    const auto is_refused = [&](std::size_t i, const char* why) {
        CHECK(all[i].state == Adapter::State::failed);
        CHECK_MESSAGE(all[i].problem.find(why) != std::string::npos, all[i].problem);
    };
    is_refused(3, "the file is truncated");
    is_refused(4, "than those that this adapter was trained with");
    is_refused(5, "is not a folder");
    is_refused(6, "is not an adapter");

    // An adapter that is not open is an error, not the body.
    AdapterWriting writing(app.engine);
    writing.begin(all, app.options({{"broken", {0, 0, 0, 1}}}));
    CHECK_MESSAGE(writing.problem().find("'broken' is not open") == 0, writing.problem());
    CHECK(writing.state() == AdapterWriting::State::done);
    adapters.remove(all[3].id);
    CHECK(adapters.all().size() == 6);
}

TEST_CASE("rows of one batch write what the body and each adapter write alone, and so does their mix") {
    App app;
    Adapters adapters(app.engine);
    const std::string body = app.folders.at("body"), a = "a=" + app.folders.at("a"), b = "b=" + app.folders.at("b"),
                      small = "small=" + app.folders.at("small");
    for (const char* name : {"a", "b", "small"}) adapters.open(body, app.folders.at(name));
    app.opened(adapters);
    std::map<std::string, std::string> expected{{"base", app.expected("line ", kTokens, {})},
                                                {"a", app.expected("line ", kTokens, {a})},
                                                {"b", app.expected("line ", kTokens, {b + ":2"})},
                                                {"small", app.expected("line ", kTokens, {small})},
                                                {"mix", app.expected("line ", kTokens, {a + ":0.5", b + ":0.75"})}};
    for (const char* name : {"a", "b"}) REQUIRE(expected[name] != expected["base"]);
    REQUIRE(expected["a"] != expected["b"]);
    AdapterWriting writing(app.engine);
    const auto check = [&](const std::vector<AdapterUse>& rows, bool live) {
        writing.begin(adapters.all(), app.options(rows));
        app.written(writing);
        CHECK(writing.is_live() == live);
        REQUIRE(writing.rows().size() == rows.size());
        for (const AdapterWriting::Row& row : writing.rows()) {
            CAPTURE(row.use.label);
            CHECK(row.text == expected[row.use.label]);
            CHECK(row.changes.empty());
        }
    };
    check({{"base", {0, 0}}, {"a", {1, 0}}, {"b", {0, 2}}, {"mix", {0.5, 0.75}}}, true);
    check({{"base", {}}}, true);
    check({{"small", {0, 0, 1}}, {"base", {}}, {"a", {1}}}, false); // not all can be in slots
    check({{"mix", {0.5, 0.75}}}, true);
    expected["all"] = app.expected("line ", kTokens, {a + ":0.5", b + ":0.75", small + ":2"});
    check({{"all", {0.5, 0.75, 2}}}, false);
    writing.begin(adapters.all(), app.options({{"small", {0, 0, 1}}, {"mix", {1, 1, 0}}}));
    CHECK_MESSAGE(writing.problem().find("'mix' has several adapters") == 0, writing.problem());
    writing.begin(adapters.all(), app.options({{"mix", {1, 1}}, {"another mix", {1, 2}}}));
    CHECK_MESSAGE(writing.problem().find("two rows have several adapters") == 0, writing.problem());
    // Without any adapter, the body writes.
    writing.begin({}, app.options({{"base", {}}}));
    app.written(writing);
    CHECK(writing.rows()[0].text == expected["base"]);
}

TEST_CASE("a text is written with other adapters from a token on, without another session") {
    App app;
    Adapters adapters(app.engine);
    for (const char* name : {"a", "b"}) adapters.open(app.folders.at("body"), app.folders.at(name));
    app.opened(adapters);
    const std::string a = "a=" + app.folders.at("a") + ":", b = "b=" + app.folders.at("b") + ":";
    constexpr int64_t kLong = 450; // of 512 positions
    // Most tokens that the device has chosen before a change acts (kChosenSlots of shaders/generate/record.h), as
    // a fast device does.
    constexpr std::size_t kAhead = 64;
    AdapterWriting writing(app.engine);
    writing.begin(adapters.all(), app.options({{"base", {0, 0}}}, kLong));
    const auto write_some = [&](std::size_t bytes) {
        app.frames(
            [&] {
                writing.update();
                return writing.rows()[0].text.size() >= bytes || !writing.problem().empty();
            },
            20.0);
        REQUIRE_MESSAGE(writing.problem().empty(), writing.problem());
    };
    const auto use = [&](const char* label, std::vector<double> scales) {
        CHECK(writing.want({{label, std::move(scales)}}, true));
        app.frames(
            [&] {
                writing.update();
                return !writing.is_changing() && writing.rows()[0].use.label == label;
            },
            0.0); // while the device does nothing for it
        CHECK(writing.state() == AdapterWriting::State::writing);
    };
    write_some(4);
    CHECK(!writing.want({{"two rows", {1, 0}}, {"base", {}}}, true));
    CHECK(!writing.want({{"an adapter that was not open", {0, 0, 1}}}, true));
    use("a", {1, 0});
    write_some(100);
    use("mix", {0.5, 1.5}); // made meanwhile
    write_some(200);
    use("another mix", {1.5, -0.25});
    write_some(300);
    use("base again", {0, 0});
    const std::vector<std::string> labels{"a", "mix", "another mix", "base again"};
    app.written(writing);
    const AdapterWriting::Row& row = writing.rows()[0];
    REQUIRE(row.changes.size() == labels.size());
    for (std::size_t i = 0; i < labels.size(); ++i) CHECK(row.changes[i].use.label == labels[i]);
    REQUIRE(row.text.size() == kLong); // a character is a token
    // The text consists of parts, each of which is what its adapters alone write after the text before it. A part
    // begins at its change or some tokens later, as the device may have chosen some already.
    const std::vector<std::vector<std::string>> uses{
        {}, {a + "1"}, {a + "0.5", b + "1.5"}, {a + "1.5", b + "-0.25"}, {}};
    std::set<std::size_t> begins{0}; // where the part can begin
    for (std::size_t part = 0; part < uses.size(); ++part) {
        CAPTURE(part);
        CAPTURE(row.text);
        const bool last = part + 1 == uses.size();
        const std::size_t least = last ? row.text.size() : row.changes[part].at;
        std::size_t first = row.text.size() + 1, end = 0;
        for (const std::size_t begin : begins) {
            const std::string alone = app.expected("line " + row.text.substr(0, begin),
                                                   static_cast<int64_t>(row.text.size() - begin), uses[part]);
            const std::size_t same =
                static_cast<std::size_t>(std::ranges::mismatch(alone, row.text.substr(begin)).in1 - alone.begin());
            if (begin + same < least) continue;
            first = std::min(first, std::max(least, begin + 1));
            end = std::max(end, begin + same);
        }
        REQUIRE(first <= row.text.size()); // else no part fits
        begins.clear();
        for (std::size_t begin = first; begin <= end && begin < least + kAhead; ++begin) begins.insert(begin);
    }
}

TEST_CASE("words that differ") {
    const auto marked = [](std::string_view base, std::string_view text) {
        std::string all;
        for (const Word& word : different_words(base, text)) {
            CHECK(word.text.data() >= text.data());
            all += word.differs ? "<" + std::string(word.text) + ">" : std::string(word.text);
        }
        return all;
    };
    CHECK(marked("a b c", "a b c") == "a b c");
    CHECK(marked("a b c", "a x  c d") == "a <x>  c <d>");
    CHECK(marked("", " a\n\nb") == " <a>\n\n<b>");
    CHECK(marked("a", "").empty());
    CHECK(marked("the cat sat on the mat", "on the mat the cat sat") == "on the mat <the> <cat> <sat>");
    std::string base, text;
    for (int i = 0; i < 2000; ++i) base += "w ", text += i == 1000 ? "x " : "w ";
    int differ = 0;
    for (const Word& word : different_words(base, text)) differ += word.differs ? 1 : 0;
    CHECK(differ == 1);
}

TEST_CASE("sites of combiners") {
    const std::vector<std::string> modules{"h.0.attn", "h.0.attn.c", "h.1.attn.c"};
    const std::vector<RoutingSite> sites = routing_sites(
        "stack(a, soft(b, hard(c,d)))", modules,
        {"h.0.attn.c.weight", "adapter.a.h.0.attn.c.lora_A.weight", "adapter.combine.1.h.0.attn.c.router.weight",
         "adapter.combine.1.h.0.attn.c.router.bias", "adapter.combine.1.1.h.0.attn.c.router.weight",
         "adapter.combine.1.h.1.attn.c.residual.key.weight"});
    REQUIRE(sites.size() == 3);
    CHECK(sites[0].port == "routing.1.h.0.attn.c");
    CHECK(sites[0].name == "h.0.attn.c");
    CHECK(sites[0].combiner == "soft(b,hard(c,d))");
    CHECK(sites[0].of == std::vector<std::string>{"b", "hard(c,d)"});
    CHECK(sites[1].port == "routing.1.1.h.0.attn.c");
    CHECK(sites[1].of == std::vector<std::string>{"c", "d"});
    CHECK(sites[2].port == "routing.1.h.1.attn.c.residual");
    CHECK(routing_sites("lora", modules, {"adapter.h.0.attn.lora_A.weight"}).empty());
    for (const char* wrong : {"", "soft(a", "soft(a,)", "soft(a)b"})
        CHECK_THROWS_AS(routing_sites(wrong, {}, {}), Failure);
}

TEST_CASE("which text the modules of an encoder-decoder read") {
    for (const char* written : {"model.decoder.layers.0.self_attn.k_proj", "model.decoder.layers.0.encoder_attn.q_proj",
                                "model.decoder.layers.0.fc1", "decoder.block.0.layer.1.EncDecAttention.o"})
        CHECK(reads_written_text(written));
    for (const char* read : {"model.encoder.layers.0.self_attn.q_proj", "model.decoder.layers.0.encoder_attn.k_proj",
                             "model.decoder.layers.0.encoder_attn.v_proj", "decoder.block.0.layer.1.EncDecAttention.v"})
        CHECK(!reads_written_text(read));
}

TEST_CASE("adapters on the command line") {
    const AdapterArgument plain = parse_adapter("a=some/folder"), scaled = parse_adapter("a=b:c:-0.5");
    CHECK(plain.name == "a");
    CHECK(plain.folder == "some/folder");
    CHECK(plain.scale == 1.0F);
    CHECK(scaled.folder == "b:c");
    CHECK(scaled.scale == -0.5F);
    CHECK(parse_adapter("a=b:c").folder == "b:c");
    for (const char* wrong : {"a", "=b", "a="}) CHECK_THROWS_AS(parse_adapter(wrong), Failure);
}
