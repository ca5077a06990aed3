// What Hekla took of each frame, against the budget that a slider sets; what drawing took beside it.
#pragma once

#include "observatory.hpp"

namespace observatory {

class FrameStrip {
public:
    void draw(Observatory& app, ImVec2 size);

private:
    float ceiling_ = 5000.0F; // microseconds that the strip's height stands for
};

} // namespace observatory
