#include "train/run/held_out.hpp"

#include "base/hash.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::train {
namespace {

// Returns "data.valid = ["a"]", or the fraction where there are no files.
std::string source_of(const DataSection& data) {
    return data.valid.empty() ? fmt::format("data.valid_fraction = {}", data.valid_fraction)
                              : fmt::format("data.valid = {}", data.valid);
}

} // namespace

double held_out_by(const DataSection& data) { return data.valid.empty() ? data.valid_fraction : 0.0; }

bool is_held_out(uint64_t row_key, double share) {
    return static_cast<double>(hash64("valid", row_key)) * 0x1p-64 < share;
}

Result<double> held_out_of(const Recipe& before, const nlohmann::json& state, const Recipe& now,
                           const std::string& checkpoint, bool trains) {
    const double then = state.contains(kHeldOut) && state[kHeldOut].is_number() ? state[kHeldOut].get<double>()
                        : before.train.eval_steps > 0                           ? held_out_by(before.data)
                                                                                : 0.0;
    const bool same_keys = before.data.valid.empty() == now.data.valid.empty() &&
                           (!now.data.valid.empty() || before.data.valid_fraction == now.data.valid_fraction);
    const bool other_files = !trains && !now.data.valid.empty();
    const double share = held_out_by(now.data);
    if (same_keys || other_files || share == then) return then;
    const auto held = [](double part) {
        return part > 0.0 ? fmt::format("{}% of the training data", 100.0 * part) : std::string("nothing");
    };
    return failed_precondition(fmt::format(
        "{}: was made with {} and holds out {} for validation; with {} the run would hold out {}, and {}: put the old "
        "value back, or choose another [output] dir{}",
        checkpoint, source_of(before.data), held(then), source_of(now.data), held(share),
        share < then ? "train on examples that it was validated on" : "be validated on examples that it was trained on",
        trains && share < then ? "; `hekla eval` can validate on other files (data.valid)" : ""));
}

} // namespace hekla::train
