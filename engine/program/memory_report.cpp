// The memory plan for people: a table, JSON, and a drawing of the arena over time.
#include "base/markup.hpp"
#include "base/size_text.hpp"
#include "program/memory_plan.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hekla::program {

namespace {

std::vector<std::pair<const char*, uint64_t>> parts(const MemoryPlan& plan) {
    return {{"parameters", plan.parameters}, {"gradients", plan.gradients}, {"moments", plan.moments},
            {"states", plan.states},         {"activations", plan.arena()}, {"constants", plan.constants},
            {"inputs", plan.inputs},         {"outputs", plan.outputs},     {"arguments", plan.arguments}};
}

} // namespace

std::string MemoryPlan::text() const {
    std::string out;
    for (const auto& [name, bytes] : parts(*this))
        if (bytes > 0) out += fmt::format("  {:<12} {:>12}\n", name, size_text(bytes));
    out += fmt::format("  {:<12} {:>12}\n", "total", size_text(total()));
    if (arena() > 0)
        out += fmt::format("  activations: {} tensors of {} share {} in {} block{} ({} alive at the fullest moment)\n",
                           placements.size(), size_text(unshared_bytes), size_text(arena()), blocks.size(),
                           blocks.size() == 1 ? "" : "s", size_text(live_bytes));
    return out;
}

std::string MemoryPlan::json() const {
    nlohmann::ordered_json out;
    for (const auto& [name, bytes] : parts(*this)) out[name] = bytes;
    out["total"] = total();
    out["live"] = live_bytes;
    out["unshared"] = unshared_bytes;
    out["dispatches"] = dispatches;
    out["blocks"] = blocks;
    out["tensors"] = nlohmann::ordered_json::array();
    for (const Placement& x : placements)
        out["tensors"].push_back({{"name", x.name},
                                  {"bytes", x.bytes},
                                  {"first", x.first},
                                  {"last", x.last},
                                  {"block", x.block},
                                  {"offset", x.offset}});
    return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string MemoryPlan::svg() const {
    constexpr double kLeft = 90.0, kTop = 56.0, kWidth = 1000.0, kHeight = 440.0, kGap = 14.0;
    const double bytes_in_all = static_cast<double>(std::max<uint64_t>(1, arena()));
    const double per_byte = kHeight / bytes_in_all;
    const double per_dispatch = kWidth / static_cast<double>(std::max<uint32_t>(1, dispatches));
    const double bottom = kTop + kHeight + kGap * static_cast<double>(blocks.empty() ? 0 : blocks.size() - 1);

    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        "<text x=\"{2}\" y=\"22\" font-size=\"15\" fill=\"#1a1a1a\">Activation arena over one step</text>\n"
        "<text x=\"{2}\" y=\"41\" fill=\"#555555\">{3} in {4} tensors; {5} without sharing; {6} alive at the fullest "
        "moment</text>\n",
        kLeft + kWidth + 24, bottom + 48, kLeft, size_text(arena()), placements.size(), size_text(unshared_bytes),
        size_text(live_bytes));

    std::vector<double> base(blocks.size(), bottom); // y of each block's address 0
    double y = bottom;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
        base[b] = y;
        const double height = static_cast<double>(blocks[b]) * per_byte;
        out += fmt::format("<rect x=\"{}\" y=\"{:.2f}\" width=\"{}\" height=\"{:.2f}\" fill=\"#f3f3f1\"/>\n"
                           "<text x=\"{}\" y=\"{:.2f}\" text-anchor=\"end\" fill=\"#555555\">{}</text>\n"
                           "<text x=\"{}\" y=\"{:.2f}\" text-anchor=\"end\" fill=\"#555555\">0</text>\n",
                           kLeft, y - height, kWidth, height, kLeft - 8, std::min(y - height + 10, y - 14),
                           size_text(blocks[b]), kLeft - 8, y);
        y -= height + kGap;
    }
    // Tones by length of life: what is kept from the forward to the backward pass is easy to tell from short-lived
    // scratch.
    for (const Placement& x : placements) {
        const double life =
            static_cast<double>(x.last - x.first + 1) / static_cast<double>(std::max<uint32_t>(1, dispatches));
        const char* fill = life > 0.5 ? "#b5482e" : life > 0.2 ? "#d98a3d" : life > 0.05 ? "#6b9e78" : "#7fa8c9";
        const double height = static_cast<double>(x.bytes) * per_byte;
        out +=
            fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\" "
                        "stroke=\"#ffffff\" stroke-width=\"0.4\"><title>{}: {}, dispatches {} to {}</title></rect>\n",
                        kLeft + static_cast<double>(x.first) * per_dispatch,
                        base[x.block] - static_cast<double>(x.offset) * per_byte - height,
                        static_cast<double>(x.last - x.first + 1) * per_dispatch, height, fill, escape_markup(x.name),
                        size_text(x.bytes), x.first, x.last);
    }
    out += fmt::format("<text x=\"{}\" y=\"{:.2f}\" fill=\"#555555\">dispatch 0</text>\n"
                       "<text x=\"{}\" y=\"{:.2f}\" text-anchor=\"end\" fill=\"#555555\">{}</text>\n",
                       kLeft, bottom + 18, kLeft + kWidth, bottom + 18, dispatches);
    const std::pair<const char*, const char*> legend[] = {{"#b5482e", "alive for over half of the step"},
                                                          {"#d98a3d", "a fifth"},
                                                          {"#6b9e78", "a twentieth"},
                                                          {"#7fa8c9", "less"}};
    double x = kLeft;
    for (const auto& [color, words] : legend) {
        out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" fill=\"{}\"/>"
                           "<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"#555555\">{}</text>\n",
                           x, bottom + 28, color, x + 15, bottom + 37, words);
        x += 40.0 + 6.5 * static_cast<double>(std::string_view(words).size());
    }
    return out + "</svg>\n";
}

} // namespace hekla::program
