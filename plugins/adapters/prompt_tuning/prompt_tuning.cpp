// Prompt tuning (Lester et al. 2021): each row begins with virtual tokens, whose embeddings are trained. Keys, names
// and initial values are PEFT's.
#include "adapter.hpp"

using namespace hekla::plugin;

namespace {

class PromptTuning {
public:
    explicit PromptTuning(const Config& config)
        : count_(config.integer("num_virtual_tokens")), submodules_(config.integer("num_transformer_submodules")) {
        if (config.string("prompt_tuning_init") != "RANDOM")
            throw unsupported("prompt_tuning_init is '" + config.string("prompt_tuning_init") +
                              "'; only \"RANDOM\" is supported");
    }

    hekla::plugin::VirtualTokens virtual_tokens() const { return {count_, false}; }
    bool wants(const Site& site) const { return site.embedding() && site.of_tokens; }

    SiteAnswer adapt(Graph& g, const Site& site, const SiteValues&) {
        // PEFT stores as many again for a decoder, and does not use them.
        const Value table = g.parameter("prompt_embeddings", {count_ * submodules_, site.out}, normal(1.0));
        return at_virtual_tokens(submodules_ > 1 ? slice(table, 0, 0, count_) : table);
    }

    void write(ConfigWriter& out) const {
        out.set("peft_type", "PROMPT_TUNING");
        out.set("num_virtual_tokens", count_);
        out.set("num_transformer_submodules", submodules_);
        out.set("prompt_tuning_init", "RANDOM");
    }

private:
    int64_t count_, submodules_;
};

} // namespace

HEKLA_PLUGIN({HK_ADAPTER_INTERFACE, "prompt_tuning", adapter<PromptTuning>()})
