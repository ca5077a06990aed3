// Options of hekla.hpp, with strings and functions of the standard library. Included by hekla.hpp.
//
// Made by tools/generate_abi from engine/api/host_api.json. Edit that instead.
// clang-format off
#ifndef HEKLA_OPTIONS_HPP
#define HEKLA_OPTIONS_HPP

#include "hekla/session.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hk {

// Convert between strings; the result borrows.
inline hk_string view(std::string_view s) { return {s.data(), s.size()}; }
inline std::string_view view(hk_string s) { return {s.data, static_cast<std::size_t>(s.size)}; }

// Arrays of strings for one call. The strings are borrowed.
class Views {
public:
    const hk_string* of(const std::vector<std::string>& strings) {
        std::vector<hk_string>& all = arrays_.emplace_back();
        for (const std::string& one : strings) all.push_back(view(one));
        return all.empty() ? nullptr : all.data();
    }

private:
    std::deque<std::vector<hk_string>> arrays_;
};

// How to generate; see hk_generate_options.
struct GenerationOptions {
    // Folder of a run, of a checkpoint or of a Hugging Face model, or a file of `hekla export`. Required.
    std::string model;
    // One text per prompt. Empty: one row without a prompt.
    std::vector<std::string> prompts;
    // Most tokens to generate per row, 1 or more.
    int64_t max_new_tokens = 128;
    // Divides the logits before sampling; 0: always the most likely token.
    double temperature = 1.0;
    // Samples from the k most likely tokens; 0 means all.
    int64_t top_k = 0;
    // Samples from the most likely tokens whose probabilities add up to this, above 0 to 1. 1: all.
    double top_p = 1.0;
    // Samples from the tokens that are at least this times as likely as the most likely one, 0 to 1; 0 means all.
    // Applied after temperature, top_k and top_p, in this order.
    double min_p = 0.0;
    // Seed of the sampling: the same seed gives the same text.
    uint64_t seed = 0;
    // HK_PUBLISHED_* bits of the settings that are taken from the generation_config.json of the model's folder,
    // instead of the options of the same name; a setting that it does not have has transformers' default (greedy;
    // with do_sample top_k 50); 0 means none. Where it does not sample, only the repetition penalty is taken. What it
    // has and Hekla does not is named in the log. The end tokens are always the folder's.
    int32_t published = 0;
    // Texts of which any ends a row's text, without being part of it.
    std::vector<std::string> stop_texts;
    // "TOKEN=NUMBER": added to the logit of a token (an id, or the text of one); -inf forbids it.
    std::vector<std::string> logit_biases;
    // Tokens that a row has room for (hk_session_options.length); 0: what the first prompts need.
    int64_t length = 0;
    // Trained adapters on the model, "NAME=FOLDER" or "NAME=FOLDER:SCALE": the folders of runs, of PEFT or of
    // AdapterHub; SCALE multiplies what the adapter adds. Keys of a recipe's [combine] among them choose how they act
    // together: "combine.how=arrow(a, b)", "combine.top_k=1". Without, all add up. What was trained with the only
    // adapter, such as a head "lm", is used too; with several it is an error.
    std::vector<std::string> adapters;
    // The name of each prompt's adapter, "" for none. Empty: all adapters act on all prompts.
    std::vector<std::string> prompt_adapters;
    // Slots for LoRA adapters, 1 or more, of which every prompt uses one or none, and which a session can fill and
    // choose while it generates (hk_session_adapter_put). `adapters` are in the first of them. 0 (default): none;
    // each of `adapters` has memory of its own. An exported file has the slots that it was exported with (`hekla
    // export --adapter-slots`): this, and the next two unless they are 0 and "", are the same.
    int32_t adapter_slots = 0;
    // Rank of the slots: the largest that an adapter may have; 0 means that of `adapters`, or 16 without any.
    int32_t adapter_rank = 0;
    // Ends of the names of modules with slots, with commas between them; "": see hk_generate_options.adapter_targets.
    std::string adapter_targets;
    // Prompts are JSON lists of messages for this template: hk_generate_options.chat_template. "": prompts are texts.
    std::string chat_template;
    // The date that the template prints (hk_generate_options.chat_date); "": now.
    std::string chat_date;
};

