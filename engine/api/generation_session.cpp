#include "api/generation_session.hpp"
#include "api/call_environment.hpp"

#include "api/boundary.hpp"
#include "api/capture.hpp"
#include "api/generation.hpp"
#include "api/loaded_adapter.hpp"
#include "plugin/composition/model_names.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::api {

GenerationSession::~GenerationSession() = default;

GenerationSession::GenerationSession(const hk_generate_options& options)
    : given_(options), rows_(static_cast<std::size_t>(options.prompt_count)),
      prompts_(texts(options.prompts, options.prompt_count)) {
    hk_session_callbacks host{};
    host.user = options.user;
    host.text = options.text;
    host.stop = options.stop;
    host.token = options.token;
    callbacks_.replace(host);
}

Result<std::shared_ptr<Session>> GenerationSession::create(const std::shared_ptr<Context>& context,
                                                           const hk_generate_options& options,
                                                           const hk_session_options* own) {
    if (options.reference != 0)
        return invalid_argument(fmt::format(
            "hk_generate_options.reference is {}, expected 0: a session runs on the device", options.reference));
    if (options.beams > 1)
        return invalid_argument(fmt::format(
            "hk_generate_options.beams is {}, expected 0 or 1: a session generates token by token", options.beams));
    const auto session = make<GenerationSession>(options);
    HK_TRY(session->start(context, own));
    return std::shared_ptr<Session>(session);
}

Status GenerationSession::work() {
    hk_generate_options options = given_.get();
    options.user = this;
    options.text = [](void* user, uint64_t row, hk_string text) {
        auto& session = *static_cast<GenerationSession*>(user);
        if (const auto capture = session.capture()) capture->text(session.handle(), row, text);
        session.tell<&hk_session_callbacks::text>(row, text);
    };
    if (options.token != nullptr)
        options.token = [](void* user, uint64_t row, const hk_generated_token* token) {
            static_cast<GenerationSession*>(user)->tell<&hk_session_callbacks::token>(row, token);
        };
    options.stop = [](void* user) -> int32_t {
        auto& session = *static_cast<GenerationSession*>(user);
        {
            const std::lock_guard guard(session.mutex_);
            if (session.interrupted_) return 1;
        }
        return session.asked_to_stop() ? 1 : 0;
    };
    HK_ASSIGN(const auto generation, Generation::open(environment(), options));
    set_progress(0.5);
    if (const infer::Model& model = generation->model(); model.has_slots) {
        const std::lock_guard guard(mutex_);
        slots_ = {model.slot_parameters, model.body_weights, model.path.string(), generation->rows(),
                  model.slot_parameters.empty() ? 0 : model.slot_parameters[0].shape[0]};
    }
    Generation::Round round;
    if (given_.get().adapter_slots > 0) round.between = [&] { return change_slots(*generation); };
    round.length = length_;
    round.prepared = [this](generate::Decoder& decoder) -> Status {
        HK_TRY(calibrate([&] { return decoder.prepare(); }));
        return enter_metered_mode(Phase::working);
    };
    round.token = [this] { ++step_; };
    for (;;) {
        HK_ASSIGN(const bool goes_on, wait_for_work([&] { return prompts_.has_value(); }));
        if (!goes_on) return {};
        {
            const std::lock_guard guard(mutex_);
            round.prompts = std::move(*prompts_);
            prompts_.reset();
            interrupted_ = false;
        }
        HK_TRY(change_slots(*generation).status());
        HK_TRY(generation->write(round).status());
        round.prepared = {};
        const std::lock_guard guard(mutex_);
        if (!prompts_ && !stop_requested()) set_phase(Phase::idle);
    }
}

Status GenerationSession::set_scalar(const std::string&, double) {
    return unsupported("a generation session has no step scalars to set: use hk_session_train or hk_session_forward");
}

