#include "models/adapter_writing.hpp"

#include "failure.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace observatory {
namespace {

constexpr int32_t kMixSlots = 2; // one that the row uses, and one for the next mix
constexpr const char* kMixName = "mix";

std::string number_text(double number) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.9g", number);
    return text.data();
}

std::size_t used_by(const std::vector<double>& scales) {
    return static_cast<std::size_t>(std::ranges::count_if(scales, [](double scale) { return scale != 0.0; }));
}

// Returns the only adapter of a use that has one.
std::size_t first_used(const std::vector<double>& scales) {
    return static_cast<std::size_t>(std::ranges::find_if(scales, [](double scale) { return scale != 0.0; }) -
                                    scales.begin());
}

std::string name_in_session(std::size_t adapter) { return "a" + std::to_string(adapter); }

} // namespace

void AdapterWriting::end() {
    if (session_) engine_.remove(session_.session().c());
    session_ = {};
    mix_.reset();
    temporary_.reset(); // a job that still makes a mix keeps it until then
    rows_.clear();
    wanted_.clear();
    folders_.clear();
    slots_ = 0;
    starts_ = changing_ = false;
}

void AdapterWriting::begin(const std::vector<Adapter>& adapters, const AdapterWritingOptions& options) {
    end();
    problem_.clear();
    options_ = options;
    wanted_ = options.rows;
    for (AdapterUse& use : wanted_) use.scales.resize(adapters.size());
    bool live = true;
    int64_t ranks = 0, largest = 0;
    int32_t count = 0;
    slot_of_.assign(adapters.size(), -1);
    for (std::size_t i = 0; i < adapters.size(); ++i) {
        const Adapter& adapter = adapters[i];
        folders_.push_back(adapter.folder);
        const bool used = std::ranges::any_of(wanted_, [&](const AdapterUse& use) { return use.scales[i] != 0.0; });
        if (used && adapter.state != Adapter::State::ready)
            problem_ = "'" + adapter.name + "' is not open" + (adapter.problem.empty() ? "" : ": " + adapter.problem);
        if (used && !adapter.slot_problem.empty()) live = false;
        if (adapter.state != Adapter::State::ready || !adapter.slot_problem.empty()) continue;
        slot_of_[i] = count++;
        ranks += adapter.rank;
        largest = std::max(largest, adapter.rank);
    }
    for (const AdapterUse& use : wanted_) rows_.push_back({use, {}, {}});
    if (!problem_.empty()) return;
    if (!live) std::ranges::fill(slot_of_, -1);
    next_slot_ = count;
    slots_ = !live || count == 0 ? 0 : count > 1 ? count + kMixSlots : count;
    rank_ = static_cast<int32_t>(count > 1 ? ranks : largest);
    starts_ = true;
    if (!live) return start();
    const auto is_mix = [](const AdapterUse& use) { return used_by(use.scales) > 1; };
    const auto mix = std::ranges::find_if(wanted_, is_mix);
    if (mix == wanted_.end()) return start();
    if (std::ranges::count_if(wanted_, is_mix) > 1) {
        problem_ = "two rows have several adapters: one row can";
        starts_ = false;
        return;
    }
    make_mix(mix->scales); // then update() starts
}

void AdapterWriting::make_mix(const Scales& scales) {
    if (temporary_ == nullptr) {
        hekla::Result<hekla::TemporaryFolder> made = hekla::TemporaryFolder::make();
        if (!made.ok()) {
            problem_ = made.status().message();
            starts_ = false;
            return;
        }
        temporary_ = std::make_shared<hekla::TemporaryFolder>(made.take());
    }
    mix_ = std::make_shared<Mix>();
    mix_->parent = temporary_;
    mix_->scales = scales;
    mix_->folder = (temporary_->path() / std::to_string(mixes_++)).string();
    std::vector<std::string> arguments{"adapter", "combine"};
    std::string weights;
    for (std::size_t i = 0; i < scales.size(); ++i) {
        if (scales[i] == 0.0) continue;
        arguments.push_back(folders_[i]);
        weights += (weights.empty() ? "" : ",") + number_text(scales[i]);
    }
    arguments.insert(arguments.end(), {"--weights=" + weights, "--combination-type", "cat", "--body", options_.model,
                                       "-o", mix_->folder});
    engine_.jobs().add([mix = mix_, arguments, model = options_.model, &engine = engine_] {
        std::string problem;
        hk::Adapter adapter;
        try {
            engine.program().run(arguments);
            hk::Error error;
            adapter = engine.cpp_context().open_adapter(mix->folder, model, error);
            if (error) problem = error.message();
        } catch (const Failure& failure) { problem = failure.what(); }
        const std::lock_guard guard(mix->mutex);
        mix->adapter = std::move(adapter);
        mix->problem = std::move(problem);
        mix->done = true;
    });
}

