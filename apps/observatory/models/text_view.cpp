#include "models/text_view.hpp"

#include "failure.hpp"

namespace observatory {
namespace {

constexpr int64_t kMostWritten = 96, kLeastWritten = 6; // tokens; a longer text is not readable as a picture

}

void Looking::forget() {
    passes_.reset();
    if (writer_) engine_.remove(writer_.session().c());
    writer_ = {};
    writing_.clear();
    written_.clear();
    ids_.clear();
    attention_.clear();
    lenses_.clear();
    routings_.clear();
    begun_ = shown_ = false;
    copied_at_ = 0;
    problem_.clear();
    lens_problem_.clear();
    routing_problem_.clear();
}

void Looking::open(const Model& model, bool lens, bool routing) {
    with_lens_ = lens;
    with_routing_ = routing && !model.routing().empty();
    begun_ = shown_ = false;
    PassesOptions options;
    options.model = model.path();
    options.length = static_cast<int64_t>(ids_.size());
    options.decoder_length = static_cast<int64_t>(written_.size());
    options.attention = true;
    options.lens = lens;
    if (!lens) options.ports = {"hidden"}; // a session needs at least one output
    if (with_routing_)
        for (const RoutingSite& site : model.routing()) options.ports.push_back(site.port);
    passes_ = std::make_unique<Passes>(engine_, options);
}

// Opens the model again, with fewer outputs. A network without layers or logits has no lens, but its attention can
// still be displayed; and one without the expected weights of adapters has everything else.
void Looking::open_less(const Model& model) {
    if (with_lens_) {
        lens_problem_ = passes_->problem();
        return open(model, false, with_routing_);
    }
    if (!with_routing_) throw Failure(passes_->problem());
    routing_problem_ = passes_->problem();
    lens_problem_.clear();
    open(model, true, false);
}

void Looking::look(const Model& model, const std::string& text) {
    forget();
    try {
        if (text.empty()) throw Failure("The text is empty: type at least one character.");
        ids_ = model.encode_source(text);
        if (!model.is_encoder_decoder()) return open(model, true, true);
        text_ = text;
        most_written_ = kMostWritten;
        begin_writing(model);
    } catch (const Failure& failure) {
        passes_.reset();
        problem_ = failure.what();
    }
}

double Looking::progress() const {
    return passes_ != nullptr ? passes_->progress() : writer_ ? writer_.session().wait(0).progress : 0.0;
}

void Looking::begin_writing(const Model& model) {
    hk::GenerationOptions options;
    options.model = model.path();
    options.prompts = {text_};
    options.max_new_tokens = most_written_;
    options.temperature = 0;
    hk::Error error;
    writer_ = engine_.cpp_context().generate(options, error);
    if (error) throw Failure(error.message());
    engine_.add(writer_.session().c(), Engine::Kind::writing);
}

void Looking::take_writing(const Model& model) {
    const hk_session_info info = writer_.session().wait(0);
    if (info.state == HK_SESSION_FAILED) {
        if (most_written_ / 2 < kLeastWritten) throw Failure(std::string(hk::view(info.message)));
        most_written_ /= 2; // the model has short rows; a session that failed while preparing is not in any frame
        engine_.remove(writer_.session().c());
        return begin_writing(model);
    }
    writing_ += writer_.taken(); // all of the text if the session was already idle
    if (info.state != HK_SESSION_IDLE) return;
    written_ = model.encode(writing_);
    written_.insert(written_.begin(), model.decoder_start());
    open(model, true, true);
}

void Looking::record(VkCommandBuffer commands, const Model& model, uint64_t frame) {
    if (is_writing()) {
        try {
            take_writing(model);
        } catch (const Failure& failure) {
            problem_ = failure.what(); // keep the writer until forget(), since a frame may still use its memory
        }
        return;
    }
    if (passes_ == nullptr || shown_) return;
    const hk::State state = passes_->state();
    try {
        if (state == hk::State::failed) {
            open_less(model);
        } else if (state == hk::State::idle && !begun_) {
            attention_ = passes_->all("attention.");
            lenses_ = passes_->all("lens.");
            for (const RoutingSite& site : model.routing())
                if (const hk_tensor* weights = with_routing_ ? passes_->find(site.port) : nullptr)
                    routings_.push_back(*weights);
            const auto is_of_tokens = [&](const hk_tensor& lens) {
                return lens.rank == 3 && lens.dims[1] == static_cast<int64_t>(followed().size());
            };
            if (!lenses_.empty() && !is_of_tokens(lenses_.front())) {
                lens_problem_ = "the head gives one output for the whole text, not one per token.";
                lenses_.clear();
            }
            passes_->begin(ids_, written_);
            begun_ = true;
        } else if (state == hk::State::idle) {
            shown_ = true;
            if (lenses_.empty() && routings_.empty()) return;
            top_.record(commands, lenses_);
            if (!routings_.empty()) copies_.record(commands, routings_);
            copied_at_ = frame;
        }
    } catch (const Failure& failure) {
        problem_ = failure.what();
        passes_.reset();
    }
}

} // namespace observatory
