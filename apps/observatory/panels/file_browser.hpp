// A dialog for choosing a file or folder with the mouse.
#pragma once

#include "gui/controls.hpp"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace observatory {

class FileBrowser {
public:
    enum class Wanted { model, recipe, log, adapter };
    // Opens at `start` if it is a folder, else at its parent folder.
    void open(Wanted wanted, const std::string& start);
    // Called once per frame; returns the chosen path once.
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
