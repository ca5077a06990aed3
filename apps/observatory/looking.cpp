#include "looking.hpp"

#include "failure.hpp"

namespace observatory {

void Looking::forget() {
    passes_.reset();
    ids_.clear();
    attention_.clear();
    lenses_.clear();
    begun_ = shown_ = false;
    top_at_ = 0;
    problem_.clear();
    lens_problem_.clear();
}

void Looking::open(const Model& model, bool lens) {
    with_lens_ = lens;
    begun_ = shown_ = false;
    PassesOptions options;
    options.model = model.path();
    options.length = static_cast<int64_t>(ids_.size());
    options.attention = true;
    options.lens = lens;
    if (!lens) options.ports = {"hidden"}; // a session has some output
    passes_ = std::make_unique<Passes>(engine_, options);
}

void Looking::look(const Model& model, const std::string& text) {
    forget();
    try {
        if (model.is_encoder_decoder())
            throw Failure("This model reads one text and writes another; the Observatory looks at models of one text.");
        ids_ = model.encode(text);
        if (ids_.empty()) throw Failure("The text is empty: type at least one character.");
        open(model, true);
    } catch (const Failure& failure) {
        passes_.reset();
        problem_ = failure.what();
    }
}

void Looking::record(VkCommandBuffer commands, const Model& model, uint64_t frame) {
    if (passes_ == nullptr || shown_) return;
    const hk::State state = passes_->state();
    try {
        if (state == hk::State::failed && with_lens_) {
            // A network without layers or logits has no lens; its attention can still be seen.
            lens_problem_ = passes_->problem();
            open(model, false);
        } else if (state == hk::State::failed) {
            throw Failure(passes_->problem());
        } else if (state == hk::State::idle && !begun_) {
            attention_ = passes_->all("attention.");
            lenses_ = passes_->all("lens.");
            const auto is_of_tokens = [&](const hk_tensor& lens) {
                return lens.rank == 3 && lens.dims[1] == static_cast<int64_t>(ids_.size());
            };
            if (!lenses_.empty() && !is_of_tokens(lenses_.front())) {
                lens_problem_ = "its head says something of the whole text, not of each token.";
                lenses_.clear();
            }
            passes_->begin(ids_);
            begun_ = true;
        } else if (state == hk::State::idle) {
            shown_ = true;
            if (lenses_.empty()) return;
            top_.record(commands, lenses_);
            top_at_ = frame;
        }
    } catch (const Failure& failure) {
        problem_ = failure.what();
        passes_.reset();
    }
}

} // namespace observatory
