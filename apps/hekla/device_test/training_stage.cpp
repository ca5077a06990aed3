// Trains 20 steps at once, and again with a stop and a resume in the middle: the models have the same bits.
#include "base/file.hpp"
#include "base/philox.hpp"
#include "base/stopwatch.hpp"
#include "device_test/device_facts.hpp"
#include "device_test/test_stages.hpp"
#include "program/lowering/half.hpp"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::app {
namespace {

constexpr int64_t kSteps = 20, kStop = 10;

constexpr const char* kTestRecipe = R"([model]
architecture = "gpt2"
n_layer = 1
n_head = 2
n_embd = 32
n_positions = 32
[data]
train = "{text}"
[tokenizer]
kind = "char"
[train]
max_steps = {steps}
context_length = 32
per_device_train_batch_size = 4
learning_rate = 1e-2
warmup_steps = 2
eval_steps = 0
save_steps = 1000
bf16 = {bf16}
fp16 = {fp16}
[output]
dir = "{run}"
)";

// Words in an order that a model can learn in some steps.
std::string text_of_words() {
    constexpr const char* kWords[] = {"basalt", "glacier", "lava", "ridge", "ash", "summit", "river", "moss"};
    RandomStream random(1766, 0);
    std::string text;
    std::size_t word = 0;
    for (int i = 0; i < 4000; ++i) {
        word = (word + 1 + random.next_below(2)) % std::size(kWords);
        text += fmt::format("{}{}", kWords[word], i % 12 == 11 ? '\n' : ' ');
    }
    return text;
}

struct TrainedSteps {
    int64_t last = 0, stop_after = 0; // 0: not stopped
    double first_loss = 0, loss = 0, seconds = 0;
};

// Trains until `stop_after`, from the newest checkpoint if there is one.
Result<TrainedSteps> train_until(const Globals& globals, const std::string& recipe, int64_t stop_after) {
    const HostError error;
    HostContext context;
    if (context.create(globals, error) != kDone) return error.status();
    TrainedSteps steps{.stop_after = stop_after};
    hk_train_options options{};
    options.struct_size = sizeof options;
    options.recipe = text(recipe);
    options.user = &steps;
    options.step = [](void* user, const hk_train_step* step) {
        TrainedSteps& all = *static_cast<TrainedSteps*>(user);
        if (all.last == 0) all.first_loss = step->loss;
        all.last = step->step;
        all.loss = step->loss;
        all.seconds += step->seconds;
    };
    options.stop = [](void* user) -> int32_t {
        const TrainedSteps& all = *static_cast<const TrainedSteps*>(user);
        return all.stop_after > 0 && all.last >= all.stop_after ? 1 : 0;
    };
    hk_train_result result{};
    result.struct_size = sizeof result;
    if (hk_train(context.context, &options, &result, error.error) != HK_OK) return error.status();
    return steps;
}

Result<report::Line> compare_runs(const StageInput& input, program::Storage precision, std::string& problem) {
    const std::string name = program::storage_name(precision);
    const auto recipe_of = [&](const char* run) -> Result<std::string> {
        const std::filesystem::path file = input.folder / fmt::format("{}-{}.toml", name, run);
        HK_TRY(write_file_atomically(
            file, fmt::format(fmt::runtime(kTestRecipe), fmt::arg("text", (input.folder / "text.txt").string()),
                              fmt::arg("steps", kSteps), fmt::arg("bf16", precision == program::Storage::bf16),
                              fmt::arg("fp16", precision == program::Storage::f16),
                              fmt::arg("run", (input.folder / fmt::format("{}-{}", name, run)).string()))));
        return file.string();
    };
    HK_ASSIGN(const std::string whole, recipe_of("whole"));
    HK_ASSIGN(const std::string parts, recipe_of("parts"));
    HK_ASSIGN(const TrainedSteps one, train_until(input.globals, whole, 0));
    HK_ASSIGN(const TrainedSteps first, train_until(input.globals, parts, kStop));
    HK_ASSIGN(const TrainedSteps second, train_until(input.globals, parts, 0));
    const auto model_of = [&](const char* run) {
        return read_file(input.folder / fmt::format("{}-{}", name, run) / "model.safetensors");
    };
    HK_ASSIGN(const std::string expected, model_of("whole"));
    HK_ASSIGN(const std::string resumed, model_of("parts"));
    const bool equal = expected == resumed && second.loss == one.loss;
    if (!problem.empty()) return report::Line();
    if (first.last != kStop || second.last != kSteps)
        problem = fmt::format("{}: the resumed training ended at step {} of {}", name, second.last, kSteps);
    else if (!equal)
        problem = fmt::format("{}: a training that was resumed at step {} has other bits than one that was not; the "
                              "losses of step {} are {} and {}",
                              name, kStop, kSteps, second.loss, one.loss);
    else if (!std::isfinite(one.loss) || !(one.loss < one.first_loss))
        problem = fmt::format("{}: the loss went from {} to {} in {} steps; it should fall", name, one.first_loss,
                              one.loss, kSteps);
    return report::Line{{"steps", kSteps},
                        {"first_loss", one.first_loss},
                        {"last_loss", one.loss},
                        {"resumed_equal", equal},
                        {"ms_per_step", 1e3 * one.seconds / static_cast<double>(kSteps)}};
}

} // namespace

Result<StageOutcome> training_stage(const StageInput& input) {
    const auto begin = std::chrono::steady_clock::now();
    HK_TRY(write_file_atomically(input.folder / "text.txt", text_of_words()));
    std::vector<program::Storage> precisions;
    {
        HK_ASSIGN(const auto runtime, stage_runtime(input));
        precisions = precisions_of(*runtime);
    }
    StageOutcome outcome;
    std::vector<std::string> names;
    double first = 0, last = 0;
    for (const program::Storage precision : precisions) {
        if (seconds_since(begin) > input.seconds) break; // the text names those that were compared
        const char* name = program::storage_name(precision);
        HK_ASSIGN(outcome.result[name], compare_runs(input, precision, outcome.problem));
        if (!outcome.problem.empty()) return outcome;
        names.emplace_back(name);
        if (precision == program::Storage::f32) {
            first = outcome.result[name].value("first_loss", 0.0);
            last = outcome.result[name].value("last_loss", 0.0);
        }
    }
    outcome.text = fmt::format("{} steps, loss {:.3f} to {:.3f}; resumed at step {}: equal bits in {}", kSteps, first,
                               last, kStop, fmt::join(names, ", "));
    return outcome;
}

} // namespace hekla::app
