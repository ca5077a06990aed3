#include "panels/adapters_panel.hpp"

#include "failure.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <imgui_stdlib.h>
#include <utility>

namespace observatory {
namespace {

constexpr float kSteepest = 2.0F; // of the scales

ImU32 color_of(std::size_t row) {
    constexpr std::array<ImU32, 6> kColors{color::kGrey,  color::kBlue,   color::kOrange,
                                           color::kGreen, color::kViolet, color::kRed};
    return row == 0 ? kColors[0] : kColors[1 + (row - 1) % (kColors.size() - 1)];
}

std::string rank_text(const Adapter& adapter) {
    if (adapter.rank == 0) return "-";
    const std::string largest = std::to_string(adapter.rank);
    return adapter.least_rank == adapter.rank ? largest : std::to_string(adapter.least_rank) + " to " + largest;
}

std::string scales_text(const AdapterUse& use, const std::vector<Adapter>& adapters) {
    std::string all;
    for (std::size_t i = 0; i < std::min(use.scales.size(), adapters.size()); ++i) {
        if (use.scales[i] == 0.0) continue;
        std::array<char, 32> number{};
        std::snprintf(number.data(), number.size(), "%.2f ", use.scales[i]);
        all += (all.empty() ? "" : " + ") + std::string(number.data()) + adapters[i].name;
    }
    return all.empty() ? "the model alone" : all;
}

void red_text(const std::string& text) {
    ImGui::PushStyleColor(ImGuiCol_Text, color::kRed);
    ImGui::TextWrapped("%s", text.c_str());
    ImGui::PopStyleColor();
}

const char* state_name(AdapterWriting::State state) {
    switch (state) {
    case AdapterWriting::State::none: return "none";
    case AdapterWriting::State::preparing: return "preparing";
    case AdapterWriting::State::writing: return "writing";
    case AdapterWriting::State::done: return "done";
    }
    return "";
}

} // namespace

AdaptersPanel::AdaptersPanel(Engine& engine, const std::vector<std::string>& adapters, const std::string& use,
                             const std::string& prompt)
    : adapters_(engine), writing_(engine), use_(use) {
    for (const std::string& adapter : adapters) arguments_.push_back(parse_adapter(adapter));
    const bool named = std::ranges::find(arguments_, use, &AdapterArgument::name) != arguments_.end();
    choice_ = named ? Choice::one : use == "base" ? Choice::base : use == "mix" ? Choice::mix : Choice::compared;
    if (!named && !use.empty() && use != "compare" && choice_ == Choice::compared)
        throw Failure("--use " + use + ": expected base, mix, compare or the NAME of an --adapter");
    if (!prompt.empty()) prompt_ = prompt;
}

void AdaptersPanel::take_model(Observatory& app) {
    number_ = app.model_number();
    app.later([this] { writing_.end(); });
    adapters_.clear();
    for (const AdapterArgument& argument : std::exchange(arguments_, {})) {
        adapters_.open(app.model()->path(), argument.folder, argument.name, argument.scale);
        if (choice_ == Choice::one && argument.name == use_) one_ = adapters_.all().back().id;
    }
}

// Returns what each row is to be written with.
std::vector<AdapterUse> AdaptersPanel::uses() const {
    const std::vector<Adapter>& all = adapters_.all();
    const AdapterUse base{"base", std::vector<double>(all.size())};
    AdapterUse mix{"mix", base.scales};
    std::vector<AdapterUse> rows{base};
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i].state != Adapter::State::ready) continue;
        AdapterUse one{all[i].name, base.scales};
        one.scales[i] = static_cast<double>(all[i].scale);
        if (choice_ == Choice::one && all[i].id == one_) return {one};
        if (!all[i].chosen) continue;
        mix.scales[i] = one.scales[i];
        rows.push_back(std::move(one));
    }
    if (choice_ == Choice::mix) return {mix};
    if (choice_ != Choice::compared) return {base};
    if (mix_too_ && rows.size() > 2 && not_in_slot() == nullptr) rows.push_back(std::move(mix));
    return rows;
}

// Returns the first chosen adapter that cannot be exchanged between tokens, or null.
const Adapter* AdaptersPanel::not_in_slot() const {
    const auto found = std::ranges::find_if(adapters_.all(), [](const Adapter& adapter) {
        return adapter.chosen && adapter.state == Adapter::State::ready && !adapter.slot_problem.empty();
    });
    return found != adapters_.all().end() ? &*found : nullptr;
}

