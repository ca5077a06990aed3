#include "harness/prompt.hpp"

#include "base/hash.hpp"
#include "base/philox.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::harness {

Result<Prompts> Prompts::create(const Task& task, const FewShotPool& pool, int64_t shots, uint64_t seed) {
    const auto wanted = static_cast<std::size_t>(shots) + (pool.has_document ? 1 : 0);
    if (shots > 0 && pool.documents.size() < wanted)
        return invalid_argument(fmt::format(
            "{}: num_fewshot is {}, and {} has {} documents; expected at least {}{}", task.file, shots, pool.source,
            pool.documents.size(), wanted, pool.has_document ? ", since a document is not its own demonstration" : ""));
    return Prompts(task, pool, shots, hash64(task.name, seed));
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

std::string Prompts::of(const Document& document) const {
    std::string prompt = task_->description.text([&](std::string_view name) -> std::string_view {
        const auto found = document.columns.find(std::string(name));
        return found->get_ref<const std::string&>();
    });
    if (shots_ > 0)
        for (const std::size_t place : drawn(document)) {
            const Document& shown = pool_->documents[place];
            prompt += shown.text + task_->target_delimiter + shown.target + task_->fewshot_delimiter;
        }
    return prompt + document.text;
}

} // namespace hekla::harness
