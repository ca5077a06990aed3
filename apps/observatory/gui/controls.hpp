// Where things are in the window and what they say, for scripts that use it with a mouse: --controls FILE.
#pragma once

#include <imgui.h>
#include <map>
#include <string>

namespace observatory {

class Controls {
public:
    explicit Controls(std::string file) : file_(std::move(file)) {}
    // The rectangle of ImGui's last item, or one that is given.
    void place(const std::string& name);
    void place(const std::string& name, ImVec2 low, ImVec2 high);
    void value(const std::string& name, const std::string& text) { values_[name] = text; }
    void value(const std::string& name, double number);
    // Once a frame. Where something changed the file is written anew, whole or not at all: lines of "control", a name
    // and left, top, right and bottom in pixels, and of "value", a name and a text, with tabs between. Nothing where no
    // file was asked for. Throws a Failure where it cannot be written.
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
