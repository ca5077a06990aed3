// A dialogue that finds a file or folder with the mouse.
#pragma once

#include "gui/controls.hpp"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace observatory {

class FileBrowser {
public:
    enum class Wanted { model, recipe, log };
    // Opens at `start`, or the folder that it lies in.
    void open(Wanted wanted, const std::string& start);
    // Once a frame; gives the path that was chosen, once.
    std::string draw(Controls& controls, float scale);

private:
    struct Entry {
        std::string name;
        bool folder = false, fits = false;
        const char* what = ""; // "model", "run", ...
    };
    void list();
    Entry look(const std::filesystem::directory_entry& entry) const;
    Wanted wanted_ = Wanted::model;
    std::filesystem::path folder_;
    std::vector<Entry> entries_;
    std::string chosen_, problem_;
    bool opens_ = false;
};

} // namespace observatory
