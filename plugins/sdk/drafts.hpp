// Offers of drafts, unstable interfaces that the manifest names: HEKLA_PLUGIN({HK_DRAFT_OFFERS_INTERFACE, "",
// &kOffers}) with `const hk_draft_offers kOffers = {get};` and a get() that calls offered().
#pragma once

#include "hekla_plugin.hpp"

#include "hekla/plugin/drafts.h"

namespace hekla::plugin {

// Returns the table of a draft and id; null if it is not among the offers.
inline const void* offered(std::initializer_list<Offer> offers, hk_string draft, hk_string id) {
    for (const Offer& offer : offers)
        if (view(draft) == offer.interface_id && view(id) == offer.id) return offer.table;
    return nullptr;
}

} // namespace hekla::plugin
