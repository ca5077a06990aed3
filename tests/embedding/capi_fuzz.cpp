// Random calls of every function of the C API on several threads, and from callbacks: of valid and invalid handles,
// with options of all kinds, while other threads release, restore and destroy what is used.
//   capi_fuzz [SEED [CALLS [THREADS]]]
// Fails where a call returns HK_INTERNAL, or an error object that contradicts what it returned, or does not return for
// two minutes. Run it under the sanitizers too (presets asan and tsan).
#include "hekla/capture.h"
#include "hekla/device.h"
#include "hekla/hekla.h"
#include "hekla/model.h"
#include "hekla/plan.h"
#include "hekla/session.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostIds = 64 * 64; // of the passes of a session that can be made here
constexpr int kMostThreads = 16;

hk_string view(std::string_view text) { return {text.data(), text.size()}; }

// ---- random values --------------------------------------------------------------------------------------------------

thread_local std::mt19937_64* g_random = nullptr; // null on threads of the library until a callback of theirs is called
std::atomic<uint64_t> g_seed{0};

uint64_t below(uint64_t n) {
    if (g_random == nullptr) {
        thread_local std::mt19937_64 own(g_seed.fetch_add(1));
        g_random = &own;
    }
    return (*g_random)() % n;
}
bool one_in(uint64_t n) { return below(n) == 0; }

double real() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kValues[] = {0.0,    -0.0,   -1.0,      1.0,        0.5,
                                  50.0,   500.0,  2000.0,    1e9,        1e300,
                                  -1e300, 5e-324, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
    return kValues[below(std::size(kValues))];
}
int64_t integer() {
    constexpr int64_t kValues[] = {
        0, -1, -2, 1, 2, 3, 5, 8, 64, 1000, 4096, INT32_MAX, int64_t{INT32_MAX} + 1, INT64_MAX, INT64_MIN};
    return kValues[below(std::size(kValues))];
}
int32_t small() { return static_cast<int32_t>(below(5)) - 1; }
int64_t length() { return one_in(8) ? integer() : static_cast<int64_t>(1 + below(8)); }
// A struct of a host that was compiled with a longer version of it.
constexpr uint32_t kAppended = 64;
template<class T>
struct Longer : T {
    unsigned char appended[kAppended] = {};
};
// Usually the size of the struct.
template<class T>
uint32_t size_of() {
    constexpr auto kSize = static_cast<uint32_t>(sizeof(T));
    const uint64_t chosen = below(60);
    return chosen == 0 ? 0 : chosen == 1 ? kSize - 8 : chosen == 2 ? kSize + kAppended : kSize;
}
template<class T>
T* sometimes_null(T* value) {
    return one_in(30) ? nullptr : value;
}

// ---- handles --------------------------------------------------------------------------------------------------------

// Handles that all threads use. Storing one destroys the one that was there.
template<class Handle, std::size_t kCount>
class Handles {
public:
    explicit Handles(void (*destroy)(Handle)) : destroy_(destroy) {}
    Handle any() {
        const uint64_t id = ids_[below(kCount)].load();
        return {one_in(40) ? below(UINT64_MAX) : one_in(40) ? id ^ (uint64_t{1} << below(64)) : one_in(60) ? 0 : id};
    }
    void store(Handle handle) {
        if (const uint64_t before = ids_[below(kCount)].exchange(handle.id); before != 0) destroy_({before});
    }
    void destroy_all() {
        for (std::atomic<uint64_t>& id : ids_)
            if (const uint64_t before = id.exchange(0); before != 0) destroy_({before});
    }
    bool all_there() const {
        return std::ranges::all_of(ids_, [](const std::atomic<uint64_t>& id) { return id.load() != 0; });
    }

private:
    void (*destroy_)(Handle);
    std::array<std::atomic<uint64_t>, kCount> ids_{};
};

