// One optimizer of a training: calls of its plugin, whose updates are checked.
#pragma once

#include "plugin/composition/plugin_set.hpp"
#include "plugin/host/inner_description.hpp"
#include "plugin/instances/update_graph.hpp"

namespace hekla::plugin {

// Errors name the optimizer. Thread: one at a time.
class OptimizerInstance {
public:
    explicit OptimizerInstance(const Registry& registry) : registry_(registry) {}
    OptimizerInstance(const OptimizerInstance&) = delete;
    OptimizerInstance& operator=(const OptimizerInstance&) = delete;
    ~OptimizerInstance() { destroy_instance(instance_); }

    // read: gets the keys of the configuration that are read.
    Status create(const PartSpec& spec, std::set<std::string>& read);
    // Whether it updates such a parameter.
    Result<bool> takes(const OptimizedParameter& parameter) const;
    // own: plugins' own operations; may be null.
    Result<UpdateGraph> update(const OptimizedParameter& parameter, OwnOperations* own) const;

private:
    const Registry& registry_;
    Instance<hk_optimizer> instance_;
};

} // namespace hekla::plugin
