#include "plugin/composition/text_record.hpp"

namespace hekla::plugin {
namespace {

constexpr const char *kFrame = "frame", *kTokenizers = "tokenizer";
constexpr const char *kSpecialTokens = "special_tokens", *kParsed = "parsed", *kText = "text";

} // namespace

text::TextRules text_rules_of(const nlohmann::json& config) {
    const auto own = config.find("hekla");
    if (own == config.end() || !own->is_object()) return {};
    const auto is = [&](const char* key, const char* value) {
        const auto found = own->find(key);
        return found != own->end() && *found == value;
    };
    return {is(kFrame, kTokenizers), is(kSpecialTokens, kParsed)};
}

void record_text_rules(const text::TextRules& rules, nlohmann::ordered_json& own) {
    if (rules == text::kRulesBeforeRecord) return;
    if (rules.framed) own[kFrame] = kTokenizers;
    own[kSpecialTokens] = rules.parses_special ? kParsed : kText;
}

} // namespace hekla::plugin
