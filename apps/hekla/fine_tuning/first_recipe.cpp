#include "fine_tuning/first_recipe.hpp"

#include "base/interrupts.hpp"
#include "base/number_text.hpp"
#include "base/path_text.hpp"
#include "base/utf8.hpp"
#include "data/task_table.hpp"
#include "data/text_files.hpp"
#include "fine_tuning/data_facts.hpp"
#include "fine_tuning/model_facts.hpp"
#include "fine_tuning/recipe_draft.hpp"
#include "fine_tuning/row_layout.hpp"
#include "plugin/instances/rollout_use.hpp"
#include "text/text_encoder.hpp"
#include "train/ranks/rank_start.hpp"
#include "train/recipe/recipe_value.hpp"
#include "train/run/choose_origin.hpp"
#include "train/run/described_training.hpp"
#include "train/run/held_out.hpp"
#include "train/run/prepared_run.hpp"
#include "train/start/fit.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <fmt/chrono.h>
#include <fmt/format.h>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;

using train::toml_text;

constexpr int64_t kSmallModel = 130'000'000; // parameters; BERT and GPT-2 in their first sizes are below
constexpr int64_t kMostTokens = 4096;        // tokens, unless train.context_length is given
constexpr uint64_t kFewRows = 100;           // below, nothing is held out
constexpr int64_t kStepTokens = 16384;       // of an optimizer step

int64_t power_of_two_at_most(double number) {
    return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max(number, 1.0))));
}

int64_t rounded_up(int64_t number, int64_t step) { return (number + step - 1) / step * step; }

std::string number_text(uint64_t number) { return grouped(static_cast<double>(number)); }

// What a task is for the recipe.
struct TaskKeys {
    const char* objective;
    const char* learns; // for a comment
    double adapter_rate, full_rate;
};

TaskKeys keys_of(Task task, bool has_template) {
    switch (task) {
    case Task::chat: return {"chat", "what the assistant writes in conversations", 2e-4, 2e-5};
    case Task::completion: return {"completion", "completions of prompts; prompts are not trained on", 2e-4, 2e-5};
    case Task::preference:
        if (has_template) return {"dpo", "to prefer the chosen answers (direct preference optimization)", 1e-5, 1e-6};
        return {"orpo",
                "the chosen answers, and to prefer them (ORPO): the model was not trained to answer, which DPO assumes",
                5e-5, 8e-6};
    case Task::classify: return {"classification", "the label of a row", 2e-4, 3e-5};
    case Task::text: break;
    }
    return {"clm", "the next token of plain text", 2e-4, 5e-5};
}

class Chooser {
public:
    Chooser(const Globals& globals, const FirstRecipeOptions& options,
            const std::function<void(const std::string&)>& say)
        : globals_(globals), options_(options), say_(say), registry_(scan_plugins(globals)),
          draft_({fmt::format("Written by: {}", command_of(options)),
                  "Change what you like, and train by it: hekla train " + options.file},
                 options.file),
          context_{registry_, std::pmr::new_delete_resource(), alone_, Log(), {}, {}} {
        context_.events.stop = [] { return interrupted(); };
    }

    Result<std::string> choose() {
        HK_ASSIGN(model_, look_at_model(registry_, options_.model));
        say_(model_.text());
        HK_ASSIGN(data_, look_at_data(options_.data));
        HK_TRY(choose_task());
        HK_TRY(choose_data_keys());
        draft_.set("train", "context_length", toml_text(std::min<int64_t>(kShortestRow, longest_allowed())));
        draft_.set("output", "dir", train::quoted(path_text(path_of(options_.file).replace_extension())),
                   "checkpoints, log, and the trained model or adapter");
        if (wants_adapter()) draft_.set("adapter", "id", train::quoted("lora"));
        HK_TRY(draft_.override_keys(options_.overrides));
        HK_TRY(check_folder());
        HK_TRY(read_data());
        DeviceOnDemand device(globals_);
        HK_ASSIGN(program::Runtime * runtime, device.runtime());
        full_ = trains_all();
        HK_TRY(choose_parameters(*runtime));
        HK_TRY(choose_rows(*runtime));
        choose_schedule();
        HK_TRY(draft_.recipe().status());
        return draft_.text();
    }

private:
    bool is_table() const { return task_ != Task::text; }
    int64_t longest_allowed() const {
        return model_.positions > 0 ? std::min(model_.positions, kMostTokens) : kMostTokens;
    }

