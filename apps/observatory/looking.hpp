// A text seen by the model: its tokens, what every head attends to, and what each layer would say next. Everything is
// made anew when text or model change.
#pragma once

#include "model.hpp"
#include "passes.hpp"
#include "top_tokens.hpp"

#include <memory>
#include <optional>

namespace observatory {

class Looking {
public:
    explicit Looking(Engine& engine) : engine_(engine), top_(engine.device()) {}

    // Between frames, once those that were submitted have been executed.
    void look(const Model& model, const std::string& text);
    void forget();

    // Once a frame: goes on when the session is ready, and records what is done with its outputs.
    void record(VkCommandBuffer commands, const Model& model, uint64_t frame);

    const std::vector<int32_t>& ids() const { return ids_; }
    bool is_busy() const { return passes_ != nullptr && !shown_; }
    // The outputs are those of ids(). Says nothing of top(), which follows two frames later.
    bool is_shown() const { return shown_; }
    bool has_top(uint64_t frame) const { return shown_ && top_at_ > 0 && frame >= top_at_ + Target::kFramesInFlight; }
    double progress() const { return passes_ != nullptr ? passes_->progress() : 0.0; }
    const std::string& problem() const { return problem_; }           // why there is nothing to see
    const std::string& lens_problem() const { return lens_problem_; } // why there is no lens

    const std::vector<hk_tensor>& attention() const { return attention_; } // [1, heads, queries, keys] a layer
    std::size_t lenses() const { return lenses_.size(); }                  // layers and what goes into the first
    const TopTokens& top() const { return top_; }

private:
    void open(const Model& model, bool lens);
    Engine& engine_;
    TopTokens top_;
    std::unique_ptr<Passes> passes_;
    std::vector<int32_t> ids_;
    std::vector<hk_tensor> attention_, lenses_;
    bool begun_ = false, shown_ = false, with_lens_ = false;
    uint64_t top_at_ = 0; // frame in which top_ was recorded; 0: it was not
    std::string problem_, lens_problem_;
};

} // namespace observatory
