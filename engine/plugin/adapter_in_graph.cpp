#include "plugin/adapter_in_graph.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::plugin {

Status AdapterInGraph::create(const PartSpec& spec, std::set<std::string>& read) {
    instance_.what = fmt::format("adapter '{}'", spec.id);
    HK_TRY(open_instance(registry_, HK_ADAPTER_DRAFT, spec.id, instance_));
    HK_TRY(create_instance(
        registry_, instance_, spec.config, read,
        [&](const hk_config* config, void** self, hk_error* e) { return instance_.table->create(config, self, e); }));
    // The host trains and saves these, whatever the adapter is.
    const nlohmann::json saved = spec.config.value("modules_to_save", nlohmann::json::array());
    if (!saved.is_array() || !std::ranges::all_of(saved, [](const nlohmann::json& one) { return one.is_string(); }))
        return invalid_argument(fmt::format("{}: modules_to_save is {}; expected a list of names of modules",
                                            instance_.what,
                                            saved.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
    read.insert("modules_to_save");
    return read_virtual_tokens();
}

Result<nlohmann::ordered_json> AdapterInGraph::write_config() const {
    if (!exists() || instance_.table->write_config == nullptr)
        return unsupported(fmt::format("{} has no form in PEFT", instance_.what));
    hk_config_writer writer;
    HK_TRY(call(registry_, instance_, instance_.what + ": write_config", "write_config",
                [&](hk_error* e) { return instance_.table->write_config(instance_.self, &writer, e); }));
    HK_TRY(check_complete(writer).with_context(instance_.what + ": write_config"));
    return std::move(writer.values);
}

Status AdapterInGraph::begin(Joint& joint, Described& described, int32_t mode, bool merged, TextPairs ties) {
    if (merged && virtual_tokens_.count > 0)
        return unsupported(fmt::format(
            "{} cannot be merged: virtual tokens are not a change of weights; use it unmerged", instance_.what));
    joint_ = &joint;
    described_ = &described;
    mode_ = mode;
    merged_ = merged;
    ties_ = ties;
    attentions_ = 0;
    residuals_ = {};
    before_norms_.clear();
    merged_by_.clear();
    // In decode mode they are fed like other tokens, before those of the prompt.
    joint.virtual_tokens = mode == HK_MODE_DECODE ? 0 : virtual_tokens_.count;
    joint.in_body = true;
    hook_ = [this](graph::ValueId y) {
        const Result<graph::ValueId> value = adapted(y);
        if (value.ok()) return value.value();
        problem_ = value.status();
        joint_->builder.fail(value.status());
        return graph::kNone;
    };
    return {};
}

void AdapterInGraph::end_body() {
    joint_->in_body = false;
    if (virtual_tokens_.hidden && joint_->virtual_tokens > 0) hide_virtual_tokens();
}

Status AdapterInGraph::check_merged(const std::vector<Site>& sites) const {
    for (const Site& site : sites)
        for (const std::string* parameter : {&site.parameter, &site.bias})
            if (const auto by = merged_by_.find(*parameter); by != merged_by_.end() && by->second != site.name)
                return unsupported(fmt::format("'{}' and '{}' share the parameter '{}', and the adapter changes it "
                                               "for one of them: it cannot be merged",
                                               by->second, site.name, *parameter));
    return {};
}

template<class F>
Status AdapterInGraph::call_adapter(hk_builder& view, const std::string& what, const char* function, F&& f) {
    const Joint& joint = *joint_;
    const std::size_t ports = joint.ports.size(), losses = joint.builder.graph().losses.size(),
                      metrics = joint.builder.graph().metrics.size();
    hk_error error;
    HK_ASSIGN(const int32_t code,
              code_of(registry_, instance_, what, function, error, [&](hk_error* e) { return f(&view, e); }));
    if (!joint.builder.ok()) return status_of(joint.builder.status(), code, error, what);
    HK_TRY(status_of(code, error, what));
    if (view.open_scopes != 0 || view.open_region)
        return failed_precondition(fmt::format("{}: a scope or region is still open after it", what));
    const graph::Graph& graph = joint.builder.graph();
    if (joint.ports.size() != ports || graph.losses.size() != losses || graph.metrics.size() != metrics)
        return failed_precondition(fmt::format("{}: it offers a port or adds a loss or metric", what));
    return {};
}

Result<graph::ValueId> AdapterInGraph::given_value(hk_builder& view, hk_value handle, const graph::Shape& wanted,
                                                   const std::string& what) {
    graph::Builder& builder = view.joint.builder;
    const graph::ValueId value = value_of(&view, handle, "the adapter");
    if (!builder.ok()) return builder.status().with_context(what);
    if (value == graph::kNone) return invalid_argument(fmt::format("{}: it gives no value", what));
    const graph::Shape found = builder.shape(value);
    if (!graph::is_float(builder.kind(value)) || found != wanted)
        return invalid_argument(fmt::format("{}: it gives {} {}, expected float {}", what,
                                            graph::kind_name(builder.kind(value)), found.text(), wanted.text()));
    return value;
}

hk_site AdapterInGraph::table_of(const Site& site) {
    return {sizeof(hk_site),
            site.kind,
            {site.name.data(), site.name.size()},
            {site.parameter.data(), site.parameter.size()},
            {site.bias.data(), site.bias.size()},
            site.in,
            site.out,
            site.index,
            site.flags,
            0};
}

Status AdapterInGraph::ask(Site& site) {
    const hk_site table = table_of(site);
    int32_t wanted = 0;
    HK_TRY(call(registry_, instance_, fmt::format("{}: wants() of '{}'", instance_.what, site.name), "wants",
                [&](hk_error* e) { return instance_.table->wants(instance_.self, &table, &wanted, e); }));
    site.wanted = wanted != 0;
    if (instance_.table->trains == nullptr) return {};
    const std::string what = fmt::format("{}: trains() of '{}'", instance_.what, site.name);
    HK_TRY(call(registry_, instance_, what, "trains",
                [&](hk_error* e) { return instance_.table->trains(instance_.self, &table, &site.trained, e); }));
    const uint32_t possible =
        (site.parameter.empty() ? 0u : HK_TRAINS_WEIGHT) | (site.bias.empty() ? 0u : HK_TRAINS_BIAS);
    if ((site.trained & ~possible) != 0)
        return invalid_argument(
            fmt::format("{}: it trains {:#x}, and the site has the parameters {:#x}", what, site.trained, possible));
    return {};
}

Result<AdapterInGraph::Answer> AdapterInGraph::adapt(const Site& site, graph::ValueId x, graph::ValueId y,
                                                     graph::ValueId normed) {
    graph::Builder& builder = joint_->builder;
    const std::string what = fmt::format("{}: adapt() of '{}'", instance_.what, site.name);
    hk_builder view(*joint_, next_tag());
    const hk_site table = table_of(site);
    const bool residual = site.kind == HK_SITE_RESIDUAL, attention = site.kind == HK_SITE_ATTENTION;
    const bool layer = !residual && !attention;
    const hk_site_values values{
        sizeof(hk_site_values),
        handle_of(&view, x),
        handle_of(&view, y),
        layer ? handle_of(&view, site_weight(builder, site, y)) : 0,
        layer ? handle_of(&view, site_bias(builder.graph(), site, y)) : 0,
        handle_of(&view, normed),
        0,
    };
    hk_site_answer answer{sizeof(hk_site_answer), HK_ANSWER_NONE, 0, 0, 0};
    HK_TRY(call_adapter(view, what, "adapt", [&](hk_builder* b, hk_error* e) {
        return instance_.table->adapt(instance_.self, b, &table, &values, &answer, e);
    }));
    if (answer.kind == HK_ANSWER_NONE) return Answer();
    const bool tokens = (site.flags & HK_SITE_OF_TOKENS) != 0 || attention;
    const bool possible = answer.kind == HK_ANSWER_VIRTUAL ? tokens && virtual_tokens_.count > 0
                          : answer.kind == HK_ANSWER_RESULT
                              ? residual
                              : !attention && answer.kind > HK_ANSWER_NONE && answer.kind <= HK_ANSWER_VALUE;
    if (!possible)
        return invalid_argument(
            fmt::format("{}: the answer's kind {} is not possible at a site of this kind", what, answer.kind));
    graph::Shape shape = builder.shape(y);
    if (answer.kind == HK_ANSWER_VIRTUAL)
        shape = attention ? graph::Shape{site.out, virtual_tokens_.count, site.in}
                          : graph::Shape{virtual_tokens_.count, site.out};
    Answer given{answer.kind};
    HK_ASSIGN(given.value, given_value(view, answer.value, shape, what));
    if (attention) {
        shape[2] = builder.shape(y)[3];
        HK_ASSIGN(given.second, given_value(view, answer.second, shape, what));
    }
    return given;
}

Status AdapterInGraph::merge(const Site& site, graph::ValueId y) {
    graph::Builder& builder = joint_->builder;
    if (instance_.table->merge == nullptr)
        return unsupported(
            fmt::format("{} cannot be merged: it is not a change of weights; use it unmerged", instance_.what));
    const std::string what = fmt::format("{}: merge() of '{}'", instance_.what, site.name);
    hk_builder view(*joint_, next_tag());
    const hk_site table = table_of(site);
    if (site.kind == HK_SITE_RESIDUAL || site.kind == HK_SITE_ATTENTION)
        return unsupported(fmt::format("{}: what is added to a block cannot be merged; use it unmerged", what));
    const graph::ValueId weight = site_weight(builder, site, y), bias = site_bias(builder.graph(), site, y);
    const hk_site_values values{sizeof(hk_site_values), 0, 0, handle_of(&view, weight), handle_of(&view, bias), 0, 0};
    hk_value new_weight = values.weight, new_bias = values.bias;
    HK_TRY(call_adapter(view, what, "merge", [&](hk_builder* b, hk_error* e) {
        return instance_.table->merge(instance_.self, b, &table, &values, &new_weight, &new_bias, e);
    }));
    if (new_weight != values.weight) {
        HK_ASSIGN(const graph::ValueId merged, given_value(view, new_weight, builder.shape(weight), what));
        add_merged(site, site.parameter, as_parameter(builder, site, y, merged));
    }
    if (new_bias == values.bias) return {};
    if (site.bias.empty()) return unsupported(fmt::format("{}: it changes the bias, and the layer has none", what));
    HK_ASSIGN(const graph::ValueId merged, given_value(view, new_bias, builder.shape(bias), what));
    add_merged(site, site.bias, merged);
    return {};
}

void AdapterInGraph::add_merged(const Site& site, const std::string& parameter, graph::ValueId value) {
    merged_by_.emplace(parameter, site.name);
    joint_->builder.output(kMerged + parameter, value);
}

template<class F>
Result<graph::ValueId> AdapterInGraph::at_site(Site& site, graph::ValueId otherwise, F&& f) {
    Joint& joint = *joint_;
    if (!joint.in_body) site.flags |= HK_SITE_OF_HEAD;
    std::vector<Site>& sites = described_->sites;
    const auto known = std::ranges::find_if(sites, [&](const Site& one) {
        return one.kind == site.kind && one.name == site.name && one.of_tokens() == site.of_tokens();
    });
    if (known != sites.end()) {
        site = *known;
    } else {
        HK_TRY(ask(site));
        sites.push_back(site);
    }
    if (!site.wanted) return otherwise;
    const auto* const hook = std::exchange(joint.adapt, nullptr); // the adapter's own layers are not adapted
    const std::string prefix = joint.prefix;
    const int32_t mode = std::exchange(joint.mode, mode_);
    joint.prefix += virtual_tokens_.count > 0 ? std::string(kAdapter) : fmt::format("{}{}.", kAdapter, site.name);
    joint.builder.scope_begin("adapter");
    Result<graph::ValueId> value = f();
    joint.builder.scope_end();
    joint.prefix = prefix;
    joint.mode = mode;
    joint.adapt = hook;
    return value;
}

Result<graph::ValueId> AdapterInGraph::at_layer(Site& site, graph::ValueId y) {
    graph::Builder& builder = joint_->builder;
    return at_site(site, y, [&]() -> Result<graph::ValueId> {
        if (merged_) HK_TRY(merge(site, y));
        const graph::ValueId x = builder.graph().producer(y).inputs[site.kind == HK_SITE_EMBEDDING ? 1 : 0];
        HK_ASSIGN(const Answer answer, adapt(site, x, y, graph::kNone));
        if (answer.kind == HK_ANSWER_NONE) return y;
        if (answer.kind == HK_ANSWER_VIRTUAL) return with_virtual_tokens(y, answer.value);
        return answer.kind == HK_ANSWER_VALUE ? answer.value : builder(graph::Op::add, {y, answer.value});
    });
}

Result<graph::ValueId> AdapterInGraph::at_attention(graph::ValueId y) {
    graph::Builder& builder = joint_->builder;
    const graph::Node of = builder.graph().producer(y);
    const graph::ValueId k = of.inputs[1], v = of.inputs[2];
    Site site;
    site.kind = HK_SITE_ATTENTION;
    site.index = attentions_++;
    site.name = fmt::format("attention.{}", site.index);
    site.in = builder.shape(k)[3];
    site.out = builder.shape(k)[1];
    return at_site(site, y, [&]() -> Result<graph::ValueId> {
        HK_ASSIGN(const Answer answer, adapt(site, k, v, graph::kNone));
        if (answer.kind == HK_ANSWER_NONE) return y;
        std::vector<graph::ValueId> inputs = of.inputs;
        inputs[1] = with_virtual_tokens(k, answer.value);
        inputs[2] = with_virtual_tokens(v, answer.second);
        std::vector<graph::NamedAttribute> attributes;
        const graph::OperationInfo& known = graph::info(of);
        for (std::size_t i = 0; i < of.attributes.size(); ++i)
            attributes.push_back({known.attributes[i].name, of.attributes[i].value});
        // The attention that body described is not used, and must not append to the cache of the other.
        builder.mutable_graph().nodes[builder.graph().value(y).node].set("cache", std::string());
        const std::vector<graph::ValueId> made = builder.emit(of.op, inputs, attributes);
        return made.empty() ? graph::kNone : made[0];
    });
}

graph::ValueId AdapterInGraph::with_virtual_tokens(graph::ValueId y, graph::ValueId own) const {
    using graph::Op;
    graph::Builder& builder = joint_->builder;
    const int64_t count = virtual_tokens_.count;
    const graph::Shape shape = builder.shape(y);
    const bool heads = shape.rank() == 4;
    const int axis = heads ? 2 : 1;
    const int64_t batch = shape[0], tokens = shape[axis], width = shape[axis + 1];
    if (joint_->mode != HK_MODE_DECODE) {
        graph::Shape front = shape;
        front[axis] = count;
        std::vector<int64_t> one = builder.shape(own).vector();
        one.insert(one.begin(), 1);
        const graph::ValueId first =
            builder(Op::broadcast, {builder(Op::reshape, {own}, {{"shape", one}})}, {{"shape", front.vector()}});
        const graph::ValueId rest =
            builder(Op::slice, {y}, {{"axis", int64_t{axis}}, {"start", count}, {"length", tokens - count}});
        return builder(Op::concat, {first, rest}, {{"axis", int64_t{axis}}});
    }
    // The tokens at positions 0 to count - 1 are the virtual ones.
    const graph::ValueId position = builder.positions(batch, tokens);
    const graph::ValueId last = builder.fill(graph::Kind::int32, {}, static_cast<double>(count - 1));
    const graph::ValueId is_virtual =
        builder(Op::compare, {position, builder.fill(graph::Kind::int32, {}, static_cast<double>(count))},
                {{"relation", int64_t{2}}}); // less than
    const graph::ValueId row = builder(Op::minimum, {position, last});
    graph::ValueId table = own, found = graph::kNone;
    std::vector<int64_t> condition{batch, tokens, 1};
    if (heads) {
        table = builder(Op::reshape, {builder(Op::transpose, {own}, {{"permutation", std::vector<int64_t>{1, 0, 2}}})},
                        {{"shape", std::vector<int64_t>{count, shape[1] * width}}});
        found = builder(Op::embedding, {table, row});
        found = builder(Op::reshape, {found}, {{"shape", std::vector<int64_t>{batch, tokens, shape[1], width}}});
        found = builder(Op::transpose, {found}, {{"permutation", std::vector<int64_t>{0, 2, 1, 3}}});
        condition = {batch, 1, tokens, 1};
    } else {
        found = builder(Op::embedding, {table, row});
    }
    return builder(Op::where, {builder(Op::reshape, {is_virtual}, {{"shape", condition}}), found, y});
}

Result<graph::ValueId> AdapterInGraph::adapted(graph::ValueId y) {
    graph::Builder& builder = joint_->builder;
    const graph::ValueId given = y;
    if (builder.graph().producer(y).op == graph::Op::attention && virtual_tokens_.count > 0) {
        HK_ASSIGN(y, at_attention(y));
    } else if (std::optional<Site> site = site_of(builder.graph(), y, ties_)) {
        if (site->kind == HK_SITE_EMBEDDING && joint_->token_ids != graph::kNone &&
            builder.graph().producer(y).inputs[1] == joint_->token_ids)
            site->flags |= HK_SITE_OF_TOKENS;
        HK_ASSIGN(y, at_layer(*site, y));
        // A norm may close a block.
        const graph::ValueId sum = builder.graph().producer(given).inputs[0];
        if (const auto open = before_norms_.find(sum); site->kind == HK_SITE_NORM && open != before_norms_.end()) {
            ResidualFinder::Found found = std::move(open->second);
            before_norms_.erase(open);
            HK_ASSIGN(y, at_residual(found, y, given));
        }
    } else if (std::optional<ResidualFinder::Found> found = residuals_.find(builder.graph(), y, ties_)) {
        if (found->norm_follows) {
            before_norms_.emplace(y, std::move(*found));
        } else {
            HK_ASSIGN(y, at_residual(*found, y, graph::kNone));
        }
    }
    if (y != given) residuals_.replaced(given, y);
    return y;
}

Result<graph::ValueId> AdapterInGraph::at_residual(ResidualFinder::Found& found, graph::ValueId result,
                                                   graph::ValueId norm) {
    graph::Builder& builder = joint_->builder;
    return at_site(found.site, result, [&]() -> Result<graph::ValueId> {
        if (merged_) HK_TRY(merge(found.site, found.part));
        HK_ASSIGN(const Answer answer, adapt(found.site, found.stream, found.part, result));
        if (answer.kind == HK_ANSWER_NONE) return result;
        if (answer.kind == HK_ANSWER_RESULT) return answer.value;
        graph::ValueId part = answer.value;
        if (answer.kind == HK_ANSWER_DELTA) part = builder(graph::Op::add, {found.part, part});
        const graph::ValueId sum = builder(graph::Op::add, {found.stream, part});
        if (norm == graph::kNone || !builder.ok()) return sum;
        const graph::Node of = builder.graph().producer(norm);
        std::vector<graph::ValueId> inputs = of.inputs;
        inputs[0] = sum;
        const std::vector<graph::NamedAttribute> attributes{{"epsilon", of.real("epsilon")}};
        const std::vector<graph::ValueId> made = builder.emit(of.op, inputs, attributes);
        return made.empty() ? graph::kNone : made[0];
    });
}

void AdapterInGraph::hide_virtual_tokens() {
    Joint& joint = *joint_;
    const int64_t count = std::exchange(joint.virtual_tokens, 0);
    if (joint.token_ids == graph::kNone) return;
    graph::Builder& builder = joint.builder;
    const graph::Shape ids = builder.shape(joint.token_ids);
    for (auto& [name, value] : joint.ports) {
        const graph::Shape shape = builder.shape(value);
        if (shape.rank() < 2 || shape[0] != ids[0] || shape[1] != ids[1]) continue;
        value =
            builder(graph::Op::slice, {value}, {{"axis", int64_t{1}}, {"start", count}, {"length", shape[1] - count}});
    }
}

Status AdapterInGraph::read_virtual_tokens() {
    if (instance_.table->virtual_tokens == nullptr) return {};
    uint32_t flags = 0;
    const std::string what = instance_.what + ": virtual_tokens()";
    HK_TRY(call(registry_, instance_, what, "virtual_tokens", [&](hk_error* e) {
        return instance_.table->virtual_tokens(instance_.self, &virtual_tokens_.count, &flags, e);
    }));
    virtual_tokens_.hidden = (flags & HK_VIRTUAL_HIDDEN) != 0;
    constexpr int64_t kMost = 1 << 16;
    if (virtual_tokens_.count < 0 || virtual_tokens_.count > kMost || (flags & ~HK_VIRTUAL_HIDDEN) != 0)
        return invalid_argument(fmt::format("{}: {} tokens and flags {:#x}; expected 0 to {}, and flags 0 or 1", what,
                                            virtual_tokens_.count, flags, kMost));
    return {};
}

} // namespace hekla::plugin