void AdaptersPanel::write(Observatory& app) {
    app.later([this, &app] {
        if (app.model() == nullptr) return;
        AdapterWritingOptions options;
        options.model = app.model()->path();
        options.prompt = prompt_;
        options.tokens = tokens_;
        options.temperature = static_cast<double>(temperature_);
        options.top_k = top_k_;
        options.seed = static_cast<uint64_t>(seed_);
        options.between_tokens = !app.model()->is_encoder_decoder();
        options.rows = uses();
        writing_.begin(adapters_.all(), options);
    });
}

bool AdaptersPanel::is_settled(Observatory&) {
    if (waits_ || adapters_.is_opening() || writing_.is_changing()) return false;
    const AdapterWriting::State state = writing_.state();
    return state == AdapterWriting::State::none || state == AdapterWriting::State::done;
}

std::string AdaptersPanel::problem(Observatory&) {
    if (!writing_.problem().empty()) return writing_.problem();
    for (const Adapter& adapter : adapters_.all())
        if (!adapter.problem.empty()) return adapter.name + ": " + adapter.problem;
    return {};
}

void AdaptersPanel::change(Observatory& app, bool) {
    if (app.model() == nullptr) return;
    if (number_ != app.model_number()) take_model(app);
    adapters_.update();
    if (waits_ && !adapters_.is_opening()) {
        waits_ = false;
        write(app);
    }
    follows_ = writing_.want(uses(), from_start_);
    writing_.update();
}

void AdaptersPanel::draw_list(Observatory& app) {
    ImGui::BeginDisabled(app.model() == nullptr);
    if (ImGui::Button("Open adapter...", {140 * app.scale, 0}))
        app.browse(FileBrowser::Wanted::adapter, app.model()->path(), [this, &app](const std::string& path) {
            if (app.model() != nullptr) adapters_.open(app.model()->path(), path);
        });
    ImGui::EndDisabled();
    app.controls.place("adapters/open");
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("The folder of a run with [adapter], of PEFT or of AdapterHub");
    ImGui::SameLine();
    ImGui::TextDisabled(app.model() == nullptr ? "Open a model first: the button is above."
                                               : "Changes act between tokens, while the model writes.");
    const std::vector<Adapter>& all = adapters_.all();
    app.controls.value("adapters/count", static_cast<double>(all.size()));
    uint64_t removed = 0;
    if (!all.empty() &&
        ImGui::BeginTable("adapters", 6,
                          ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerV | ImGuiTableFlags_SizingFixedFit)) {
        ImGui::TableSetupColumn("name", ImGuiTableColumnFlags_WidthStretch);
        ImGui::TableSetupColumn("kind");
        ImGui::TableSetupColumn("rank");
        ImGui::TableSetupColumn("parameters");
        ImGui::TableSetupColumn("scale", 0, 150 * app.scale);
        ImGui::TableSetupColumn("");
        ImGui::TableHeadersRow();
        for (Adapter& adapter : adapters_.all()) {
            const std::string place = "adapters/" + adapter.name;
            ImGui::PushID(static_cast<int>(adapter.id));
            ImGui::TableNextRow();
            ImGui::TableNextColumn();
            ImGui::BeginDisabled(adapter.state != Adapter::State::ready);
            ImGui::Checkbox(adapter.name.c_str(), &adapter.chosen);
            ImGui::EndDisabled();
            app.controls.place(place);
            if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
                ImGui::SetTooltip("%s\n%sChecked: it has a text side by side, and is in the mix",
                                  adapter.folder.c_str(),
                                  adapter.slot_problem.empty() ? "" : (adapter.slot_problem + "\n").c_str());
            ImGui::TableNextColumn();
            ImGui::TextUnformatted(adapter.state == Adapter::State::opening ? "opening..." : adapter.kind.c_str());
            ImGui::TableNextColumn();
            ImGui::TextUnformatted(adapter.state == Adapter::State::ready ? rank_text(adapter).c_str() : "");
            ImGui::TableNextColumn();
            if (adapter.state == Adapter::State::ready)
                ImGui::Text("%s, %.2g %%", short_number(static_cast<double>(adapter.parameters)).c_str(),
                            100.0 * adapter.share);
            ImGui::TableNextColumn();
            ImGui::BeginDisabled(adapter.state != Adapter::State::ready);
            ImGui::SetNextItemWidth(150 * app.scale);
            ImGui::SliderFloat("##scale", &adapter.scale, -1.0F, kSteepest, "%.2f");
            ImGui::EndDisabled();
            app.controls.place(place + "/scale");
            app.controls.value(place + "/scale", static_cast<double>(adapter.scale));
            ImGui::TableNextColumn();
            if (ImGui::SmallButton("x")) removed = adapter.id;
            app.controls.place(place + "/close");
            if (ImGui::IsItemHovered()) ImGui::SetTooltip("Closes the adapter");
            app.controls.value(place, adapter.state == Adapter::State::failed
                                          ? adapter.problem
                                          : adapter.kind + ", rank " + rank_text(adapter));
            ImGui::PopID();
        }
        ImGui::EndTable();
    }
    for (const Adapter& adapter : all)
        if (!adapter.problem.empty()) red_text(adapter.name + ": " + adapter.problem);
    if (removed == 0) return;
    app.later([this, removed] { // the numbers of the others change
        writing_.end();
        adapters_.remove(removed);
    });
}