    Status choose_task() {
        const auto can = [&](Task task) { return model_.causal || task == Task::classify; };
        if (!options_.task.empty()) {
            HK_ASSIGN(task_, task_of_name(options_.task));
            if (std::ranges::find(data_.tasks, task_) == data_.tasks.end())
                return invalid_argument(fmt::format("--task {}: {} has {}, from which --task {} learns", options_.task,
                                                    data_.inputs.front(), data_.found, task_name(data_.tasks.front())));
        } else {
            task_ = data_.tasks.front();
        }
        if (!can(task_))
            return unsupported(
                fmt::format("--model {}: {} reads a text in both directions and cannot write one, and {} "
                            "has {}; give a table of text and label, or a model that writes text",
                            options_.model, model_.architecture, data_.inputs.front(), data_.found));
        const TaskKeys keys = keys_of(task_, model_.chat.has_value());
        draft_.set("model", "from", train::quoted(options_.model));
        draft_.set("objective", "id", train::quoted(keys.objective), fmt::format("learns {}", keys.learns));
        draft_.set("head", "id", train::quoted(task_ == Task::classify ? "classifier" : "lm"));
        if (task_ == Task::classify && model_.causal)
            draft_.set("head", "pooling", train::quoted("last"),
                       "the last token is the one that has read the whole text");
        if (std::string_view(keys.objective) == "dpo")
            draft_.set("teacher", "from", train::quoted(options_.model),
                       "the model as it is now, which DPO compares with");
        return {};
    }

