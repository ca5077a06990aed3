// Drafts: unstable interfaces; a plugin must opt in through its manifest.
//
// A draft may change or be removed in any release of the host. Its header is in hekla/plugin/draft/, and plugin.h
// does not include it. The interfaces of this header are stable.
//
// - The id of a draft has the word draft before its number, such as "hekla.adapter.draft/1". A new layout gets a new
//   number, and the stable interface gets another id: "hekla.adapter/1". [drafts.1]
// - A plugin that uses or provides a draft names it in its manifest's "drafts", and a host without this exact draft
//   refuses it. A plugin that names none claims to be stable, and gets none. [drafts.2]
// - get_interface() never gives a draft, on either side. [drafts.3]
//
// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.
// clang-format off
#ifndef HEKLA_PLUGIN_DRAFTS_H
#define HEKLA_PLUGIN_DRAFTS_H

#include "entry.h"

#define HK_DRAFTS_INTERFACE "hekla.drafts/1"

// Null where the plugin's manifest names no drafts. [drafts.2]
typedef struct hk_drafts_interface {
    // The host's draft of that id, eg: "hekla.adapter.draft/1", or null if it has none or the manifest does not name
    // it. Owned by the host, valid until deinit() returns.
    // [any-thread]
    const void*(HK_ABI* get)(const hk_host* host, hk_string draft);
} hk_drafts_interface;

#define HK_DRAFT_OFFERS_INTERFACE "hekla.draft-offers/1"

// Asked for with the id "" where the manifest provides a draft.
typedef struct hk_draft_offers {
    // As get_interface() of the entry, for interfaces that are drafts.
    // [any-thread]
    const void*(HK_ABI* get)(hk_string draft, hk_string id);
} hk_draft_offers;

#endif