Status GenerationSession::usable_slots() const {
    if (given_.get().adapter_slots == 0) return no_slots();
    HK_TRY(failed_);
    if (ended()) return failed_precondition("the session has ended");
    return slots_ ? Status() : not_prepared();
}

Status GenerationSession::put_adapter(int32_t slot, const LoadedAdapter* adapter) {
    const std::lock_guard guard(mutex_);
    HK_TRY(usable_slots());
    if (slot < 0 || slot >= slots_->count)
        return invalid_argument(fmt::format("slot is {}, expected 0 to {}", slot, slots_->count - 1));
    if (const auto row = std::ranges::find(slots_->rows, slot); row != slots_->rows.end())
        return failed_precondition(fmt::format("slot {} is used by row {}: set the row to another one, or to -1, first",
                                               slot, row - slots_->rows.begin()));
    FilledSlot filled{slot, {}};
    const infer::SlotContent* content = adapter != nullptr ? &adapter->content() : nullptr;
    if (content != nullptr) HK_TRY(infer::check_slot(*content, slots_->weights, slots_->folder, slots_->parameters));
    for (const plugin::ModelTensor& parameter : slots_->parameters) {
        HK_ASSIGN(std::vector<float> values, infer::slot_values(parameter, content));
        filled.values.push_back(std::move(values));
    }
    slot_changes_.emplace_back(std::move(filled));
    return {};
}

Status GenerationSession::set_adapter_row(uint64_t row, int32_t slot, double scale, int32_t flags) {
    const std::lock_guard guard(mutex_);
    HK_TRY(usable_slots());
    if (row >= slots_->rows.size())
        return invalid_argument(fmt::format("row is {}, expected 0 to {}", row, slots_->rows.size() - 1));
    if (slot < -1 || slot >= slots_->count)
        return invalid_argument(fmt::format("slot is {}, expected -1 (none) to {}", slot, slots_->count - 1));
    if (!std::isfinite(scale)) return invalid_argument("scale is not finite; expected a number");
    if (flags != HK_ADAPTER_FROM_START && flags != HK_ADAPTER_FROM_HERE)
        return invalid_argument(
            fmt::format("flags is {}, expected {} (HK_ADAPTER_FROM_START) or {} (HK_ADAPTER_FROM_HERE)", flags,
                        HK_ADAPTER_FROM_START, HK_ADAPTER_FROM_HERE));
    const auto index = static_cast<std::size_t>(row);
    slots_->rows[index] = slot;
    slot_changes_.emplace_back(SetRow{index, slot, scale, flags == HK_ADAPTER_FROM_START});
    return {};
}

Result<std::optional<std::vector<std::size_t>>> GenerationSession::change_slots(Generation& generation) {
    std::vector<SlotChange> changes;
    {
        const std::lock_guard guard(mutex_);
        changes.swap(slot_changes_);
    }
    std::optional<std::vector<std::size_t>> computed;
    for (const SlotChange& change : changes) {
        if (const FilledSlot* filled = std::get_if<FilledSlot>(&change)) {
            HK_TRY(generation.fill_slot(filled->slot, filled->values));
            continue;
        }
        const SetRow& set = std::get<SetRow>(change);
        generation.set_row(set.row, set.slot, set.scale);
        if (!computed) computed.emplace();
        if (set.computed && std::ranges::find(*computed, set.row) == computed->end()) computed->push_back(set.row);
    }
    return computed;
}

Status GenerationSession::prompt(std::vector<std::string> prompts) {
    const std::lock_guard guard(mutex_);
    if (ended()) return failed_precondition("the session has ended");
    const std::size_t expected = std::max<std::size_t>(rows_, 1);
    if (prompts.size() != expected)
        return invalid_argument(
            fmt::format("count is {}, expected {} prompts as when the session was made", prompts.size(), expected));
    prompts_ = std::move(prompts);
    interrupted_ = true;
    set_phase(phase_ == Phase::preparing ? Phase::preparing : Phase::working);
    return {};
}

} // namespace hekla::api
