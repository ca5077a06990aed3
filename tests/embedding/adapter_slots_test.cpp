// LoRA adapters in the slots of a generation's session: filled, chosen and exchanged while it runs.
#include "work.hpp"

#include <cmath>
#include <fstream>
#include <limits>
#include <map>

namespace adapter_slots_test {

using namespace hekla::testing;

namespace {

constexpr int64_t kRows = 3;

// A trained body, and the adapters a and b of ranks 2 and 5, which learned other texts.
void prepare(const Place& place, hk_context context) {
    const auto learn = [&](const char* out, const std::string& text, std::vector<std::string> more) {
        std::ofstream file(place.folder / (out + std::string(".txt")));
        file << "line 1 of the text, and some more\n"; // every character: the tokenizer is the body's
        for (int i = 0; i < 100; ++i) file << text;
        file.close();
        more.insert(more.end(), {"data.train=" + place.at((out + std::string(".txt")).c_str()), "train.max_steps=60",
                                 "train.learning_rate=2e-2", "train.eval_steps=0"});
        train(context, Training(place, out, std::move(more)));
    };
    learn("body", "line 1 of the text, and some more\n", {});
    const std::string from = "model.from=" + place.at("body"), all = "adapter.target_modules=\"all-linear\"";
    learn("a", "line line line of text\n", {from, all, "adapter.id=lora", "adapter.r=2"});
    learn("b", "line 1 and more and more\n", {from, all, "adapter.id=lora", "adapter.r=5"});
}

// What the body or an adapter ("", "a", "b") writes after a prompt.
std::string alone(const Place& place, hk_context context, const std::string& adapter, const std::string& prompt,
                  int64_t tokens) {
    Writing writing(place.at("body"), prompt);
    const std::string use = "it=" + place.at(adapter.c_str());
    const hk_string uses = view(use);
    if (!adapter.empty()) writing.options.adapters = &uses, writing.options.adapter_count = 1;
    writing.options.max_new_tokens = tokens;
    const Error error;
    const int32_t code = hk_generate(context, &writing.options, nullptr, error);
    REQUIRE_MESSAGE(code == HK_OK, error.message());
    return writing.taken();
}

// A session of three rows that all continue "line ", with slots.
struct Rows {
    Rows(const Place& place, int32_t slots, int32_t rank) : model(place.at("body")) {
        hk_generate_defaults(&options);
        options.model = view(model);
        for (hk_string& prompt : prompts) prompt = view(line);
        options.prompts = prompts;
        options.prompt_count = kRows;
        options.max_new_tokens = 24;
        options.greedy = 1;
        options.adapter_slots = slots;
        options.adapter_rank = rank;
        options.user = this;
        options.text = [](void* user, uint64_t row, hk_string piece) {
            Rows& rows = *static_cast<Rows*>(user);
            rows.texts[row].append(piece.data, static_cast<std::size_t>(piece.size));
            if (rows.on_text) rows.on_text(row);
        };
    }
    std::string model, line = "line ", texts[kRows];
    hk_string prompts[kRows]{};
    hk_generate_options options{};
    std::function<void(uint64_t row)> on_text;
};

hk_loaded_adapter opened(const Place& place, hk_context context, const char* name) {
    const std::string folder = place.at(name), model = place.at("body");
    hk_loaded_adapter adapter{};
    const Error error;
    const int32_t code = hk_adapter_open(context, view(folder), view(model), &adapter, error);
    REQUIRE_MESSAGE(code == HK_OK, error.message());
    return adapter;
}

} // namespace

TEST_CASE("adapter slots: filled and chosen between prompts, without memory or pipelines that were not there before") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    prepare(place, context);
    std::map<std::string, std::string> expected;
    for (const char* name : {"", "a", "b"}) expected[name] = alone(place, context, name, "line ", 24);
    REQUIRE(expected["a"] != expected[""]);
    REQUIRE(expected["b"] != expected[""]);
    REQUIRE(expected["b"] != expected["a"]);

    const Error error;
    Rows rows(place, 2, 8);
    hk_session session{};
    REQUIRE_MESSAGE(hk_session_generate(context, &rows.options, nullptr, &session, error) == HK_OK, error.message());
    run_until(session, HK_SESSION_IDLE, 300.0);
    for (std::string& text : rows.texts) CHECK(std::exchange(text, "") == expected[""]);

