// Token embeddings as points in 3D space, along their principal axes.
#pragma once

#include "models/table.hpp"
#include "observatory.hpp"
#include "views/camera.hpp"
#include "views/principal_axes.hpp"
#include "views/similarity.hpp"

namespace observatory {

class EmbeddingPanel final : public Panel {
public:
    EmbeddingPanel(Device& device, VkRenderPass pass, Table& table);
    const char* name() const override { return "Embeddings"; }
    const char* about() const override { return "Tokens as points: neighbors are used alike"; }
    void change(Observatory& app, bool shown) override;
    void record(Observatory& app, VkCommandBuffer commands, bool shown) override;
    void draw(Observatory& app) override;
    bool needs_weights() const override { return true; }
    bool is_settled(Observatory& app) override;
    std::string problem(Observatory&) override { return table_.problem(); }

private:
    static constexpr uint32_t kNone = UINT32_MAX;
    void draw_cloud(Observatory& app, ImVec2 size);
    void draw_side(Observatory& app, ImVec2 size);
    void choose(uint32_t token);
    void classify(const Model& model);
    uint32_t under_mouse(ImVec2 low, ImVec2 size, const glm::mat4& view) const;
    glm::vec3 place(uint32_t token) const;
    Device& device_;
    Table& table_;
    PrincipalAxes axes_;
    Likeness likeness_;
    Pipeline points_;
    Buffer kinds_; // one per token, for the shader
    Camera camera_;
    uint64_t number_ = 0;                                        // the number of the model whose axes these are
    bool framed_ = false;                                        // the camera has been set to show all points
    uint32_t hovered_ = kNone, chosen_ = kNone, wanted_ = kNone; // wanted_: its neighbors are to be found
    uint64_t asked_at_ = 0;                                      // frame
    std::vector<Likeness::Neighbor> neighbors_;
    std::string search_;
    float size_ = 5.0F;
    bool turns_ = false;
};

} // namespace observatory