void AdaptersPanel::draw_choice(Observatory& app) {
    const auto radio = [&](const char* label, bool chosen, const std::string& place, const char* about) {
        const bool pressed = ImGui::RadioButton(label, chosen);
        app.controls.place("adapters/use/" + place);
        if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", about);
        return pressed;
    };
    const auto next = [&](const char* label) { // on the same line, if there is room
        const float end = ImGui::GetItemRectMax().x + ImGui::CalcTextSize(label).x + 60 * app.scale;
        if (end < ImGui::GetWindowPos().x + ImGui::GetWindowContentRegionMax().x) ImGui::SameLine();
    };
    ImGui::TextUnformatted("Write with");
    next("side by side");
    if (radio("side by side", choice_ == Choice::compared, "compare",
              "The model alone, each checked adapter, and their mix: rows of one batch"))
        choice_ = Choice::compared;
    next("base");
    if (radio("base", choice_ == Choice::base, "base", "The model alone")) choice_ = Choice::base;
    for (const Adapter& adapter : adapters_.all()) {
        if (adapter.state != Adapter::State::ready) continue;
        next(adapter.name.c_str());
        ImGui::PushID(static_cast<int>(adapter.id));
        if (radio(adapter.name.c_str(), choice_ == Choice::one && one_ == adapter.id, adapter.name,
                  "This adapter alone, with its scale")) {
            choice_ = Choice::one;
            one_ = adapter.id;
        }
        ImGui::PopID();
    }
    next("mix");
    if (radio("mix", choice_ == Choice::mix, "mix", "The sum of the checked adapters, each times its scale"))
        choice_ = Choice::mix;
    if (choice_ == Choice::compared) {
        const Adapter* without = not_in_slot();
        ImGui::BeginDisabled(without != nullptr);
        ImGui::Checkbox("the mix, too", &mix_too_);
        ImGui::EndDisabled();
        app.controls.place("adapters/mix too");
        if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled)) {
            if (without != nullptr)
                ImGui::SetTooltip("Only of adapters that can be in slots: %s", without->slot_problem.c_str());
            else
                ImGui::SetTooltip("A text with the sum of the checked adapters, each times its scale");
        }
        ImGui::SameLine();
    }
    ImGui::Checkbox("changes compute earlier tokens again", &from_start_);
    app.controls.place("adapters/from start");
    if (ImGui::IsItemHovered())
        ImGui::SetTooltip(
            "Not checked: only later tokens use the changed adapters; what the model has computed for earlier "
            "ones stays");
}

