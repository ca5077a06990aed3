#include "train/run/prepared_run.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/number_text.hpp"
#include "base/path_text.hpp"
#include "batch/collate.hpp"
#include "data/text_files.hpp"
#include "generate/settings.hpp"
#include "infer/open/model.hpp"
#include "infer/open/weights_folder.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/composition/text_record.hpp"
#include "text/chat_template.hpp"
#include "text/files/tokenizer_settings.hpp"
#include "text/tokenizer_trainer.hpp"
#include "train/ranks/rank_start.hpp"
#include "train/recipe/recipe_adapters.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/recipe/tokenizer_choice.hpp"
#include "train/report/text_rules_report.hpp"
#include "train/run/adapted_body.hpp"
#include "train/run/example_origin.hpp"
#include "train/run/held_out.hpp"
#include "train/run/resume_check.hpp"
#include "train/start/model_spec.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace hekla::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Checks that data.pretrain is given where the objective reads it, and nowhere else. needs: all that it reads.
Status check_pretrain(const Recipe& recipe, const plugin::Registry& registry,
                      const std::vector<plugin::ColumnNeed>& needs) {
    const bool reads = std::ranges::find(needs, kPretrainColumn, &plugin::ColumnNeed::name) != needs.end();
    if (reads && recipe.data.pretrain.empty())
        return invalid_argument("objective.ptx_coef adds the loss on plain text: set data.pretrain to its files, or "
                                "ptx_coef to 0");
    if (reads || recipe.data.pretrain.empty()) return {};
    HK_ASSIGN(const plugin::Registry::Entry entry, registry.find(HK_OBJECTIVE_INTERFACE, recipe.objective.id));
    if (std::ranges::find(entry.provided->parameters, "ptx_coef") != entry.provided->parameters.end())
        return {}; // a weight of 0
    return invalid_argument(fmt::format("data.pretrain is text that ppo adds to its loss, and objective '{}' reads "
                                        "none: remove the key",
                                        recipe.objective.id));
}

} // namespace

PreparedRun::~PreparedRun() = default;

PreparedRun::PreparedRun(const Recipe& given, const RunContext& shared, Purpose why, RunFolder locked,
                         std::unique_ptr<ExampleOrigin> of)
    : context(shared), purpose(why), recipe(given), folder(given.output.dir), owned(std::move(locked)),
      origin(std::move(of)) {}

Result<std::unique_ptr<PreparedRun>> PreparedRun::read(const Recipe& recipe, const RunContext& context, Purpose purpose,
                                                       std::unique_ptr<ExampleOrigin> origin, RunFolder owned,
                                                       std::unique_ptr<RankStart> from_rank_0) {
    std::unique_ptr<PreparedRun> run(new PreparedRun(from_rank_0 ? from_rank_0->recipe : recipe, context, purpose,
                                                     std::move(owned), std::move(origin)));
    run->from_rank_0_ = std::move(from_rank_0);
    HK_TRY(run->read_all());
    return run;
}

Status PreparedRun::read_all() {
    HK_TRY(find_checkpoint());
    HK_TRY(read_data());
    return open_tokenizer();
}

Status PreparedRun::find_checkpoint() {
    text_rules = {true, recipe.data.special_tokens == "parse"};
    if (from_rank_0_) {
        text_rules = from_rank_0_->text_rules;
        held_out_ = from_rank_0_->held_out;
    }
    if (owned.owned()) model::remove_stale(folder);
    if (purpose != Purpose::initial && purpose != Purpose::join) {
        HK_ASSIGN(model::CheckpointSearch search, model::newest_complete(folder));
        for (const std::string& reason : search.rejected)
            context.log.warning(fmt::format("checkpoint not used: {}", reason));
        checkpoint = std::move(search.found);
    }
    if (checkpoint) return same_run();
    HK_ASSIGN(division, Division::settle(recipe, nullptr, context.ranks.rank(), context.rank_count(), folder));
    return {};
}

