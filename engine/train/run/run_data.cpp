#include "train/run/run_data.hpp"

#include "base/nearest_name.hpp"
#include "base/number_text.hpp"
#include "batch/collate.hpp"
#include "batch/drawn_example.hpp"
#include "batch/packed_fields.hpp"
#include "data/corpus.hpp"
#include "data/documents.hpp"
#include "data/examples.hpp"
#include "data/task_table.hpp"
#include "hekla/plugin/objective.h"
#include "plugin/composition/compose.hpp"
#include "plugin/composition/plugin_set.hpp"
#include "plugin/composition/row_packing.hpp"
#include "text/chat_template.hpp"
#include "text/text_encoder.hpp"
#include "train/recipe/tokenizer_choice.hpp"
#include "train/run/held_out.hpp"
#include "train/start/model_spec.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <set>
#include <unordered_set>

namespace hekla::train {
namespace {

constexpr uint64_t kDataSalt = 0x64617461; // separates the random numbers of the data from those of the parameters

std::string count_text(uint64_t n) { return grouped(static_cast<double>(n)); }

// Returns the task's columns with their locations in the files.
Result<std::vector<data::TaskColumn>> columns_of(const Recipe& recipe, const std::vector<plugin::ColumnNeed>& needs) {
    std::map<std::string, std::string> sources = recipe.data.columns;
    if (const auto a = sources.find("text_a"); a != sources.end() && !sources.contains("text")) {
        sources["text"] = a->second; // "text" is the other common name of the first of two texts
        sources.erase(a);
    }
    std::vector<data::TaskColumn> columns;
    TemplateMap templates = recipe.data.templates;
    for (const plugin::ColumnNeed& need : needs) {
        data::TaskColumn column{need.name, need.kind, need.optional, need.target, "", "", {}};
        const auto given = sources.find(need.name);
        if (const auto composed = templates.find(need.name); composed != templates.end()) {
            if (given != sources.end())
                return invalid_argument(
                    fmt::format("[data]: both columns and templates have '{}'; remove one", need.name));
            if (need.kind != HK_COLUMN_TOKENS)
                return invalid_argument(fmt::format("[data] templates: '{}' of the objective '{}' is not one text",
                                                    need.name, recipe.objective.id));
            for (const std::string& text : composed->second) {
                HK_ASSIGN(data::TextTemplate parsed, data::TextTemplate::parse(text));
                column.templates.push_back(std::move(parsed));
            }
            templates.erase(composed);
        } else if (given != sources.end()) {
            column.source = given->second;
            sources.erase(given);
        } else if (need.optional && !sources.empty()) {
            continue; // columns have names, and this one is not among them
        }
        columns.push_back(std::move(column));
    }
    for (const auto& [name, text] : recipe.data.prefix) {
        const auto column = std::ranges::find(columns, name, &data::TaskColumn::name);
        const bool is_text =
            column != columns.end() && (column->kind == HK_COLUMN_TOKENS || column->kind == HK_COLUMN_CHOICES);
        if (!is_text)
            return invalid_argument(
                fmt::format("[data] prefix: the objective '{}' reads no text column '{}'", recipe.objective.id, name));
        column->prefix = text;
    }
    // An unknown name is accepted for a column number of the files, which another objective may read; otherwise it is
    // an error.
    std::vector<std::string> reads;
    for (const plugin::ColumnNeed& need : needs) reads.push_back(need.name);
    const auto is_place = [](const std::string& source) {
        return !source.empty() && std::ranges::all_of(source, [](char c) { return c >= '0' && c <= '9'; });
    };
    if (!templates.empty())
        return invalid_argument(fmt::format("[data] templates: the objective '{}' has no column '{}': it reads {}",
                                            recipe.objective.id, templates.begin()->first, fmt::join(reads, ", ")));
    for (const auto& [name, source] : sources)
        if (!is_place(source))
            return invalid_argument(fmt::format("[data] columns: the objective '{}' has no column '{}': it reads {}",
                                                recipe.objective.id, name, fmt::join(reads, ", ")));
    for (const plugin::ColumnNeed& need : needs)
        if (!need.optional && !recipe.data.columns.empty() && !recipe.data.columns.contains(need.name) &&
            !recipe.data.templates.contains(need.name) &&
            !(need.name == "text" && recipe.data.columns.contains("text_a"))) {
            std::vector<std::string> given;
            for (const auto& [name, source] : recipe.data.columns) given.push_back(name);
            return invalid_argument(fmt::format("[data] columns names {}; the objective '{}' reads {}: '{}' is missing",
                                                fmt::join(given, ", "), recipe.objective.id, fmt::join(reads, ", "),
                                                need.name));
        }
    return columns;
}

Result<std::shared_ptr<data::TaskTable>> read_table(const Recipe& recipe, const std::vector<data::TaskColumn>& columns,
                                                    const std::vector<std::string>& inputs,
                                                    std::pmr::memory_resource* memory, const StopPoll& stop) {
    data::TaskTableOptions options;
    options.reading.decompression = {static_cast<uint64_t>(recipe.data.max_decompressed_bytes),
                                     recipe.data.max_compression_ratio};
    options.reading.stop = stop;
    options.memory = memory;
    options.inputs = inputs;
    options.columns = columns;
    options.header = recipe.data.header;
    options.group = recipe.data.group;
    options.adapter = recipe.adapter.route_by;
    options.max_bytes = static_cast<std::size_t>(recipe.data.max_bytes);
    options.of_recipe = true;
    options.on_bad = recipe.data.on_bad == "skip" ? data::OnBadExample::skip : data::OnBadExample::refuse;
    if (!recipe.data.format.empty()) { HK_ASSIGN(options.format, data::format_of_name(recipe.data.format)); }
    if (options.format == data::ExampleFormat::parallel) {
        options.inputs.clear();
        for (std::size_t c = 0; c < options.columns.size(); ++c) {
            std::string& source = options.columns[c].source;
            std::size_t place = c + 1;
            if (!source.empty()) place = static_cast<std::size_t>(std::strtoul(source.c_str(), nullptr, 10));
            if (place < 1 || place > inputs.size())
                return invalid_argument(
                    fmt::format("[data]: with format = \"parallel\" the column '{}' is file {} of {}: "
                                "give a file a column",
                                options.columns[c].name, place, inputs.size()));
            source = inputs[place - 1];
        }
    }
    HK_ASSIGN(data::TaskTable table, data::TaskTable::read(options));
    return std::make_shared<data::TaskTable>(std::move(table));
}

// Returns why a row with preferences teaches none; empty if it does, or has none.
std::string without_preference(const data::EncodedExample& example) {
    const auto find = [&](const char* name) {
        const auto found = std::ranges::find(example.columns, name, &data::EncodedColumn::name);
        return found != example.columns.end() ? &*found : nullptr;
    };
    if (const data::EncodedColumn* const ranking = find("ranking"); ranking != nullptr && !ranking->parts.empty()) {
        std::set<std::vector<int32_t>> different;
        for (std::size_t i = 0; i < ranking->parts.size(); ++i) {
            const std::size_t end = i + 1 < ranking->parts.size() ? ranking->parts[i + 1] : ranking->ids.size();
            different.emplace(ranking->ids.begin() + static_cast<std::ptrdiff_t>(ranking->parts[i]),
                              ranking->ids.begin() + static_cast<std::ptrdiff_t>(end));
        }
        if (ranking->parts.size() < 2) return "a ranking of one answer";
        return different.size() < ranking->parts.size() ? "a ranking with equal answers" : "";
    }
    const data::EncodedColumn *const chosen = find("chosen"), *const rejected = find("rejected");
    if (chosen == nullptr || rejected == nullptr) return {};
    if (chosen->ids.empty() || rejected->ids.empty()) return "an empty answer";
    return chosen->ids == rejected->ids ? "chosen and rejected are equal" : "";
}

} // namespace

batch::DrawnExample Split::draw(uint64_t number) const {
    const data::Position position = groups_ != nullptr    ? groups_->at(number)
                                    : balance_ != nullptr ? balance_->at(number)
                                                          : order_.at(number);
    batch::DrawnExample drawn;
    drawn.epoch = position.epoch;
    examples_->get(position.begin, drawn.example);
    return drawn;
}

std::vector<batch::DrawnExample> Split::row(uint64_t number) const {
    std::vector<batch::DrawnExample> drawn;
    if (packed_ == nullptr) {
        drawn.push_back(draw(number));
        return drawn;
    }
    const data::PackedRow row = packed_->at(number);
    for (const uint32_t example : row.examples) {
        drawn.emplace_back().epoch = row.epoch;
        examples_->get(example, drawn.back().example);
    }
    return drawn;
}

batch::DrawnExample Split::at(uint64_t i) const {
    batch::DrawnExample drawn;
    drawn.epoch = std::numeric_limits<uint64_t>::max(); // a separate stream for evaluations
    examples_->get(sequence_.at(i).begin, drawn.example);
    return drawn;
}

Status Split::make_fields(const plugin::Composition& composition, std::span<const batch::DrawnExample> examples,
                          uint64_t seed, int64_t batch, int64_t length, std::vector<data::Field>& fields,
                          std::pmr::memory_resource* memory, uint64_t step) const {
    return made(examples, [&](std::span<const batch::DrawnExample> some) {
        return batch::make_fields(composition, some, examples_.get(), seed, batch, length, fields, memory, step);
    });
}

Status Split::make_training_fields(const plugin::Composition& composition,
                                   std::span<const batch::DrawnExample> examples, uint64_t seed, int64_t batch,
                                   int64_t length, std::vector<data::Field>& fields, std::pmr::memory_resource* memory,
                                   uint64_t step) const {
    if (!composition.packs_rows()) return make_fields(composition, examples, seed, batch, length, fields, memory, step);
    return made(examples, [&](std::span<const batch::DrawnExample> some) {
        return batch::make_packed_fields(composition, some, examples_.get(), seed, batch, length, fields, memory, step);
    });
}

Status Split::made(std::span<const batch::DrawnExample> examples, const Make& make) const {
    Status made = make(examples);
    if (made.code() != Code::invalid_argument || table_ == nullptr) return made;
    // The objective does not know where its examples come from: the first that it refuses alone too is the one.
    for (std::size_t i = 0; i < examples.size(); ++i)
        if (const Status alone = make(examples.subspan(i, 1)); alone.code() == Code::invalid_argument)
            return alone.with_context(place(examples[i].example.index));
    return made;
}

std::vector<batch::RowLength> Split::spread(const plugin::Composition& composition, std::span<const int64_t> lengths,
                                            uint64_t limit) const {
    const uint64_t all = size(), wanted = limit > 0 ? std::min(limit, all) : all;
    std::vector<batch::RowLength> chosen;
    for (uint64_t i = 0; i < wanted; ++i) {
        const uint64_t example = i * all / wanted;
        int64_t length = lengths.back();
        if (lengths.size() > 1) {
            const int64_t needed = batch::example_length(composition, at(example).example);
            const auto fits = std::ranges::lower_bound(lengths, std::max<int64_t>(needed, 1));
            if (needed > 0 && fits != lengths.end()) length = *fits;
        }
        chosen.push_back({example, length});
    }
    return chosen;
}

std::string Split::place(uint64_t i) const { return table_ != nullptr ? table_->place(rows_[i]) : std::string(); }

std::string Split::group(uint64_t i) const { return table_ != nullptr ? table_->group(rows_[i]) : std::string(); }

std::string Split::text(uint64_t i, std::string_view column) const {
    return table_ != nullptr ? table_->text(rows_[i], column) : std::string();
}

uint64_t RunData::table_rows() const { return train_table_ != nullptr ? train_table_->size() : 0; }

Result<RunData> RunData::read(const Recipe& recipe, const std::vector<plugin::ColumnNeed>& needs,
                              std::pmr::memory_resource* memory, StopPoll stop) {
    RunData data;
    data.memory_ = memory;
    data.stop_ = std::move(stop);
    data.recipe_ = &recipe;
    data.held_out_ = held_out_by(recipe.data);
    if (needs.empty()) return data;
    const DataSection& d = recipe.data;
    const bool has_classes =
        std::ranges::any_of(needs, [](const auto& need) { return need.kind == HK_COLUMN_CLASSES; });
    HK_ASSIGN(data.columns_, columns_of(recipe, needs));
    HK_ASSIGN(data.train_table_, read_table(recipe, data.columns_, d.train, memory, data.stop_));
    if (!d.valid.empty()) {
        HK_ASSIGN(data.valid_table_, read_table(recipe, data.columns_, d.valid, memory, data.stop_));
    }
    if (!d.test.empty()) { HK_ASSIGN(data.test_table_, read_table(recipe, data.columns_, d.test, memory, data.stop_)); }
    if (!has_classes) return data;
    HK_ASSIGN(const auto counts, data.train_table_->class_counts());
    data.classes_ = d.labels.empty() ? data::TaskTable::classes(counts) : d.labels;
    for (const std::string& name : data.classes_) {
        const auto found = counts.find(name);
        data.class_counts_.push_back(found != counts.end() ? found->second : 0);
    }
    if (data.classes_.size() < 2)
        return invalid_argument(fmt::format("{}: every example has the label '{}', and classification needs at least "
                                            "two classes; list them in data.labels if this is intended",
                                            fmt::join(d.train, ", "), fmt::join(data.classes_, "")));
    return data;
}

DataFacts RunData::facts() const {
    const bool numbers = std::ranges::any_of(
        columns_, [](const data::TaskColumn& column) { return column.target && column.kind == HK_COLUMN_NUMBERS; });
    return {classes_, class_counts_, numbers};
}

Result<std::unique_ptr<text::Tokenizer>> RunData::train_tokenizer(text::TokenizerTrainer& trainer) const {
    trainer.set_stop(stop_);
    if (train_table_ != nullptr) {
        if (train_table_->has_messages() && !recipe_->data.chat_template.empty()) { // what it writes around messages
            HK_ASSIGN(const text::ChatTemplate chat, text::chat_template_of(recipe_->data.chat_template));
            HK_TRY(trainer.add(chat.text(), {}));
        }
        HK_TRY(train_table_->train(trainer));
        return trainer.finish();
    }
    std::vector<std::string> inputs = recipe_->data.train;
    inputs.insert(inputs.end(), recipe_->data.valid.begin(), recipe_->data.valid.end());
    return data::train_tokenizer(trainer, inputs,
                                 [this](uint64_t, uint64_t) { return stop_.check("reading data").ok(); });
}

Status RunData::open(const text::Tokenizer& tokenizer, const plugin::Composition& composition,
                     const std::filesystem::path& cache_folder, const std::function<void(const std::string&)>& message,
                     bool own_threads) {
    if (is_table()) {
        HK_TRY(open_tables(tokenizer, composition, message));
        HK_ASSIGN(const std::vector<plugin::ColumnNeed> needs, composition.columns());
        if (std::ranges::find(needs, kPretrainColumn, &plugin::ColumnNeed::name) == needs.end()) return {};
        return open_pretrain(tokenizer, cache_folder, message, own_threads);
    }
    if (!recipe_->adapter.route_by.empty())
        return unsupported(
            fmt::format("adapter.route_by = {}: the objective '{}' reads plain text, which has no columns",
                        recipe_->adapter.route_by, recipe_->objective.id));
    if (recipe_->data.class_balanced)
        return unsupported(fmt::format("data.class_balanced: the objective '{}' reads plain text, which has no classes",
                                       recipe_->objective.id));
    if (!recipe_->data.format.empty() && recipe_->data.format != "text")
        return invalid_argument(fmt::format("[data] format = \"{}\": the objective '{}' reads plain text",
                                            recipe_->data.format, recipe_->objective.id));
    if (composition.example_kind() == HK_EXAMPLE_DOCUMENT) return open_documents(tokenizer, composition, message);
    return open_windows(tokenizer, composition, cache_folder, message, own_threads);
}

Result<Split> RunData::split_of(std::shared_ptr<const data::EncodedExamples> examples, uint64_t window,
                                const std::string& name) const {
    Split split;
    split.examples_ = std::move(examples);
    data::WindowOrderOptions sampling;
    sampling.order = window > 1 && recipe_->data.order == "random" ? data::Order::random : data::Order::shuffle;
    sampling.window = window;
    sampling.tokens = split.examples_->size() + window - 1;
    sampling.seed = static_cast<uint64_t>(recipe_->train.seed) ^ kDataSalt;
    sampling.name = name;
    HK_ASSIGN(split.order_, data::WindowOrder::create(sampling));
    sampling.order = data::Order::sequential;
    HK_ASSIGN(split.sequence_, data::WindowOrder::create(sampling));
    return split;
}

std::string RunData::nothing_held_out(const std::string& all, const std::string& least) const {
    if (held_out_ == 0.0 && recipe_->data.valid_fraction > 0.0)
        return "the run was begun by a version that held nothing out with train.eval_steps = 0, and has trained on all "
               "of data.train: set data.valid";
    if (held_out_ == 0.0) return "data.valid_fraction = 0 holds nothing out: set data.valid, or a larger fraction";
    return fmt::format("data.valid_fraction = {} of {} does not hold out {}, or leaves nothing to train on: set "
                       "data.valid, or another fraction",
                       held_out_, all, least);
}

Status RunData::open_windows(const text::Tokenizer& tokenizer, const plugin::Composition& composition,
                             const std::filesystem::path& cache_folder,
                             const std::function<void(const std::string&)>& message, bool own_threads) {
    const DataSection& d = recipe_->data;
    if (!d.test.empty()) return unsupported("[data] test: plain text is validated on `valid`; `test` is for tables");
    HK_ASSIGN(const int64_t tokens, composition.tokens_per_example(recipe_->train.context_length));
    const auto window = static_cast<uint64_t>(tokens);
    data::DatasetOptions options;
    options.train.inputs = d.train;
    options.train.cache_folder = cache_folder;
    options.train.threads = own_threads ? 0 : 1;
    options.train.progress = [this](uint64_t, uint64_t) { return stop_.check("reading data").ok(); };
    options.valid = d.valid;
    options.valid_fraction = held_out_;
    HK_ASSIGN(data::Dataset opened, data::open_dataset(tokenizer, options));
    texts_ = std::make_shared<data::Dataset>(std::move(opened));
    const data::TokenView all = texts_->corpus.tokens();
    if (texts_->train.size() < window && all.size() >= window) { // nothing is held out of a text that is too short
        texts_->train = all;
        if (d.valid.empty()) texts_->valid = {};
    }
    identity_ = texts_->corpus.cache_file().filename().string();
    message(fmt::format("{} files, {} bytes of text, {} tokens to train on, {} to validate with, vocabulary {}",
                        texts_->corpus.file_count(), count_text(texts_->corpus.text_bytes()),
                        count_text(texts_->train.size()), count_text(texts_->valid.size()),
                        tokenizer.vocabulary_size()));
    // Report texts that are too short now, not at the first evaluation.
    const auto split = [&](data::TokenView view, const std::string& name) -> Result<Split> {
        if (view.size() < window) {
            data::WindowOrderOptions sampling;
            sampling.window = window;
            sampling.tokens = view.size();
            sampling.name = name;
            return data::WindowOrder::create(sampling).status();
        }
        return split_of(std::make_shared<data::WindowExamples>(view, window), window, name);
    };
    HK_ASSIGN(train_, split(texts_->train, "the training data"));
    if (!d.valid.empty() || texts_->valid.size() >= window) {
        HK_ASSIGN(valid_, split(texts_->valid, "the validation data"));
    } else {
        without_valid_ = nothing_held_out(fmt::format("{} tokens", count_text(all.size())),
                                          fmt::format("a row of {} tokens", window));
    }
    return {};
}

Status RunData::open_pretrain(const text::Tokenizer& tokenizer, const std::filesystem::path& cache_folder,
                              const std::function<void(const std::string&)>& message, bool own_threads) {
    const auto window = static_cast<uint64_t>(recipe_->train.context_length) + 1;
    data::DatasetOptions options;
    options.train.inputs = recipe_->data.pretrain;
    options.train.cache_folder = cache_folder;
    options.train.threads = own_threads ? 0 : 1;
    options.train.progress = [this](uint64_t, uint64_t) { return stop_.check("reading data").ok(); };
    options.valid_fraction = 0.0;
    Result<data::Dataset> opened = data::open_dataset(tokenizer, options);
    if (!opened.ok()) return opened.status().with_context("data.pretrain");
    pretrain_texts_ = std::make_shared<data::Dataset>(opened.take());
    const data::TokenView view = pretrain_texts_->train;
    message(fmt::format("pretrain: {} bytes of text, {} tokens", count_text(pretrain_texts_->corpus.text_bytes()),
                        count_text(view.size())));
    if (view.size() < window)
        return invalid_argument(fmt::format("data.pretrain: the text has {} tokens, and a row needs {} "
                                            "(train.context_length + 1): give more text",
                                            view.size(), window));
    identity_ += fmt::format(" pretrain {}", pretrain_texts_->corpus.cache_file().filename().string());
    HK_ASSIGN(pretrain_, split_of(std::make_shared<data::WindowExamples>(view, window), window, "data.pretrain"));
    return {};
}

Status RunData::open_documents(const text::Tokenizer& tokenizer, const plugin::Composition& composition,
                               const std::function<void(const std::string&)>& message) {
    const DataSection& d = recipe_->data;
    HK_ASSIGN(const int64_t tokens, composition.tokens_per_example(recipe_->train.context_length));
    data::DocumentOptions options;
    options.tokens = static_cast<uint64_t>(tokens);
    options.memory = memory_;
    options.stop = stop_;
    HK_ASSIGN(options.end, data::document_end_of_name(d.documents));
    const auto open_one = [&](const std::vector<std::string>& inputs) {
        options.inputs = inputs;
        return data::open_documents(text::TextEncoder(tokenizer, composition.text_rules()), options);
    };
    HK_ASSIGN(std::unique_ptr<data::StoredExamples> all, open_one(d.train));
    std::unique_ptr<data::StoredExamples> valid;
    const uint64_t read = all->size();
    if (held_out_ > 0.0) { // the last documents, without splitting one
        auto train = std::make_unique<data::StoredExamples>(memory_);
        valid = std::make_unique<data::StoredExamples>(memory_);
        const auto first = static_cast<uint64_t>(static_cast<double>(all->size()) * (1.0 - held_out_));
        const uint64_t document = (*all)[std::min(first, all->size() - 1)].document;
        for (uint64_t i = 0; i < all->size(); ++i) {
            const data::EncodedExample example = (*all)[i];
            HK_TRY((example.document < document ? train : valid)->add(example));
        }
        HK_TRY(train->finish());
        HK_TRY(valid->finish());
        if (train->size() > 0)
            all = std::move(train);
        else
            valid.reset(); // one document
    }
    if (!d.valid.empty()) { HK_ASSIGN(valid, open_one(d.valid)); }
    std::string state;
    for (uint64_t i = 0; i < all->size(); ++i) {
        HK_TRY(stop_.check("reading data"));
        const data::EncodedExample example = (*all)[i];
        const std::vector<int32_t>& ids = example.columns[0].ids;
        state.append(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t));
        state = to_hex(hash128(state));
    }
    identity_ = "documents " + state;
    message(fmt::format("{} documents in {} examples to train on, {} to validate with, vocabulary {}",
                        count_text((*all)[all->size() - 1].document + 1), count_text(all->size()),
                        count_text(valid != nullptr ? valid->size() : 0), tokenizer.vocabulary_size()));
    const std::shared_ptr<const data::StoredExamples> examples = std::move(all);
    HK_ASSIGN(train_, split_of(examples, 1, "the training data"));
    if (valid != nullptr && valid->size() > 0) {
        HK_ASSIGN(valid_, split_of(std::move(valid), 1, "the validation data"));
    } else {
        without_valid_ = nothing_held_out(fmt::format("{} examples of {} documents", count_text(read),
                                                      count_text((*examples)[examples->size() - 1].document + 1)),
                                          "a whole document (data.documents sets where one ends)");
    }
    return {};
}

