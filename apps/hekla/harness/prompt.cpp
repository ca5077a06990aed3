#include "harness/prompt.hpp"

#include "base/hash.hpp"
#include "base/philox.hpp"
#include "base/utf8.hpp"
#include "text/unicode/characters.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::harness {

Result<Prompts> Prompts::create(const Task& task, const FewShotPool& pool, int64_t shots, uint64_t seed,
                                PromptLayout layout) {
    const auto wanted = static_cast<std::size_t>(shots) + (pool.has_document ? 1 : 0);
    if (shots > 0 && pool.documents.size() < wanted)
        return invalid_argument(fmt::format(
            "{}: num_fewshot is {}, and {} has {} documents; expected at least {}{}", task.file, shots, pool.source,
            pool.documents.size(), wanted, pool.has_document ? ", since a document is not its own demonstration" : ""));
    return Prompts(task, pool, shots, hash64(task.name, seed), std::move(layout));
}

std::vector<std::size_t> Prompts::drawn(const Document& document) const {
    std::vector<std::size_t> chosen;
    const std::size_t wanted = shots_ + (pool_->has_document ? 1 : 0);
    RandomStream random(key_, document.id);
    while (chosen.size() < wanted) {
        const std::size_t next =
            task_->first_n ? chosen.size() : static_cast<std::size_t>(random.next_below(pool_->documents.size()));
        if (std::ranges::find(chosen, next) == chosen.end()) chosen.push_back(next);
    }
    if (pool_->has_document) std::erase(chosen, static_cast<std::size_t>(document.id));
    chosen.resize(shots_);
    return chosen;
}

// A part of a prompt: a message of a conversation, and what follows it in plain text.
struct Prompts::Turn {
    const char* role = "user";
    std::string content;
    std::string delimiter;
};

namespace {

bool begins_blank(std::string_view text) { return !text.empty() && text::is_white_space(first_code_point(text).value); }
bool ends_blank(std::string_view text) {
    return !text.empty() && text::is_white_space(first_code_point(text.substr(last_code_point_start(text))).value);
}

// Joins two texts by a delimiter, unless there is white space where they meet.
std::string joined(const std::string& first, const std::string& second, const std::string& delimiter) {
    const bool apart = first.empty() || second.empty() || ends_blank(first) || begins_blank(second);
    return first + (apart ? std::string() : delimiter) + second;
}

} // namespace

std::string answer_delimiter(const Task& task, const Document& document, bool chat) {
    if (task.output_type != OutputType::multiple_choice) return {};
    return !chat || (!document.prefix.empty() && !ends_blank(document.prefix)) ? task.target_delimiter : std::string();
}

// Returns the parts of a prompt, in the order and with the delimiters of lm-evaluation-harness.
std::vector<Prompts::Turn> Prompts::turns(const Document& document) const {
    std::vector<Turn> turns;
    const std::string description = task_->description.text([&](std::string_view name) -> std::string_view {
        const auto found = document.columns.find(std::string(name));
        return found->get_ref<const std::string&>();
    });
    if (std::string system = joined(layout_.system_instruction, description, task_->fewshot_delimiter); !system.empty())
        turns.push_back({"system", std::move(system), {}});
    const auto ask = [&](const Document& one, bool answered) {
        // In front of an answer, or of what begins it.
        const bool apart =
            one.prefix.empty() ? answered : !one.text.empty() && !ends_blank(one.text) && !begins_blank(one.prefix);
        turns.push_back({"user", one.text, apart ? task_->target_delimiter : std::string()});
        if (answered)
            turns.push_back({"assistant", joined(one.prefix, one.target, " "), task_->fewshot_delimiter});
        else if (!one.prefix.empty())
            turns.push_back({"assistant", one.prefix, {}});
    };
    if (shots_ > 0)
        for (const std::size_t place : drawn(document))
            ask(pool_->documents[place], !pool_->documents[place].target.empty());
    ask(document, false);
    return turns;
}

Result<std::string> Prompts::rendered(const std::vector<Turn>& turns) const {
    text::Messages messages = text::Messages::array();
    const auto add = [&](const char* role, const std::string& content) {
        messages.push_back({{"role", role}, {"content", content}});
    };
    const bool open = std::string_view(turns.back().role) == "assistant"; // the last message is to be continued
    if (layout_.fewshot_as_multiturn) {
        for (const Turn& turn : turns) add(turn.role, turn.content);
    } else {
        std::size_t begin = 0;
        const std::size_t end = turns.size() - (open ? 1 : 0);
        if (std::string_view(turns[0].role) == "system") add("system", turns[begin++].content);
        std::string all;
        for (std::size_t i = begin; i < end; ++i) all += turns[i].content + (i + 1 < end ? turns[i].delimiter : "");
        add("user", all);
        if (open) add("assistant", turns.back().content);
    }
    return open ? layout_.chat->render_open(messages, *layout_.tokens)
                : layout_.chat->render(messages, true, *layout_.tokens);
}

Result<Prompt> Prompts::of(const Document& document) const {
    std::vector<Turn> all = turns(document);
    Prompt prompt;
    if (layout_.chat == nullptr) {
        for (const Turn& turn : all) prompt.text += turn.content + turn.delimiter;
        return prompt;
    }
    Result<std::string> text = rendered(all);
    if (!text.ok() && std::string_view(all[0].role) == "system") { // as the harness does
        all.erase(all.begin());
        if (Result<std::string> without = rendered(all); without.ok()) {
            text = std::move(without);
            prompt.without_system = true;
        }
    }
    if (!text.ok()) return text.status().with_context(document.place);
    prompt.text = text.take();
    return prompt;
}

} // namespace hekla::harness
