// Properties of each recipe key besides its value, for messages, the reference, completions and the check of a resumed
// run.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::train {

// What happens if a run is resumed with another value of a key.
enum class Resume : uint8_t {
    refused,  // an error: the checkpoint does not match
    warned,   // the run continues with a warning: the result differs from that of an unchanged run
    learning, // as `warned`; an evaluation is not affected
    fitted,   // as `learning`; no warning if train.fit chooses the value
    split,    // an error if examples would move between training and validation data (train/run/held_out.hpp)
    data,     // an error if the examples of the training differ from the checkpoint's; else silently
    model,    // an error if the folder has another model, and the run reads it; it may have been moved
    rows,     // as `data`; an evaluation warns, because its own rows differ
    free,     // the run continues silently
};

// Which values a key accepts.
struct KeyRule {
    double low = -std::numeric_limits<double>::infinity();
    double high = std::numeric_limits<double>::infinity();
    std::vector<std::string> choices; // of a string; empty: any
    std::string_view unit_name;
    std::string_view example_text;
    bool is_path = false;         // `~` at its beginning is the home folder
    bool plugins_integer = false; // an integer belongs to the plugin (HK_RECIPE_OTHER_KEYS), not to this key

    KeyRule at_least(double value) const;
    KeyRule unit(std::string_view name) const;
    KeyRule integer_is_the_plugins() const;
    // Returns "steps, 0 or more", "0 to 0.9", "`a`, `b`"; empty without a rule.
    std::string text() const;
};
KeyRule any();
KeyRule path();
KeyRule at_least(double low);
KeyRule between(double low, double high);
KeyRule one_of(std::vector<std::string> choices);
KeyRule example(std::string_view text); // TOML, for messages

struct KeyInfo {
    std::string_view name; // empty for HK_RECIPE_OTHER_KEYS
    Resume resume = Resume::free;
    KeyRule rule;
    std::string_view meaning;
};

struct SectionInfo {
    std::string_view name;
    std::string_view meaning;
    bool named = false;         // [name.x] for any x
    std::string_view shorthand; // for a named section: the key that `x = VALUE` sets
};

} // namespace hekla::train