Status RunData::choose_adapter(const data::TaskTable& table, uint64_t row, data::EncodedExample& example,
                               std::vector<uint64_t>& of_adapter) const {
    const std::vector<std::string>& names = recipe_->adapter.names;
    if (names.empty()) return {};
    const std::string name = table.adapter(row);
    if (name.empty() || name == "-") return {};
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
        const std::string suggestion = did_you_mean(name, names, fmt::format(": {}", fmt::join(names, ", ")));
        return invalid_argument(fmt::format("{}: the column '{}' has '{}', which is not among adapter.names{}",
                                            table.place(row), recipe_->adapter.route_by, name, suggestion));
    }
    example.adapter = static_cast<int32_t>(found - names.begin());
    ++of_adapter[static_cast<std::size_t>(example.adapter)];
    return {};
}

Status RunData::open_chat(const text::Tokenizer& tokenizer, const std::function<void(const std::string&)>& message) {
    const std::string& wanted = recipe_->data.chat_template;
    const auto has_messages = [](const auto& table) { return table != nullptr && table->has_messages(); };
    if (!has_messages(train_table_) && !has_messages(valid_table_) && !has_messages(test_table_)) {
        if (wanted.empty()) return {};
        return invalid_argument(
            fmt::format("[data] chat_template = \"{}\": no row of {} has messages (a list of objects "
                        "with \"role\" and \"content\"); remove the key, or name the column that "
                        "has them in data.columns",
                        wanted, fmt::join(recipe_->data.train, ", ")));
    }
    if (!wanted.empty()) {
        Result<text::ChatTemplate> named = text::chat_template_of(wanted);
        if (!named.ok()) return named.status().with_context("[data] chat_template");
        chat_ = std::make_shared<const text::ChatTemplate>(named.take());
    } else {
        const std::string folder = tokenizer_folder(*recipe_);
        std::optional<text::ChatTemplateSource> own;
        if (!folder.empty()) { HK_ASSIGN(own, text::find_chat_template(FilePlace(folder))); }
        if (!own)
            return invalid_argument(fmt::format(
                "{} has messages, and {}; set data.chat_template to one of {}, or to a file with a template",
                fmt::join(recipe_->data.train, ", "),
                folder.empty() ? "no folder of a tokenizer has a chat template for them"
                               : folder + " has no chat template (chat_template.jinja, or \"chat_template\" of "
                                          "tokenizer_config.json)",
                fmt::join(text::ChatTemplate::names(), ", ")));
        HK_ASSIGN(text::ChatTemplate parsed, text::ChatTemplate::parse(std::move(own->text), std::move(own->name)));
        chat_ = std::make_shared<const text::ChatTemplate>(std::move(parsed));
    }
    HK_TRY(set_chat_date());
    HK_ASSIGN(turn_end_, chat_->turn_end(tokenizer));
    HK_ASSIGN(const std::string end, tokenizer.token(*turn_end_));
    message(fmt::format("chat template: {}; the assistant's turn ends with '{}'", chat_->name(), end));
    return {};
}