Handles<hk_context, 2> g_contexts(hk_context_destroy);
Handles<hk_session, 6> g_sessions(hk_session_destroy);
Handles<hk_loaded_adapter, 3> g_adapters(hk_adapter_destroy);
Handles<hk_model, 3> g_models(hk_model_destroy);

// ---- what is called -------------------------------------------------------------------------------------------------

struct Place {
    std::string folder, recipe, model, adapter, cache, plugins = HEKLA_PLUGIN_FOLDER;
    std::string at(const char* name) const { return folder + "/" + name; }
} g_place;

std::atomic<bool> g_ended{false}, g_failed{false};
std::atomic<uint64_t> g_calls{0}, g_succeeded{0};
std::atomic<const char*> g_doing[kMostThreads];
std::atomic<uint64_t> g_done[kMostThreads];

std::string_view text_of(hk_string text) { return {text.data, static_cast<std::size_t>(text.size)}; }

// An error object for one call, or none.
class Call {
public:
    Call() : error_(one_in(10) ? nullptr : hk_error_create()) {}
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() { hk_error_destroy(error_); }
    operator hk_error*() const { return error_; }
    // Checks what a function returned. True: it succeeded.
    bool check(const char* function, int32_t code) const {
        ++g_calls;
        if (code == HK_OK) ++g_succeeded;
        const std::string_view message = text_of(hk_error_message(error_));
        const bool known = code >= HK_OK && code < HK_INTERNAL;
        const bool agrees = error_ == nullptr || code == HK_OK || (hk_error_code(error_) == code && !message.empty());
        if (known && agrees) return code == HK_OK;
        std::fprintf(stderr, "%s returned %" PRId32 ", and its error %" PRId32 ": %.*s\n", function, code,
                     hk_error_code(error_), static_cast<int>(message.size()), message.data());
        g_failed = true;
        return false;
    }

private:
    hk_error* error_;
};

hk_string any_model() {
    static const std::string &of_encoder =
                                 *new std::string(HEKLA_SOURCE_DIR "/tests/fixtures/models/t5-span-corruption"),
                             &without_tokenizer = *new std::string(HEKLA_SOURCE_DIR "/tests/fixtures/models/gpt2-clm");
    switch (below(24)) {
    case 0: return view("/nowhere");
    case 1: return view("");
    case 2: return view("/dev/null");
    case 3: return view(g_place.recipe);
    case 4: return view(of_encoder);
    case 5: return view(without_tokenizer);
    default: return view(g_place.model);
    }
}

void act(bool in_callback);

void hear_text(void*, uint64_t, hk_string) {
    if (one_in(8)) act(true);
}
void hear_step(void*, const hk_train_step*) {
    if (one_in(4)) act(true);
}
void hear_message(void*, hk_string) {
    if (one_in(16)) act(true);
}
void hear_pass(void*, uint64_t) {
    if (one_in(3)) act(true);
}
int32_t hear_stop(void*) { return g_ended || one_in(300) ? 1 : 0; }
int32_t stop_at_once(void*) { return 1; }

void create_context() {
    if (g_contexts.all_there() && !one_in(20)) return;
    const hk_string folder = view(g_place.plugins);
    Longer<hk_context_options> options{};
    options.struct_size = size_of<hk_context_options>();
    options.plugin_folders = one_in(30) ? nullptr : &folder;
    options.plugin_folder_count = options.plugin_folders != nullptr ? 1 : 0;
    options.cache_folder = view(g_place.cache);
    if (one_in(2)) options.log = [](void*, int32_t, hk_string) {};
    options.no_threads = one_in(5) ? 1 : 0;
    options.device_kind = one_in(6) ? small() : HK_DEVICE_OWN;
    options.describe = HK_DESCRIBE_IN_PROCESS;
    if (one_in(10)) options.memory_cap = below(uint64_t{1} << 28);
    hk_context made{};
    const Call call;
    const bool given = !one_in(40);
    if (call.check("hk_context_create", hk_context_create(sometimes_null(&options), given ? &made : nullptr, call)))
        g_contexts.store(made);
}

