// What a new run reports about the rules by which its texts become ids, where they are not those that a reader expects.
#pragma once

#include "base/status.hpp"
#include "train/recipe/recipe.hpp"

#include <string>
#include <vector>

namespace hekla::plugin {
class Composition;
struct CompositionSpec;
class Registry;
} // namespace hekla::plugin
namespace hekla::text {
class Tokenizer;
}

namespace hekla::train {

class RunData;

// Returns messages for before the first step: the ids of one row before and now, where model.from was trained by other
// rules; settings by which rows differ from what other programs make of the saved folder. spec: of the run.
Result<std::vector<std::string>> report_text_rules(const Recipe& recipe, const plugin::Registry& registry,
                                                   const plugin::CompositionSpec& spec,
                                                   const plugin::Composition& composition,
                                                   const text::Tokenizer& tokenizer, const RunData& data);

} // namespace hekla::train
