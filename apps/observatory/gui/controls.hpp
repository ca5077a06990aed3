// The positions and texts of controls, for scripts that use the window with a mouse: --controls FILE.
#pragma once

#include <imgui.h>
#include <map>
#include <string>

namespace observatory {

class Controls {
public:
    explicit Controls(std::string file) : file_(std::move(file)) {}
    // Records the rectangle of ImGui's last item, or the given one.
    void place(const std::string& name);
    void place(const std::string& name, ImVec2 low, ImVec2 high);
    void value(const std::string& name, const std::string& text) { values_[name] = text; }
    void value(const std::string& name, double number);
    // Called once per frame. If anything changed, rewrites the file atomically: lines of "control", a name and left,
    // top, right and bottom in pixels, and of "value", a name and a text, separated by tabs. Does nothing if no file
    // was requested. Throws a Failure if the file cannot be written.
    void end_frame();

private:
    struct Rectangle {
        float x0, y0, x1, y1;
    };
    std::string file_, written_;
    std::map<std::string, Rectangle> places_;
    std::map<std::string, std::string> values_;
};

} // namespace observatory
