// C++ wrappers for drafts: an adapter, and how a plugin offers unstable interfaces. The manifest lists each draft under
// "drafts".
//
//     const void* drafts(hk_string draft, hk_string id) {
//         return offered({{HK_ADAPTER_DRAFT, "lora", adapter<Lora>()}}, draft, id);
//     }
//     const hk_draft_offers kDraftOffers = {drafts};
//     HEKLA_PLUGIN({HK_DRAFT_OFFERS_INTERFACE, "", &kDraftOffers})
#pragma once

#include "hekla_plugin.hpp"

#include "hekla/plugin/draft/adapter.h"
#include "hekla/plugin/drafts.h"

#include <concepts>
#include <string_view>

namespace hekla::plugin {

// A place of the network where an adapter acts: hk_site.
struct Site {
    explicit Site(const hk_site& site)
        : kind(site.kind), name(view(site.name)), parameter(view(site.parameter)), in(site.in), out(site.out),
          of_head((site.flags & HK_SITE_OF_HEAD) != 0) {}

    bool linear() const { return kind == HK_SITE_LINEAR; }

    int32_t kind;
    std::string_view name, parameter;
    int64_t in, out;
    bool of_head;
};

// hk_site_values.
struct SiteValues {
    Value x, y, weight, bias;
};

// hk_site_answer: delta(v), instead(v), or {} for none.
struct SiteAnswer {
    int32_t kind = HK_ANSWER_NONE;
    Value value{};
};
inline SiteAnswer delta(Value value) { return {HK_ANSWER_DELTA, value}; }
inline SiteAnswer instead(Value value) { return {HK_ANSWER_VALUE, value}; }

// What a site computes with after merging.
struct MergedSite {
    Value weight, bias;
};

template<class T>
concept MergesSites = requires(T& t, Graph& g, const Site& s, const SiteValues& v) {
    { t.merge(g, s, v) } -> std::same_as<MergedSite>;
};
template<class T>
concept WritesConfig = requires(T& t, ConfigWriter& w) {
    t.write(w);
};

// An adapter T has: T(const Config&), bool wants(const Site&), SiteAnswer adapt(Graph&, const Site&, const
// SiteValues&), and if it can be merged MergedSite merge(Graph&, const Site&, const SiteValues&), and if PEFT has such
// an adapter void write(ConfigWriter&).
template<class T>
const hk_adapter* adapter() {
    static const hk_adapter kTable = [] {
        hk_adapter table{};
        table.create = [](const hk_config* config, void** self, hk_error* error) -> int32_t {
            return guarded(error, [&] { *self = std::make_unique<T>(Config(config)).release(); });
        };
        table.destroy = [](void* self) { delete static_cast<T*>(self); };
        table.wants = [](void* self, const hk_site* site, int32_t* wanted, hk_error* error) -> int32_t {
            return guarded(error, [&] { *wanted = static_cast<T*>(self)->wants(Site(*site)) ? 1 : 0; });
        };
        table.adapt = [](void* self, hk_builder* builder, const hk_site* site, const hk_site_values* values,
                         hk_site_answer* answer, hk_error* error) -> int32_t {
            return guarded(error, [&] {
                Graph g(builder);
                const SiteAnswer made = static_cast<T*>(self)->adapt(
                    g, Site(*site), {{&g, values->x}, {&g, values->y}, {&g, values->weight}, {&g, values->bias}});
                answer->kind = made.kind;
                answer->value = made.value.id;
            });
        };
        if constexpr (MergesSites<T>)
            table.merge = [](void* self, hk_builder* builder, const hk_site* site, const hk_site_values* values,
                             hk_value* weight, hk_value* bias, hk_error* error) -> int32_t {
                return guarded(error, [&] {
                    Graph g(builder);
                    const MergedSite made = static_cast<T*>(self)->merge(
                        g, Site(*site), {{}, {}, {&g, values->weight}, {&g, values->bias}});
                    *weight = made.weight.id;
                    *bias = made.bias.id;
                });
            };
        if constexpr (WritesConfig<T>)
            table.write_config = [](void* self, hk_config_writer* writer, hk_error* error) -> int32_t {
                return guarded(error, [&] {
                    ConfigWriter out(writer);
                    static_cast<T*>(self)->write(out);
                });
            };
        return table;
    }();
    return &kTable;
}

inline const void* offered(std::initializer_list<Offer> offers, hk_string draft, hk_string id) noexcept {
    for (const Offer& offer : offers)
        if (view(draft) == offer.interface_id && view(id) == offer.id) return offer.table;
    return nullptr;
}

} // namespace hekla::plugin