    Status choose_data_keys() {
        draft_.set("data", "train",
                   data_.inputs.size() == 1 ? train::quoted(data_.inputs.front()) : toml_text(data_.inputs),
                   data_.found);
        if (!data_.format.empty()) draft_.set("data", "format", train::quoted(data_.format), "the name does not tell");
        if (task_ == Task::classify) draft_.set("data", "columns", data_.columns);
        if (task_ == Task::text)
            draft_.set("data", "order", train::quoted("shuffle"), "each window of the text once in an epoch");
        if (task_ != Task::chat && !data_.messages) return {};
        if (model_.chat) {
            chat_ = model_.chat;
        } else {
            const text::Tokenizer& tokenizer = *model_.tokenizer;
            const bool chatml = tokenizer.find("<|im_start|>") && tokenizer.find("<|im_end|>");
            if (!chatml && !tokenizer.special(text::TokenRole::eos))
                return unsupported(
                    fmt::format("--model {}: it has no chat template, and its tokenizer has no end token "
                                "that could end a turn; write a recipe with data.chat_template = "
                                "\"chatml\" and tokenizer.add = [\"<|im_start|>\", \"<|im_end|>\"]",
                                options_.model));
            const char* name = chatml ? "chatml" : "zephyr";
            HK_ASSIGN(text::ChatTemplate named, text::ChatTemplate::named(name));
            chat_ = std::move(named);
            draft_.set("data", "chat_template", train::quoted(name),
                       fmt::format("the model has no template; this one needs {}",
                                   chatml ? "<|im_start|> and <|im_end|>, which its tokenizer has"
                                          : "no token besides the end token, so that no embedding has to be added"));
        }
        if (!chat_->reads_date()) return {};
        const std::chrono::year_month_day today(
            std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
        const std::string date = fmt::format("{:04}-{:02}-{:02}", static_cast<int>(today.year()),
                                             static_cast<unsigned>(today.month()), static_cast<unsigned>(today.day()));
        draft_.set("data", "chat_date", train::quoted(date),
                   "the template prints a date: the day this recipe was written");
        HK_ASSIGN(const text::jinja::DateTime day, text::jinja::DateTime::of_day(date));
        chat_ = chat_->dated(day);
        return {};
    }

    // A run must not continue in the folder of another one.
    Status check_folder() const {
        HK_ASSIGN(const train::Recipe recipe, draft_.recipe());
        const fs::path folder = path_of(recipe.output.dir);
        std::error_code problem;
        if (!fs::exists(folder, problem) || (fs::is_directory(folder, problem) && fs::is_empty(folder, problem)))
            return {};
        return failed_precondition(
            fmt::format("{}: exists; choose another -o, or another folder by output.dir=FOLDER", folder.string()));
    }

    Status read_data() {
        HK_ASSIGN(const train::Recipe recipe, draft_.recipe());
        HK_ASSIGN(run_, train::PreparedRun::read(recipe, context_, train::Purpose::initial,
                                                 train::origin_of(recipe, registry_)));
        if (is_table()) {
            rows_ = run_->data.table_rows();
            say_(fmt::format("data: {}: {}, {} row{}", data_.inputs.front(), data_.found, number_text(rows_),
                             rows_ == 1 ? "" : "s"));
            return {};
        }
        return count_tokens();
    }

    // Estimates the tokens of plain text by those of its beginning.
    Status count_tokens() {
        constexpr std::size_t kSample = std::size_t{1} << 18; // bytes
        HK_ASSIGN(const std::vector<fs::path> files, data::find_text_files(data_.inputs));
        std::string sample(kSample, '\0');
        HK_ASSIGN(const std::unique_ptr<data::ByteStream> stream, data::ByteStream::open(files.front()));
        std::size_t size = 0;
        for (std::size_t got = 1; got > 0 && size < kSample; size += got) {
            HK_ASSIGN(got, stream->read(sample.data() + size, kSample - size));
        }
        sample.resize(size);
        constexpr std::size_t kCharacter = 4; // bytes at most
        if (const std::size_t valid = find_invalid_utf8(sample); size == kSample && valid + kCharacter > size)
            sample.resize(valid); // the sample ends within a character
        const text::TextEncoder encoder(*model_.tokenizer);
        const Result<std::vector<int32_t>> ids = encoder.encode(text::TextUse::prompt, sample);
        if (!ids.ok()) return ids.status().with_context(files.front().string());
        double bytes = 0.0;
        std::error_code problem;
        for (const fs::path& file : files) bytes += static_cast<double>(fs::file_size(file, problem));
        tokens_ = std::max(1.0, bytes * static_cast<double>(ids->size()) / static_cast<double>(sample.size()));
        say_(fmt::format("data: {}: plain text, {} file{}, about {} tokens", data_.inputs.front(), files.size(),
                         files.size() == 1 ? "" : "s", grouped(std::round(tokens_))));
        return {};
    }

    bool wants_adapter() const {
        return std::ranges::any_of(options_.overrides,
                                   [](const std::string& one) { return one.starts_with("adapter."); });
    }

    // Decides between full training and an adapter, before memory is known.
    bool trains_all() {
        if (wants_adapter()) {
            reason_ = "the command line has keys of an adapter";
            return false;
        }
        const auto size = grouped(static_cast<double>(model_.parameters));
        if (model_.parameters > kSmallModel) {
            reason_ = fmt::format("the model has {} parameters: an adapter needs a fraction of the memory", size);
            return false;
        }
        const uint64_t least = task_ == Task::classify ? 200 : 1000;
        const bool enough = is_table() ? rows_ >= least : tokens_ >= 200e3;
        if (!enough)
            reason_ = is_table()
                          ? fmt::format("{} rows are few: an adapter forgets less than full training (from {} rows)",
                                        number_text(rows_), number_text(least))
                          : fmt::format("about {} tokens are few: an adapter forgets less than full training (from "
                                        "200,000 tokens)",
                                        grouped(std::round(tokens_)));
        else
            reason_ = fmt::format("all {} parameters are trained: the model is small, and there is enough data", size);
        return enough;
    }

    void set_parameter_keys(program::Runtime& runtime) {
        const gpu::Capabilities& device = runtime.gpu().capabilities();
        const std::string name = device.device_name;
        if (full_) {
            for (const char* key : {"id", "r", "lora_alpha", "target_modules"}) draft_.remove("adapter", key);
            draft_.remove("train", "frozen_dtype");
        } else {
            draft_.set("adapter", "id", train::quoted("lora"), reason_);
            draft_.set("adapter", "r", "16", "rank: 16 is enough for most fine-tuning");
            draft_.set("adapter", "lora_alpha", "32", "twice the rank");
            draft_.set("adapter", "target_modules", train::quoted("all-linear"), "all linear layers of the body");
        }
        const bool halves = model_.stored == model::DType::bf16 || model_.stored == model::DType::f16;
        if (!full_ && halves && device.storage_16bit)
            draft_.set("train", "frozen_dtype",
                       train::quoted(model_.stored == model::DType::bf16 ? "bfloat16" : "float16"),
                       "frozen weights as the model's files have them: exact, and half the memory");
        if (device.bfloat16_cooperative_matrix)
            draft_.set(
                "train", "bf16", "true",
                fmt::format("{} multiplies bfloat16 fast; it has the range of float32, which float16 has not", name));
        else
            draft_.set("train", "bf16", "false",
                       fmt::format("float32: {} has no matrix units for bfloat16, and float16 overflows in some models",
                                   name));
        const TaskKeys keys = keys_of(task_, model_.chat.has_value());
        draft_.set("train", "learning_rate", toml_text(full_ ? keys.full_rate : keys.adapter_rate),
                   full_ ? fmt::format("usual for training all parameters; {}", reason_) : "usual for LoRA");
        draft_.set("train", "weight_decay", full_ ? "0.01" : "0.0", full_ ? "" : "an adapter is small by itself");
    }

    // Describes the model with its adapter, and measures the rows.
    Status choose_parameters(program::Runtime& runtime) {
        set_parameter_keys(runtime);
        HK_TRY(apply());
        HK_ASSIGN(const std::unique_ptr<train::DescribedTraining> training, train::DescribedTraining::create(*run_));
        if (!is_table()) return {};
        HK_ASSIGN(lengths_, sample_lengths(*run_, *training, chat_ ? &*chat_ : nullptr));
        say_(fmt::format("rows: {:.0f} tokens each, at most {}{}", lengths_.mean(),
                         number_text(static_cast<uint64_t>(lengths_.longest())),
                         lengths_.sampled.size() < lengths_.rows
                             ? fmt::format(" (of {} rows)", number_text(lengths_.sampled.size()))
                             : std::string()));
        return {};
    }

    // Makes the draft the recipe of the run. What was settled when the data was read stays.
    Status apply() {
        HK_ASSIGN(train::Recipe recipe, draft_.recipe());
        recipe.train.disable_dropout = run_->recipe.train.disable_dropout;
        recipe.distributed = run_->recipe.distributed;
        run_->recipe = std::move(recipe);
        return {};
    }

    int64_t wished_length() const {
        if (is_table()) {
            const int64_t longest = lengths_.longest();
            return std::min(rounded_up(longest, longest > kShortestRow ? kShortestRow : 8), longest_allowed());
        }
        // Of a short text, so that there are windows to choose from.
        constexpr int64_t kWindow = 1024, kLeast = 16;
        constexpr double kWindows = 20.0;
        return std::max(kLeast, std::min({kWindow, longest_allowed(), power_of_two_at_most(tokens_ / kWindows)}));
    }

    int64_t wished_step_rows(int64_t length) const {
        constexpr int64_t kFewest = 4, kMost = 64, kPairs = 16, kLabels = 32;
        double rows = static_cast<double>(kStepTokens) / (is_table() ? lengths_.mean() : static_cast<double>(length));
        double most = static_cast<double>(kMost);
        if (task_ == Task::preference) most = static_cast<double>(kPairs);
        if (task_ == Task::classify) most = static_cast<double>(kLabels);
        rows = std::clamp(rows, static_cast<double>(kFewest), most);
        // At least some steps in an epoch.
        constexpr double kSteps = 8.0;
        const double all = is_table() ? static_cast<double>(rows_) : tokens_ / static_cast<double>(length);
        return power_of_two_at_most(std::min(rows, all / kSteps));
    }

    bool packs() const { return train::packs_rows(run_->recipe.data); }

    // The examples of a row of this length; 1 where each has a row of its own.
    double examples_in_row(int64_t length) const {
        constexpr double kFill = 0.95; // usual for lengths that vary
        return packs() ? std::max(1.0, kFill * static_cast<double>(length) / lengths_.mean()) : 1.0;
    }

    // Puts several examples into a row where that saves much padding and the model can separate them.
    void choose_packing(int64_t length) {
        constexpr double kWorth = 2.0; // examples that a row holds
        const bool may = task_ == Task::chat || task_ == Task::completion || task_ == Task::preference;
        if (may && !draft_.overridden("data", "packing") && !draft_.overridden("train", "group_by_length") &&
            lengths_.mean() * kWorth <= static_cast<double>(length)) {
            run_->recipe.data.packing = "rows";
            run_->recipe.train.context_length = length;
            if (train::DescribedTraining::create(*run_).ok())
                draft_.set("data", "packing", train::quoted("rows"),
                           fmt::format("a row holds several examples, which do not see each other: they have {:.0f} "
                                       "tokens on average",
                                       lengths_.mean()));
            else
                run_->recipe.data.packing = "none"; // by name in docs/models.md
        }
    }

    Status choose_rows(program::Runtime& runtime) {
        HK_ASSIGN(const train::Recipe given, draft_.recipe());
        LayoutWish wish;
        wish.fixed_length = draft_.overridden("train", "context_length");
        wish.length = wish.fixed_length ? given.train.context_length : wished_length();
        choose_packing(wish.length);
        const bool fixed_rows = draft_.overridden("train", "per_device_train_batch_size");
        const bool fixed_micro = draft_.overridden("train", "gradient_accumulation_steps");
        wish.rows = fixed_rows ? given.train.per_device_train_batch_size : 0;
        wish.step_rows =
            power_of_two_at_most(static_cast<double>(wished_step_rows(wish.length)) / examples_in_row(wish.length));
        wish.evaluates = !is_table() || rows_ >= kFewRows || !given.data.valid.empty();
        // Micro-batches of a step: as many as are given, or a multiple of the ranks.
        const int64_t least_micro = fixed_micro ? given.train.gradient_accumulation_steps : options_.ranks;
        wish.step_rows = std::max<int64_t>(1, wish.step_rows / least_micro);
        HK_ASSIGN(std::optional<RowLayout> layout, choose_layout(*run_, runtime, wish));
        if (!layout && full_) {
            full_ = false;
            reason_ = "training all parameters does not fit this device";
            set_parameter_keys(runtime);
            HK_TRY(apply());
            HK_ASSIGN(layout, choose_layout(*run_, runtime, wish));
        }
        if (!layout) return no_layout(runtime);
        const int64_t micro = least_micro * (fixed_micro ? 1 : std::max<int64_t>(1, wish.step_rows / layout->rows));
        rows_of_step_ = micro * layout->rows;
        length_ = layout->length;
        draft_.set("train", "context_length", toml_text(length_), length_reason(wish.length));
        draft_.set("train", "per_device_train_batch_size", toml_text(layout->rows),
                   fmt::format("rows at once: needs {} of {}", size_text(layout->bytes), size_text(layout->free)));
        draft_.set("train", "gradient_accumulation_steps", toml_text(micro),
                   fmt::format("{} rows a step{}", rows_of_step_,
                               is_table() ? fmt::format(", about {} tokens",
                                                        grouped(std::round(lengths_.mean() * examples_in_row(length_) *
                                                                           static_cast<double>(rows_of_step_))))
                                          : std::string()));
        if (layout->recompute)
            draft_.set("train", "gradient_checkpointing", "true",
                       "activations are computed again, without which not one row fits");
        const bool varied = is_table() && !packs() && lengths_.sampled.front() * 4 < length_ * 3;
        if (varied) draft_.set("train", "group_by_length", "true", "batches of similar rows: less padding");
        return {};
    }

    std::string length_reason(int64_t wished) const {
        if (!is_table()) return length_ < wished ? "the longest window that fits" : "tokens of a window of the text";
        const double cut = lengths_.share_above(length_);
        if (cut == 0.0) return fmt::format("holds every row: the longest has {} tokens", lengths_.longest());
        const std::string why = length_ < wished              ? "memory allows no more"
                                : length_ == model_.positions ? "the model allows no more"
                                                              : "set it for longer rows";
        return fmt::format("{}: {} of the rows are longer and are cut off", why, percent_text(cut));
    }

    // Returns why nothing fits, by the check that a training makes.
    Status no_layout(program::Runtime& runtime) {
        HK_ASSIGN(const std::unique_ptr<train::DescribedTraining> training, train::DescribedTraining::create(*run_));
        HK_TRY(train::check_fits(*training->composition, runtime, run_->recipe.train.per_device_train_batch_size,
                                 run_->recipe.train.context_length, training->fit_options()));
        return out_of_memory(fmt::format("--model {}: not even one row of {} tokens fits with memory to spare; take a "
                                         "smaller model, or free memory of the device",
                                         options_.model, run_->recipe.train.context_length));
    }

    // Returns the share of the data that is held out, and sets its key.
    double choose_validation() {
        if (draft_.overridden("data", "valid_fraction") || draft_.overridden("data", "valid")) {
            const Result<train::Recipe> recipe = draft_.recipe();
            return recipe.ok() ? recipe->data.valid_fraction : 0.0;
        }
        constexpr double kMostRows = 500.0;
        if (!is_table()) {
            const double share = 0.05, held = tokens_ * share;
            const bool enough = held >= 4.0 * static_cast<double>(length_);
            draft_.set("data", "valid_fraction", enough ? toml_text(share) : "0.0",
                       enough ? "the end of the text is not trained on" : "too little text to hold some out");
            return enough ? share : 0.0;
        }
        if (rows_ < kFewRows) {
            draft_.set("data", "valid_fraction", "0.0", "too few rows to hold some out");
            return 0.0;
        }
        const double share = std::round(1000.0 * std::min(0.1, kMostRows / static_cast<double>(rows_))) / 1000.0;
        const double wanted = std::max(share, 0.001);
        uint64_t held = 0;
        const data::TaskTable& table = *run_->data.table();
        for (uint64_t row = 0; row < table.size(); ++row)
            held += train::is_held_out(table.row_key(row), wanted) ? 1 : 0;
        if (held == 0 || held == rows_) {
            draft_.set("data", "valid_fraction", "0.0", "too few different rows to hold some out");
            return 0.0;
        }
        held_ = held;
        draft_.set("data", "valid_fraction", toml_text(wanted),
                   fmt::format("{} rows are evaluated, not trained on", number_text(held)));
        return wanted;
    }

    double epochs() const {
        if (task_ == Task::preference) return 1.0;
        if (!is_table()) return tokens_ < 1e6 ? 3.0 : 1.0;
        return rows_ < 2000 || task_ == Task::classify ? 3.0 : rows_ < 10000 ? 2.0 : 1.0;
    }

    void choose_schedule() {
        const double share = choose_validation();
        const Result<train::Recipe> given = draft_.recipe();
        if (!given.ok()) return; // reported by the caller
        double steps = 0.0;
        const double per_epoch = is_table() ? static_cast<double>(rows_ - held_) /
                                                  (examples_in_row(length_) * static_cast<double>(rows_of_step_))
                                            : tokens_ * (1.0 - share) / static_cast<double>(rows_of_step_ * length_);
        if (draft_.overridden("train", "max_steps") && !draft_.overridden("train", "num_train_epochs")) {
            steps = static_cast<double>(given->train.max_steps);
        } else if (is_table()) {
            draft_.set(
                "train", "num_train_epochs", toml_text(epochs()),
                fmt::format("times over the data, {}{:.0f} steps each", packs() ? "about " : "", std::ceil(per_epoch)));
            steps =
                std::ceil(per_epoch *
                          (draft_.overridden("train", "num_train_epochs") ? given->train.num_train_epochs : epochs()));
        } else {
            steps = std::ceil(per_epoch * epochs());
            draft_.set("train", "max_steps", toml_text(static_cast<int64_t>(steps)),
                       fmt::format("{} times over the text", epochs()));
        }
        draft_.set("train", "warmup_ratio", "0.05");
        draft_.set("train", "lr_scheduler_type", train::quoted("cosine"));
        constexpr double kTimes = 8.0, kLeast = 10.0, kMost = 500.0;
        const auto every =
            static_cast<int64_t>(std::max(1.0, std::min(steps, std::clamp(std::ceil(steps / kTimes), kLeast, kMost))));
        const bool evaluates = share > 0.0 || !given->data.valid.empty();
        draft_.set("train", "eval_steps", evaluates ? toml_text(every) : "0", evaluates ? "" : "nothing is held out");
        draft_.set("train", "save_steps", toml_text(every), "a stopped run continues from here");
        draft_.set("train", "save_total_limit", "2");
        if (!evaluates) return;
        if (task_ == Task::classify) draft_.set("train", "metric_for_best_model", train::quoted("accuracy"));
        draft_.set("train", "load_best_model_at_end", "true", "the best evaluation is the result, not the last step");
    }

    const Globals& globals_;
    const FirstRecipeOptions& options_;
    const std::function<void(const std::string&)>& say_;
    plugin::Registry registry_;
    RecipeDraft draft_;
    exchange::Communicator alone_;
    train::RunContext context_;
    ModelFacts model_;
    DataFacts data_;
    Task task_ = Task::chat;
    std::optional<text::ChatTemplate> chat_;
    std::unique_ptr<train::PreparedRun> run_;
    uint64_t rows_ = 0, held_ = 0; // of a table
    double tokens_ = 0.0;          // of plain text
    RowLengths lengths_;
    bool full_ = false;
    std::string reason_; // why all parameters are trained, or an adapter
    int64_t rows_of_step_ = 1, length_ = 0;
};

std::string word_of(const std::string& word) {
    const bool plain =
        !word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                                "-_=./,:@%+") == std::string::npos;
    if (plain) return word;
    std::string out = "'";
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

// Returns the last part of a path, for a file's name.
std::string name_of_path(const std::string& path) {
    fs::path given = path_of(path);
    if (given.filename().empty()) given = given.parent_path();
    std::string name = path_text(given.stem().empty() ? given.filename() : given.stem());
    if (std::error_code problem; fs::is_directory(given, problem)) name = path_text(given.filename());
    std::ranges::replace_if(
        name, [](char c) { return c == '*' || c == '?' || c == '[' || c == ']' || c == ' ' || c == '\n'; }, '_');
    return name.empty() || name == "." || name == ".." ? "model" : name;
}

} // namespace

std::string command_of(const FirstRecipeOptions& o) {
    std::string command = fmt::format("hekla train --model {}", word_of(o.model));
    for (const std::string& one : o.data) command += " --data " + word_of(one);
    if (!o.task.empty()) command += " --task " + o.task;
    command += " -o " + word_of(o.file);
    for (const std::string& one : o.overrides) command += " " + word_of(one);
    return command;
}

std::string default_recipe_file(const FirstRecipeOptions& o) {
    return fmt::format("out/{}-{}.toml", name_of_path(o.model), name_of_path(o.data.front()));
}

Result<std::string> first_recipe(const Globals& globals, const FirstRecipeOptions& options,
                                 const std::function<void(const std::string&)>& say) {
    return Chooser(globals, options, say).choose();
}

} // namespace hekla::app
