#include "graph/reference/call.hpp"

#include <fmt/format.h>

namespace hekla::graph::reference {

Status run_own(const Call& call) {
    const OwnDeclaration& d = call.node.own->operation->declaration();
    if (!d.reference)
        return unsupported(
            fmt::format("{} is of a plugin's own, and this graph was read from text: the interpreter needs "
                        "it described by its plugin",
                        d.name));
    HK_TRY(d.reference(call.inputs, call.node.attributes, call.outputs));
    for (std::size_t i = 0; i < call.outputs.size(); ++i)
        if (call.out(i).data.size() != at(call.out(i).shape.elements()))
            return internal_error(fmt::format("the reference of {} changed the size of '{}'", d.name, d.outputs[i]));
    return {};
}

} // namespace hekla::graph::reference