void destroy_context() {
    if (one_in(40)) g_contexts.store({0});
}

void generate() {
    const hk_string prompts[] = {view("line 1"), view("of the text"), view("")};
    Longer<hk_generate_options> options;
    hk_generate_defaults(&options);
    options.struct_size = size_of<hk_generate_options>();
    options.model = any_model();
    options.prompts = prompts;
    options.prompt_count = one_in(20) ? 0 : 1 + below(3);
    options.max_new_tokens = length();
    options.greedy = small();
    if (one_in(6)) options.beams = length();
    if (one_in(6)) options.temperature = real();
    if (one_in(6)) options.top_p = real();
    if (one_in(6)) options.min_p = real();
    if (one_in(6)) options.top_k = integer();
    if (one_in(6)) options.repetition_penalty = real();
    if (one_in(6)) options.no_repeat_ngram_size = integer();
    if (one_in(4)) options.adapter_slots = small();
    if (one_in(8)) options.adapter_rank = static_cast<int32_t>(integer());
    if (one_in(20)) options.weights = small();
    if (one_in(20)) options.reference = 1;
    if (one_in(8)) options.slide_context = 0;
    options.text = one_in(3) ? nullptr : hear_text;
    options.stop = options.max_new_tokens > 50 ? stop_at_once : one_in(3) ? nullptr : hear_stop;
    const Call call;
    if (one_in(4)) {
        Longer<hk_generate_result> result{};
        result.struct_size = size_of<hk_generate_result>();
        call.check("hk_generate", hk_generate(g_contexts.any(), &options, one_in(2) ? nullptr : &result, call));
        return;
    }
    Longer<hk_session_options> own{};
    own.struct_size = size_of<hk_session_options>();
    if (one_in(4)) own.microseconds = real();
    if (one_in(6)) own.length = length();
    hk_session made{};
    if (call.check("hk_session_generate",
                   hk_session_generate(g_contexts.any(), &options, one_in(3) ? nullptr : &own, &made, call)))
        g_sessions.store(made);
}

void forward() {
    const hk_string ports[] = {view("logits"), view("hidden")};
    Longer<hk_forward_options> options{};
    options.struct_size = size_of<hk_forward_options>();
    options.model = any_model();
    options.rows = one_in(8) ? integer() : static_cast<int64_t>(1 + below(2));
    options.length = one_in(8) ? integer() : 8;
    const bool many = options.rows > 0 && options.length > kMostIds / options.rows;
    if (options.rows > 64 || options.length > 64 || many) {
        options.rows = INT64_MAX; // is refused; passes of sessions read no more than there are ids here
        options.length = INT64_MAX;
    }
    options.ports = one_in(30) ? nullptr : ports;
    options.port_count = options.ports != nullptr ? 1 + below(2) : 0;
    options.attention = one_in(10) ? 1 : 0;
    options.lens = one_in(10) ? 1 : 0;
    if (one_in(10)) options.decoder_length = static_cast<int64_t>(below(6)) - 1;
    options.done = one_in(2) ? nullptr : hear_pass;
    hk_session made{};
    const Call call;
    if (call.check("hk_session_forward",
                   hk_session_forward(g_contexts.any(), &options, nullptr, sometimes_null(&made), call)))
        g_sessions.store(made);
}

void train() {
    const std::string folder = "output.dir=" + g_place.folder + "/run-" + std::to_string(below(4));
    const hk_string overrides[] = {view(folder), view("train.max_steps=4"),
                                   view(one_in(20) ? "train.no=1" : "train.seed=1")};
    Longer<hk_train_options> options{};
    options.struct_size = size_of<hk_train_options>();
    options.recipe = one_in(20) ? view("/nowhere.toml") : view(g_place.recipe);
    options.overrides = overrides;
    options.override_count = std::size(overrides);
    options.step = hear_step;
    options.message = hear_message;
    options.stop = hear_stop;
    const Call call;
    if (one_in(8)) {
        Longer<hk_train_result> result{};
        result.struct_size = size_of<hk_train_result>();
        call.check("hk_train", hk_train(g_contexts.any(), &options, sometimes_null(&result), call));
        return;
    }
    hk_session made{};
    if (call.check("hk_session_train", hk_session_train(g_contexts.any(), &options, nullptr, &made, call)))
        g_sessions.store(made);
}

