#include "infer/texts/prompt_style.hpp"

#include "hekla/plugin/objective.h"

#include "infer/exported/exported_file.hpp"
#include "model/folder.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/composition/composition_spec.hpp"
#include "plugin/composition/plugin_set.hpp"
#include "plugin/host/joint.hpp"
#include "text/text_encoder.hpp"

#include <algorithm>
#include <optional>
#include <span>

namespace hekla::infer {

Result<PromptStyle> prompt_style(const plugin::Registry& registry, const Model& m) {
    if (m.exported != nullptr)
        return read_manifest(*m.exported, [&](const nlohmann::json& manifest) -> Result<PromptStyle> {
            return PromptStyle{manifest.value("both_sides", false), manifest.value("begin", std::vector<int32_t>())};
        });
    PromptStyle style;
    if (m.tokenizer != nullptr) style.begin = text_encoder(m).document_frame().before;
    HK_ASSIGN(const model::ModelFolder folder, model::ModelFolder::open(m.path));
    HK_ASSIGN(const plugin::CompositionSpec trained, stored_spec(registry, folder, {.head = "lm", .objective = true}));
    if (trained.objective.empty()) return style;
    HK_ASSIGN(const auto composition, plugin::Composition::create(registry, trained, m.tokenizer.get()));
    if (!composition->can_collate()) return style;
    if (composition->example_kind() != HK_EXAMPLE_WINDOW && !trained.text_rules.framed) {
        HK_ASSIGN(const std::vector<plugin::ColumnNeed> needs, composition->columns());
        const auto is_chat = [](const plugin::ColumnNeed& need) { return need.kind == HK_COLUMN_MESSAGES; };
        if (std::ranges::none_of(needs, is_chat)) style.begin.clear(); // a chat template begins as the model does
    }
    HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition->batch_fields(1, 32));
    style.both_sides = std::ranges::find(fields, "prefix_length", &plugin::BatchField::name) != fields.end();
    return style;
}

Result<std::vector<int32_t>> prompt_ids(const Model& m, const PromptStyle& style, const std::string& prompt) {
    HK_ASSIGN(
        std::vector<int32_t> ids,
        text_encoder(m).encode(text::TextUse::continuation, with_prefix(trained_prefix(m.config, "prompt"), prompt)));
    text::begin_prompt(style.begin, ids);
    if (!ids.empty()) return ids;
    if (const std::optional<int32_t> bos = m.tokenizer->special(text::TokenRole::bos)) return std::vector{*bos};
    return invalid_argument(
        "the prompt is empty, and the tokenizer has no token that begins a text (bos_token): give at "
        "least one character");
}

} // namespace hekla::infer
