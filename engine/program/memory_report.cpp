// The memory plan for people: a table, JSON, and a drawing of the arena over time.
#include "base/number_text.hpp"
#include "base/svg.hpp"
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
    constexpr std::string_view kSoft = "fill=\"#555555\"", kSoftAtEnd = "text-anchor=\"end\" fill=\"#555555\"";
    constexpr double kLeft = 90.0, kTop = 56.0, kWidth = 1000.0, kHeight = 440.0, kGap = 14.0;
    const double bytes_in_all = static_cast<double>(std::max<uint64_t>(1, arena()));
    const double per_byte = kHeight / bytes_in_all;
    const double per_dispatch = kWidth / static_cast<double>(std::max<uint32_t>(1, dispatches));
    const double bottom = kTop + kHeight + kGap * static_cast<double>(blocks.empty() ? 0 : blocks.size() - 1);

    SvgWriter out(kLeft + kWidth + 24, bottom + 48, "sans-serif", 12);
    out.text(kLeft, 22, "Activation arena over one step", "font-size=\"15\" fill=\"#1a1a1a\"");
    out.text(kLeft, 41,
             fmt::format("{} in {} tensors; {} without sharing; {} alive at the peak", size_text(arena()),
                         placements.size(), size_text(unshared_bytes), size_text(live_bytes)),
             kSoft);

    std::vector<double> base(blocks.size(), bottom); // y of each block's address 0
    double y = bottom;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
        base[b] = y;
        const double height = static_cast<double>(blocks[b]) * per_byte;
        out.rect(kLeft, y - height, kWidth, height, "fill=\"#f3f3f1\"");
        out.text(kLeft - 8, std::min(y - height + 10, y - 14), size_text(blocks[b]), kSoftAtEnd);
        out.text(kLeft - 8, y, "0", kSoftAtEnd);
        y -= height + kGap;
    }
    // Colored by lifetime, to distinguish what is kept from the forward to the backward pass from scratch memory.
    for (const Placement& x : placements) {
        const double life =
            static_cast<double>(x.last - x.first + 1) / static_cast<double>(std::max<uint32_t>(1, dispatches));
        const char* fill = life > 0.5 ? "#b5482e" : life > 0.2 ? "#d98a3d" : life > 0.05 ? "#6b9e78" : "#7fa8c9";
        const double height = static_cast<double>(x.bytes) * per_byte;
        out.rect(kLeft + static_cast<double>(x.first) * per_dispatch,
                 base[x.block] - static_cast<double>(x.offset) * per_byte - height,
                 static_cast<double>(x.last - x.first + 1) * per_dispatch, height,
                 fmt::format("fill=\"{}\" stroke=\"#ffffff\" stroke-width=\"0.4\"", fill),
                 fmt::format("{}: {}, dispatches {} to {}", x.name, size_text(x.bytes), x.first, x.last));
    }
    out.text(kLeft, bottom + 18, "dispatch 0", kSoft);
    out.text(kLeft + kWidth, bottom + 18, fmt::format("{}", dispatches), kSoftAtEnd);
    const std::pair<const char*, const char*> legend[] = {{"#b5482e", "alive for over half of the step"},
                                                          {"#d98a3d", "a fifth"},
                                                          {"#6b9e78", "a twentieth"},
                                                          {"#7fa8c9", "less"}};
    double x = kLeft;
    for (const auto& [color, words] : legend) {
        out.rect(x, bottom + 28, 10, 10, fmt::format("fill=\"{}\"", color));
        out.text(x + 15, bottom + 37, words, kSoft);
        x += 40.0 + 6.5 * static_cast<double>(std::string_view(words).size());
    }
    return std::move(out).finish();
}

} // namespace hekla::program