void AdaptersPanel::draw_controls(Observatory& app) {
    const AdapterWriting::State state = writing_.state();
    const bool writes = state == AdapterWriting::State::preparing || state == AdapterWriting::State::writing;
    ImGui::TextUnformatted("Prompt");
    ImGui::InputTextMultiline("##prompt", &prompt_, {-1, 54 * app.scale});
    app.controls.place("adapters/prompt");
    ImGui::BeginDisabled(app.model() == nullptr || writes || adapters_.is_opening());
    if (ImGui::Button("Write", {100 * app.scale, 0})) write(app);
    ImGui::EndDisabled();
    app.controls.place("adapters/write");
    ImGui::SameLine();
    ImGui::BeginDisabled(state != AdapterWriting::State::writing);
    if (ImGui::Button("Stop", {100 * app.scale, 0})) writing_.stop();
    ImGui::EndDisabled();
    app.controls.place("adapters/stop");
    const auto slider = [&](bool next) {
        if (next) ImGui::SameLine(250 * app.scale);
        ImGui::SetNextItemWidth(116 * app.scale);
    };
    slider(true);
    ImGui::SliderInt("tokens", &tokens_, 1, 1000, "%d", ImGuiSliderFlags_Logarithmic);
    app.controls.place("adapters/tokens");
    slider(false);
    ImGui::SliderFloat("temperature", &temperature_, 0.0F, 2.0F, temperature_ == 0.0F ? "likeliest" : "%.2f");
    app.controls.place("adapters/temperature");
    if (ImGui::IsItemHovered())
        ImGui::SetTooltip("Above 0, each row draws other random numbers, which make texts side by side differ too");
    ImGui::BeginDisabled(temperature_ == 0.0F);
    slider(true);
    ImGui::SliderInt("of the likeliest", &top_k_, 0, 200, top_k_ == 0 ? "all" : "%d");
    slider(false);
    ImGui::InputInt("seed", &seed_);
    ImGui::EndDisabled();
    app.controls.value("adapters/state", state_name(state));
    app.controls.value("adapters/tokens", static_cast<double>(writing_.tokens()));
    if (!writing_.problem().empty()) red_text(writing_.problem());
    if (state == AdapterWriting::State::preparing)
        ImGui::ProgressBar(static_cast<float>(writing_.progress()), {240 * app.scale, 0}, "preparing");
    else if (state == AdapterWriting::State::writing)
        ImGui::TextDisabled("%lld tokens%s", static_cast<long long>(writing_.tokens()),
                            writing_.is_changing() ? ", making the next mix"
                            : follows_             ? ""
                                                   : "; changes act on the next text");
}

// Draws one row's text, with the words that the first row does not have in its color, and a mark at each change.
void AdaptersPanel::draw_text(Observatory& app, std::size_t number, float width) {
    const AdapterWriting::Row& row = writing_.rows()[number];
    const bool first = number == 0 || choice_ != Choice::compared;
    ImDrawList& list = *ImGui::GetWindowDrawList();
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    const float line = ImGui::GetTextLineHeightWithSpacing(), room = std::max(width, 40 * app.scale);
    ImVec2 at{0, 0};
    std::size_t change = 0;
    const auto put = [&](std::string_view text, ImU32 c, ImU32 ground) {
        const ImVec2 extent = ImGui::CalcTextSize(text.data(), text.data() + text.size());
        if (at.x > 0 && at.x + extent.x > room) at = {0, at.y + line};
        const ImVec2 low{corner.x + at.x, corner.y + at.y};
        if (ground != 0) list.AddRectFilled({low.x - 1, low.y}, {low.x + extent.x + 1, low.y + extent.y}, ground, 2.0F);
        list.AddText(low, c, text.data(), text.data() + text.size());
        at.x += extent.x;
    };
    const auto put_word = [&](std::string_view text, bool differs) {
        // A word that is longer than the line is cut.
        while (ImGui::CalcTextSize(text.data(), text.data() + text.size()).x > room && text.size() > 1) {
            std::size_t part = text.size() / 2;
            while (part > 1 && (ImGui::CalcTextSize(text.data(), text.data() + part).x > room ||
                                (static_cast<unsigned char>(text[part]) & 0xC0U) == 0x80U))
                --part;
            put(text.substr(0, part), differs ? color_of(number) : color::kText,
                differs ? with_alpha(color_of(number), 0.14F) : 0);
            text.remove_prefix(part);
        }
        put(text, differs ? color_of(number) : color::kText, differs ? with_alpha(color_of(number), 0.14F) : 0);
    };
    const auto break_line = [&] {
        if (at.x > 0) at = {0, at.y + line};
    };
    for (const Word& word : words_of(prompt_)) word.text == "\n" ? break_line() : put(word.text, color::kDim, 0);
    const std::string& text = compared_[number];
    const auto mark_changes = [&](std::size_t end) { // the last one of those at the same place
        for (; change < row.changes.size() && row.changes[change].at < end; ++change)
            if (change + 1 == row.changes.size() || row.changes[change + 1].at != row.changes[change].at)
                put("[" + scales_text(row.changes[change].use, adapters_.all()) + "]", color::kOrange, 0);
    };
    bool ended = false; // the line, in the text; empty lines are drawn as marks, since a text may have many
    for (const Word& word : words_[number]) {
        mark_changes(static_cast<std::size_t>(word.text.data() - text.data()) + 1);
        if (word.text == "\n") {
            put("⏎", color::kDim, 0);
            ended = true;
            continue;
        }
        if (std::exchange(ended, false)) break_line();
        if (word.text.front() != ' ' || at.x > 0) put_word(word.text, word.differs && !first);
    }
    mark_changes(text.size() + 1);
    ImGui::Dummy({room, at.y + line});
}

