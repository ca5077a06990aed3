// An adapter inside a network that is being described: it is asked at every site, and its answers replace what body and
// heads have computed there.
#pragma once

#include "plugin/instance.hpp"
#include "plugin/plugin_set.hpp"

#include "hekla/plugin/draft/adapter.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace hekla::plugin {

// Errors name the adapter. Thread: one at a time.
class AdapterInGraph {
public:
    explicit AdapterInGraph(const Registry& registry) : registry_(registry) {}
    AdapterInGraph(const AdapterInGraph&) = delete;
    AdapterInGraph& operator=(const AdapterInGraph&) = delete;
    ~AdapterInGraph() { destroy_instance(instance_); }

    // exists() is false until this is called. read: gets the keys of the configuration that are read, by it or the
    // host.
    Status create(const PartSpec& spec, std::set<std::string>& read);
    bool exists() const { return instance_.table != nullptr; }
    const std::string& what() const { return instance_.what; } // "adapter 'lora'"
    const Manifest* manifest() const { return instance_.manifest; }
    const VirtualTokens& virtual_tokens() const { return virtual_tokens_; }
    Result<nlohmann::ordered_json> write_config() const; // PEFT's adapter_config.json

    // Begins the description of a body. described: gets the sites; both outlive the description. mode: of the adapter,
    // which is trained if the body is frozen. merged: BuildRequest::merged. ties: of the architecture's manifest.
    Status begin(Joint& joint, Described& described, int32_t mode, bool merged, TextPairs ties);
    // Joint::adapt, null without an adapter. After an error take_problem() has it.
    const std::function<graph::ValueId(graph::ValueId)>* hook() const { return exists() ? &hook_ : nullptr; }
    Status take_problem() { return std::exchange(problem_, Status()); }
    // The body is complete: what follows are heads, which do not see hidden virtual tokens.
    void end_body();
    // A parameter that another site uses too cannot be changed for one of them.
    Status check_merged(const std::vector<Site>& sites) const;

private:
    // Calls a describing function of the adapter with a view of its own. f(view, error). Errors: what no adapter may
    // do.
    template<class F>
    Status call_adapter(hk_builder& view, const std::string& what, const char* function, F&& f);
    // Returns the value of a handle that the adapter gave, which must have this shape.
    static Result<graph::ValueId> given_value(hk_builder& view, hk_value handle, const graph::Shape& wanted,
                                              const std::string& what);
    static hk_site table_of(const Site& site);
    // Asks the adapter what it does at the site.
    Status ask(Site& site);
    // Returns the adapter's answer at a site, whose value is kNone if it is HK_ANSWER_NONE.
    struct Answer {
        int32_t kind = HK_ANSWER_NONE;
        graph::ValueId value = graph::kNone, second = graph::kNone; // second: of HK_ANSWER_VIRTUAL at attention
    };
    Result<Answer> adapt(const Site& site, graph::ValueId x, graph::ValueId y, graph::ValueId normed);
    // Adds the outputs of BuildRequest::merged for a site.
    Status merge(const Site& site, graph::ValueId y);
    void add_merged(const Site& site, const std::string& parameter, graph::ValueId value);
    // Calls f for a site, which is added to those described, with the parameters' prefix of the adapter at it.
    template<class F>
    Result<graph::ValueId> at_site(Site& site, graph::ValueId otherwise, F&& f);
    // Returns the value that is used instead of y, the result of a layer.
    Result<graph::ValueId> at_layer(Site& site, graph::ValueId y);
    // Returns the value that is used instead of y, the result of attention, with the adapter's keys and values.
    Result<graph::ValueId> at_attention(graph::ValueId y);
    // Returns y with `own` at the virtual tokens: embeddings y [B, T, D], own [count, D]; keys or values y [B, H, T,
    // D], own [H, count, D].
    graph::ValueId with_virtual_tokens(graph::ValueId y, graph::ValueId own) const;
    // Returns the value that is used instead of y, which body or head has just described.
    Result<graph::ValueId> adapted(graph::ValueId y);
    // Returns the value that is used instead of the result of a residual site: the sum, or `norm` of it.
    Result<graph::ValueId> at_residual(ResidualFinder::Found& found, graph::ValueId result, graph::ValueId norm);
    // Cuts the virtual tokens from the body's ports with one element per token, before heads and objective see them.
    void hide_virtual_tokens();
    Status read_virtual_tokens();

    const Registry& registry_;
    Instance<hk_adapter> instance_;
    VirtualTokens virtual_tokens_;
    std::function<graph::ValueId(graph::ValueId)> hook_;
    std::map<std::string, std::string> merged_by_; // parameter -> site, of the current description
    Status problem_; // of the current description; kept because the body's own error would hide it
    // Of the current description.
    Joint* joint_ = nullptr;
    Described* described_ = nullptr;
    int32_t mode_ = 0;
    bool merged_ = false;
    TextPairs ties_;
    int64_t attentions_ = 0;
    ResidualFinder residuals_;
    std::map<graph::ValueId, ResidualFinder::Found> before_norms_; // sums that a norm of the block follows
};

} // namespace hekla::plugin
