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

namespace hekla::plugin {

// An adapter T has: T(const Config&), and Value adapt(Graph&, std::string_view parameter, Value value), which returns
// an empty value if the parameter is not changed.
template<class T>
const hk_adapter* adapter() {
    static const hk_adapter kTable = {
        [](const hk_config* config, void** self, hk_error* error) -> int32_t {
            return guarded(error, [&] { *self = std::make_unique<T>(Config(config)).release(); });
        },
        [](void* self) { delete static_cast<T*>(self); },
        [](void* self, hk_builder* builder, hk_string parameter, hk_value value, hk_value* adapted,
           hk_error* error) -> int32_t {
            return guarded(error, [&] {
                Graph graph(builder);
                *adapted = static_cast<T*>(self)->adapt(graph, view(parameter), {&graph, value}).id;
            });
        },
    };
    return &kTable;
}

inline const void* offered(std::initializer_list<Offer> offers, hk_string draft, hk_string id) noexcept {
    for (const Offer& offer : offers)
        if (view(draft) == offer.interface_id && view(id) == offer.id) return offer.table;
    return nullptr;
}

} // namespace hekla::plugin
