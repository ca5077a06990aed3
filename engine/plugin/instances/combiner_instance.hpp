// One combiner of a model: calls of its plugin, whose results are checked.
#pragma once

#include "plugin/instances/adapter_instance.hpp"

#include "hekla/plugin/combiner.h"

namespace hekla::plugin {

// Errors name the combiner. Thread: one at a time.
class CombinerInstance {
public:
    explicit CombinerInstance(const Registry& registry) : registry_(registry) {}
    CombinerInstance(const CombinerInstance&) = delete;
    CombinerInstance& operator=(const CombinerInstance&) = delete;
    ~CombinerInstance() { destroy_instance(instance_); }

    // read: gets the keys of the configuration that are read.
    Status create(const PartSpec& spec, std::set<std::string>& read);
    const std::string& what() const { return instance_.what; } // "combiner 'soft'"
    const Manifest* manifest() const { return instance_.manifest; }

    struct Branch {
        std::string name;
        graph::ValueId delta = graph::kNone, input = graph::kNone; // kNone: it does not act at the site
        graph::ValueId a = graph::kNone, b = graph::kNone;         // of a low-rank change of a linear layer
    };
    struct Combined {
        graph::ValueId delta = graph::kNone, weights = graph::kNone, loss = graph::kNone; // kNone: none
    };
    Result<Combined> combine(Joint& joint, const Site& site, const SiteInputs& inputs,
                             std::span<const Branch> branches) const;

private:
    const Registry& registry_;
    Instance<hk_combiner> instance_;
};

} // namespace hekla::plugin