    const hk_loaded_adapter a = opened(place, context, "a"), b = opened(place, context, "b");
    const uint64_t allocations = FaultDriver::get().calls("vkAllocateMemory"),
                   pipelines = FaultDriver::get().calls("vkCreateComputePipelines");
    const auto set = [&](uint64_t row, int32_t slot, double scale = 1.0) {
        const int32_t code = hk_session_adapter_row(session, row, slot, scale, HK_ADAPTER_FROM_START, error);
        REQUIRE_MESSAGE(code == HK_OK, error.message());
    };
    const auto put = [&](int32_t slot, hk_loaded_adapter adapter) {
        const int32_t code = hk_session_adapter_put(session, slot, adapter, error);
        REQUIRE_MESSAGE(code == HK_OK, error.message());
    };
    const auto write = [&](const std::vector<std::string>& as) {
        REQUIRE(hk_session_prompt(session, rows.prompts, kRows, error) == HK_OK);
        run_until(session, HK_SESSION_IDLE, 300.0);
        for (std::size_t row = 0; row < as.size(); ++row) {
            CAPTURE(row);
            CHECK(std::exchange(rows.texts[row], "") == expected[as[row]]);
        }
    };
    put(0, a);
    put(1, b);
    set(0, 0);
    set(2, 1);
    write({"a", "", "b"});
    set(0, 1);
    set(1, 1);
    write({"b", "b", "b"});
    CHECK(hk_session_adapter_put(session, 1, a, error) == HK_FAILED_PRECONDITION);
    CHECK_MESSAGE(error.says("slot 1 is used by row 0: set the row to another one, or to -1, first"), error.message());
    put(0, {}); // emptied
    set(0, 0);
    set(1, 1, 0.0);
    set(2, -1);
    write({"", "", ""});
    set(1, -1);
    put(1, a); // exchanged
    set(1, 1);
    write({"", "a", ""});
    CHECK(FaultDriver::get().calls("vkAllocateMemory") == allocations);
    CHECK(FaultDriver::get().calls("vkCreateComputePipelines") == pipelines);
    hk_session_destroy(session);
    hk_adapter_destroy(a);
    hk_adapter_destroy(b);
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("adapter slots: a row changes its adapter between two tokens") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    prepare(place, context);
    const std::string body = alone(place, context, "", "line ", 24);
    const Error error;
    const hk_loaded_adapter a = opened(place, context, "a");
    for (const int32_t flags : {HK_ADAPTER_FROM_START, HK_ADAPTER_FROM_HERE}) {
        CAPTURE(flags);
        Rows rows(place, 1, 0);
        hk_session session{};
        bool asked = false;
        rows.on_text = [&](uint64_t row) { // on the session's thread
            if (row != 1 || rows.texts[1].size() < 6 || std::exchange(asked, true)) return;
            CHECK(hk_session_adapter_put(session, 0, a, error) == HK_OK);
            CHECK(hk_session_adapter_row(session, 1, 0, 1.0, flags, error) == HK_OK);
        };
        REQUIRE_MESSAGE(hk_session_generate(context, &rows.options, nullptr, &session, error) == HK_OK,
                        error.message());
        run_until(session, HK_SESSION_IDLE, 300.0);
        CHECK(asked);
        CHECK(rows.texts[0] == body);
        CHECK(rows.texts[2] == body);
        REQUIRE(rows.texts[1].size() == 24);
        CHECK(rows.texts[1].substr(0, 6) == body.substr(0, 6));
        // The device may have chosen some tokens more.
        bool found = false;
        for (std::size_t k = 6; k <= 22 && !found; ++k)
            found = rows.texts[1] == body.substr(0, k) + alone(place, context, "a", "line " + body.substr(0, k),
                                                               static_cast<int64_t>(24 - k));
        if (flags == HK_ADAPTER_FROM_START) CHECK(found);
        CHECK(rows.texts[1] != body);
        hk_session_destroy(session);
    }
    hk_adapter_destroy(a);
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("adapter slots: what is refused") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    prepare(place, context);
    train(context, Training(place, "other", {"train.seed=9", "train.max_steps=2"}));
    train(context, Training(place, "ia3",
                            {"model.from=" + place.at("body"), "adapter.id=ia3", "data.train=" + place.at("body.txt"),
                             "train.max_steps=2"}));
    const Error error;
    const auto refuses_to_open = [&](const char* name, const char* of, const char* why) {
        const std::string folder = place.at(name), model = place.at(of);
        hk_loaded_adapter adapter{};
        CHECK(hk_adapter_open(context, view(folder), view(model), &adapter, error) != HK_OK);
        CHECK_MESSAGE(error.says(why), error.message());
    };
    refuses_to_open("a", "other", "was trained with another body");
    refuses_to_open("ia3", "body", "it is 'ia3', and slots are for 'lora'");
    refuses_to_open("body", "body", "is not an adapter");
    refuses_to_open("a", "a", "folder of its body");
    refuses_to_open("missing", "body", "missing");

    const hk_loaded_adapter b = opened(place, context, "b");
    Rows rows(place, 2, 4);
    hk_session session{};
    REQUIRE(hk_session_generate(context, &rows.options, nullptr, &session, error) == HK_OK);
    run_until(session, HK_SESSION_IDLE, 1000.0);
    const auto refused = [&](int32_t code, const char* why) {
        CHECK(code != HK_OK);
        CHECK_MESSAGE(error.says(why), error.message());
    };
    refused(hk_session_adapter_put(session, 2, {}, error), "slot is 2, expected 0 to 1");
    refused(hk_session_adapter_put(session, 0, b, error),
            "its rank at 'transformer.h.0.attn.c_attn' is 5; a slot has 4");
    refused(hk_session_adapter_put(session, 0, {12345}, error), "adapter");
    refused(hk_session_adapter_row(session, 3, 0, 1.0, 0, error), "row is 3, expected 0 to 2");
    refused(hk_session_adapter_row(session, 0, 2, 1.0, 0, error), "slot is 2, expected -1 (none) to 1");
    refused(hk_session_adapter_row(session, 0, 0, std::numeric_limits<double>::quiet_NaN(), 0, error),
            "scale is not finite");
    refused(hk_session_adapter_row(session, 0, 0, 1.0, 7, error), "flags is 7");
    hk_session_destroy(session);
    refused(hk_session_adapter_row(session, 0, 0, 1.0, 0, error), "session");

    Writing without(place.at("body"));
    REQUIRE(hk_session_generate(context, &without.options, nullptr, &session, error) == HK_OK);
    run_until(session, HK_SESSION_IDLE, 1000.0);
    refused(hk_session_adapter_put(session, 0, b, error), "has no adapter slots");
    hk_session_destroy(session);

    Rows few(place, 0, 4);
    refused(hk_session_generate(context, &few.options, nullptr, &session, error), "adapter_slots");
    hk_adapter_destroy(b);
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

} // namespace adapter_slots_test
