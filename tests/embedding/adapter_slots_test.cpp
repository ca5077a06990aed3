// LoRA adapters in the slots of a generation's session: filled, chosen and exchanged while it runs.
#include "gpu/glsl.hpp"
#include "hekla/plan.h"
#include "infer/exported/exported_model.hpp"
#include "plugin/registry/registry.hpp"
#include "work.hpp"

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>

namespace adapter_slots_test {

using namespace hekla::test;

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

// A session of three rows that all continue "line ", with slots. model: a name in `place`.
struct Rows {
    Rows(const Place& place, int32_t slots, int32_t rank, const char* of = "body") : model(place.at(of)) {
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

hk_loaded_adapter opened(const Place& place, hk_context context, const char* name, const char* of = "body") {
    const std::string folder = place.at(name), model = place.at(of);
    hk_loaded_adapter adapter{};
    const Error error;
    const int32_t code = hk_adapter_open(context, view(folder), view(model), &adapter, error);
    REQUIRE_MESSAGE(code == HK_OK, error.message());
    return adapter;
}

// Elements of two slots of rank 8 in two blocks: A [2, 8, in] and B [2, out, 8]; bytes with the guard of an allocation.
constexpr uint64_t kSlotElements = 2 * 2 * 8 * (32 + 96 + 32 + 32 + 32 + 128 + 128 + 32),
                   kSlotBytes = kSlotElements * sizeof(float) + 16384;

// Exports the body to a file with two slots of rank 8.
hekla::infer::ExportReport export_body(const Place& place, const char* file, int64_t length = 0) {
    const hekla::plugin::Registry registry = hekla::plugin::Registry::scan({HEKLA_PLUGIN_FOLDER});
    hekla::gpu::GlslCompiler compiler(hekla::gpu::GlslOptions{});
    hekla::infer::ExportOptions options;
    options.version = "test";
    options.length = length;
    options.slots = {2, 8, ""};
    const hekla::Result<hekla::infer::ExportReport> report =
        hekla::infer::export_model(registry, compiler, place.at("body"), place.at(file), options, {});
    REQUIRE_MESSAGE(report.ok(), report.message());
    REQUIRE(report->slots.has_value());
    return report.value();
}

// The plan of a generation of three rows.
hk_plan_report planned(hk_context context, hk_plan_options options) {
    hk_plan_report report{};
    options.struct_size = sizeof options;
    options.mode = HK_PLAN_GENERATE;
    options.rows = kRows;
    options.user = &report;
    options.report = [](void* user, const hk_plan_report* r) { *static_cast<hk_plan_report*>(user) = *r; };
    const Error error;
    const int32_t code = hk_plan(context, &options, error);
    REQUIRE_MESSAGE(code == HK_OK, error.message());
    return report;
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

TEST_CASE("adapter slots: an encoder reads the prompt of a row again, or not, when the row changes its adapter" *
          doctest::test_suite("long")) {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    // A body that translates two words, and an adapter of its encoder alone, which translates the first one twice.
    const char* const words[] = {"one", "two", "three", "four", "five"};
    const char* const others[] = {"un", "deux", "trois", "quatre", "cinq"};
    std::ofstream pairs(place.folder / "pairs.tsv"), same(place.folder / "same.tsv");
    for (std::size_t i = 0; i < 100; ++i) {
        const std::size_t a = i % 5, b = i / 5 % 5;
        pairs << words[a] << " and " << words[b] << '\t' << others[a] << " et " << others[b] << '\n';
        same << words[a] << " and " << words[b] << '\t' << others[a] << " et " << others[a] << '\n';
    }
    pairs.close();
    same.close();
    std::ofstream(place.recipe())
        << "[model]\narchitecture = \"t5\"\nd_model = 32\nd_kv = 16\nd_ff = 64\nnum_layers = 2\n"
           "num_heads = 2\ndropout_rate = 0.0\n[objective]\nid = \"seq2seq\"\n[head]\n"
           "id = \"lm\"\n[data]\nvalid_fraction = 0.0\ntrain = \"none\"\nformat = \"tsv\"\n"
           "columns = [\"source\", \"target\"]\n[tokenizer]\nkind = \"words\"\n"
           "vocab_size = 40\n[train]\nmax_steps = 300\ncontext_length = 8\n"
           "per_device_train_batch_size = 16\nlearning_rate = 1e-2\neval_steps = 0\n"
           "save_steps = 0\n";
    train(context, Training(place, "body", {"data.train=" + place.at("pairs.tsv")}));
    const std::string body = place.at("body");
    train(context, Training(place, "a",
                            {"data.train=" + place.at("same.tsv"), "model.from=" + body, "tokenizer.from=" + body,
                             "adapter.id=lora", "adapter.r=8", "adapter.target_modules=\"encoder.*\""}));
    const char* const prompts[] = {"one and four", "three and four", "five and one"};
    const Error error;
    export_body(place, "slots.hekla", 32);
    const hk_loaded_adapter a = opened(place, context, "a");
    const std::string own = alone(place, context, "", prompts[1], 24),
                      adapted = alone(place, context, "a", prompts[1], 24);
    REQUIRE(own == "trois et quatre");
    REQUIRE(adapted == "trois et trois");
    const std::pair<int32_t, const char*> runs[] = {
        {HK_ADAPTER_FROM_START, "body"}, {HK_ADAPTER_FROM_HERE, "body"}, {HK_ADAPTER_FROM_START, "slots.hekla"}};
    for (const auto& run : runs) {
        const int32_t flags = run.first;
        const std::string model = run.second;
        CAPTURE(flags);
        CAPTURE(model);
        Rows rows(place, 2, 8, model.c_str());
        for (std::size_t row = 0; row < kRows; ++row) rows.prompts[row] = {prompts[row], std::strlen(prompts[row])};
        hk_session session{};
        bool asked = false;
        uint64_t allocations = 0, pipelines = 0;
        rows.on_text = [&](uint64_t row) { // on the session's thread, after the first word
            if (row != 1 || std::exchange(asked, true)) return;
            CHECK(rows.texts[1] == "trois");
            allocations = FaultDriver::get().calls("vkAllocateMemory");
            pipelines = FaultDriver::get().calls("vkCreateComputePipelines");
            CHECK(hk_session_adapter_put(session, 0, a, error) == HK_OK);
            CHECK(hk_session_adapter_row(session, 1, 0, 1.0, flags, error) == HK_OK);
        };
        REQUIRE_MESSAGE(hk_session_generate(context, &rows.options, nullptr, &session, error) == HK_OK,
                        error.message());
        const auto write = [&](const std::string& second) {
            run_until(session, HK_SESSION_IDLE, 1000.0);
            CHECK(std::exchange(rows.texts[0], "") == alone(place, context, "", prompts[0], 24));
            CHECK(std::exchange(rows.texts[1], "") == second);
            CHECK(std::exchange(rows.texts[2], "") == alone(place, context, "", prompts[2], 24));
        };
        run_until(session, HK_SESSION_IDLE, 1000.0);
        CHECK(asked);
        CHECK(FaultDriver::get().calls("vkAllocateMemory") == allocations);
        CHECK(FaultDriver::get().calls("vkCreateComputePipelines") == pipelines);
        write(flags == HK_ADAPTER_FROM_START ? adapted : own);
        REQUIRE(hk_session_prompt(session, rows.prompts, kRows, error) == HK_OK);
        write(adapted); // the next prompt is read with it
        hk_session_destroy(session);
    }
    hk_adapter_destroy(a);
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("adapter slots: an exported file takes adapters as its folder does, without plugins and compiler" *
          doctest::test_suite("long")) {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    prepare(place, context);
    train(context, Training(place, "other", {"train.seed=9", "train.max_steps=2"}));
    train(context,
          Training(place, "of_other",
                   {"model.from=" + place.at("other"), "adapter.id=lora", "adapter.r=2", "train.max_steps=2"}));
    const hekla::infer::ExportReport report = export_body(place, "slots.hekla");
    CHECK(report.slots->modules == 8);
    CHECK(report.slots->bytes == kSlotBytes);
    std::map<std::string, std::string> expected;
    for (const char* name : {"", "a", "b"}) expected[name] = alone(place, context, name, "line ", 24);
    hk_context_destroy(context);
    REQUIRE(host.context(context, nullptr, [](hk_context_options& o) {
        o.plugin_folders = nullptr;
        o.plugin_folder_count = 0;
    }) == HK_OK);

    const Error error;
    const char* const file = "slots.hekla";
    const auto written = [&](Rows& rows, hk_session session) {
        run_until(session, HK_SESSION_IDLE, 1000.0);
        std::vector<std::string> texts;
        for (std::string& text : rows.texts) texts.push_back(std::exchange(text, ""));
        return texts;
    };
    const auto texts = [&](const char* first, const char* second, const char* third) {
        return std::vector{expected[first], expected[second], expected[third]};
    };
    const hk_loaded_adapter a = opened(place, context, "a", file), b = opened(place, context, "b", file);
    for (const int32_t rank : {0, 8}) { // given or not
        Rows rows(place, 2, rank, file);
        hk_session session{};
        REQUIRE_MESSAGE(hk_session_generate(context, &rows.options, nullptr, &session, error) == HK_OK,
                        error.message());
        CHECK(written(rows, session) == texts("", "", ""));
        const uint64_t allocations = FaultDriver::get().calls("vkAllocateMemory"),
                       pipelines = FaultDriver::get().calls("vkCreateComputePipelines");
        REQUIRE(hk_session_adapter_put(session, 0, a, error) == HK_OK);
        REQUIRE(hk_session_adapter_put(session, 1, b, error) == HK_OK);
        REQUIRE(hk_session_adapter_row(session, 0, 1, 1.0, 0, error) == HK_OK);
        REQUIRE(hk_session_adapter_row(session, 2, 0, 1.0, 0, error) == HK_OK);
        REQUIRE(hk_session_prompt(session, rows.prompts, kRows, error) == HK_OK);
        CHECK(written(rows, session) == texts("b", "", "a"));
        CHECK(FaultDriver::get().calls("vkAllocateMemory") == allocations);
        CHECK(FaultDriver::get().calls("vkCreateComputePipelines") == pipelines);
        hk_session_destroy(session);
    }
    { // adapters that are in slots from the beginning, and a body alone in the same file
        Rows rows(place, 0, 0, file);
        const std::string uses[] = {"b=" + place.at("b"), "a=" + place.at("a")}, names[] = {"a", "", "b"};
        const hk_string adapters[] = {view(uses[0]), view(uses[1])},
                        of_rows[] = {view(names[0]), view(names[1]), view(names[2])};
        rows.options.adapters = adapters;
        rows.options.adapter_count = 2;
        rows.options.prompt_adapters = of_rows;
        const auto generated = [&] {
            REQUIRE_MESSAGE(hk_generate(context, &rows.options, nullptr, error) == HK_OK, error.message());
            std::vector<std::string> all;
            for (std::string& text : rows.texts) all.push_back(std::exchange(text, ""));
            return all;
        };
        CHECK(generated() == texts("a", "", "b"));
        rows.options.prompt_adapters = nullptr;
        CHECK(hk_generate(context, &rows.options, nullptr, error) != HK_OK);
        CHECK_MESSAGE(error.says("slots that the rows of a generation choose"), error.message());
        rows.options.adapters = nullptr;
        rows.options.adapter_count = 0;
        CHECK(generated() == texts("", "", ""));
    }
    const auto fails = [&](int32_t slots, int32_t rank, const std::string& targets, const char* why) {
        Rows rows(place, slots, rank, file);
        rows.options.adapter_targets = view(targets);
        hk_session session{};
        REQUIRE(hk_session_generate(context, &rows.options, nullptr, &session, error) == HK_OK);
        const hk_session_info info = state_of(session, 120 * kSecond);
        CHECK(info.state == HK_SESSION_FAILED);
        CHECK_MESSAGE(message_of(info).find(why) != std::string::npos, message_of(info));
        hk_session_destroy(session);
    };
    fails(3, 0, "", "slots.hekla: its adapter slots were exported with --adapter-slots 2, not 3");
    fails(2, 4, "", "--adapter-rank 8, not 4");
    fails(2, 0, "c_attn", "--adapter-targets all-linear, not c_attn");
    hk_loaded_adapter wrong{};
    const std::string of_other = place.at("of_other"), model = place.at(file);
    CHECK(hk_adapter_open(context, view(of_other), view(model), &wrong, error) != HK_OK);
    CHECK_MESSAGE(error.says("was trained with another body"), error.message());
    hk_adapter_destroy(a);
    hk_adapter_destroy(b);
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("adapter slots: a plan counts their memory to the byte, of a folder and of an exported file" *
          doctest::test_suite("long")) {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    const Error error;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    prepare(place, context);
    export_body(place, "slots.hekla");
    const std::string body = place.at("body"), file = place.at("slots.hekla"), targets = "c_attn,c_proj",
                      use = "b=" + place.at("b");
    const hk_string adapter = view(use);
    hk_plan_options without{};
    without.model = view(body);
    without.length = 28;
    hk_plan_options slots = without, some = without, exported = without, with = without, by_row = without;
    slots.adapter_slots = exported.adapter_slots = 2;
    slots.adapter_rank = 8;
    exported.model = view(file);
    some.adapter_slots = 3;
    some.adapter_rank = 5;
    some.adapter_targets = view(targets);
    with.adapters = by_row.adapters = &adapter;
    with.adapter_count = by_row.adapter_count = 1;
    by_row.adapters_by_row = 1;
    const hk_plan_report plain = planned(context, without);
    CHECK(planned(context, slots).weights - plain.weights == kSlotBytes);
    CHECK(planned(context, slots).parameters - plain.parameters == kSlotElements);
    CHECK(planned(context, exported).weights == planned(context, slots).weights);
    hk_context_destroy(context);

    constexpr uint64_t kStaging = 4 * ((uint64_t{1} << 20) + 16384); // of a session
    const auto check_exact = [&](const char* what, const hk_plan_options& options, const char* model) {
        const std::string named = what;
        CAPTURE(named);
        REQUIRE(host.context(context) == HK_OK);
        const uint64_t total = planned(context, options).total + kStaging;
        hk_context_destroy(context);
        for (const uint64_t missing : {0, 1}) {
            CAPTURE(missing);
            REQUIRE(host.context(context, error, [&](hk_context_options& o) { o.memory_cap = total - missing; }) ==
                    HK_OK);
            Rows rows(place, options.adapter_slots, options.adapter_rank, model);
            rows.options.adapter_targets = options.adapter_targets;
            rows.options.adapters = options.adapters;
            rows.options.adapter_count = options.adapter_count;
            const std::string names[] = {"b", "", "b"};
            const hk_string of_rows[] = {view(names[0]), view(names[1]), view(names[2])};
            if (options.adapters_by_row != 0) rows.options.prompt_adapters = of_rows;
            hk_session_options own{};
            own.struct_size = sizeof own;
            own.length = options.length;
            hk_session session{};
            REQUIRE(hk_session_generate(context, &rows.options, &own, &session, error) == HK_OK);
            const hk_session_info info = state_of(session, 120 * kSecond);
            CHECK_MESSAGE(info.code == (missing == 0 ? HK_OK : HK_OUT_OF_MEMORY), message_of(info));
            if (missing == 0) { // nor does filling them, or generating with them, take more
                if (options.adapter_slots > 0) {
                    REQUIRE(hk_session_adapter_put(session, 0, {}, error) == HK_OK);
                    REQUIRE(hk_session_adapter_row(session, 0, 0, 1.0, 0, error) == HK_OK);
                }
                run_until(session, HK_SESSION_IDLE, 1000.0);
            }
            hk_session_destroy(session);
            hk_context_destroy(context);
        }
    };
    check_exact("without", without, "body");
    check_exact("slots", slots, "body");
    check_exact("some", some, "body");
    check_exact("exported", exported, "slots.hekla");
    check_exact("with", with, "body");
    check_exact("by_row", by_row, "body");

    REQUIRE(host.context(context) == HK_OK);
    const auto refused = [&](hk_plan_options options, const char* why) {
        options.struct_size = sizeof options;
        options.report = [](void*, const hk_plan_report*) {};
        CHECK(hk_plan(context, &options, error) != HK_OK);
        CHECK_MESSAGE(error.says(why), error.message());
    };
    hk_plan_options wrong = slots;
    wrong.mode = HK_PLAN_FORWARD;
    refused(wrong, "hk_plan_options.adapter_slots is set, expected none: only HK_PLAN_GENERATE has them here");
    wrong = without;
    wrong.mode = HK_PLAN_GENERATE;
    wrong.adapter_rank = 4;
    refused(wrong, "hk_plan_options.adapter_slots is 0");
    wrong.adapter_rank = 0;
    wrong.adapters_by_row = 1;
    refused(wrong, "hk_plan_options.adapters_by_row is not 0, but there are no adapters");
    wrong = exported;
    wrong.mode = HK_PLAN_GENERATE;
    wrong.adapter_slots = 4;
    refused(wrong, "exported with --adapter-slots 2, not 4");
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

    Rows nowhere(place, 1, 0);
    const std::string none = "nothing";
    nowhere.options.adapter_targets = view(none);
    REQUIRE(hk_session_generate(context, &nowhere.options, nullptr, &session, error) == HK_OK);
    const hk_session_info failed = state_of(session, 120 * kSecond);
    CHECK(failed.code == HK_INVALID_ARGUMENT);
    CHECK_MESSAGE(message_of(failed).find("no linear layer of the model is among the adapter targets") !=
                      std::string::npos,
                  message_of(failed));
    hk_session_destroy(session);

    Rows few(place, 0, 4);
    refused(hk_session_generate(context, &few.options, nullptr, &session, error), "adapter_slots");
    hk_adapter_destroy(b);
    hk_context_destroy(context);
    CHECK(FaultDriver::get().leaks().empty());
}

} // namespace adapter_slots_test
