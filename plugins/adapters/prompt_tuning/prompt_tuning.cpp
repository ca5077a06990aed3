// Prompt tuning (Lester et al. 2021): each row begins with virtual tokens, whose embeddings are trained; in an
// encoder-decoder, each row of the encoder. Keys, names and initial values are PEFT's; after_embeddings is
// AdapterHub's.
#include "adapter.hpp"

using namespace hekla::plugin;

namespace {

class PromptTuning {
public:
    explicit PromptTuning(const Config& config)
        : count_(config.integer("num_virtual_tokens")), submodules_(config.integer("num_transformer_submodules")),
          init_(config.string("prompt_tuning_init")), text_(config.string("prompt_tuning_init_text")),
          after_embeddings_(config.boolean("after_embeddings")) {
        for (uint64_t i = 0; i < config.count("prompt_tuning_init_ids"); ++i)
            ids_.push_back(static_cast<double>(config.integer("prompt_tuning_init_ids." + std::to_string(i))));
        if (init_ != "RANDOM" && init_ != "TEXT")
            throw unsupported("prompt_tuning_init is '" + init_ + "'; expected \"RANDOM\" or \"TEXT\"");
        if (init_ == "TEXT" && ids_.empty())
            throw invalid("prompt_tuning_init \"TEXT\" needs prompt_tuning_init_text, a text of at least one token");
        if (init_ == "RANDOM" && !(text_.empty() && ids_.empty()))
            throw invalid("prompt_tuning_init_text needs prompt_tuning_init = \"TEXT\"");
        if (init_ == "TEXT" && after_embeddings_)
            throw unsupported(
                "prompt_tuning_init \"TEXT\" and after_embeddings cannot be combined: words have no values "
                "after the embeddings' norm");
    }

    hekla::plugin::VirtualTokens virtual_tokens() const { return {count_, false, after_embeddings_}; }
    bool wants(const Site& site) const {
        if (after_embeddings_) return site.norm() && !site.of_head && site.name.ends_with("embeddings.LayerNorm");
        return site.embedding() && site.of_tokens;
    }

    SiteAnswer adapt(Graph& g, const Site& site, const SiteValues& v) {
        const char* name = "prompt_embeddings";
        // PEFT stores as many again for a decoder, and does not use them.
        const int64_t rows = count_ * submodules_;
        Value table;
        if (ids_.empty()) {
            table = g.parameter(name, {rows, site.out}, normal(1.0));
        } else { // the text's words, again and again until there are enough
            std::vector<double> ids;
            for (int64_t i = 0; i < rows; ++i) ids.push_back(ids_[static_cast<std::size_t>(i) % ids_.size()]);
            table = initial_parameter(g, name, embedding(v.weight, g.constant(HK_KIND_INT32, {rows}, ids)));
        }
        return at_virtual_tokens(submodules_ > 1 ? slice(table, 0, 0, count_) : table);
    }

    void write(ConfigWriter& out) const {
        if (after_embeddings_) throw unsupported("PEFT has no prompts after the embeddings' norm");
        out.set("peft_type", "PROMPT_TUNING");
        out.set("num_virtual_tokens", count_);
        out.set("num_transformer_submodules", submodules_);
        // PEFT has no form of ids without their text.
        out.set("prompt_tuning_init", text_.empty() ? "RANDOM" : init_);
        if (!text_.empty()) out.set("prompt_tuning_init_text", text_);
    }

private:
    int64_t count_, submodules_;
    std::string init_, text_;
    bool after_embeddings_;
    std::vector<double> ids_; // of the text
};

} // namespace

HEKLA_PLUGIN({HK_ADAPTER_INTERFACE, "prompt_tuning", adapter<PromptTuning>()})