// Starts the session, with the adapters in its slots, or with those that its rows use.
void AdapterWriting::start() {
    starts_ = false;
    hk::GenerationOptions options;
    options.model = options_.model;
    options.prompts.assign(rows_.size(), options_.prompt);
    options.max_new_tokens = options_.tokens;
    options.temperature = options_.temperature;
    options.top_k = options_.top_k;
    options.seed = options_.seed;
    const bool together = slots_ == 0 && rows_.size() == 1; // all adapters of one row
    for (std::size_t i = 0; i < folders_.size(); ++i) {
        double scale = 0.0; // of all rows that use it alone
        for (const Row& row : rows_)
            if (row.use.scales[i] != 0.0 && (together || used_by(row.use.scales) == 1)) scale = row.use.scales[i];
        if (slots_ > 0 ? slot_of_[i] < 0 : scale == 0.0) continue;
        options.adapters.push_back(name_in_session(i) + "=" + folders_[i] + ":" +
                                   number_text(scale == 0.0 ? 1.0 : scale));
    }
    for (const Row& row : rows_) {
        const AdapterUse& use = row.use;
        const std::size_t count = used_by(use.scales);
        if (slots_ == 0 && !together && count > 1) {
            problem_ =
                "'" + use.label +
                "' has several adapters, and another row one that cannot be in a slot: write it alone, or choose "
                "LoRA adapters";
            return;
        }
        options.prompt_adapters.push_back(count == 0  ? ""
                                          : count > 1 ? kMixName
                                                      : name_in_session(first_used(use.scales)));
    }
    if (mix_ != nullptr) {
        options.adapters.push_back(std::string(kMixName) + "=" + mix_->folder + ":1");
        mix_.reset();
        ++next_slot_;
    }
    if (together || options.adapters.empty()) options.prompt_adapters.clear();
    options.adapter_slots = slots_;
    options.adapter_rank = slots_ > 0 ? rank_ : 0;
    hk::Error error;
    session_ = engine_.cpp_context().generate(options, error);
    if (error) {
        problem_ = error.message();
        return;
    }
    engine_.add(session_.session().c(), Engine::Kind::writing);
}

AdapterWriting::State AdapterWriting::state() const {
    if (starts_) return State::preparing;
    if (!session_) return rows_.empty() ? State::none : State::done;
    switch (session_.state()) {
    case hk::State::preparing: return State::preparing;
    case hk::State::working: return State::writing;
    default: return State::done;
    }
}

bool AdapterWriting::want(std::vector<AdapterUse> rows, bool from_start) {
    if (!is_live() || rows.size() != rows_.size()) return false;
    std::size_t mixed = 0;
    for (AdapterUse& use : rows) {
        for (std::size_t i = 0; i < use.scales.size(); ++i)
            if (use.scales[i] != 0.0 && (i >= slot_of_.size() || slot_of_[i] < 0)) return false;
        use.scales.resize(folders_.size());
        mixed += used_by(use.scales) > 1 ? 1 : 0;
    }
    if (mixed > 1) return false;
    from_start_ = from_start;
    wanted_ = std::move(rows);
    return true;
}

void AdapterWriting::set_row(std::size_t row, int32_t slot, double scale, const AdapterUse& use) {
    hk::Error error;
    if (!session_.use_slot(row, slot, error, scale, from_start_ ? HK_ADAPTER_FROM_START : HK_ADAPTER_FROM_HERE)) {
        problem_ = error.message();
        return;
    }
    rows_[row].use = use;
    rows_[row].changes.push_back({rows_[row].text.size(), use});
}

// Brings the session's rows nearer to what is wanted.
void AdapterWriting::apply() {
    std::shared_ptr<Mix> made;
    if (mix_ != nullptr) {
        const std::lock_guard guard(mix_->mutex);
        if (mix_->done) made = mix_;
    }
    if (made != nullptr) {
        mix_.reset();
        const auto row = std::ranges::find_if(wanted_, [](const AdapterUse& use) { return used_by(use.scales) > 1; });
        hk::Error error;
        if (!made->problem.empty()) {
            problem_ = made->problem;
        } else if (row == wanted_.end()) { // not wanted any more
        } else if (!session_.put_adapter(next_slot_, made->adapter, error)) {
            problem_ = error.message();
        } else {
            AdapterUse use = *row;
            use.scales = made->scales;
            set_row(static_cast<std::size_t>(row - wanted_.begin()), next_slot_, 1.0, use);
            next_slot_ = next_slot_ == slots_ - 1 ? slots_ - kMixSlots : slots_ - 1;
        }
        std::error_code unimportant;
        std::filesystem::remove_all(made->folder, unimportant);
    }
    changing_ = false;
    for (std::size_t row = 0; row < rows_.size() && problem_.empty(); ++row) {
        const AdapterUse& use = wanted_[row];
        if (use.scales == rows_[row].use.scales) {
            rows_[row].use.label = use.label;
            continue;
        }
        const std::size_t count = used_by(use.scales), adapter = first_used(use.scales);
        if (count < 2) {
            set_row(row, count == 0 ? -1 : slot_of_[adapter], count == 0 ? 1.0 : use.scales[adapter], use);
            continue;
        }
        changing_ = true;
        if (mix_ == nullptr) make_mix(use.scales);
    }
}

void AdapterWriting::update() {
    if (starts_ && mix_ != nullptr) {
        bool done = false;
        {
            const std::lock_guard guard(mix_->mutex);
            done = mix_->done;
            problem_ = mix_->problem;
        }
        if (!problem_.empty()) starts_ = false;
        if (done && problem_.empty()) start();
    }
    if (!session_) return;
    for (std::size_t row = 0; row < rows_.size(); ++row) rows_[row].text += session_.taken(row);
    const hk_session_info info = session_.session().wait(0);
    if (info.state == HK_SESSION_FAILED) {
        problem_ = std::string(hk::view(info.message));
        engine_.remove(session_.session().c());
        session_ = {};
        return;
    }
    changing_ = false;
    if (is_live() && info.state == HK_SESSION_WORKING && problem_.empty()) apply();
}

} // namespace observatory
