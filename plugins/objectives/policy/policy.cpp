// Reinforcement learning of a language model from scores of the texts that it writes.
#include "grpo.hpp"
#include "ppo.hpp"

using namespace hekla::plugin;

namespace {

const void* drafts(hk_string draft, hk_string id) {
    return offered({{HK_ROLLOUT_DRAFT, "grpo", rollout_use<Grpo>()}, {HK_ROLLOUT_DRAFT, "ppo", rollout_use<Ppo>()}},
                   draft, id);
}
const hk_draft_offers kDraftOffers = {drafts};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "grpo", objective<Grpo>()}, {HK_OBJECTIVE_INTERFACE, "ppo", objective<Ppo>()},
             {HK_DRAFT_OFFERS_INTERFACE, "", &kDraftOffers})
