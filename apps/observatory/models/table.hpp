// A model's weights on the device, kept while the model is open: its token embeddings and its parameters.
#pragma once

#include "models/model.hpp"
#include "models/passes.hpp"
#include "views/histograms.hpp"

#include <memory>
#include <optional>

namespace observatory {

class Table {
public:
    explicit Table(Engine& engine) : engine_(engine) {}
    // Opens the model's weights unless they are open. Between frames; call forget() before another model.
    void keep(const Model& model, uint64_t number);
    void forget(); // between frames, after all submitted frames have completed
    bool is_empty() const { return passes_ == nullptr; }
    bool keeps(uint64_t number) const { return number_ == number; }
    // Returns why there are no weights, or "".
    const std::string& problem() const { return problem_; }
    bool is_ready() const { return passes_ != nullptr && passes_->state() == hk::State::idle; }
    double progress() const { return passes_ != nullptr ? passes_->progress() : 0.0; }
    // Float [tokens, width]; null until it is ready, and for a model without token embeddings.
    const hk_tensor* embedding() const { return is_ready() ? passes_->find("embedding.weight") : nullptr; }
    // Must be ready. Empty if no parameter has this name.
    std::optional<hk_tensor> parameter(const std::string& name) const;

private:
    Engine& engine_;
    std::unique_ptr<Passes> passes_;
    uint64_t number_ = 0; // the model's number
    bool embedding_ = true;
    std::string problem_;
};

} // namespace observatory
