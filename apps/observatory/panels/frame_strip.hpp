// The time that Hekla used in each frame, against the budget that a slider sets, and the time for drawing.
#pragma once

#include "observatory.hpp"

namespace observatory {

class FrameStrip {
public:
    void draw(Observatory& app, ImVec2 size);

private:
    float ceiling_ = 5000.0F; // microseconds at the top of the strip
};

} // namespace observatory