void evaluate() {
    const std::string folder = "output.dir=" + g_place.model;
    const hk_string overrides[] = {view(folder)};
    Longer<hk_evaluate_options> options{};
    options.struct_size = size_of<hk_evaluate_options>();
    options.recipe = view(g_place.recipe);
    options.overrides = overrides;
    options.override_count = 1;
    options.test = one_in(8) ? 1 : 0;
    options.message = hear_message;
    const Call call;
    call.check("hk_evaluate", hk_evaluate(g_contexts.any(), &options, call));
}

void predict() {
    const hk_string texts[] = {view("line 1"), view("")};
    hk_predict_options options;
    hk_predict_defaults(&options);
    options.model = any_model();
    options.texts = texts;
    options.text_count = 1 + below(2);
    options.batch = one_in(8) ? integer() : 0;
    options.length = one_in(8) ? integer() : 0;
    options.row = [](void*, uint64_t, hk_string) -> int32_t { return one_in(2) ? 1 : 0; };
    const Call call;
    call.check("hk_predict", hk_predict(g_contexts.any(), &options, call));
}

void embed() {
    const hk_string texts[] = {view("line 1"), view("of the text")};
    Longer<hk_embed_options> options;
    hk_embed_defaults(&options);
    options.struct_size = size_of<hk_embed_options>();
    options.model = any_model();
    options.texts = texts;
    options.text_count = 1 + below(2);
    options.pooling = one_in(4) ? small() : options.pooling;
    options.row = [](void*, uint64_t, const float*, const int64_t*, uint32_t) -> int32_t { return one_in(2) ? 1 : 0; };
    const Call call;
    call.check("hk_embed", hk_embed(g_contexts.any(), &options, call));
}

void plan() {
    Longer<hk_plan_options> options{};
    options.struct_size = size_of<hk_plan_options>();
    options.mode = small();
    options.model = any_model();
    options.recipe = view(g_place.recipe);
    options.rows = length();
    options.length = length();
    const Call call;
    call.check("hk_plan", hk_plan(g_contexts.any(), &options, call));
}

void pass() {
    static const auto& ids_and_lengths = *new std::array<std::vector<int32_t>, 2>{
        std::vector<int32_t>(kMostIds, 1), std::vector<int32_t>(kMostIds, INT32_MAX)};
    std::vector<int32_t> ids = ids_and_lengths[one_in(20) ? 1 : 0];
    for (std::size_t i = 0; i < 16; ++i)
        ids[i] = one_in(100) ? static_cast<int32_t>(integer()) : static_cast<int32_t>(below(20));
    std::vector<uint64_t> lengths(kMostIds, 8);
    for (std::size_t i = 0; i < 4; ++i) lengths[i] = one_in(10) ? static_cast<uint64_t>(integer()) : 1 + below(8);
    const uint64_t* of_rows = one_in(2) ? nullptr : lengths.data();
    const Call call;
    if (one_in(4))
        call.check("hk_session_pass_pair", hk_session_pass_pair(g_sessions.any(), ids.data(), of_rows,
                                                                one_in(20) ? nullptr : ids.data(), call));
    else
        call.check("hk_session_pass",
                   hk_session_pass(g_sessions.any(), one_in(20) ? nullptr : ids.data(), of_rows, call));
}

