// A model's weights on the device, kept as long as the model is open: its token embeddings and its parameters.
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
    // Between frames. Opens the model's weights where they are not; of one model until forget().
    void keep(const Model& model, uint64_t number);
    void forget(); // between frames, once those that were submitted have been executed
    bool is_empty() const { return passes_ == nullptr; }
    bool keeps(uint64_t number) const { return number_ == number; }
    // What is missing, or empty.
    const std::string& problem() const { return problem_; }
    bool is_ready() const { return passes_ != nullptr && passes_->state() == hk::State::idle; }
    double progress() const { return passes_ != nullptr ? passes_->progress() : 0.0; }
    // Float [tokens, width]; null until it is ready, and for a model that has none.
    const hk_tensor* embedding() const { return is_ready() ? passes_->find("embedding.weight") : nullptr; }
    // Of is_ready(). Nothing where there is no such parameter.
    std::optional<hk_tensor> parameter(const std::string& name) const;

private:
    Engine& engine_;
    std::unique_ptr<Passes> passes_;
    uint64_t number_ = 0; // of the model
    bool embedding_ = true;
    std::string problem_;
};

} // namespace observatory
