#include "text/frame_shapes.hpp"

#include <algorithm>
#include <initializer_list>

namespace hekla::text {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, name) != names.end();
}

// Returns the frame of a family whose tokens have roles; without the tokens that it needs there is none.
std::optional<TextFrame> framed(std::optional<int32_t> first, std::optional<int32_t> second,
                                TextFrame (*shape)(int32_t, int32_t)) {
    if (!first || !second) return {};
    return shape(*first, *second);
}

} // namespace

TextFrame bert_frame(int32_t cls, int32_t separator) {
    return {{cls}, {separator}, {cls}, {separator}, {separator}, {0, 0, 0}, {0, 0, 0, 1, 1}, false};
}

TextFrame roberta_frame(int32_t cls, int32_t separator) {
    return {{cls}, {separator}, {cls}, {separator, separator}, {separator}, {0, 0, 0}, {0, 0, 0, 0, 0, 0}, false};
}

TextFrame t5_frame(int32_t end) { return {{}, {end}, {}, {end}, {end}, {0, 0}, {0, 0, 0, 0}, false}; }

TextFrame xlnet_frame(int32_t separator, int32_t cls) {
    return {{}, {separator, cls}, {}, {separator}, {separator, cls}, {0, 0, 2}, {0, 0, 1, 1, 2}, false};
}

TextFrame repeated_frame(TextFrame single) {
    if (single.before.empty() && single.after.empty()) return single;
    single.pair_before = single.before;
    single.pair_between = single.after;
    single.pair_between.insert(single.pair_between.end(), single.before.begin(), single.before.end());
    single.pair_after = single.after;
    single.types.assign(single.before.size() + 1 + single.after.size(), 0);
    single.pair_types.assign(single.types.size(), 0);
    single.pair_types.resize(2 * single.types.size(), 1);
    return single;
}

std::optional<TextFrame> frame_of_tokenizer_class(std::string_view family, const Vocabulary& vocabulary) {
    const auto cls = vocabulary.role(TokenRole::cls), separator = vocabulary.role(TokenRole::separator);
    const auto eos = vocabulary.role(TokenRole::eos);
    if (is_one_of(family, {"Bert", "DistilBert", "Electra", "Albert", "DebertaV2", "Deberta", "MPNet", "Funnel",
                           "LayoutLM", "MobileBert", "SqueezeBert", "ConvBert", "RemBert", "BigBird"}))
        return framed(cls, separator, family == "MPNet" ? roberta_frame : bert_frame);
    if (is_one_of(family, {"Roberta", "XLMRoberta", "Camembert", "Bart", "Longformer", "LED", "Blenderbot"}))
        return framed(cls ? cls : vocabulary.role(TokenRole::bos), separator ? separator : eos, roberta_frame);
    if (family == "XLNet") return framed(separator, cls, xlnet_frame);
    if (is_one_of(family, {"T5", "Marian", "Pegasus"}) && eos) return t5_frame(*eos);
    return {};
}

bool pads_left(const Vocabulary& vocabulary) {
    const auto cls = vocabulary.role(TokenRole::cls), separator = vocabulary.role(TokenRole::separator);
    return cls && separator && cls != separator && vocabulary.frame() == xlnet_frame(*separator, *cls);
}

TextFrame frame_of_architecture(std::string_view architecture, const Vocabulary& vocabulary) {
    const auto cls = vocabulary.role(TokenRole::cls), separator = vocabulary.role(TokenRole::separator);
    const auto bos = vocabulary.role(TokenRole::bos), eos = vocabulary.role(TokenRole::eos);
    const auto end = eos ? eos : separator;
    if (is_one_of(architecture, {"bert", "albert", "distilbert", "electra", "deberta", "deberta-v2"}))
        return framed(cls, separator, bert_frame).value_or(TextFrame());
    if (is_one_of(architecture, {"roberta", "camembert", "xlm-roberta", "bart", "flaubert", "xlm"}))
        return framed(cls ? cls : bos, separator ? separator : eos, roberta_frame).value_or(TextFrame());
    if (architecture == "xlnet") return framed(separator, cls, xlnet_frame).value_or(TextFrame());
    if (is_one_of(architecture, {"t5", "mt5", "marian"}) && end) return t5_frame(*end);
    return {};
}

} // namespace hekla::text
