// The prompt of a document: description, demonstrations, and the document's own text.
#pragma once

#include "harness/document.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hekla::harness {

// Demonstrations to draw from.
struct FewShotPool {
    std::vector<Document> documents;
    bool has_document = false; // it is the data set that is evaluated, so that a document must not get itself
    std::string source;        // for messages
};

// Makes prompts. Ownership: task and pool outlive it. Thread: any.
class Prompts {
public:
    // shots: demonstrations per prompt. Error: the pool has fewer documents than shots, or than shots + 1 if it has the
    // document itself.
    static Result<Prompts> create(const Task& task, const FewShotPool& pool, int64_t shots, uint64_t seed);

    // Returns the prompt. Demonstrations are drawn without repetition by seed, the task's name and the document's
    // number, so that they depend on nothing else: shots + 1 of a pool that has the document, which is then left out.
    std::string of(const Document& document) const;

private:
    Prompts(const Task& task, const FewShotPool& pool, int64_t shots, uint64_t key)
        : task_(&task), pool_(&pool), shots_(static_cast<std::size_t>(shots)), key_(key) {}
    std::vector<std::size_t> drawn(const Document& document) const;

    const Task* task_;
    const FewShotPool* pool_;
    std::size_t shots_;
    uint64_t key_;
};

} // namespace hekla::harness
