// A camera that orbits around a point.
#pragma once

#define GLM_FORCE_DEPTH_ZERO_TO_ONE
#include <glm/glm.hpp>
#include <glm/gtc/matrix_transform.hpp>

#include <algorithm>
#include <cmath>

namespace observatory {

class Camera {
public:
    // Rotates by a mouse movement in pixels.
    void turn(float right, float down) {
        around_ -= right * 0.006F;
        above_ = std::clamp(above_ + down * 0.006F, -1.5F, 1.5F);
    }
    void shift(float right, float down, float pixels_high) {
        const float unit = 2.0F * distance_ * std::tan(kAngle / 2.0F) / std::max(pixels_high, 1.0F);
        centre_ += (-right * right_axis() + down * glm::cross(right_axis(), forward())) * unit;
    }
    void zoom(float steps) { distance_ = std::clamp(distance_ * std::pow(0.88F, steps), nearest_, farthest_); }
    // Moves the camera so that a sphere of this radius around a point is visible.
    void show(glm::vec3 centre, float radius) {
        centre_ = centre;
        distance_ = radius / std::sin(kAngle / 2.0F) * 0.95F;
        nearest_ = radius * 0.02F;
        farthest_ = radius * 20.0F;
    }
    void turn_towards(glm::vec3 centre) { centre_ = centre; }

    glm::mat4 to_clip(float width, float height) const {
        glm::mat4 clip = glm::perspective(kAngle, width / std::max(height, 1.0F), distance_ * 0.01F, distance_ * 40.0F);
        clip[1][1] = -clip[1][1]; // y points down in Vulkan
        return clip * glm::lookAt(centre_ - forward() * distance_, centre_, glm::vec3(0.0F, 1.0F, 0.0F));
    }
    float distance() const { return distance_; }

private:
    static constexpr float kAngle = 0.8F;
    glm::vec3 forward() const {
        return -glm::vec3(std::cos(above_) * std::sin(around_), std::sin(above_), std::cos(above_) * std::cos(around_));
    }
    glm::vec3 right_axis() const { return glm::normalize(glm::cross(forward(), glm::vec3(0.0F, 1.0F, 0.0F))); }
    glm::vec3 centre_{0.0F};
    float around_ = 0.6F, above_ = 0.35F; // radians
    float distance_ = 3.0F, nearest_ = 0.1F, farthest_ = 100.0F;
};

} // namespace observatory