// Sets the members of the C struct that have the same name. They borrow from `o` and the views.
inline void fill(hk_generate_options& c, const GenerationOptions& o, Views& views) {
    c.model = view(o.model);
    c.prompts = views.of(o.prompts);
    c.prompt_count = o.prompts.size();
    c.max_new_tokens = o.max_new_tokens;
    c.top_k = o.top_k;
    c.top_p = o.top_p;
    c.min_p = o.min_p;
    c.seed = o.seed;
    c.published = o.published;
    c.stop_texts = views.of(o.stop_texts);
    c.stop_text_count = o.stop_texts.size();
    c.logit_biases = views.of(o.logit_biases);
    c.logit_bias_count = o.logit_biases.size();
    c.adapters = views.of(o.adapters);
    c.adapter_count = o.adapters.size();
    c.adapter_slots = o.adapter_slots;
    c.adapter_rank = o.adapter_rank;
    c.adapter_targets = view(o.adapter_targets);
    c.chat_template = view(o.chat_template);
    c.chat_date = view(o.chat_date);
}

// What to train; see hk_train_options. The functions are called on the session's thread; they may be empty.
struct TrainingOptions {
    // Path of a TOML recipe, or of a run's folder, which has one. Required.
    std::string recipe;
    // Keys of the recipe with other values: "train.max_steps=100".
    std::vector<std::string> overrides;
    // Called after every step. `step` is valid during the callback.
    std::function<void(const hk_train_step& step)> step;
    // Called after every evaluation. `evaluation` is valid during the callback.
    std::function<void(const hk_train_evaluation& evaluation)> evaluation;
    // Takes one line about the run: what was loaded, saved, resumed.
    std::function<void(std::string_view message)> message;
};

// Sets the members of the C struct that have the same name. They borrow from `o` and the views.
inline void fill(hk_train_options& c, TrainingOptions& o, Views& views) {
    c.user = &o;
    c.recipe = view(o.recipe);
    c.overrides = views.of(o.overrides);
    c.override_count = o.overrides.size();
    if (o.step)
        c.step = [](void* user, const hk_train_step* step) { static_cast<const TrainingOptions*>(user)->step(*step); };
    if (o.evaluation)
        c.evaluation = [](void* user, const hk_train_evaluation* evaluation) { static_cast<const TrainingOptions*>(user)->evaluation(*evaluation); };
    if (o.message)
        c.message = [](void* user, hk_string message) { static_cast<const TrainingOptions*>(user)->message(view(message)); };
}

// How a context is made; see hk_context_options.
struct ContextOptions {
    // Folders that are searched for plugins. Empty: hk_plugin_folder().
    std::vector<std::string> plugin_folders;
    // Device that Hekla creates: an index, or a part of a name. "": the best one.
    std::string device;
    // The host's device; null: Hekla creates one.
    const hk_vulkan_device* vulkan = nullptr;
    // Whether the context has no device (HK_DEVICE_NONE).
    bool without_device = false;
    // Folder for compiled kernels. "": nothing is written.
    std::string cache_folder;
    // Takes the engine's messages, on any thread. May be empty.
    std::function<void(int32_t severity, std::string_view message)> log;
    // Whether Hekla starts no thread: sessions run in Context::pump().
    bool no_threads = false;
    // Makes the host call run(data) once, on any thread: hk_context_options.job. May be empty.
    std::function<void(void(HK_ABI* run)(void* data), void* data)> job;
};

// Sets the members of the C struct that have the same name. They borrow from `o` and the views.
inline void fill(hk_context_options& c, ContextOptions& o, Views&) {
    c.user = &o;
    c.device = view(o.device);
    c.vulkan = o.vulkan;
    c.cache_folder = view(o.cache_folder);
    if (o.log)
        c.log = [](void* user, int32_t severity, hk_string message) { static_cast<const ContextOptions*>(user)->log(severity, view(message)); };
    c.no_threads = o.no_threads ? 1 : 0;
    if (o.job)
        c.job = [](void* user, void(HK_ABI* run)(void* data), void* data) { static_cast<const ContextOptions*>(user)->job(run, data); };
}

} // namespace hk

#endif