void advance() {
    Longer<hk_advance> how{};
    how.struct_size = size_of<hk_advance>();
    how.microseconds = one_in(4) ? real() : 2000.0;
    Longer<hk_advanced> out{};
    out.struct_size = size_of<hk_advanced>();
    const Call call;
    call.check("hk_session_advance",
               hk_session_advance(g_sessions.any(), sometimes_null(&how), sometimes_null(&out), call));
}

void wait() {
    Longer<hk_session_info> info{};
    info.struct_size = size_of<hk_session_info>();
    const Call call;
    call.check("hk_session_wait",
               hk_session_wait(g_sessions.any(), one_in(3) ? below(20'000'000) : 0, sometimes_null(&info), call));
}

void stop() {
    const Call call;
    if (one_in(8)) call.check("hk_session_stop", hk_session_stop(g_sessions.any(), call));
}

void destroy_session() {
    if (one_in(3)) g_sessions.store({0});
}

void prompt() {
    const hk_string prompts[] = {view("line 2"), view("x"), view(""), view("the text")};
    const Call call;
    call.check("hk_session_prompt", hk_session_prompt(g_sessions.any(), sometimes_null(prompts), below(5), call));
}

void set_scalar() {
    const Call call;
    call.check("hk_session_set_scalar",
               hk_session_set_scalar(g_sessions.any(), view(one_in(3) ? "no" : "learning_rate"), real(), call));
}

void release() {
    const Call call;
    call.check("hk_session_release_memory",
               hk_session_release_memory(g_sessions.any(), one_in(3) ? below(1'000'000) : 0, call));
}

void restore() {
    const Call call;
    call.check("hk_session_restore_memory", hk_session_restore_memory(g_sessions.any(), call));
}

void release_device() {
    const Call call;
    if (one_in(8)) call.check("hk_device_release", hk_device_release(g_contexts.any(), below(1'000'000), call));
}

void replace_callbacks() {
    const Call call;
    if (one_in(4)) {
        Longer<hk_context_callbacks> callbacks{};
        callbacks.struct_size = size_of<hk_context_callbacks>();
        call.check("hk_context_replace_callbacks",
                   hk_context_replace_callbacks(g_contexts.any(), sometimes_null(&callbacks), call));
        return;
    }
    Longer<hk_session_callbacks> callbacks{};
    callbacks.struct_size = size_of<hk_session_callbacks>();
    callbacks.text = one_in(2) ? nullptr : hear_text;
    callbacks.step = one_in(2) ? nullptr : hear_step;
    callbacks.message = one_in(2) ? nullptr : hear_message;
    callbacks.done = one_in(2) ? nullptr : hear_pass;
    callbacks.stop = hear_stop;
    call.check("hk_session_replace_callbacks",
               hk_session_replace_callbacks(g_sessions.any(), sometimes_null(&callbacks), call));
}

void look_at_tensors() {
    Longer<hk_tensor> tensor{};
    tensor.struct_size = size_of<hk_tensor>();
    const Call call;
    const auto skip = [](void*, const hk_parameter*) {};
    const auto skip_tensor = [](void*, hk_string, const hk_tensor*) {};
    switch (below(4)) {
    case 0:
        call.check("hk_session_tensor", hk_session_tensor(g_sessions.any(), view(one_in(2) ? "logits" : "input_ids"),
                                                          sometimes_null(&tensor), call));
        break;
    case 1: call.check("hk_session_tensors", hk_session_tensors(g_sessions.any(), nullptr, skip_tensor, call)); break;
    case 2: call.check("hk_session_parameters", hk_session_parameters(g_sessions.any(), nullptr, skip, call)); break;
    default:
        call.check("hk_session_parameter",
                   hk_session_parameter(g_sessions.any(), view(one_in(2) ? "wte.weight" : "transformer.wte.weight"),
                                        small(), sometimes_null(&tensor), call));
    }
}

