// The adapters inside a network that is being described: they are asked at every site, and what they answer, combined
// if there are several, replaces what body and heads have computed there.
#pragma once

#include "plugin/composition/combination.hpp"
#include "plugin/instances/adapter_instance.hpp"
#include "plugin/instances/combiner_instance.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace hekla::plugin {

// Errors name the adapter or combiner. Thread: one at a time.
class AdaptersInGraph {
public:
    explicit AdaptersInGraph(const Registry& registry) : registry_(registry) {}
    AdaptersInGraph(const AdaptersInGraph&) = delete;
    AdaptersInGraph& operator=(const AdaptersInGraph&) = delete;

    // read: gets the keys of the configurations that are read.
    Status create(const PartsSpec& spec, ReadKeys& read);
    bool exist() const { return !adapters_.empty(); }
    std::string what() const; // "adapter 'lora'", "adapters a, b"
    // Calls f(what, manifest) for every adapter and combiner.
    template<class F>
    void each(F&& f) const {
        for (const auto& one : adapters_) f(one->what(), one->manifest());
        for (const auto& [id, one] : combiners_) f(one->what(), one->manifest());
    }
    const VirtualTokens& virtual_tokens() const { return virtual_tokens_; }
    // The adapters that act from an invocation on.
    std::vector<const AdapterInstance*> invoked() const;
    Result<nlohmann::ordered_json> write_config() const; // PEFT's adapter_config.json

    // Begins the description of a body. described: gets the sites; both outlive the description. mode: of the adapters
    // that are trained, even if the body is frozen. ties: of the architecture's manifest. body_config: what the
    // architecture writes, read if there are virtual tokens or invocations.
    Status begin(Joint& joint, Described& described, int32_t mode, const BuildRequest& request, TextPairs ties,
                 const nlohmann::ordered_json& body_config);
    // Joint::adapt, null without adapters. After an error take_problem() has it.
    const std::function<graph::ValueId(graph::ValueId)>* hook() const { return exist() ? &hook_ : nullptr; }
    Status take_problem() { return std::exchange(problem_, Status()); }
    // The body is complete: what follows are heads, which do not see hidden virtual tokens. Errors: virtual tokens that
    // have a value nowhere.
    Status end_body();
    // Adds the combiners' loss. After the objective, in training.
    void add_loss();
    // A parameter that another site uses too cannot be changed for one of them.
    Status check_merged(const std::vector<Site>& sites) const;

private:
    using Merged = AdapterInstance::Merged;

    // What adapters or a combination answer at a site.
    struct Outcome {
        int32_t kind = HK_ANSWER_NONE; // or DELTA, VALUE, RESULT
        graph::ValueId value = graph::kNone;
        graph::ValueId delta = graph::kNone; // of VALUE, if it is known
        graph::ValueId input = graph::kNone;
        graph::ValueId a = graph::kNone, b = graph::kNone; // AdapterInstance::Answer
    };
    // A site that is being described.
    struct Place {
        const Site& site;
        const std::vector<bool>& wanted;     // by adapter
        graph::ValueId layer = graph::kNone; // of a layer's site: its result
        graph::ValueId norm = graph::kNone;  // of a residual site: the norm of the sum, if it follows
    };
    Status check_virtual_tokens(const Combination& at, bool in_combiner);
    Status check_invocations(const nlohmann::ordered_json& body_config) const;
    // Decides where the virtual tokens of the current description are.
    Status place_virtual_tokens(const nlohmann::ordered_json& body_config);
    // Asks the adapters what they do at the site, or finds what they have answered before.
    Result<const std::vector<bool>*> ask(Site& site);
    // Calls f with this prefix of parameters, in this mode, in a scope of this name, without adapters.
    template<class F>
    auto inside(const std::string& prefix, int32_t mode, const std::string& scope, F&& f) -> decltype(f());

