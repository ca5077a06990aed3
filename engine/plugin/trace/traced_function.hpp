// The names of the functions of all tables of the ABI, by pointers to their members.
#pragma once

#include "hekla/plugin/architecture.h"
#include "hekla/plugin/combiner.h"
#include "hekla/plugin/config.h"
#include "hekla/plugin/draft/reward.h"
#include "hekla/plugin/draft/rollout.h"
#include "hekla/plugin/drafts.h"
#include "hekla/plugin/error.h"
#include "hekla/plugin/graph.h"
#include "hekla/plugin/head.h"
#include "hekla/plugin/log.h"
#include "hekla/plugin/objective.h"
#include "hekla/plugin/operation.h"
#include "hekla/plugin/optimizer.h"
#include "hekla/plugin/tokenizer.h"

#include <cstdint>

namespace hekla::plugin::trace {

template<auto M>
struct TracedFunction; // name, parameters, first minor version
#define HK_TRACED_HOST(table, member, names, since)                                                                    \
    template<>                                                                                                         \
    struct TracedFunction<&table::member> {                                                                            \
        static constexpr const char *kTable = #table, *kName = #member, *kParameters = names;                          \
        static constexpr uint32_t kSince = since;                                                                      \
    };
#define HK_TRACED_PLUGIN(table, member, names, since) HK_TRACED_HOST(table, member, names, since)
#include "plugin/trace/traced.inc"
#undef HK_TRACED_HOST
#undef HK_TRACED_PLUGIN

} // namespace hekla::plugin::trace
