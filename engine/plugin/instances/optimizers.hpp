// The optimizers of one training: their plugins, configurations and updates.
#pragma once

#include "plugin/composition/plugin_set.hpp"
#include "plugin/registry/registry.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hekla::plugin {

// Registry::processes() chooses the process in which plugins describe; the results are the same. Errors name the
// optimizer. Thread: one at a time.
class Optimizers {
public:
    // specs: ids and the configurations that were given. Errors: an unknown optimizer; a key that it does not know; a
    // number outside of its range. `registry` must outlive this.
    static Result<std::unique_ptr<Optimizers>> create(const Registry& registry, const std::vector<PartSpec>& specs,
                                                      const Log& log = {});

    // Returns whether optimizer `id` takes such a parameter. internal if `id` is not one of the given.
    Result<bool> takes(const std::string& id, const OptimizedParameter& parameter);
    // Returns its update, which is described once for equal parameters; valid as long as this.
    Result<const UpdateGraph*> update(const std::string& id, const OptimizedParameter& parameter);

private:
    Optimizers() = default;
    Result<std::size_t> index_of(const std::string& id) const;
    struct Known {
        OptimizedParameter parameter;
        std::unique_ptr<UpdateGraph> update;
    };
    std::vector<std::string> ids_;
    std::vector<std::vector<Known>> known_; // by optimizer
    std::unique_ptr<PluginSet> plugins_;
};

} // namespace hekla::plugin
