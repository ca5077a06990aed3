// The first three principal axes of a table's rows, and each row's coordinates along them. Computed on the device by
// subspace iteration, a few rounds per frame.
#pragma once

#include "models/passes.hpp"
#include "vulkan/buffer.hpp"
#include "vulkan/pipeline.hpp"

namespace observatory {

class PrincipalAxes {
public:
    static constexpr int kRounds = 48;
    explicit PrincipalAxes(Device& device);

    // Starts with a float [rows, width]. Between frames, after all submitted frames have completed.
    void begin(const hk_tensor& table);
    // Records a few more rounds, and the projection of the rows.
    void record(VkCommandBuffer commands, int rounds = 4);
    int rounds() const { return rounds_; }
    uint32_t rows() const { return rows_; }
    VkDeviceAddress places_address() const { return places_.address(); }
    // x, y, z and 1 for each row; valid once the recorded commands have completed.
    const float* places() const { return places_.as<float>(); }
    const float* deviations() const { return variance_.as<float>(); } // squared, along each axis

private:
    static constexpr uint32_t kParts = 32;
    void project(VkCommandBuffer commands) const;
    Device& device_;
    Pipeline project_, project_back_, axes_;
    VkDeviceAddress table_ = 0;
    uint32_t rows_ = 0, width_ = 0;
    int rounds_ = 0;
    Buffer axis_, places_, sums_, variance_;
};

} // namespace observatory