void pump() {
    Longer<hk_pumped> pumped{};
    pumped.struct_size = size_of<hk_pumped>();
    const Call call;
    call.check("hk_context_pump", hk_context_pump(g_contexts.any(), below(3'000'000), sometimes_null(&pumped), call));
}

void run_session() {
    const Call call;
    if (one_in(8)) call.check("hk_session_run", hk_session_run(g_sessions.any(), call));
}

void use_adapters() {
    const Call call;
    hk_loaded_adapter made{};
    switch (below(3)) {
    case 0:
        if (call.check("hk_adapter_open",
                       hk_adapter_open(g_contexts.any(), one_in(10) ? view("/nowhere") : view(g_place.adapter),
                                       one_in(5) ? any_model() : view(g_place.model), sometimes_null(&made), call)))
            g_adapters.store(made);
        break;
    case 1:
        call.check("hk_session_adapter_put",
                   hk_session_adapter_put(g_sessions.any(), one_in(3) ? static_cast<int32_t>(integer()) : small(),
                                          g_adapters.any(), call));
        break;
    default:
        call.check("hk_session_adapter_row",
                   hk_session_adapter_row(g_sessions.any(), one_in(4) ? static_cast<uint64_t>(integer()) : below(3),
                                          one_in(3) ? static_cast<int32_t>(integer()) : small(), real(), small(),
                                          call));
    }
}

void use_models() {
    const Call call;
    hk_model made{};
    Longer<hk_model_info> info{};
    info.struct_size = size_of<hk_model_info>();
    const auto take_ids = [](void*, const int32_t*, uint64_t) {};
    const auto take_text = [](void*, hk_string) {};
    const auto take_parameter = [](void*, const hk_parameter*) {};
    const int32_t ids[] = {1, 2, 3, one_in(10) ? static_cast<int32_t>(integer()) : 4};
    switch (below(6)) {
    case 0:
        if (call.check("hk_model_open", hk_model_open(g_contexts.any(), any_model(), sometimes_null(&made), call)))
            g_models.store(made);
        break;
    case 1: call.check("hk_model_describe", hk_model_describe(g_models.any(), sometimes_null(&info), call)); break;
    case 2:
        call.check("hk_model_parameters", hk_model_parameters(g_models.any(), nullptr, take_parameter, call));
        break;
    case 3:
        call.check("hk_model_encode", hk_model_encode(g_models.any(), view("line 7"), nullptr, take_ids, call));
        break;
    case 4:
        call.check("hk_model_encode_source",
                   hk_model_encode_source(g_models.any(), view("line 7"), nullptr, take_ids, call));
        break;
    default: call.check("hk_model_decode", hk_model_decode(g_models.any(), ids, below(5), nullptr, take_text, call));
    }
}

void look_at_devices() {
    const Call call;
    Longer<hk_device_limits> limits{};
    limits.struct_size = size_of<hk_device_limits>();
    switch (below(5)) {
    case 0: static_cast<void>(hk_version()); break;
    case 1: static_cast<void>(hk_context_device(g_contexts.any())); break; // the text may be freed
    case 2:
        call.check("hk_device_limits_of", hk_device_limits_of(g_contexts.any(), sometimes_null(&limits), call));
        break;
    case 3:
        call.check("hk_device_limits_named",
                   hk_device_limits_named(view(one_in(2) ? "no device" : ""), sometimes_null(&limits), call));
        break;
    default: {
        hk_device_requirements needs{below(UINT64_MAX)};
        Longer<hk_device_requirement> one{};
        one.struct_size = size_of<hk_device_requirement>();
        static_cast<void>(hk_device_requirements_count(needs));
        call.check("hk_device_requirements_get", hk_device_requirements_get(needs, below(9), &one, call));
        hk_device_requirements_destroy(needs);
        call.check("hk_device_requirements_create", hk_device_requirements_create(nullptr, &needs, call));
    }
    }
}

void capture() {
    if (!one_in(4)) return;
    const std::string file = g_place.at("calls.capture");
    const Call call;
    call.check("hk_capture", hk_capture(g_contexts.any(), one_in(2) ? view("") : view(file), call));
}

