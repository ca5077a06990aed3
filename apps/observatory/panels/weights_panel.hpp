// Histograms of all parameters: of the open model, or of a running training together with its gradients.
#pragma once

#include "models/table.hpp"
#include "observatory.hpp"

namespace observatory {

class WeightsPanel final : public Panel {
public:
    WeightsPanel(Device& device, Table& table) : histograms_(device), table_(table) {}
    const char* name() const override { return "Weights"; }
    const char* about() const override { return "Histograms of weights and gradients"; }
    void change(Observatory& app, bool shown) override;
    void draw(Observatory& app) override;
    bool needs_weights() const override { return true; }
    bool is_settled(Observatory& app) override;

private:
    void draw_list(Observatory& app, ImVec2 size);
    void draw_one(Observatory& app, const Spread& spread, ImVec2 size);
    Histograms histograms_;
    Table& table_;
    uint64_t number_ = 0; // the number of the model whose histograms these are
    std::vector<Spread> spreads_, live_;
    int64_t live_step_ = 0;
    bool wants_training_ = false; // the user selected the training
    bool of_training_ = false, gradients_ = true, logarithmic_ = true;
    std::string filter_;
    std::size_t chosen_ = 0;
};

} // namespace observatory