Status PreparedRun::same_run() {
    const std::string where = checkpoint->path.string();
    HK_ASSIGN(const std::string text, read_file(checkpoint->file("recipe.toml")));
    HK_ASSIGN(const Recipe before, parse_resolved_recipe(text, checkpoint->file("recipe.toml").string()));
    HK_ASSIGN(division, Division::settle(recipe, &before, context.ranks.rank(), context.rank_count(), folder));
    if (!recipe.train.disable_dropout) recipe.train.disable_dropout = before.train.disable_dropout;
    const std::string config_name = checkpoint->file("config.json").string();
    HK_ASSIGN(const std::string config_text, read_file(config_name));
    HK_ASSIGN(const json config, parse_json_object(config_text, config_name));
    text_rules = plugin::text_rules_of(config);
    const std::string state_name = checkpoint->file("trainer_state.json").string();
    HK_ASSIGN(const std::string state_text, read_file(state_name));
    HK_ASSIGN(const json state, parse_json_object(state_text, state_name));
    HK_ASSIGN(held_out_, held_out_of(before, state, recipe, where, owned.owned()));
    return check_resume(before, recipe, where, owned.owned(), context.log);
}

Status PreparedRun::read_data() {
    HK_ASSIGN(std::vector<plugin::ColumnNeed> needs,
              plugin::objective_columns(context.registry, recipe.objective.id, objective_before_data(recipe)));
    // A run keeps what it began with: those of earlier versions have no value for preferences.
    if (std::optional<bool>& off = recipe.train.disable_dropout; !off)
        off = origin->disables_dropout(needs, checkpoint.has_value());
    HK_TRY(check_pretrain(recipe, context.registry, needs));
    HK_TRY(division.check_steps(recipe));
    HK_TRY(division.check_supported(origin->use(recipe)));
    HK_TRY(origin->choose_columns(recipe, context.registry, needs));
    HK_ASSIGN(data, RunData::read(recipe, needs, context.host_memory, context.events.stop));
    if (held_out_) data.hold_out(*held_out_);
    // Missing text files are reported before a tokenizer is trained on the others.
    if (!checkpoint && !data.is_table())
        for (const std::vector<std::string>* inputs : {&recipe.data.train, &recipe.data.valid})
            if (!inputs->empty()) HK_TRY(data::find_text_files(*inputs).status());
    return {};
}

Result<std::unique_ptr<text::Tokenizer>> PreparedRun::find_tokenizer() const {
    if (from_rank_0_) return text::load_tokenizer(from_rank_0_->tokenizer.path());
    // A run keeps its first tokenizer; a run without a checkpoint has not started.
    if (checkpoint) return text::load_tokenizer(checkpoint->path);
    if (recipe.tokenizer.kind == "from") {
        const std::string from = tokenizer_folder(recipe);
        if (from.empty())
            return invalid_argument("[tokenizer] kind = \"from\" needs `from`: a folder with a tokenizer");
        HK_ASSIGN(std::unique_ptr<text::Tokenizer> stored, text::load_tokenizer(from));
        HK_ASSIGN(stored, with_added_tokens(std::move(stored), recipe.tokenizer));
        if (!recipe.model.from.empty() || stored->frame() != text::TextFrame()) return stored;
        HK_ASSIGN(stored, with_frame_of(recipe.model.architecture, std::move(stored)));
        if (stored->frame() != text::TextFrame())
            context.message(
                fmt::format("{} puts no special tokens around a text: the run's tokenizer puts those of '{}'", from,
                            recipe.model.architecture));
        return stored;
    }
    HK_ASSIGN(const plugin::Registry::Entry objective,
              context.registry.find(HK_OBJECTIVE_INTERFACE, recipe.objective.id));
    context.message(fmt::format("training a tokenizer ({}) on the data{}", recipe.tokenizer.kind,
                                recipe.tokenizer.kind == "unigram"
                                    ? "; a request to stop takes effect when SentencePiece has optimized its pieces"
                                    : ""));
    const std::unique_ptr<text::TokenizerTrainer> trainer =
        tokenizer_trainer(recipe.tokenizer, objective.provided->roles);
    HK_ASSIGN(std::unique_ptr<text::Tokenizer> trained, data.train_tokenizer(*trainer));
    HK_ASSIGN(trained, with_added_tokens(std::move(trained), recipe.tokenizer));
    return with_frame_of(recipe.model.architecture, std::move(trained));
}