void AdaptersPanel::draw_texts(Observatory& app) {
    const std::vector<AdapterWriting::Row>& rows = writing_.rows();
    app.controls.value("adapters/rows", static_cast<double>(rows.size()));
    ImGui::BeginChild("texts", {0, 0}, true, ImGuiWindowFlags_HorizontalScrollbar);
    if (rows.empty()) {
        ImGui::TextDisabled("What the model writes with each adapter appears here, as it comes.");
        ImGui::EndChild();
        return;
    }
    if (compared_.size() != rows.size()) { // words_ points into compared_
        words_.assign(rows.size(), {});
        compared_.assign(rows.size(), {});
    }
    const bool base_changed = compared_[0] != rows[0].text;
    for (std::size_t row = 0; row < rows.size(); ++row) {
        if (row > 0 && !base_changed && compared_[row] == rows[row].text && !words_[row].empty()) continue;
        compared_[row] = rows[row].text;
        words_[row] = different_words(compared_[0], compared_[row]);
    }
    const float gap = 16.0F * app.scale, room = ImGui::GetContentRegionAvail().x;
    const float width =
        std::max((room - gap * static_cast<float>(rows.size() - 1)) / static_cast<float>(rows.size()), 170 * app.scale);
    const ImVec2 corner = ImGui::GetCursorPos();
    for (std::size_t row = 0; row < rows.size(); ++row) {
        const float x = corner.x + static_cast<float>(row) * (width + gap);
        const auto differ = static_cast<std::size_t>(std::ranges::count_if(words_[row], &Word::differs));
        ImGui::SetCursorPos({x, corner.y});
        ImGui::BeginGroup();
        ImGui::PushTextWrapPos(x + width);
        ImGui::PushStyleColor(ImGuiCol_Text, color_of(row));
        ImGui::TextUnformatted(rows[row].use.label.c_str());
        ImGui::PopStyleColor();
        ImGui::PushFont(app.gui.fonts().small);
        ImGui::TextDisabled("%s", scales_text(rows[row].use, adapters_.all()).c_str());
        if (row > 0)
            ImGui::TextDisabled("%zu words differ", differ);
        else if (rows.size() > 1)
            ImGui::TextUnformatted(""); // as many lines as the others have
        ImGui::PopFont();
        ImGui::PopTextWrapPos();
        ImGui::Spacing();
        draw_text(app, row, width);
        ImGui::EndGroup();
        app.controls.value("adapters/text/" + rows[row].use.label, rows[row].text);
        app.controls.value("adapters/scales/" + rows[row].use.label, scales_text(rows[row].use, adapters_.all()));
        app.controls.value("adapters/changes/" + rows[row].use.label, static_cast<double>(rows[row].changes.size()));
        if (row > 0) app.controls.value("adapters/differ/" + rows[row].use.label, static_cast<double>(differ));
    }
    ImGui::EndChild();
}

void AdaptersPanel::draw(Observatory& app) {
    const ImVec2 room = ImGui::GetContentRegionAvail();
    ImGui::BeginChild("choose", {std::floor(std::clamp(room.x * 0.4F, 420 * app.scale, 640 * app.scale)), room.y},
                      true);
    draw_list(app);
    ImGui::Spacing();
    draw_choice(app);
    ImGui::Spacing();
    draw_controls(app);
    ImGui::EndChild();
    ImGui::SameLine();
    draw_texts(app);
}

} // namespace observatory
