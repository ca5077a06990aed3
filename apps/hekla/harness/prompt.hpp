// The prompt of a document: description, demonstrations, and the document's own text.
#pragma once

#include "harness/document.hpp"
#include "text/chat_template.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hekla::harness {

// Demonstrations to draw from.
struct FewShotPool {
    std::vector<Document> documents;
    bool has_document = false; // it is the data set that is evaluated, so that a document must not get itself
    std::string source;        // for messages
};

// How prompts are laid out: as plain text, or as a conversation by a chat template.
struct PromptLayout {
    const text::ChatTemplate* chat = nullptr; // null: plain text
    const text::Vocabulary* tokens = nullptr; // of the template
    std::string system_instruction;           // begins the prompt, before the task's description
    bool fewshot_as_multiturn = true;         // each demonstration is a turn, not a part of the user's one message
};

struct Prompt {
    std::string text;
    bool without_system = false; // the chat template refuses a system message, which was left out
};

// Makes prompts. Ownership: task and pool outlive it. Thread: any.
class Prompts {
public:
    // shots: demonstrations per prompt. Error: the pool has fewer documents than shots, or than shots + 1 if it has the
    // document itself.
    static Result<Prompts> create(const Task& task, const FewShotPool& pool, int64_t shots, uint64_t seed,
                                  PromptLayout layout = {});

    // Returns the prompt. Demonstrations are drawn without repetition by seed, the task's name and the document's
    // number, so that they depend on nothing else: shots + 1 of a pool that has the document, which is then left out.
    // Errors: those of the chat template.
    Result<Prompt> of(const Document& document) const;

private:
    struct Turn;
    Prompts(const Task& task, const FewShotPool& pool, int64_t shots, uint64_t key, PromptLayout layout)
        : task_(&task), pool_(&pool), shots_(static_cast<std::size_t>(shots)), key_(key), layout_(std::move(layout)) {}
    std::vector<Turn> turns(const Document& document) const;
    Result<std::string> rendered(const std::vector<Turn>& turns) const;
    std::vector<std::size_t> drawn(const Document& document) const;

    const Task* task_;
    const FewShotPool* pool_;
    std::size_t shots_;
    uint64_t key_;
    PromptLayout layout_;
};

// Returns the delimiter between a prompt and the answer that is scored after it.
std::string answer_delimiter(const Task& task, const Document& document, bool chat);

} // namespace hekla::harness
