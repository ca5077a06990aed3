#include "panels/file_browser.hpp"

#include <algorithm>
#include <imgui.h>

namespace observatory {
namespace {

namespace fs = std::filesystem;

bool has(const fs::path& folder, const char* name) {
    std::error_code problem;
    return fs::exists(folder / name, problem);
}

bool has_checkpoint(const fs::path& folder) {
    std::error_code problem;
    for (fs::directory_iterator i(folder, problem), end; !problem && i != end; i.increment(problem))
        if (i->path().filename().string().starts_with("checkpoint")) return true;
    return false;
}

const char* title_of(FileBrowser::Wanted wanted) {
    switch (wanted) {
    case FileBrowser::Wanted::model: return "Open a model: a run's folder, or a Hugging Face model's";
    case FileBrowser::Wanted::adapter:
        return "Open an adapter: the folder of a run with [adapter], of PEFT or of AdapterHub";
    case FileBrowser::Wanted::recipe: return "Choose a recipe: a .toml file";
    case FileBrowser::Wanted::log: return "Follow a log: a run's folder, or its train_log.jsonl";
    }
    return "";
}

} // namespace

void FileBrowser::open(Wanted wanted, const std::string& start) {
    wanted_ = wanted;
    std::error_code problem;
    fs::path at = start.empty() ? fs::current_path(problem) : fs::absolute(start, problem);
    if (!fs::is_directory(at, problem)) at = at.parent_path();
    // Starts in the parent folder, so that a model's folder can be chosen among its siblings.
    if (!start.empty() && wanted != Wanted::recipe && (has(at, "config.json") || has(at, "train_log.jsonl")))
        at = at.lexically_normal().parent_path();
    folder_ = fs::is_directory(at, problem) ? at : fs::current_path(problem);
    chosen_.clear();
    list();
    opens_ = true;
}

FileBrowser::Entry FileBrowser::look(const fs::directory_entry& entry) const {
    std::error_code problem;
    Entry e;
    e.name = entry.path().filename().string();
    e.folder = entry.is_directory(problem);
    if (e.folder) {
        const bool model = has(entry.path(), "config.json"), log = has(entry.path(), "train_log.jsonl");
        const bool adapter = has(entry.path(), "adapter_config.json");
        const bool wants_folder = wanted_ == Wanted::model || (wanted_ == Wanted::adapter && !adapter);
        e.what = adapter ? "adapter" : log ? "run" : model ? "model" : "";
        e.fits = wanted_ == Wanted::log ? log
                 : wants_folder         ? model || has_checkpoint(entry.path())
                                        : wanted_ == Wanted::adapter;
    } else if (wanted_ == Wanted::recipe) {
        e.fits = entry.path().extension() == ".toml";
        e.what = e.fits ? "recipe" : "";
    } else if (wanted_ == Wanted::log) {
        e.fits = entry.path().extension() == ".jsonl";
        e.what = e.fits ? "log" : "";
    }
    return e;
}

void FileBrowser::list() {
    entries_.clear();
    problem_.clear();
    std::error_code problem;
    for (fs::directory_iterator i(folder_, problem), end; !problem && i != end; i.increment(problem)) {
        Entry entry = look(*i);
        if (!entry.name.starts_with('.') && (entry.folder || entry.fits)) entries_.push_back(std::move(entry));
    }
    if (problem) problem_ = problem.message();
    std::ranges::sort(entries_, [](const Entry& a, const Entry& b) {
        return a.fits != b.fits ? a.fits : a.folder != b.folder ? a.folder : a.name < b.name;
    });
}

std::string FileBrowser::draw(Controls& controls, float scale) {
    if (opens_) ImGui::OpenPopup("browser");
    opens_ = false;
    const ImVec2 display = ImGui::GetIO().DisplaySize;
    ImGui::SetNextWindowPos({display.x / 2, display.y / 2}, ImGuiCond_Always, {0.5F, 0.5F});
    ImGui::SetNextWindowSize(
        {std::min(760.0F * scale, display.x - 40.0F), std::min(560.0F * scale, display.y - 40.0F)});
    if (!ImGui::BeginPopupModal("browser", nullptr,
                                ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoTitleBar))
        return {};
    std::string result;
    ImGui::TextUnformatted(title_of(wanted_));
    const auto go = [&](const fs::path& to) {
        folder_ = to;
        chosen_.clear();
        list();
    };
    // The parent folders, each a button.
    fs::path up, next;
    int index = 0;
    for (const fs::path& part : folder_.lexically_normal()) {
        up /= part;
        if (part.empty()) continue;
        if (index > 0) ImGui::SameLine(0.0F, 2.0F);
        ImGui::PushID(index++);
        if (ImGui::SmallButton(part.string().c_str())) next = up;
        ImGui::PopID();
    }
    if (ImGui::GetContentRegionAvail().y > 0) ImGui::Separator();
    const float below = ImGui::GetFrameHeightWithSpacing() + 4.0F;
    ImGui::BeginChild("entries", {0, -below}, true);
    if (!problem_.empty()) ImGui::TextWrapped("%s: %s", folder_.string().c_str(), problem_.c_str());
    if (problem_.empty() && entries_.empty()) ImGui::TextDisabled("nothing of this kind is here");
    for (const Entry& entry : entries_) {
        if (!entry.fits) ImGui::PushStyleColor(ImGuiCol_Text, ImGui::GetStyleColorVec4(ImGuiCol_TextDisabled));
        const bool pressed =
            ImGui::Selectable((entry.name + (entry.folder ? "/" : "")).c_str(), chosen_ == entry.name,
                              ImGuiSelectableFlags_DontClosePopups | ImGuiSelectableFlags_AllowDoubleClick);
        if (!entry.fits) ImGui::PopStyleColor();
        controls.place("browser/" + entry.name);
        if (entry.what[0] != '\0') {
            ImGui::SameLine(ImGui::GetContentRegionMax().x - 70.0F * scale);
            ImGui::TextDisabled("%s", entry.what);
        }
        if (!pressed) continue;
        if (entry.fits) {
            chosen_ = entry.name;
            if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) result = (folder_ / chosen_).string();
        } else {
            next = folder_ / entry.name;
        }
    }
    ImGui::EndChild();
    if (ImGui::Button("Cancel", {110 * scale, 0})) ImGui::CloseCurrentPopup();
    controls.place("browser/Cancel");
    ImGui::SameLine();
    ImGui::BeginDisabled(chosen_.empty());
    if (ImGui::Button("Open", {110 * scale, 0})) result = (folder_ / chosen_).string();
    controls.place("browser/Open");
    ImGui::EndDisabled();
    ImGui::SameLine();
    ImGui::TextDisabled("%s", chosen_.empty() ? "click a folder to go into it" : chosen_.c_str());
    if (!next.empty()) go(next);
    if (!result.empty()) ImGui::CloseCurrentPopup();
    ImGui::EndPopup();
    return result;
}

} // namespace observatory
