#include "program/program_metadata.hpp"

#include <algorithm>

namespace hekla::program {

std::string dispatch_label(const Lowering& lowering, const Dispatch& dispatch) {
    if (!dispatch.label.empty()) return dispatch.label;
    return lowering.graph ? lowering.graph->describe(dispatch.node) : dispatch.shader;
}

ProgramMetadata::ProgramMetadata(const Lowering& lowering, std::pmr::memory_resource* memory) : kept_(memory) {
    StringInterner texts(kept_); // kernels, labels and tensors of one node share names
    const auto text = [&](std::string_view name) { return texts.text(name); };
    std::vector<KeptResource> all_resources;
    for (const Resource& resource : lowering.resources)
        all_resources.push_back({text(resource.name), resource.kind, resource.bytes});
    resources = kept_.list(all_resources);

    std::vector<DispatchInfo> all_dispatches;
    for (const Dispatch& dispatch : lowering.dispatches) {
        DispatchInfo one;
        one.label = text(dispatch_label(lowering, dispatch));
        one.shader = text(dispatch.shader);
        one.constants = kept_.list(dispatch.constants);
        one.record = kept_.list(dispatch.record.bytes);
        one.relocations = kept_.list(dispatch.record.relocations);
        one.accesses = kept_.list(dispatch.record.accesses);
        one.groups = dispatch.groups;
        one.flops = dispatch.flops;
        one.bytes = dispatch.bytes;
        one.seconds = dispatch.seconds;
        all_dispatches.push_back(one);
    }
    dispatches = kept_.list(all_dispatches);

    std::vector<KeptOutput> all_outputs;
    for (const auto& [name, view] : lowering.outputs) all_outputs.push_back({text(name), view});
    outputs = kept_.list(all_outputs);

    std::vector<StringPair> pairs;
    for (const auto& [key, kernel] : lowering.choices) pairs.push_back({text(key), text(kernel)});
    choices = kept_.list(pairs);
    pairs.clear();
    for (const auto& [node, view] : lowering.access_counts)
        pairs.push_back({text(lowering.graph->describe(node)), resources[view.resource].name});
    access_counts = kept_.list(pairs);

    std::vector<std::string_view> ignored;
    for (const std::string& name : lowering.ignored_inputs) ignored.push_back(text(name));
    ignored_inputs = kept_.list(ignored);
}

const KeptOutput* ProgramMetadata::output(std::string_view name) const {
    const auto found = std::ranges::find(outputs, name, &KeptOutput::name);
    return found != outputs.end() ? &*found : nullptr;
}

} // namespace hekla::program
