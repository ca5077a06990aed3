// One adapter of a model: calls of its plugin, whose answers are checked.
#pragma once

#include "plugin/composition/plugin_set.hpp"
#include "plugin/host/inner_description.hpp"

#include "hekla/plugin/adapter.h"

namespace hekla::plugin {

// The values of a site that plugins see.
struct SiteInputs {
    graph::ValueId x = graph::kNone, y = graph::kNone, normed = graph::kNone;
};

// Errors name the adapter. Thread: one at a time.
class AdapterInstance {
public:
    explicit AdapterInstance(const Registry& registry) : registry_(registry) {}
    AdapterInstance(const AdapterInstance&) = delete;
    AdapterInstance& operator=(const AdapterInstance&) = delete;
    ~AdapterInstance() { destroy_instance(instance_); }

    // read: gets the keys of the configuration that are read, by it or the host.
    Status create(const AdapterSpec& spec, std::set<std::string>& read);
    const std::string& name() const { return name_; }
    const std::string& what() const { return instance_.what; } // "adapter 'lora'", "adapter 'french' (lora)"
    bool trained() const { return trained_; }
    const Manifest* manifest() const { return instance_.manifest; }
    const VirtualTokens& virtual_tokens() const { return virtual_tokens_; }
    const Invocation& invocation() const { return invocation_; }
    Result<nlohmann::ordered_json> write_config() const; // PEFT's adapter_config.json
    // What the names of its parameters at a site begin with.
    std::string prefix(const Site& site) const;

    // What it does at a site: whether it acts there, and which of the site's parameters it trains.
    struct Wish {
        bool wanted = false;
        uint32_t trained = 0; // HK_TRAINS_WEIGHT, HK_TRAINS_BIAS
        bool operator==(const Wish&) const = default;
    };
    Result<Wish> ask(const Site& site) const;

    struct Answer {
        int32_t kind = HK_ANSWER_NONE;
        graph::ValueId value = graph::kNone, second = graph::kNone; // second: of HK_ANSWER_VIRTUAL at attention
        graph::ValueId input = graph::kNone;                        // what it is computed from
        graph::ValueId a = graph::kNone, b = graph::kNone;          // of a low-rank change of a linear layer
    };
    // layer: the value of the site's own layer, whose weight and bias the adapter sees; kNone at residual sites and
    // attention.
    Result<Answer> adapt(Joint& joint, const Site& site, const SiteInputs& inputs, graph::ValueId layer) const;

    // The weight and bias (may be kNone) with which the layer alone computes what it computes with the adapter.
    struct Merged {
        graph::ValueId weight = graph::kNone, bias = graph::kNone;
    };
    Result<Merged> merge(Joint& joint, const Site& site, const Merged& given) const;

private:
    Status read_virtual_tokens();

    const Registry& registry_;
    Instance<hk_adapter> instance_;
    std::string name_;
    bool trained_ = true;
    VirtualTokens virtual_tokens_;
    Invocation invocation_;
};

} // namespace hekla::plugin