    bool acts(const Combination& at, const Place& place) const;
    Result<Outcome> answer(const Combination& at, const Place& place, const SiteInputs& inputs);
    Result<Outcome> answer_of_adapter(const AdapterInstance& adapter, const Place& place, const SiteInputs& inputs);
    Result<Outcome> answer_of_stack(const Combination& at, const Place& place, const SiteInputs& inputs);
    Result<Outcome> answer_of_combiner(const Combination& at, const Place& place, const SiteInputs& inputs);
    // Returns y with the answer, which is DELTA or VALUE.
    graph::ValueId with(const Outcome& outcome, graph::ValueId y);
    // Returns the norm, or without one the sum, of a residual stream and a part.
    Result<graph::ValueId> sum(graph::ValueId stream, graph::ValueId part, graph::ValueId norm);

    // Adds the outputs of BuildRequest::merged for a site.
    Status merge(const Place& place, graph::ValueId y);
    // Adds the outputs of BuildRequest::merge_pairs for a layer's site.
    Status add_pair(const Place& place, graph::ValueId y, graph::ValueId adapted);
    Result<Merged> merged_by(const Combination& at, const Place& place, const Merged& given);
    void add_merged(const Site& site, const std::string& parameter, graph::ValueId value);

    // Returns the value that is used instead of y, which body or head has just described: of a layer, of attention, of
    // a residual site (the sum, or `norm` of it).
    Result<graph::ValueId> adapted(graph::ValueId y);
    Result<graph::ValueId> at_layer(Site& site, graph::ValueId y);
    Result<graph::ValueId> at_attention(graph::ValueId y);
    // Returns attention `of` with virtual keys and values [H, count, D] before those of the rows, which have none.
    Result<graph::ValueId> prefixed(const graph::Node& of, graph::ValueId keys, graph::ValueId values) const;
    // Returns the virtual tokens' [...] broadcast to `shape` before y, along the axis.
    graph::ValueId before(graph::ValueId own, graph::ValueId y, int axis) const;
    // Checks that shifted positions are rows of the table that y is looked up in.
    Status check_positions(graph::ValueId y) const;
    Result<graph::ValueId> at_residual(ResidualFinder::Found& found, graph::ValueId result, graph::ValueId norm);
    // Returns y with `own` at the virtual tokens: embeddings y [B, T, D], own [count, D]; keys or values y [B, H, T,
    // D], own [H, count, D].
    graph::ValueId with_virtual_tokens(graph::ValueId y, graph::ValueId own) const;
    // Cuts the virtual tokens from the body's ports with one element per token, before heads and objective see them.
    void hide_virtual_tokens();

    const Registry& registry_;
    std::vector<std::unique_ptr<AdapterInstance>> adapters_;
    std::map<std::string, std::unique_ptr<CombinerInstance>> combiners_; // by id
    Combination combination_;                                            // of one adapter: that
    VirtualTokens virtual_tokens_;
    std::size_t with_tokens_ = 0; // the adapter whose tokens these are
    bool encoder_decoder_ = false;
    bool in_attention_ = false; // of the current description: rows have no virtual tokens, attention has their keys
    // What adapters have answered: by number of the adapter, and kind, flags and name of the site.
    std::map<std::tuple<std::size_t, int32_t, uint32_t, std::string>, AdapterInstance::Wish> wishes_;
    std::function<graph::ValueId(graph::ValueId)> hook_;
    std::map<std::string, std::string> merged_by_; // parameter -> site, of the current description
    Status problem_; // of the current description; kept because the body's own error would hide it
    // Of the current description.
    Joint* joint_ = nullptr;
    Described* described_ = nullptr;
    int32_t mode_ = 0;
    bool merged_ = false, merge_pairs_ = false;
    TextPairs ties_;
    int64_t attentions_ = 0, pairs_ = 0;
    std::size_t first_site_ = 0;
    std::vector<std::vector<bool>> wanted_; // by site from first_site_ on, and adapter
    std::vector<graph::ValueId> losses_;
    ResidualFinder residuals_;
    std::map<graph::ValueId, ResidualFinder::Found> before_norms_; // sums that a norm of the block follows
};

} // namespace hekla::plugin