Status RunData::set_chat_date() {
    const std::string& date = recipe_->data.chat_date;
    if (date.empty() && !chat_->reads_date()) return {};
    if (date.empty())
        return invalid_argument(
            fmt::format("chat template {}: prints today's date (strftime_now), so that equal messages would be other "
                        "texts tomorrow; set data.chat_date to the date that it is to print, as in \"2026-01-31\"",
                        chat_->name()));
    if (!chat_->reads_date())
        return invalid_argument(fmt::format("[data] chat_date = \"{}\": the chat template {} prints no date "
                                            "(strftime_now); remove the key",
                                            date, chat_->name()));
    const Result<text::jinja::DateTime> day = text::jinja::DateTime::of_day(date);
    if (!day.ok()) return day.status().with_context("[data] chat_date");
    chat_ = std::make_shared<const text::ChatTemplate>(chat_->dated(day.value()));
    return {};
}

Status RunData::open_tables(const text::Tokenizer& tokenizer, const plugin::Composition& composition,
                            const std::function<void(const std::string&)>& message) {
    for (const auto& table : {train_table_, valid_table_, test_table_})
        if (table != nullptr && !table->form().empty()) message(table->form());
    HK_TRY(open_chat(tokenizer, message));
    const text::TextEncoder encoder(tokenizer, composition.text_rules());
    const int64_t length = recipe_->train.context_length;
    std::unordered_set<uint64_t> trained;
    const auto open_one = [&](const std::shared_ptr<data::TaskTable>& table, const char* name,
                              const auto& belongs) -> Result<std::optional<Split>> {
        HK_ASSIGN(data::TaskTable::Encoded encoded, table->encode(encoder, classes_, chat()));
        auto examples = std::make_shared<data::StoredExamples>(memory_);
        std::vector<uint64_t> rows;
        std::vector<int64_t> lengths;
        std::vector<int32_t> labels; // per example; -1 if it has no single label
        std::vector<uint64_t> of_class(classes_.size(), 0), of_adapter(recipe_->adapter.names.size(), 0);
        uint64_t cut = 0, total = 0, seen = 0, undecided = 0;
        std::string first_undecided;
        int64_t longest = 0;
        for (uint64_t i = 0; i < encoded.examples->size(); ++i) {
            HK_TRY(stop_.check("reading data"));
            const uint64_t row = encoded.rows[i];
            if (!belongs(table->row_key(row))) continue;
            data::EncodedExample example = (*encoded.examples)[i];
            HK_TRY(choose_adapter(*table, row, example, of_adapter));
            labels.push_back(-1);
            for (const data::EncodedColumn& column : example.columns) {
                if (column.kind != HK_COLUMN_CLASSES) continue;
                if (column.ids.size() == 1) labels.back() = column.ids[0];
                for (const int32_t id : column.ids) ++of_class[static_cast<std::size_t>(id)];
            }
            if (const std::string why = without_preference(example); !why.empty() && ++undecided == 1)
                first_undecided = fmt::format("{}: {}", table->place(row), why);
            const int64_t needed = batch::example_length(composition, example);
            longest = std::max(longest, needed);
            lengths.push_back(std::min(needed, length));
            total += static_cast<uint64_t>(needed);
            cut += needed > length ? 1 : 0;
            if (std::string_view(name) == "train")
                trained.insert(table->row_key(row));
            else
                seen += trained.contains(table->row_key(row)) ? 1 : 0;
            HK_TRY(examples->add(example));
            rows.push_back(row);
        }
        HK_TRY(examples->finish());
        if (rows.empty()) return std::optional<Split>();
        const auto n = static_cast<double>(rows.size());
        std::string text = fmt::format("{}: {} examples, {:.1f} tokens each, at most {}", name, count_text(rows.size()),
                                       static_cast<double>(total) / n, longest);
        if (cut > 0)
            text += fmt::format(", {} cut off at {} ({})", count_text(cut), length,
                                percent_text(static_cast<double>(cut) / n));
        if (encoded.unknown_tokens > 0)
            text += fmt::format(
                ", {} unknown tokens",
                percent_text(static_cast<double>(encoded.unknown_tokens) / static_cast<double>(encoded.tokens), 2));
        if (seen > 0) text += fmt::format(", {} are in train too", count_text(seen));
        if (!classes_.empty() && classes_.size() <= 8) {
            std::vector<std::string> parts;
            for (std::size_t c = 0; c < classes_.size(); ++c)
                parts.push_back(fmt::format("{} {}", classes_[c], count_text(of_class[c])));
            text += fmt::format("; labels: {}", fmt::join(parts, ", "));
        }
        message(text);
        if (!of_adapter.empty()) {
            std::vector<std::string> parts;
            for (std::size_t a = 0; a < of_adapter.size(); ++a)
                parts.push_back(fmt::format("{} {}", recipe_->adapter.names[a], count_text(of_adapter[a])));
            message(fmt::format("{}: rows of adapters: {}", name, fmt::join(parts, ", ")));
            if (std::string_view(name) == "train")
                for (std::size_t a = 0; a < of_adapter.size(); ++a)
                    if (of_adapter[a] == 0)
                        return invalid_argument(fmt::format(
                            "adapter.names: no row to train on has '{}' in the column '{}'; remove the name, or check "
                            "adapter.route_by",
                            recipe_->adapter.names[a], recipe_->adapter.route_by));
        }
        if (undecided == rows.size())
            return invalid_argument(fmt::format("{}: no row has a preference (the first: {}): give rows with different "
                                                "answers",
                                                name, first_undecided));
        if (undecided > 0)
            message(fmt::format("{}: {} rows without a preference teach nothing, or not all of their pairs (the first: "
                                "{})",
                                name, count_text(undecided), first_undecided));
        for (const std::string& skipped : {table->skipped().describe(), encoded.skipped})
            if (!skipped.empty()) message(fmt::format("{}: left out: {}", name, skipped));
        Result<Split> split = split_of(examples, 1, name);
        if (!split.ok()) return split.status();
        split->table_ = table;
        if (recipe_->data.class_balanced) {
            if (std::ranges::all_of(labels, [](int32_t label) { return label < 0; }))
                return unsupported(fmt::format("data.class_balanced: the examples of the objective '{}' have not one "
                                               "class each",
                                               recipe_->objective.id));
            split->balance_ =
                std::make_shared<data::ClassBalance>(labels, static_cast<uint64_t>(recipe_->train.seed) ^ kDataSalt);
        }
        if (composition.packs_rows() && std::string_view(name) == "train") {
            std::ranges::replace(lengths, 0, length); // not known
            split->packed_ = std::make_shared<data::PackedRows>(lengths, length, plugin::most_segments(length),
                                                                static_cast<uint64_t>(recipe_->train.seed) ^ kDataSalt);
            message(fmt::format("train: {} rows of {} tokens hold the examples, {:.1f} each; {} of the tokens are "
                                "theirs",
                                count_text(split->packed_->size()), length,
                                n / static_cast<double>(split->packed_->size()), percent_text(split->packed_->fill())));
        }
        if (recipe_->train.group_by_length)
            split->groups_ = std::make_shared<data::LengthGroups>(
                std::move(lengths), static_cast<uint64_t>(recipe_->train.per_device_train_batch_size),
                static_cast<uint64_t>(recipe_->train.seed) ^ kDataSalt);
        split->rows_ = std::move(rows);
        return std::optional<Split>(split.take());
    };
    const auto all = [](uint64_t) { return true; };
    // Rows are assigned by the hash of their texts, so that equal rows are in the same split.
    const auto validates = [&](uint64_t key) { return is_held_out(key, held_out_); };
    HK_ASSIGN(train_, open_one(train_table_, "train", [&](uint64_t key) { return !validates(key); }));
    if (valid_table_ != nullptr) {
        HK_ASSIGN(valid_, open_one(valid_table_, "valid", all));
    } else if (train_ && held_out_ > 0.0) {
        HK_ASSIGN(valid_, open_one(train_table_, "valid", validates));
    }
    if (!train_) { HK_ASSIGN(train_, open_one(train_table_, "train", all)); } // nothing is held out of so few rows
    if (!valid_) without_valid_ = nothing_held_out(fmt::format("{} rows", count_text(train_table_->size())), "a row");
    if (test_table_ != nullptr) { HK_ASSIGN(test_, open_one(test_table_, "test", all)); }
    HK_ASSIGN(const Hash128 hash, train_table_->hash());
    identity_ = fmt::format("rows {} {}", to_hex(hash), held_out_);
    if (recipe_->adapter.names.empty()) return {};
    std::string adapters;
    for (uint64_t row = 0; row < train_table_->size(); ++row) adapters += train_table_->adapter(row) + "\n";
    identity_ += fmt::format(" adapters {}", to_hex(hash128(adapters)));
    return {};
}

} // namespace hekla::train