Status PreparedRun::open_tokenizer() {
    HK_ASSIGN(std::unique_ptr<text::Tokenizer> found, find_tokenizer());
    HK_ASSIGN(tokenizer, text::lying_in(context.host_memory, std::move(found)));
    return check_tokenizer_of_body(recipe, *tokenizer);
}

Status PreparedRun::open_data(const plugin::Composition& composition) {
    fs::path cache = recipe.data.cache.empty() ? folder / "cache" : path_of(recipe.data.cache);
    std::error_code problem;
    if (!owned.owned() && !fs::exists(cache, problem)) {
        Result<TemporaryFolder> made = TemporaryFolder::make();
        if (!made.ok()) return made.status().with_context("for tokenized text");
        temporary_.emplace(made.take());
        cache = temporary_->path();
    }
    const Status opened = data.open(
        *tokenizer, composition, cache, [this](const std::string& m) { context.message(m); },
        context.events.own_threads);
    if (!opened.ok())
        return checkpoint ? opened.with_context(
                                fmt::format("{} resumes with the tokenizer that it started with", folder.string()))
                          : opened;
    return {};
}

void PreparedRun::resolve_epochs() {
    const TrainSection& s = recipe.train;
    if (s.num_train_epochs <= 0.0) return;
    const auto rows = static_cast<double>(data.train().rows());
    const double steps = std::ceil(s.num_train_epochs * rows / examples_per_step());
    recipe.train.max_steps = std::max<int64_t>(1, static_cast<int64_t>(steps));
    context.message(fmt::format("{} epochs of {} {}: {} steps", s.num_train_epochs, grouped(rows),
                                data.train().rows() < data.train().size() ? "rows" : "examples",
                                grouped(static_cast<double>(recipe.train.max_steps))));
}

double PreparedRun::examples_per_step() const {
    const TrainSection& s = recipe.train;
    return static_cast<double>(s.per_device_train_batch_size * s.gradient_accumulation_steps *
                               division.steps_at_once());
}

int64_t PreparedRun::evaluation_batch() const {
    const TrainSection& s = recipe.train;
    return s.per_device_eval_batch_size > 0 ? s.per_device_eval_batch_size : s.per_device_train_batch_size;
}

Status PreparedRun::check_validation() const {
    const TrainSection& s = recipe.train;
    const auto needs = [&](const std::string& key) {
        return failed_precondition(fmt::format("{} needs validation data, and there is none: {}; or change that key",
                                               key, data.without_valid()));
    };
    if (s.max_steps == 0) return {};
    for (const auto& [used, key] :
         {std::pair(s.early_stopping_patience > 0,
                    fmt::format("train.early_stopping_patience = {}", s.early_stopping_patience)),
          std::pair(s.load_best_model_at_end, std::string("train.load_best_model_at_end = true"))}) {
        if (!used) continue;
        if (s.eval_steps == 0)
            return invalid_argument(fmt::format("{} needs evaluations, and train.eval_steps = 0: set it above 0, or "
                                                "remove the first key",
                                                key));
        if (data.valid() == nullptr) return needs(key);
    }
    // Without a share to hold out, the recipe asks for no evaluation.
    if (s.eval_steps > 0 && recipe.data.valid_fraction > 0.0 && data.valid() == nullptr)
        return needs(fmt::format("train.eval_steps = {}", s.eval_steps));
    return {};
}

