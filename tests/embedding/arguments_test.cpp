// Invalid arguments: the call that receives them rejects them, with an error that names the struct, the member and the
// value.
#include "hekla/capture.h"
#include "hekla/model.h"
#include "hekla/plan.h"
#include "work.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace arguments_test {

using namespace hekla::test;

namespace {

const std::string kModel = std::string(HEKLA_SOURCE_DIR) + "/tests/fixtures/models/bert-classifier";
constexpr int64_t kLength = 4;

// A context without a device, one with a device, and a prepared forward session.
struct Engine {
    Engine() {
        REQUIRE(make_context(none, error, [](hk_context_options& o) { o.device_kind = HK_DEVICE_NONE; }) == HK_OK);
        REQUIRE(host.context(real, error) == HK_OK);
        hk_forward_options options = forward_options();
        REQUIRE(hk_session_forward(real, &options, nullptr, &passes, error) == HK_OK);
        const hk_session_info info = state_of(passes, 120 * kSecond);
        REQUIRE_MESSAGE(info.state == HK_SESSION_IDLE, message_of(info));
    }
    ~Engine() {
        hk_session_destroy(passes);
        hk_context_destroy(real);
        hk_context_destroy(none);
    }
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;
    hk_forward_options forward_options() const {
        hk_forward_options o{};
        o.struct_size = sizeof o;
        o.model = view(kModel);
        o.rows = 1;
        o.length = kLength;
        o.ports = &port;
        o.port_count = 1;
        return o;
    }
    std::string name = "hidden";
    hk_string port = view(name);
    Host host;
    Error error;
    hk_context none{}, real{};
    hk_session passes{};
};

// A valid struct, and the call that takes it.
template<class T>
struct Call {
    std::string type;
    T valid;
    std::function<int32_t(const T&, hk_error*)> make;
};

std::set<std::string>& covered() {
    static std::set<std::string> members;
    return members;
}

// Checks that the call rejects the struct after `change`, with this message.
template<class T>
void refuses(const Call<T>& call, const std::string& member, const std::string& message,
             const std::function<void(T&)>& change) {
    const std::string where = call.type + "." + member;
    CAPTURE(where);
    covered().insert(where);
    T given = call.valid;
    change(given);
    const Error error;
    CHECK(call.make(given, error) == HK_INVALID_ARGUMENT);
    const std::string expected = where + " " + message;
    CHECK_MESSAGE(error.says(expected.c_str()), error.message());
}

// Tests every struct with invalid sizes, and with a nonzero member that only a newer header has.
template<class T>
void refuses_sizes(const Call<T>& call, bool input = true) {
    for (const uint64_t size :
         {uint64_t{0}, uint64_t{4}, uint64_t{sizeof(T) - alignof(T)}, uint64_t{sizeof(T) + 1}, uint64_t{0xCDCDCDCD}})
        refuses<T>(call, "struct_size", "is " + std::to_string(size) + ", expected " + std::to_string(sizeof(T)),
                   [&](T& o) { o.struct_size = static_cast<uint32_t>(size); });
    if (!input) return;
    struct Longer {
        T known;
        uint64_t added;
    } longer{call.valid, 0};
    longer.known.struct_size = sizeof longer;
    const Error error;
    longer.added = 1;
    CHECK(call.make(longer.known, error) == HK_INVALID_ARGUMENT);
    CHECK_MESSAGE(error.says("are not zero"), error.message());
}

#define HK_REFUSES(call, member, value, message)                                                                       \
    refuses<std::decay_t<decltype((call).valid)>>(call, #member, message, [&](auto& o) { o.member = value; })

// A string and an array that are null but have a size.
const hk_string kNoData{nullptr, 5};
const hk_string kNoDataArray[]{{"a", 1}, {nullptr, 5}};

#define HK_REFUSES_TEXT(call, member) HK_REFUSES(call, member, kNoData, "has null data, but its size is 5")
#define HK_REFUSES_NULL_ARRAY(call, member, count)                                                                     \
    refuses<std::decay_t<decltype((call).valid)>>(call, #member, "is null, but " #count " is 2", [&](auto& o) {        \
        o.member = nullptr;                                                                                            \
        o.count = 2;                                                                                                   \
    });                                                                                                                \
    covered().insert((call).type + "." #count)
#define HK_REFUSES_TEXTS(call, member, count)                                                                          \
    HK_REFUSES_NULL_ARRAY(call, member, count);                                                                        \
    refuses<std::decay_t<decltype((call).valid)>>(call, #member "[1]", "has null data, but its size is 5",             \
                                                  [&](auto& o) {                                                       \
                                                      o.member = kNoDataArray;                                         \
                                                      o.count = 2;                                                     \
                                                  })

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Returns the STRUCT.MEMBER of every struct_size, reserved member and count in the headers.
std::set<std::string> declared_members() {
    std::set<std::string> members;
    for (const char* header : {"capture.h", "device.h", "hekla.h", "model.h", "plan.h", "session.h"}) {
        std::ifstream file(std::string(HEKLA_SOURCE_DIR) + "/engine/include/hekla/" + header);
        std::stringstream all;
        all << file.rdbuf();
        const std::string text = std::regex_replace(all.str(), std::regex("//[^\n]*"), "");
        const std::regex structs(R"(typedef struct (hk_\w+) \{([^}]*)\})");
        const std::regex wanted(R"(\b(struct_size|reserved\w*|\w+_count)\s*;)");
        for (std::sregex_iterator s(text.begin(), text.end(), structs), end; s != end; ++s) {
            const std::string body = (*s)[2];
            for (std::sregex_iterator m(body.begin(), body.end(), wanted); m != end; ++m)
                members.insert((*s)[1].str() + "." + (*m)[1].str());
        }
    }
    return members;
}

// The calls that several cases make.
Call<hk_context_options> context_call() {
    Call<hk_context_options> context{"hk_context_options", {}, [](const hk_context_options& o, hk_error* error) {
                                         hk_context made{};
                                         return hk_context_create(&o, &made, error);
                                     }};
    context.valid.struct_size = sizeof context.valid;
    context.valid.device_kind = HK_DEVICE_NONE;
    return context;
}

Call<hk_train_options> train_call(const Engine& engine) {
    Call<hk_train_options> train{"hk_train_options", {}, [&engine](const hk_train_options& o, hk_error* error) {
                                     hk_session session{};
                                     const Error other;
                                     CHECK(hk_session_train(engine.real, &o, nullptr, &session, other) ==
                                           HK_INVALID_ARGUMENT);
                                     const int32_t code = hk_train(engine.real, &o, nullptr, error);
                                     CHECK(Error::text_of(error) == other.message());
                                     return code;
                                 }};
    train.valid.struct_size = sizeof train.valid;
    train.valid.recipe = view(kModel);
    return train;
}

Call<hk_generate_options> generate_call(const Engine& engine) {
    Call<hk_generate_options> generate{
        "hk_generate_options", {}, [&engine](const hk_generate_options& o, hk_error* error) {
            hk_session session{};
            const Error other;
            CHECK(hk_session_generate(engine.real, &o, nullptr, &session, other) == HK_INVALID_ARGUMENT);
            const int32_t code = hk_generate(engine.real, &o, nullptr, error);
            CHECK(Error::text_of(error) == other.message());
            return code;
        }};
    hk_generate_defaults(&generate.valid);
    generate.valid.model = view(kModel);
    return generate;
}

// The structs that each case tests.
const std::map<std::string, std::set<std::string>> kStructs{
    {"context", {"hk_context_options", "hk_cache", "hk_allocator", "hk_context_callbacks"}},
    {"training", {"hk_train_options", "hk_communicator", "hk_train_result", "hk_evaluate_options"}},
    {"prediction", {"hk_predict_options"}},
    {"generation", {"hk_generate_options", "hk_generate_result"}},
    {"embedding", {"hk_embed_options"}},
    {"device",
     {"hk_vulkan_device", "hk_memory_range", "hk_physical_device", "hk_device_requirement", "hk_queue_advice"}},
    {"plan", {"hk_plan_options", "hk_device_limits"}},
    {"session", {"hk_session_options", "hk_forward_options", "hk_buffer", "hk_session_callbacks"}},
    {"advance", {"hk_advance", "hk_advanced", "hk_session_info", "hk_tensor", "hk_pumped", "hk_model_info"}},
};

// Members that only the engine sets.
const std::set<std::string> kOutputs{"hk_device_requirement.reserved",
                                     "hk_queue_advice.reserved",
                                     "hk_model_info.reserved",
                                     "hk_parameter.reserved",
                                     "hk_parameter.struct_size",
                                     "hk_pumped.reserved",
                                     "hk_plan_report.struct_size",
                                     "hk_plan_report.node_count",
                                     "hk_train_step.struct_size",
                                     "hk_train_step.loss_count",
                                     "hk_train_step.metric_count",
                                     "hk_train_step.scalar_count",
                                     "hk_train_step.tap_count",
                                     "hk_tap.struct_size",
                                     "hk_tap.reserved",
                                     "hk_generated_token.struct_size",
                                     "hk_generated_token.likeliest_count",
                                     "hk_train_evaluation.struct_size",
                                     "hk_train_evaluation.score_count"};

// Checks that every member in the headers of the structs of this case was tested.
void all_tested(const std::string& which) {
    const std::set<std::string>& structs = kStructs.at(which);
    for (const std::string& member : declared_members())
        if (structs.contains(member.substr(0, member.find('.'))))
            CHECK_MESSAGE((covered().contains(member) || kOutputs.contains(member)), member);
}

} // namespace

TEST_CASE("invalid members are rejected: contexts and their callbacks") {
    FaultDriver::get().reset();
    Engine engine;
    const Call<hk_context_options> context = context_call();
    refuses_sizes(context);
    HK_REFUSES(context, validation, 3, "is 3, expected 0 to 2");
    HK_REFUSES_TEXT(context, device);
    HK_REFUSES_TEXTS(context, plugin_folders, plugin_folder_count);
    HK_REFUSES_TEXT(context, cache_folder);
    HK_REFUSES(context, measure_kernels, -1, "is -1, expected 0 to 2");
    HK_REFUSES(context, device_kind, 7, "is 7, expected 0 to 3");
    HK_REFUSES(context, device_kind, HK_DEVICE_ON_DEMAND + 1, "is 4, expected 0 to 3");
    refuses<hk_context_options>(context, "vulkan", "is null, but device_kind is HK_DEVICE_WRAPPED",
                                [](auto& o) { o.device_kind = HK_DEVICE_WRAPPED; });
    HK_REFUSES(context, vulkan, &engine.host.wrapped, "is set, but device_kind is 2");
    HK_REFUSES_TEXT(context, describe_program);
    HK_REFUSES(context, describe_seconds, -1.0, "is -1, expected 0 to 1000000");
    HK_REFUSES(context, describe_seconds, kNan, "is nan, expected");
    HK_REFUSES(context, describe, 3, "is 3, expected 0 to 2");
    HK_REFUSES(context, reserved, 1, "is 1, expected 0");
    HK_REFUSES(context, reserved2, 9, "is 9, expected 0");

    hk_cache given_cache{};
    given_cache.struct_size = sizeof given_cache;
    given_cache.load = [](void*, hk_string, void*, void (*)(void*, const void*, uint64_t)) {};
    given_cache.store = [](void*, hk_string, const void*, uint64_t) {};
    const Call<hk_cache> cache{"hk_cache", given_cache, [&](const hk_cache& o, hk_error* error) {
                                   hk_context_options with = context.valid;
                                   with.cache = &o;
                                   return context.make(with, error);
                               }};
    refuses_sizes(cache);
    HK_REFUSES(cache, reserved, 1, "is 1, expected 0");
    HK_REFUSES(cache, load, nullptr, "is null: load and store are both needed");
    HK_REFUSES(cache, store, nullptr, "is null: load and store are both needed");

    hk_allocator given_allocator{};
    given_allocator.struct_size = sizeof given_allocator;
    given_allocator.allocate = [](void*, uint64_t, uint64_t) -> void* { return nullptr; };
    given_allocator.release = [](void*, void*, uint64_t, uint64_t) {};
    const Call<hk_allocator> allocator{"hk_allocator", given_allocator, [&](const hk_allocator& o, hk_error* error) {
                                           hk_context_options with = context.valid;
                                           with.allocator = &o;
                                           return context.make(with, error);
                                       }};
    refuses_sizes(allocator);
    HK_REFUSES(allocator, reserved, 1, "is 1, expected 0");
    HK_REFUSES(allocator, allocate, nullptr, "is null: allocate and release are both needed");
    HK_REFUSES(allocator, release, nullptr, "is null: allocate and release are both needed");

    Call<hk_context_callbacks> callbacks{"hk_context_callbacks", {}, [&](const hk_context_callbacks& o, hk_error* e) {
                                             return hk_context_replace_callbacks(engine.none, &o, e);
                                         }};
    callbacks.valid.struct_size = sizeof callbacks.valid;
    refuses_sizes(callbacks);
    HK_REFUSES(callbacks, reserved, 1, "is 1, expected 0");
    all_tested("context");
}

TEST_CASE("invalid members are rejected: trainings and evaluations") {
    FaultDriver::get().reset();
    Engine engine;
    const Call<hk_train_options> train = train_call(engine);
    const hk_string one = view(kModel);
    refuses_sizes(train);
    HK_REFUSES(train, reserved, 1, "is 1, expected 0");
    HK_REFUSES_TEXT(train, recipe);
    HK_REFUSES(train, recipe, hk_string{}, "is empty, expected the path of a TOML file");
    HK_REFUSES_TEXTS(train, overrides, override_count);
    Call<hk_communicator> communicator{"hk_communicator", {}, [&](const hk_communicator& o, hk_error* error) {
                                           hk_train_options options = train.valid;
                                           options.communicator = &o;
                                           return hk_train(engine.real, &options, nullptr, error);
                                       }};
    REQUIRE(hk_communicators_create(1, &communicator.valid, nullptr) == HK_OK);
    const hk_communicator made = communicator.valid;
    refuses_sizes(communicator);
    HK_REFUSES(communicator, reserved, 1, "is 1, expected 0");
    HK_REFUSES(communicator, size, 0, "is 0, expected 1 to 1048576");
    HK_REFUSES(communicator, rank, 1, "is 1, expected 0 to 0");
    HK_REFUSES(communicator, rank, -1, "is -1, expected 0 to 0");
    HK_REFUSES(communicator, begin, nullptr, "is null, expected a function");
    HK_REFUSES(communicator, test, nullptr, "is null, expected a function");
    HK_REFUSES(communicator, fail, nullptr, "is null, expected a function");
    hk_communicator given = made;
    hk_communicators_destroy(&given, 1);
    {
        const Error error;
        hk_train_options options = train.valid;
        options.communicator = &made;
        hk_session session{};
        CHECK(hk_session_train(engine.real, &options, nullptr, &session, error) == HK_UNSUPPORTED);
        CHECK_MESSAGE(error.says("a session trains alone"), error.message());
        hk_communicator none{};
        CHECK(hk_communicators_create(0, &none, error) == HK_INVALID_ARGUMENT);
        CHECK_MESSAGE(error.says("count is 0, expected 1 to 1024"), error.message());
        CHECK(hk_communicators_create(2, nullptr, error) == HK_INVALID_ARGUMENT);
    }
    Call<hk_train_result> trained{"hk_train_result", {}, [&](const hk_train_result& o, hk_error* error) {
                                      hk_train_result result = o;
                                      return hk_train(engine.real, &train.valid, &result, error);
                                  }};
    refuses_sizes(trained, false);

    Call<hk_evaluate_options> evaluate{"hk_evaluate_options", {}, [&](const hk_evaluate_options& o, hk_error* error) {
                                           return hk_evaluate(engine.real, &o, error);
                                       }};
    evaluate.valid.struct_size = sizeof evaluate.valid;
    evaluate.valid.recipe = one;
    refuses_sizes(evaluate);
    HK_REFUSES(evaluate, recipe, hk_string{}, "is empty, expected the path of a TOML file");
    HK_REFUSES_TEXTS(evaluate, overrides, override_count);
    HK_REFUSES_TEXTS(evaluate, adapters, adapter_count);
    all_tested("training");
}

TEST_CASE("invalid members are rejected: predictions") {
    FaultDriver::get().reset();
    Engine engine;
    const hk_string one = view(kModel);
    Call<hk_predict_options> predict{"hk_predict_options", {}, [&](const hk_predict_options& o, hk_error* error) {
                                         return hk_predict(engine.real, &o, error);
                                     }};
    hk_predict_defaults(&predict.valid);
    predict.valid.model = one;
    predict.valid.texts = &one;
    predict.valid.text_count = 1;
    predict.valid.row = [](void*, uint64_t, hk_string) -> int32_t { return 0; };
    refuses_sizes(predict);
    HK_REFUSES(predict, model, hk_string{}, "is empty, expected the folder of a model");
    HK_REFUSES(predict, batch, -1, "is -1, expected 0 or more");
    HK_REFUSES(predict, length, -5, "is -5, expected 0 or more");
    HK_REFUSES_TEXTS(predict, texts, text_count);
    refuses<hk_predict_options>(predict, "second_texts[0]", "has null data, but its size is 5",
                                [](auto& o) { o.second_texts = kNoDataArray + 1; });
    HK_REFUSES_TEXT(predict, file);
    HK_REFUSES_TEXTS(predict, adapters, adapter_count);
    refuses<hk_predict_options>(predict, "texts", "and file are both set", [&](auto& o) { o.file = one; });
    refuses<hk_predict_options>(predict, "texts", "and file are both empty", [](auto& o) { o.text_count = 0; });
    HK_REFUSES_TEXT(predict, format);
    HK_REFUSES_TEXTS(predict, columns, column_count);
    HK_REFUSES(predict, row, nullptr, "is null, expected a function");
    all_tested("prediction");
}

TEST_CASE("invalid members are rejected: generations") {
    FaultDriver::get().reset();
    Engine engine;
    const Call<hk_generate_options> generate = generate_call(engine);
    const hk_string one = view(kModel);
    refuses_sizes(generate);
    HK_REFUSES(generate, model, hk_string{}, "is empty, expected the folder or file of a model");
    HK_REFUSES_TEXTS(generate, prompts, prompt_count);
    HK_REFUSES(generate, max_new_tokens, 0, "is 0, expected 1 to");
    HK_REFUSES(generate, beams, -1, "is -1, expected 0 or more");
    HK_REFUSES(generate, top_k, -2, "is -2, expected 0 or more");
    HK_REFUSES(generate, temperature, 0.0, "is 0, expected above 0; set greedy");
    HK_REFUSES(generate, temperature, kNan, "is nan, expected above 0");
    HK_REFUSES(generate, top_p, 1.5, "is 1.5, expected above 0 and at most 1");
    HK_REFUSES(generate, min_p, -0.5, "is -0.5, expected 0 to 1");
    HK_REFUSES(generate, min_p, kNan, "is nan, expected 0 to 1");
    HK_REFUSES(generate, repetition_penalty, -1.0, "is -1, expected above 0");
    HK_REFUSES(generate, no_repeat_ngram_size, -1, "is -1, expected 0 or more");
    HK_REFUSES(generate, weights, 3, "is 3, expected 0 to 2");
    HK_REFUSES_TEXT(generate, chat_template);
    HK_REFUSES_TEXT(generate, chat_date);
    refuses<hk_generate_options>(generate, "prompt_count", "is 0, expected 1 or more: with chat_template",
                                 [&](auto& o) { o.chat_template = one; });
    HK_REFUSES_TEXTS(generate, stop_texts, stop_text_count);
    const hk_string stops[] = {one, {"", 0}};
    refuses<hk_generate_options>(generate, "stop_texts[1]", "is empty, expected a text that ends a row's text",
                                 [&](auto& o) {
                                     o.stop_texts = stops;
                                     o.stop_text_count = 2;
                                 });
    refuses<hk_generate_options>(generate, "stop_texts", "is set, but beams is 3", [&](auto& o) {
        o.stop_texts = stops;
        o.stop_text_count = 1;
        o.beams = 3;
    });
    HK_REFUSES_TEXTS(generate, logit_biases, logit_bias_count);
    HK_REFUSES(generate, published, 64, "is 64, expected 0 to 63");
    HK_REFUSES(generate, likeliest_tokens, -1, "is -1, expected 0 to 1000");
    refuses<hk_generate_options>(generate, "token", "is set, but beams is 2", [](auto& o) {
        o.token = [](void*, uint64_t, const hk_generated_token*) {};
        o.beams = 2;
    });
    HK_REFUSES_TEXTS(generate, adapters, adapter_count);
    refuses<hk_generate_options>(generate, "prompt_adapters", "is not null, but there are no adapters", [&](auto& o) {
        o.prompts = o.prompt_adapters = &one;
        o.prompt_count = 1;
    });
    refuses<hk_generate_options>(generate, "prompt_adapters[0]", "has null data, but its size is 5", [&](auto& o) {
        o.prompts = o.adapters = &one;
        o.prompt_adapters = kNoDataArray + 1;
        o.prompt_count = o.adapter_count = 1;
    });
    Call<hk_generate_result> generated{"hk_generate_result", {}, [&](const hk_generate_result& o, hk_error* error) {
                                           hk_generate_result result = o;
                                           return hk_generate(engine.real, &generate.valid, &result, error);
                                       }};
    refuses_sizes(generated, false);
    all_tested("generation");
}

TEST_CASE("invalid members are rejected: embeddings") {
    FaultDriver::get().reset();
    Engine engine;
    const hk_string one = view(kModel);
    const std::array<int32_t, 3> ids{1, -7, 2}, fine{1, 2, 3};
    const int32_t* row = ids.data();
    const int32_t* fine_row = fine.data();
    const uint64_t length = 3, empty = 0;
    Call<hk_embed_options> embed{"hk_embed_options", {}, [&](const hk_embed_options& o, hk_error* error) {
                                     return hk_embed(engine.real, &o, error);
                                 }};
    hk_embed_defaults(&embed.valid);
    embed.valid.model = one;
    embed.valid.rows = &fine_row;
    embed.valid.row_lengths = &length;
    embed.valid.row_count = 1;
    embed.valid.row = [](void*, uint64_t, const float*, const int64_t*, uint32_t) -> int32_t { return 0; };
    refuses_sizes(embed);
    HK_REFUSES(embed, model, hk_string{}, "is empty, expected the folder or file of a model");
    HK_REFUSES_TEXTS(embed, adapters, adapter_count);
    HK_REFUSES_TEXT(embed, port);
    HK_REFUSES(embed, pooling, 5, "is 5, expected 0 to 4");
    HK_REFUSES(embed, reserved, 1, "is 1, expected 0");
    HK_REFUSES(embed, reserved2, 1, "is 1, expected 0");
    HK_REFUSES_TEXT(embed, prompt);
    HK_REFUSES(embed, batch, -1, "is -1, expected 0 or more");
    HK_REFUSES_TEXTS(embed, texts, text_count);
    HK_REFUSES_NULL_ARRAY(embed, rows, row_count);
    HK_REFUSES_NULL_ARRAY(embed, row_lengths, row_count);
    refuses<hk_embed_options>(embed, "row_lengths[0]", "is 0, expected 1", [&](auto& o) { o.row_lengths = &empty; });
    refuses<hk_embed_options>(embed, "rows[0][1]", "is -7, expected a token id", [&](auto& o) { o.rows = &row; });
    HK_REFUSES_TEXT(embed, fields_file);
    HK_REFUSES(embed, fields_file, one, "is set together with texts or rows");
    HK_REFUSES(embed, row, nullptr, "is null, expected a function");
    all_tested("embedding");
}

TEST_CASE("invalid members are rejected: devices") {
    FaultDriver::get().reset();
    Engine engine;
    const Call<hk_context_options> context = context_call();
    const Call<hk_vulkan_device> wrapped{"hk_vulkan_device", engine.host.wrapped,
                                         [&](const hk_vulkan_device& o, hk_error* error) {
                                             hk_context_options with = context.valid;
                                             with.device_kind = HK_DEVICE_WRAPPED;
                                             with.vulkan = &o;
                                             return context.make(with, error);
                                         }};
    refuses_sizes(wrapped);
    HK_REFUSES(wrapped, reserved, 1, "is 1, expected 0");
    HK_REFUSES(wrapped, get_instance_proc_addr, nullptr, "is null, expected a function");
    HK_REFUSES(wrapped, instance, nullptr, "is null, expected a VkInstance");
    HK_REFUSES(wrapped, physical_device, nullptr, "is null, expected a VkPhysicalDevice");
    HK_REFUSES(wrapped, device, nullptr, "is null, expected a VkDevice");
    HK_REFUSES(wrapped, queue, nullptr, "is null, expected a VkQueue");
    HK_REFUSES(wrapped, device_create_info, nullptr, "is null, expected a VkDeviceCreateInfo");
    HK_REFUSES(wrapped, lock_queue, nullptr, "is null: lock_queue and unlock_queue come together");
    HK_REFUSES_NULL_ARRAY(wrapped, memory_ranges, memory_range_count);

    const Call<hk_memory_range> range{"hk_memory_range",
                                      {sizeof(hk_memory_range), 0, 1, 0, 65536, &engine},
                                      [&](const hk_memory_range& o, hk_error* error) {
                                          hk_vulkan_device with = wrapped.valid;
                                          with.memory_ranges = &o;
                                          with.memory_range_count = 1;
                                          return wrapped.make(with, error);
                                      }};
    refuses_sizes(range);
    HK_REFUSES(range, memory, 0, "is 0, so the range has no VkDeviceMemory");
    HK_REFUSES(range, offset, 100, "is 100, expected a multiple of 65536");
    HK_REFUSES(range, bytes, 0, "is 0, expected the size of the range");

    const Call<hk_physical_device> physical{
        "hk_physical_device",
        {sizeof(hk_physical_device), 0, Host::engine_loader(), engine.host.instance, engine.host.physical},
        [&](const hk_physical_device& o, hk_error* error) {
            hk_device_requirements made{};
            return hk_device_requirements_create(&o, &made, error);
        }};
    refuses_sizes(physical);
    HK_REFUSES(physical, get_instance_proc_addr, nullptr, "is null, expected a function");
    HK_REFUSES(physical, instance, nullptr, "is null, expected a VkInstance");
    HK_REFUSES(physical, physical_device, nullptr, "is null, expected a VkPhysicalDevice");
    hk_device_requirements requirements{};
    REQUIRE(hk_device_requirements_create(&physical.valid, &requirements, nullptr) == HK_OK);
    refuses_sizes(Call<hk_device_requirement>{"hk_device_requirement",
                                              {},
                                              [&](const hk_device_requirement& o, hk_error* error) {
                                                  hk_device_requirement out = o;
                                                  return hk_device_requirements_get(requirements, 0, &out, error);
                                              }},
                  false);
    refuses_sizes(Call<hk_queue_advice>{"hk_queue_advice",
                                        {},
                                        [&](const hk_queue_advice& o, hk_error* error) {
                                            hk_queue_advice out = o;
                                            return hk_device_requirements_queue(requirements, &out, error);
                                        }},
                  false);
    hk_device_requirements_destroy(requirements);
    all_tested("device");
}

TEST_CASE("invalid members are rejected: plans") {
    FaultDriver::get().reset();
    Engine engine;
    const hk_string one = view(kModel);
    Call<hk_plan_options> plan{"hk_plan_options", {}, [&](const hk_plan_options& o, hk_error* error) {
                                   return hk_plan(engine.real, &o, error);
                               }};
    plan.valid.struct_size = sizeof plan.valid;
    plan.valid.mode = HK_PLAN_FORWARD;
    plan.valid.model = one;
    plan.valid.length = kLength;
    plan.valid.report = [](void*, const hk_plan_report*) {};
    refuses_sizes(plan);
    HK_REFUSES(plan, mode, 3, "is 3, expected 0 to 2");
    HK_REFUSES(plan, mode, HK_PLAN_TRAIN - 1, "is -1, expected 0 to 2");
    HK_REFUSES_TEXT(plan, recipe);
    HK_REFUSES_TEXTS(plan, overrides, override_count);
    HK_REFUSES(plan, model, hk_string{}, "is empty, expected the folder or file of a model");
    HK_REFUSES(plan, rows, -1, "is -1, expected 0 to");
    HK_REFUSES(plan, length, 0, "is 0, expected 1 to");
    HK_REFUSES_TEXTS(plan, ports, port_count);
    HK_REFUSES(plan, weights, 1, "is 1, expected 0 to 0");
    HK_REFUSES(plan, measure, 1, "is 1, expected 0: only HK_PLAN_TRAIN measures");
    HK_REFUSES_TEXTS(plan, adapters, adapter_count);
    HK_REFUSES(plan, adapters_by_row, 1, "is not 0, but there are no adapters");
    HK_REFUSES(plan, adapter_slots, -1, "is -1, expected 0 to 65536");
    HK_REFUSES(plan, adapter_slots, 1, "is set, expected none: only HK_PLAN_GENERATE has them here");
    HK_REFUSES(plan, report, nullptr, "is null, expected a function");
    Call<hk_device_limits> limits{"hk_device_limits", {}, [&](const hk_device_limits& o, hk_error* error) {
                                      hk_plan_options with = plan.valid;
                                      with.limits = &o;
                                      return hk_plan(engine.none, &with, error);
                                  }};
    limits.valid.struct_size = sizeof limits.valid;
    const std::string kind = "mobile";
    REQUIRE(hk_device_limits_named(view(kind), &limits.valid, nullptr) == HK_OK);
    refuses_sizes(limits);
    HK_REFUSES(limits, subgroup_size, 48, "is 48, expected a power of two");
    HK_REFUSES(limits, max_group_invocations, 64, "is 64, expected 128 or more");
    HK_REFUSES(limits, shared_memory, 1024, "is 1024, expected 16384 or more");
    HK_REFUSES(limits, cores, -1, "is -1, expected 0 or more");
    HK_REFUSES(limits, max_allocation, 4096, "is 4096, expected 1048576 bytes or more");
    HK_REFUSES(limits, flops, 0.0, "is 0, expected float32 operations");
    HK_REFUSES(limits, bandwidth, kNan, "is nan, expected bytes per second");
    all_tested("plan");
}

TEST_CASE("invalid members are rejected: options of sessions") {
    FaultDriver::get().reset();
    Engine engine;
    const Call<hk_generate_options> generate = generate_call(engine);
    Call<hk_session_options> own{"hk_session_options", {}, [&](const hk_session_options& o, hk_error* error) {
                                     hk_session session{};
                                     return hk_session_generate(engine.real, &generate.valid, &o, &session, error);
                                 }};
    own.valid.struct_size = sizeof own.valid;
    refuses_sizes(own);
    HK_REFUSES(own, reserved, 1, "is 1, expected 0");
    HK_REFUSES(own, microseconds, -1.0, "is -1, expected 0 to 1000000000");
    HK_REFUSES(own, length, -1, "is -1, expected 0 to");

    const Call<hk_forward_options> forward{"hk_forward_options", engine.forward_options(),
                                           [&](const hk_forward_options& o, hk_error* error) {
                                               hk_session session{};
                                               return hk_session_forward(engine.real, &o, nullptr, &session, error);
                                           }};
    refuses_sizes(forward);
    HK_REFUSES(forward, model, hk_string{}, "is empty, expected the folder or file of a model");
    HK_REFUSES(forward, rows, 0, "is 0, expected 1 to");
    HK_REFUSES(forward, length, -3, "is -3, expected 1 to");
    HK_REFUSES_TEXTS(forward, ports, port_count);
    HK_REFUSES_NULL_ARRAY(forward, bindings, binding_count);
    HK_REFUSES(forward, reserved, 1, "is 1, expected 0");
    HK_REFUSES(forward, decoder_length, -1, "is -1, expected 0 to");
    Call<hk_buffer> buffer{"hk_buffer", {}, [&](const hk_buffer& o, hk_error* error) {
                               const hk_binding binding{engine.port, o};
                               hk_forward_options with = forward.valid;
                               with.bindings = &binding;
                               with.binding_count = 1;
                               return forward.make(with, error);
                           }};
    buffer.valid.struct_size = sizeof buffer.valid;
    buffer.valid.buffer = 1;
    refuses_sizes(buffer, false); // it is embedded in a binding, so it cannot be longer
    HK_REFUSES(buffer, buffer, 0, "is 0, expected a VkBuffer");
    HK_REFUSES(buffer, reserved, 1, "is 1, expected 0");

    Call<hk_session_callbacks> of_session{"hk_session_callbacks", {}, [&](const hk_session_callbacks& o, hk_error* e) {
                                              return hk_session_replace_callbacks(engine.passes, &o, e);
                                          }};
    of_session.valid.struct_size = sizeof of_session.valid;
    refuses_sizes(of_session);
    HK_REFUSES(of_session, reserved, 1, "is 1, expected 0");
    all_tested("session");
}

TEST_CASE("invalid members are rejected: calls of sessions") {
    FaultDriver::get().reset();
    Engine engine;
    const hk_string one = view(kModel);
    Call<hk_advance> advance{"hk_advance", {}, [&](const hk_advance& o, hk_error* error) {
                                 return hk_session_advance(engine.passes, &o, nullptr, error);
                             }};
    advance.valid.struct_size = sizeof advance.valid;
    refuses_sizes(advance);
    HK_REFUSES(advance, reserved, 1, "is 1, expected 0");
    HK_REFUSES(advance, microseconds, -1.0, "is -1, expected 0 to 1000000000000");
    HK_REFUSES_NULL_ARRAY(advance, waits, wait_count);
    HK_REFUSES_NULL_ARRAY(advance, signals, signal_count);
    const hk_timeline point{1, 1}, no_point{0, 1};
    refuses<hk_advance>(advance, "waits[0].semaphore", "is 0, expected a VkSemaphore", [&](auto& o) {
        o.waits = &no_point;
        o.wait_count = 1;
    });
    refuses<hk_advance>(advance, "signals[0].semaphore", "is 0, expected a VkSemaphore", [&](auto& o) {
        o.signals = &no_point;
        o.signal_count = 1;
    });
    refuses<hk_advance>(advance, "lease.semaphore", "is 0, expected a VkSemaphore",
                        [&](auto& o) { o.command_buffer = &engine; });
    refuses<hk_advance>(advance, "signal_count", "is 1, expected 0 with a command_buffer", [&](auto& o) {
        o.command_buffer = &engine;
        o.lease = point;
        o.signals = &point;
        o.signal_count = 1;
    });
    refuses_sizes(Call<hk_advanced>{"hk_advanced",
                                    {},
                                    [&](const hk_advanced& o, hk_error* error) {
                                        hk_advanced out = o;
                                        return hk_session_advance(engine.passes, &advance.valid, &out, error);
                                    }},
                  false);
    refuses_sizes(Call<hk_session_info>{"hk_session_info",
                                        {},
                                        [&](const hk_session_info& o, hk_error* error) {
                                            hk_session_info out = o;
                                            return hk_session_wait(engine.passes, 0, &out, error);
                                        }},
                  false);
    refuses_sizes(Call<hk_tensor>{"hk_tensor",
                                  {},
                                  [&](const hk_tensor& o, hk_error* error) {
                                      hk_tensor out = o;
                                      return hk_session_tensor(engine.passes, engine.port, &out, error);
                                  }},
                  false);
    refuses_sizes(Call<hk_pumped>{"hk_pumped",
                                  {},
                                  [&](const hk_pumped& o, hk_error* error) {
                                      hk_pumped out = o;
                                      return hk_context_pump(engine.real, 0, &out, error);
                                  }},
                  false);
    hk_model model{};
    REQUIRE(hk_model_open(engine.none, one, &model, nullptr) == HK_OK);
    refuses_sizes(Call<hk_model_info>{"hk_model_info",
                                      {},
                                      [&](const hk_model_info& o, hk_error* error) {
                                          hk_model_info out = o;
                                          return hk_model_describe(model, &out, error);
                                      }},
                  false);
    hk_model_destroy(model);
    all_tested("advance");
}

TEST_CASE("every struct of the headers has a case") {
    for (const std::string& member : declared_members()) {
        const std::string type = member.substr(0, member.find('.'));
        CHECK_MESSAGE((kOutputs.contains(member) ||
                       std::ranges::any_of(kStructs, [&](const auto& one) { return one.second.contains(type); })),
                      member);
    }
}

TEST_CASE("token ids outside of the vocabulary are rejected with their position and value") {
    FaultDriver::get().reset();
    const Engine engine;
    const Error error;
    std::array<int32_t, kLength> ids{1, 2, 3, 4};
    const auto refused = [&](const char* message) {
        CHECK(hk_session_pass(engine.passes, ids.data(), nullptr, error) == HK_INVALID_ARGUMENT);
        CHECK_MESSAGE(error.says(message), error.message());
    };
    ids[2] = -1;
    refused("ids[0][2] is -1, expected a token id of the model, 0 to ");
    ids[2] = 1'000'000;
    refused("ids[0][2] is 1000000, expected a token id of the model, 0 to ");
    const uint64_t length = 2; // the row is not read beyond its length
    REQUIRE_MESSAGE(hk_session_pass(engine.passes, ids.data(), &length, error) == HK_OK, error.message());

    hk_embed_options embed{};
    hk_embed_defaults(&embed);
    const int32_t* row = ids.data();
    const uint64_t all = kLength;
    embed.model = view(kModel);
    embed.rows = &row;
    embed.row_lengths = &all;
    embed.row_count = 1;
    embed.row = [](void*, uint64_t, const float*, const int64_t*, uint32_t) -> int32_t { return 0; };
    CHECK(hk_embed(engine.real, &embed, error) == HK_INVALID_ARGUMENT);
    CHECK_MESSAGE(error.says("row 1: token 3 is 1000000, expected a token id of the model, 0 to "), error.message());
}

} // namespace arguments_test
