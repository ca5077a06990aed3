#include "infer/texts/chat.hpp"

#include "infer/exported/exported_file.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::infer {
namespace {

// Finds the template among the tokenizer's files, in the folder or in the exported file.
Result<std::optional<text::ChatTemplateSource>> own_template(const Model& m) {
    if (m.exported == nullptr) return text::find_chat_template(FilePlace(m.path));
    HeldFiles files;
    for (const char* name : {"chat_template.jinja", "tokenizer_config.json"}) {
        const auto& names = m.exported->manifest().at("tokenizer");
        if (std::ranges::find(names, nlohmann::json(name)) == names.end()) continue;
        HK_ASSIGN(files[name], m.exported->content(std::string("tokenizer/") + name));
    }
    return text::find_chat_template(FilePlace(files, m.path));
}

} // namespace

Result<text::ChatTemplate> chat_template_of(const Model& m, const std::string& wanted, const std::string& date) {
    if (m.tokenizer == nullptr) return m.tokenizer_problem;
    text::jinja::DateTime day = text::jinja::DateTime::now();
    if (!date.empty()) { HK_ASSIGN(day, text::jinja::DateTime::of_day(date)); }
    const auto dated = [&](Result<text::ChatTemplate> chat) {
        return chat.ok() ? Result<text::ChatTemplate>(chat->dated(day)) : std::move(chat);
    };
    if (wanted != "auto") return dated(text::chat_template_of(wanted));
    HK_ASSIGN(std::optional<text::ChatTemplateSource> own, own_template(m));
    if (own) return dated(text::ChatTemplate::parse(std::move(own->text), std::move(own->name)));
    return not_found(fmt::format("{}: has no chat template (chat_template.jinja, or \"chat_template\" of "
                                 "tokenizer_config.json): it was probably not trained on conversations; otherwise name "
                                 "the template: {}, or a file",
                                 m.path.string(), fmt::join(text::ChatTemplate::names(), ", ")));
}

} // namespace hekla::infer
