// C++ wrappers for rewards, a draft: offered({{HK_REWARD_DRAFT, "brevity", reward<Brevity>()}}, draft, id).
#pragma once

#include "drafts.hpp"

#include "hekla/plugin/draft/reward.h"

#include <string_view>
#include <vector>

namespace hekla::plugin {

// hk_scored_text.
struct ScoredText {
    std::string_view prompt, completion;
    std::vector<std::string_view> columns; // in the order of columns()
};

// A reward T has: T(const Config&), double score(const ScoredText&) const (NaN: it cannot be scored), and if it reads
// columns of the data std::vector<std::string> columns() const.
template<class T>
const hk_reward* reward() {
    static const hk_reward kTable = [] {
        hk_reward table{};
        table.create = [](const hk_config* config, void** self, hk_error* error) -> int32_t {
            return guarded(error, [&] { *self = std::make_unique<T>(Config(config)).release(); });
        };
        table.destroy = [](void* self) { delete static_cast<T*>(self); };
        if constexpr (requires(const T& t) { t.columns(); })
            table.columns = [](void* self, void (*push)(void*, hk_string), void* context, hk_error* error) -> int32_t {
                return guarded(error, [&] {
                    for (const std::string& name : static_cast<const T*>(self)->columns()) push(context, text(name));
                });
            };
        table.score = [](void* self, const hk_scored_text* texts, uint64_t count, double* scores,
                         hk_error* error) -> int32_t {
            return guarded(error, [&] {
                for (uint64_t i = 0; i < count; ++i) {
                    const hk_scored_text& raw = element(texts, static_cast<std::size_t>(i));
                    ScoredText one{view(raw.prompt), view(raw.completion), {}};
                    for (uint32_t c = 0; c < raw.column_count; ++c) one.columns.push_back(view(raw.columns[c]));
                    scores[i] = static_cast<const T*>(self)->score(one);
                }
            });
        };
        return table;
    }();
    return &kTable;
}

} // namespace hekla::plugin