Status PreparedRun::tell_text_rules(const plugin::CompositionSpec& policy,
                                    const plugin::Composition& composition) const {
    if (checkpoint || !owned.owned()) return {};
    HK_ASSIGN(const std::vector<std::string> messages,
              report_text_rules(recipe, context.registry, policy, composition, *tokenizer, data));
    for (const std::string& one : messages) context.message(one);
    return {};
}

Status PreparedRun::start(const plugin::Composition& composition) {
    if (!owned.owned()) return failed_precondition("this run was opened for reading: open it with Purpose::train");
    owned.keep();
    HK_TRY(tokenizer->save(folder));
    if (const std::string from = tokenizer_folder(recipe); !from.empty())
        HK_TRY(text::keep_tokenizer_settings(FilePlace(from), folder));
    HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition.batch_fields(1, row_lengths().front()));
    if (std::ranges::find(fields, "token_type_ids", &plugin::BatchField::name) != fields.end())
        HK_TRY(text::write_token_types(folder));
    HK_TRY(save_chat_template());
    HK_TRY(save_generation_settings(composition));
    return write_file_atomically(folder / "recipe.toml", write_recipe(recipe));
}

// The folder with the settings of generation that a run starts with: of the model that is trained on, whose token ids
// are right where its tokenizer is kept. Empty: there are none.
fs::path PreparedRun::first_generation_settings() const {
    const std::string& from = recipe.model.from;
    std::error_code error;
    const bool has = !from.empty() && tokenizer_folder(recipe) == from &&
                     fs::is_regular_file(path_of(from) / generate::kSettingsFile, error);
    return has ? path_of(from) : fs::path();
}

Status PreparedRun::save_generation_settings(const plugin::Composition& composition) const {
    const fs::path from = first_generation_settings();
    std::string text;
    if (!from.empty()) {
        HK_ASSIGN(text, read_file(from / generate::kSettingsFile));
    } else if (recipe.model.from.empty() && infer::has_head(composition.head(), "lm")) {
        HK_ASSIGN(const std::string written, composition.write_config());
        HK_ASSIGN(const json config, parse_json_object(written, "config.json"));
        text = generate::settings_file(config);
    }
    return text.empty() ? Status() : write_file_atomically(folder / generate::kSettingsFile, text);
}

Status PreparedRun::save_chat_template() const {
    std::string text;
    if (data.chat() != nullptr) {
        text = data.chat()->text();
    } else if (const std::string from = tokenizer_folder(recipe); !from.empty()) {
        HK_ASSIGN(const std::optional<text::ChatTemplateSource> own, text::find_chat_template(FilePlace(from)));
        if (own) text = own->text;
    }
    return text.empty() ? Status() : write_file_atomically(folder / "chat_template.jinja", text);
}

std::vector<int64_t> PreparedRun::row_lengths() const { return lengths(recipe.train.group_by_length); }

std::vector<int64_t> PreparedRun::evaluation_lengths() const {
    return lengths(recipe.train.group_by_length || packs_rows(recipe.data));
}

std::vector<int64_t> PreparedRun::lengths(bool several) const {
    const int64_t longest = recipe.train.context_length;
    if (!several || !data.is_table()) return {longest};
    std::set<int64_t> lengths{longest};
    constexpr int64_t kStep = 8, kParts = 4;
    for (int64_t part = 1; part < kParts; ++part) {
        const int64_t length = (longest * part / kParts + kStep - 1) / kStep * kStep;
        if (length < longest) lengths.insert(length);
    }
    return {lengths.begin(), lengths.end()};
}

Result<generate::FolderSettings> PreparedRun::generation_settings(const plugin::Composition& composition) const {
    HK_ASSIGN(const std::string written, composition.write_config());
    HK_ASSIGN(const json config, parse_json_object(written, "config.json"));
    std::error_code error;
    const fs::path first =
        fs::exists(folder / generate::kSettingsFile, error) ? fs::path() : first_generation_settings();
    return generate::settings_of(first.empty() ? folder : first, config);
}

} // namespace hekla::train
