// The model's view of a text: its tokens, every head's attention, each layer's next-token predictions, and the weights
// of adapters where the model combines them. An encoder-decoder first generates its output text. Everything is
// recreated when the text or the model changes.
#pragma once

#include "models/model.hpp"
#include "models/passes.hpp"
#include "views/copies.hpp"
#include "views/top_tokens.hpp"

#include <memory>
#include <optional>

namespace observatory {

class Looking {
public:
    explicit Looking(Engine& engine) : engine_(engine), top_(engine.device()), copies_(engine.device()) {}

    // Between frames, after all submitted frames have completed.
    void look(const Model& model, const std::string& text);
    void forget();

    // Called once per frame: continues when the session is ready, and records the work on its outputs.
    void record(VkCommandBuffer commands, const Model& model, uint64_t frame);

    const std::vector<int32_t>& ids() const { return ids_; }
    // For an encoder-decoder: the generated text, and the decoder's input, which is a start token followed by the
    // generated tokens.
    const std::string& writing() const { return writing_; }
    const std::vector<int32_t>& written() const { return written_; }
    // Returns the tokens whose successors the layers predict.
    const std::vector<int32_t>& followed() const { return written_.empty() ? ids_ : written_; }
    bool is_busy() const { return is_writing() || (passes_ != nullptr && !shown_); }
    bool is_writing() const { return writer_ && passes_ == nullptr && problem_.empty(); }
    // The outputs belong to ids(). top() is available two frames later.
    bool is_shown() const { return shown_; }
    bool has_top(uint64_t frame) const { return !lenses_.empty() && is_copied(frame); }
    double progress() const;                                          // of the preparation
    const std::string& problem() const { return problem_; }           // why there is nothing to display
    const std::string& lens_problem() const { return lens_problem_; } // why there is no lens

    // One [1, heads, queries, keys] per layer. For an encoder-decoder: those of the encoder, then for each decoder
    // layer one for self-attention and one for cross-attention.
    const std::vector<hk_tensor>& attention() const { return attention_; }
    std::size_t lenses() const { return lenses_.size(); } // number of layers, plus one for the first layer's input
    const TopTokens& top() const { return top_; }
    // One per Model::routing(), if there are any: float [..., branches], of one row; available two frames later.
    std::size_t routings() const { return routings_.size(); }
    const hk_tensor& routing(std::size_t site) const { return routings_[site]; }
    std::span<const float> routing_values(std::size_t site) const { return copies_.values(site); }
    bool has_routing(uint64_t frame) const { return !routings_.empty() && is_copied(frame); }
    const std::string& routing_problem() const { return routing_problem_; } // the reason if the weights are missing

private:
    bool is_copied(uint64_t frame) const {
        return shown_ && copied_at_ > 0 && frame >= copied_at_ + Target::kFramesInFlight;
    }
    void open(const Model& model, bool lens, bool routing);
    void open_less(const Model& model);
    void begin_writing(const Model& model);
    void take_writing(const Model& model);
    Engine& engine_;
    TopTokens top_;
    Copies copies_;
    std::unique_ptr<Passes> passes_;
    hk::Generation writer_;
    int64_t most_written_ = 0; // tokens
    std::string text_, writing_;
    std::vector<int32_t> ids_, written_;
    std::vector<hk_tensor> attention_, lenses_, routings_;
    bool begun_ = false, shown_ = false, with_lens_ = false, with_routing_ = false;
    uint64_t copied_at_ = 0; // the frame in which top_ and copies_ were recorded; 0: not yet
    std::string problem_, lens_problem_, routing_problem_;
};

} // namespace observatory
