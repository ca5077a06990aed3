// The record of text::TextRules in config.json's "hekla" object: by which rules a model's texts became ids in training.
#pragma once

#include "text/text_encoder.hpp"

#include <nlohmann/json.hpp>

namespace hekla::plugin {

// Returns the rules of a model's config.json. A folder that Hekla did not write has no "hekla" object: the default. One
// of Hekla without the record was trained before there was one: text::kRulesBeforeRecord.
text::TextRules text_rules_of(const nlohmann::json& config);

// Writes the record into the "hekla" object. Rules from before the record are written by leaving it out.
void record_text_rules(const text::TextRules& rules, nlohmann::ordered_json& own);

} // namespace hekla::plugin
