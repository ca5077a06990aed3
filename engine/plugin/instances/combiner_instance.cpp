#include "plugin/instances/combiner_instance.hpp"

namespace hekla::plugin {

Status CombinerInstance::create(const PartSpec& spec, std::set<std::string>& read) {
    instance_.what = fmt::format("combiner '{}'", spec.id);
    HK_TRY(open_instance(registry_, HK_COMBINER_INTERFACE, spec.id, instance_));
    return create_instance(
        registry_, instance_, spec.config, read,
        [&](const hk_config* config, void** self, hk_error* e) { return instance_.table->create(config, self, e); });
}

Result<CombinerInstance::Combined> CombinerInstance::combine(Joint& joint, const Site& site, const SiteInputs& inputs,
                                                             std::span<const Branch> branches) const {
    graph::Builder& builder = joint.builder;
    const std::string what = fmt::format("{}: combine() of '{}'", instance_.what, site.name);
    hk_builder view(joint, next_tag());
    const hk_adapter_site table = table_of(site);
    const hk_site_values values{sizeof(hk_site_values),
                                handle_of(&view, inputs.x),
                                handle_of(&view, inputs.y),
                                0,
                                0,
                                handle_of(&view, inputs.normed),
                                0};
    std::vector<hk_branch> given;
    for (const Branch& branch : branches)
        given.push_back({sizeof(hk_branch),
                         0,
                         {branch.name.data(), branch.name.size()},
                         handle_of(&view, branch.delta),
                         handle_of(&view, branch.input),
                         handle_of(&view, branch.a),
                         handle_of(&view, branch.b)});
    hk_combined made{sizeof(hk_combined), 0, 0, 0, 0};
    HK_TRY(describe_inside(registry_, instance_, view, what, "combine", [&](hk_builder* b, hk_error* e) {
        return instance_.table->combine(instance_.self, b, &table, &values, given.data(),
                                        static_cast<uint32_t>(given.size()), &made, e);
    }));
    if (made.reserved != 0)
        return invalid_argument(fmt::format("{}: the result's reserved is {}, expected 0", what, made.reserved));
    const graph::Shape shape = builder.shape(inputs.y);
    Combined combined;
    HK_ASSIGN(combined.delta, given_value(view, made.delta, shape, what));
    if (made.weights != 0) {
        combined.weights = value_of(&view, made.weights, "the plugin");
        if (!builder.ok()) return builder.status().with_context(what);
        const graph::Shape found = builder.shape(combined.weights);
        bool fits = graph::is_float(builder.kind(combined.weights)) && found.rank() == shape.rank() &&
                    found[-1] == static_cast<int64_t>(branches.size());
        for (int i = 0; fits && i + 1 < shape.rank(); ++i) fits = found[i] == shape[i] || found[i] == 1;
        if (!fits)
            return invalid_argument(fmt::format("{}: its weights are {} {}, expected float {} with {} in place of the "
                                                "last dimension, or 1 in place of others",
                                                what, graph::kind_name(builder.kind(combined.weights)), found.text(),
                                                shape.text(), branches.size()));
    }
    if (made.loss != 0) { HK_ASSIGN(combined.loss, given_value(view, made.loss, {}, what)); }
    return combined;
}

} // namespace hekla::plugin
