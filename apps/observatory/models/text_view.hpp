// A text seen by the model: its tokens, what every head attends to, and what each layer would say next. A model that
// reads one text and writes another writes first. Everything is made anew when text or model change.
#pragma once

#include "models/model.hpp"
#include "models/passes.hpp"
#include "views/top_tokens.hpp"

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
    // Of a model that writes: what it wrote, and what its decoder read to write it: a token to begin with, and all that
    // it had written by then.
    const std::string& writing() const { return writing_; }
    const std::vector<int32_t>& written() const { return written_; }
    // The tokens that a layer's guesses follow.
    const std::vector<int32_t>& followed() const { return written_.empty() ? ids_ : written_; }
    bool is_busy() const { return is_writing() || (passes_ != nullptr && !shown_); }
    bool is_writing() const { return writer_ && passes_ == nullptr && problem_.empty(); }
    // The outputs are those of ids(). Says nothing of top(), which follows two frames later.
    bool is_shown() const { return shown_; }
    bool has_top(uint64_t frame) const { return shown_ && top_at_ > 0 && frame >= top_at_ + Target::kFramesInFlight; }
    double progress() const;                                          // of preparing
    const std::string& problem() const { return problem_; }           // why there is nothing to see
    const std::string& lens_problem() const { return lens_problem_; } // why there is no lens

    // [1, heads, queries, keys] a layer; of an encoder-decoder those of the encoder, then of each layer of the decoder
    // one of what is written and one of what was read.
    const std::vector<hk_tensor>& attention() const { return attention_; }
    std::size_t lenses() const { return lenses_.size(); } // layers and what goes into the first
    const TopTokens& top() const { return top_; }

private:
    void open(const Model& model, bool lens);
    void begin_writing(const Model& model);
    void take_writing(const Model& model);
    Engine& engine_;
    TopTokens top_;
    std::unique_ptr<Passes> passes_;
    hk::Generation writer_;
    int64_t most_written_ = 0; // tokens
    std::string text_, writing_;
    std::vector<int32_t> ids_, written_;
    std::vector<hk_tensor> attention_, lenses_;
    bool begun_ = false, shown_ = false, with_lens_ = false;
    uint64_t top_at_ = 0; // frame in which top_ was recorded; 0: it was not
    std::string problem_, lens_problem_;
};

} // namespace observatory