struct Action {
    const char* name;
    void (*call)();
    int weight;              // of 1,000 or so
    bool in_callback = true; // may be called there, and ends soon
};

constexpr Action kActions[] = {
    {"create_context", create_context, 20, false},
    {"destroy_context", destroy_context, 20, false},
    {"generate", generate, 40},
    {"forward", forward, 30},
    {"train", train, 8},
    {"evaluate", evaluate, 3},
    {"predict", predict, 8},
    {"embed", embed, 10},
    {"plan", plan, 5},
    {"pass", pass, 60},
    {"advance", advance, 250},
    {"wait", wait, 120},
    {"stop", stop, 20},
    {"destroy_session", destroy_session, 10},
    {"prompt", prompt, 60},
    {"set_scalar", set_scalar, 40},
    {"release", release, 60},
    {"restore", restore, 60},
    {"release_device", release_device, 10},
    {"replace_callbacks", replace_callbacks, 30},
    {"look_at_tensors", look_at_tensors, 60},
    {"pump", pump, 30, false},
    {"run_session", run_session, 10, false},
    {"use_adapters", use_adapters, 60},
    {"use_models", use_models, 60},
    {"look_at_devices", look_at_devices, 30},
    {"capture", capture, 10},
};

thread_local int g_thread = -1; // of this program

void act(bool in_callback) {
    int all = 0;
    for (const Action& action : kActions) all += action.weight;
    auto chosen = static_cast<int>(below(static_cast<uint64_t>(all)));
    for (const Action& action : kActions) {
        chosen -= action.weight;
        if (chosen >= 0) continue;
        if (in_callback && !action.in_callback) return;
        const char* before = nullptr;
        if (g_thread >= 0) before = g_doing[g_thread].exchange(action.name);
        action.call();
        if (g_thread >= 0) g_doing[g_thread] = before;
        return;
    }
}

// ---- the program ----------------------------------------------------------------------------------------------------

bool write_recipe() {
    std::string text;
    for (int i = 0; i < 200; ++i) text += "line " + std::to_string(i * i % 97) + " of the text, and some more\n";
    std::ofstream(g_place.at("text.txt")) << text;
    std::ofstream recipe(g_place.recipe);
    recipe << "[model]\narchitecture = \"gpt2\"\nn_embd = 16\nn_layer = 1\nn_head = 2\nn_positions = 64\n[objective]\n"
              "id = \"clm\"\n[head]\nid = \"lm\"\n[tokenizer]\nkind = \"char\"\n[data]\ntrain = \""
           << g_place.at("text.txt")
           << "\"\n[train]\nmax_steps = 2\ncontext_length = 16\nper_device_train_batch_size = 2\nsave_steps = 0\n"
              "eval_steps = 2\neval_batches = 1\n[output]\ndir = \""
           << g_place.model << "\"\n";
    std::ofstream adapter(g_place.at("adapter.toml"));
    adapter << "[model]\nfrom = \"" << g_place.model
            << "\"\n[objective]\nid = \"clm\"\n[adapter]\nid = \"lora\"\nr = 2\ntarget_modules = [\"c_attn\"]\n[data]\n"
               "train = \""
            << g_place.at("text.txt")
            << "\"\n[train]\nmax_steps = 2\ncontext_length = 16\nper_device_train_batch_size = 2\nsave_steps = 0\n"
               "eval_steps = 0\n[output]\ndir = \""
            << g_place.adapter << "\"\n";
    recipe.close();
    adapter.close();
    return recipe && adapter;
}

