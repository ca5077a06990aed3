// The host's side of hekla.operation/1: plugins' own operations, found by name, checked, and added to a graph as data.
#pragma once

#include "graph/builder.hpp"
#include "hekla/plugin/operation.h"
#include "plugin/host/host_error.hpp"
#include "plugin/host/joint.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace hekla::plugin {

// The operations that one description of a graph uses. Thread: one at a time.
class OwnOperations {
public:
    // Finds the table of an id ("acme.swish_gate", "acme.swish_gate/1"). Error: not_found.
    using Find = std::function<Result<const hk_operation*>(const std::string& id)>;
    // Called before (error: null) and after a function of the operation's plugin, with the error that it set.
    using Calling = std::function<void(const std::string& id, const char* function, const hk_error* after)>;
    OwnOperations(Find find, Calling calling = {}) : find_(std::move(find)), calling_(std::move(calling)) {}

    struct Known {
        std::string id;
        const hk_operation* table = nullptr;
        std::shared_ptr<const graph::OwnOperation> operation;
    };
    // Describes and checks an operation once. Errors name the existing revision.
    Result<const Known*> find(const std::string& name, uint32_t revision);
    uint32_t newest_revision(const std::string& name); // 0: unknown operation

    // Calls the operation's plugin.
    template<class F>
    int32_t call(const std::string& id, const char* function, hk_error& error, F&& f) const {
        if (calling_) calling_(id, function, nullptr);
        const int32_t code = guarded(error, std::forward<F>(f));
        if (calling_) calling_(id, function, &error);
        return code;
    }

private:
    Result<const Known*> load(const std::string& id, const std::string& name);
    Find find_;
    Calling calling_;
    std::map<std::string, Known, std::less<>> known_; // by id
};

// Reads an attribute from a plugin.
Result<graph::AttributeValue> read_attribute(const hk_attribute& attribute);

// Arguments of a plugin's functions; they point into memory of the caller. Data of inputs is only read.
std::vector<hk_attribute> raw_attributes(std::span<const graph::Attribute> attributes);
hk_operation_tensor raw_tensor(graph::Kind kind, const graph::Shape& shape, const double* data);
hk_operation_use raw_use(std::span<const hk_operation_tensor> inputs, std::span<const hk_attribute> attributes,
                         std::span<hk_operation_tensor> outputs);

// Asks the plugin for shapes, cost and, in the modes that may be differentiated, the gradient of this use, and emits
// it. Errors are reported to the joint's builder, without the scope; the result is then empty.
std::vector<graph::ValueId> emit_own(Joint& joint, uint32_t tag, const OwnOperations::Known& known,
                                     std::span<const graph::ValueId> inputs,
                                     std::span<const graph::NamedAttribute> attributes);

} // namespace hekla::plugin
