// Attention of every layer and head: all of them as small maps, one as a large map.
#pragma once

#include "observatory.hpp"
#include "views/heat_map.hpp"

namespace observatory {

class AttentionPanel final : public Panel {
public:
    AttentionPanel(Device& device, VkRenderPass pass);
    const char* name() const override { return "Attention"; }
    const char* about() const override { return "Where each head of each layer looks"; }
    void record(Observatory& app, VkCommandBuffer commands, bool shown) override;
    void draw(Observatory& app) override;
    bool is_settled(Observatory& app) override;
    std::string problem(Observatory& app) override { return app.looking.problem(); }

private:
    void draw_all(Observatory& app, ImVec2 size);
    void draw_one(Observatory& app, ImVec2 size);
    HeatMap map_;
    Pipeline probe_;
    Buffer weight_; // the weight under the mouse
    int layer_ = 0, head_ = 0;
    float gamma_ = 0.5F;
    uint32_t row_ = HeatMap::kNone, column_ = HeatMap::kNone;
};

} // namespace observatory