// Trains the model and the adapter that the calls use.
bool prepare() {
    const hk_string folder = view(g_place.plugins);
    Longer<hk_context_options> options{};
    options.struct_size = sizeof options;
    options.plugin_folders = &folder;
    options.plugin_folder_count = 1;
    options.cache_folder = view(g_place.cache);
    options.describe = HK_DESCRIBE_IN_PROCESS;
    hk_error* const error = hk_error_create();
    hk_context context{};
    int32_t code = hk_context_create(&options, &context, error);
    for (const std::string& recipe : {g_place.recipe, g_place.at("adapter.toml")}) {
        if (code != HK_OK) break;
        Longer<hk_train_options> training{};
        training.struct_size = sizeof training;
        training.recipe = view(recipe);
        code = hk_train(context, &training, nullptr, error);
    }
    if (code != HK_OK) {
        const std::string_view message = text_of(hk_error_message(error));
        std::fprintf(stderr, "capi_fuzz: %.*s\n", static_cast<int>(message.size()), message.data());
    }
    hk_error_destroy(error);
    g_contexts.store(context);
    return code == HK_OK;
}

// Returns false if a thread stays in one call for two minutes.
bool watch(int threads, uint64_t calls) {
    constexpr int kMostSeconds = 120;
    std::array<uint64_t, kMostThreads> before{};
    std::array<int, kMostThreads> seconds{};
    for (int tenths = 0; g_calls < calls && !g_failed; ++tenths) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (tenths % 10 != 0) continue;
        for (int i = 0; i < threads; ++i) {
            const uint64_t now = g_done[i];
            const auto t = static_cast<std::size_t>(i);
            seconds[t] = now == before[t] ? seconds[t] + 1 : 0;
            before[t] = now;
            if (seconds[t] < kMostSeconds) continue;
            const char* const doing = g_doing[i];
            std::fprintf(stderr, "thread %d is in %s for %d s\n", i, doing != nullptr ? doing : "nothing",
                         kMostSeconds);
            return false;
        }
    }
    return true;
}

} // namespace

int main(int argc, char** argv) {
    const uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
    const uint64_t calls = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 2000;
    const int threads = argc > 3 ? std::clamp(std::atoi(argv[3]), 1, kMostThreads) : 4;
    std::fprintf(stderr, "capi_fuzz: seed %" PRIu64 ", %" PRIu64 " calls, %d threads\n", seed, calls, threads);
    g_seed = seed * 1000 + kMostThreads;
    std::string name = (fs::temp_directory_path() / "hekla_capi_fuzz_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
        std::fprintf(stderr, "capi_fuzz: cannot create %s\n", name.c_str());
        return 1;
    }
    g_place.folder = name;
    g_place.recipe = g_place.at("recipe.toml");
    g_place.model = g_place.at("model");
    g_place.adapter = g_place.at("adapter");
    g_place.cache = g_place.at("cache");
    bool passed = write_recipe() && prepare();
    if (passed) {
        std::vector<std::thread> all;
        for (int i = 0; i < threads; ++i)
            all.emplace_back([i, seed] {
                std::mt19937_64 random(seed * 1000 + static_cast<uint64_t>(i));
                g_random = &random;
                g_thread = i;
                while (!g_ended) {
                    act(false);
                    ++g_done[i];
                }
                g_random = nullptr;
            });
        passed = watch(threads, calls);
        g_ended = true;
        if (!passed) std::_Exit(1); // the thread that does not return cannot be joined
        for (std::thread& thread : all) thread.join();
    }
    g_sessions.destroy_all();
    g_adapters.destroy_all();
    g_models.destroy_all();
    g_contexts.destroy_all();
    std::error_code ignored;
    fs::remove_all(g_place.folder, ignored);
    const bool some_succeeded = g_succeeded > g_calls / 10; // otherwise the calls say nothing
    if (passed && !some_succeeded) std::fprintf(stderr, "too few calls succeeded\n");
    std::fprintf(stderr, "capi_fuzz: %" PRIu64 " calls, of which %" PRIu64 " succeeded\n", g_calls.load(),
                 g_succeeded.load());
    return passed && some_succeeded && !g_failed ? 0 : 1;
}
