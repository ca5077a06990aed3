#include "plugin/composition/adapters_in_graph.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::plugin {

Status AdaptersInGraph::create(const PartsSpec& spec, ReadKeys& read) {
    std::vector<std::string> names;
    for (const AdapterSpec& one : spec.adapters) {
        AdapterInstance& adapter = *adapters_.emplace_back(std::make_unique<AdapterInstance>(registry_));
        HK_TRY(adapter.create(one, read.adapters.emplace_back()));
        names.push_back(one.name);
    }
    if (spec.adapters.empty()) return {};
    if (spec.combination.empty()) {
        if (spec.adapters.size() > 1) return internal_error("several adapters without a combination");
    } else {
        HK_ASSIGN(combination_, parse_combination(spec.combination, names));
    }
    for (const PartSpec& one : spec.combiners) {
        auto& combiner = combiners_[one.id] = std::make_unique<CombinerInstance>(registry_);
        HK_TRY(combiner->create(one, read.combiners.emplace_back()));
    }
    HK_TRY(check_virtual_tokens(combination_, false));
    const std::vector<const AdapterInstance*> called = invoked();
    if (virtual_tokens_.count > 0 && !called.empty())
        return unsupported(fmt::format("{} has {} and {} virtual tokens, which cannot be combined", called[0]->what(),
                                       kInvocationTokens, adapters_[with_tokens_]->what()));
    return {};
}

std::vector<const AdapterInstance*> AdaptersInGraph::invoked() const {
    std::vector<const AdapterInstance*> found;
    for (const auto& one : adapters_)
        if (!one->invocation().tokens.empty()) found.push_back(one.get());
    return found;
}

Status AdaptersInGraph::check_invocations(const nlohmann::ordered_json& body_config) const {
    for (const AdapterInstance* adapter : invoked()) {
        if (body_config.value("is_encoder_decoder", nlohmann::ordered_json()) == true)
            return unsupported(
                fmt::format("{}: {} is not supported in encoder-decoders", adapter->what(), kInvocationTokens));
        const nlohmann::ordered_json vocabulary = body_config.value("vocab_size", nlohmann::ordered_json());
        for (const int32_t id : adapter->invocation().tokens)
            if (vocabulary.is_number_integer() && id >= vocabulary)
                return invalid_argument(fmt::format("{}: {} has the id {}; expected ids from 0 to {}, the body's "
                                                    "vocabulary",
                                                    adapter->what(), kInvocationTokens, id,
                                                    vocabulary.get<int64_t>() - 1));
    }
    return {};
}

Status AdaptersInGraph::check_virtual_tokens(const Combination& at, bool in_combiner) {
    for (const Combination& part : at.parts) HK_TRY(check_virtual_tokens(part, in_combiner || at.combiner != kStack));
    if (!at.is_adapter()) return {};
    const AdapterInstance& adapter = *adapters_[at.adapter];
    if (adapter.virtual_tokens().count == 0) return {};
    if (in_combiner)
        return unsupported(
            fmt::format("{} has virtual tokens, which a combiner cannot weigh: put it into a stack", adapter.what()));
    if (virtual_tokens_.count > 0)
        return unsupported(fmt::format("{} and {} both have virtual tokens; expected at most one such adapter",
                                       adapters_[with_tokens_]->what(), adapter.what()));
    virtual_tokens_ = adapter.virtual_tokens();
    with_tokens_ = at.adapter;
    return {};
}

std::string AdaptersInGraph::what() const {
    if (adapters_.size() == 1) return adapters_[0]->what();
    std::vector<std::string> names;
    for (const auto& one : adapters_) names.push_back(one->name());
    return fmt::format("adapters {}", fmt::join(names, ", "));
}

Result<nlohmann::ordered_json> AdaptersInGraph::write_config() const {
    if (adapters_.size() != 1) return unsupported("PEFT has no form of several adapters in one folder");
    return adapters_[0]->write_config();
}

Status AdaptersInGraph::begin(Joint& joint, Described& described, int32_t mode, const BuildRequest& request,
                              TextPairs ties, const nlohmann::ordered_json& body_config) {
    if (request.merged && virtual_tokens_.count > 0)
        return unsupported(
            fmt::format("{} cannot be merged: virtual tokens are not a change of weights; use it unmerged",
                        adapters_[with_tokens_]->what()));
    HK_TRY(check_invocations(body_config));
    joint_ = &joint;
    described_ = &described;
    mode_ = mode;
    merged_ = request.merged;
    merge_pairs_ = request.merge_pairs;
    ties_ = ties;
    attentions_ = 0;
    pairs_ = 0;
    first_site_ = described.sites.size();
    wanted_.clear();
    losses_.clear();
    residuals_ = {};
    before_norms_.clear();
    merged_by_.clear();
    HK_TRY(place_virtual_tokens(body_config));
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

Status AdaptersInGraph::place_virtual_tokens(const nlohmann::ordered_json& body_config) {
    const auto [count, hidden, without_positions] = virtual_tokens_;
    const auto is_set = [&](const char* key) {
        return body_config.is_object() && body_config.value(key, nlohmann::ordered_json()) == true;
    };
    encoder_decoder_ = count > 0 && is_set("is_encoder_decoder");
    if (encoder_decoder_ && without_positions)
        return unsupported(fmt::format("{}: virtual tokens without positions are not supported in encoder-decoders",
                                       adapters_[with_tokens_]->what()));
    if (encoder_decoder_ && !hidden && is_set("scale_embedding"))
        return unsupported(fmt::format("{}: virtual tokens are not supported in a body that scales its embeddings "
                                       "(scale_embedding), which scales no virtual ones",
                                       adapters_[with_tokens_]->what()));
    // A decoder is fed virtual tokens like other tokens, before those of the prompt.
    const bool fed = mode_ == HK_MODE_DECODE && (hidden || !encoder_decoder_);
    in_attention_ = !fed && hidden && (encoder_decoder_ || without_positions);
    joint_->virtual_tokens = fed || in_attention_ ? 0 : count;
    joint_->virtual_without_positions = without_positions;
    joint_->encoder_decoder = encoder_decoder_;
    joint_->position_shift = 0;
    if (without_positions && !in_attention_) joint_->position_shift = -count;
    if (!without_positions && in_attention_) joint_->position_shift = count;
    return {};
}

Status AdaptersInGraph::end_body() {
    joint_->in_body = false;
    const auto acts = [&](const std::vector<bool>& wanted) { return wanted[with_tokens_]; };
    if (virtual_tokens_.count > 0 && std::ranges::none_of(wanted_, acts))
        return invalid_argument(
            fmt::format("{}: the adapter acts nowhere: this body has no place for its virtual tokens",
                        adapters_[with_tokens_]->what()));
    if (virtual_tokens_.hidden && joint_->virtual_tokens > 0) hide_virtual_tokens();
    if (in_attention_) joint_->position_shift = 0; // heads see the rows alone
    return {};
}

void AdaptersInGraph::add_loss() {
    if (losses_.empty()) return;
    graph::Builder& builder = joint_->builder;
    graph::ValueId sum = losses_[0];
    for (std::size_t i = 1; i < losses_.size(); ++i) sum = builder(graph::Op::add, {sum, losses_[i]});
    builder.loss("combine", sum, builder.scalar(1.0), 1.0);
}

Status AdaptersInGraph::check_merged(const std::vector<Site>& sites) const {
    for (const Site& site : sites)
        for (const std::string* parameter : {&site.parameter, &site.bias})
            if (const auto by = merged_by_.find(*parameter); by != merged_by_.end() && by->second != site.name)
                return unsupported(fmt::format("'{}' and '{}' share the parameter '{}', and the adapter changes it "
                                               "for one of them: it cannot be merged",
                                               by->second, site.name, *parameter));
    return {};
}

Result<const std::vector<bool>*> AdaptersInGraph::ask(Site& site) {
    if (!joint_->in_body) site.flags |= HK_SITE_OF_HEAD;
    std::vector<Site>& sites = described_->sites;
    for (std::size_t i = first_site_; i < sites.size(); ++i) {
        const Site& one = sites[i];
        if (one.kind != site.kind || one.name != site.name || one.of_tokens() != site.of_tokens()) continue;
        site = one;
        return &wanted_[i - first_site_];
    }
    std::vector<bool> wanted;
    for (std::size_t i = 0; i < adapters_.size(); ++i) {
        // Attention is a site of virtual tokens only.
        const bool asked = site.kind != HK_SITE_ATTENTION || i == with_tokens_;
        AdapterInstance::Wish wish;
        if (asked) { HK_ASSIGN(wish, adapters_[i]->ask(site)); }
        // Of another description; sites with one name differ by kind and flags. [adapter.4]
        const auto [before, first] = wishes_.try_emplace({i, site.kind, site.flags, site.name}, wish);
        if (!first && before->second != wish)
            return failed_precondition(
                fmt::format("{}: wants() or trains() of '{}' answers {} and {:#x}, and before {} and {:#x}: the same "
                            "site must get the same answer",
                            adapters_[i]->what(), site.name, wish.wanted ? 1 : 0, wish.trained,
                            before->second.wanted ? 1 : 0, before->second.trained));
        wanted.push_back(wish.wanted);
        site.wanted = site.wanted || wish.wanted;
        site.trained |= wish.trained;
    }
    sites.push_back(site);
    wanted_.push_back(std::move(wanted));
    return &wanted_.back();
}

template<class F>
auto AdaptersInGraph::inside(const std::string& prefix, int32_t mode, const std::string& scope, F&& f)
    -> decltype(f()) {
    Joint& joint = *joint_;
    const auto* const hook = std::exchange(joint.adapt, nullptr); // the adapter's own layers are not adapted
    const std::string prefix_before = joint.prefix;
    const int32_t mode_before = std::exchange(joint.mode, mode);
    joint.prefix += prefix;
    joint.builder.scope_begin(scope);
    auto result = f();
    joint.builder.scope_end();
    joint.invocation = nullptr;
    joint.prefix = prefix_before;
    joint.mode = mode_before;
    joint.adapt = hook;
    return result;
}

bool AdaptersInGraph::acts(const Combination& at, const Place& place) const {
    if (at.is_adapter()) return place.wanted[at.adapter];
    return std::ranges::any_of(at.parts, [&](const Combination& part) { return acts(part, place); });
}

Result<AdaptersInGraph::Outcome> AdaptersInGraph::answer(const Combination& at, const Place& place,
                                                         const SiteInputs& inputs) {
    if (!acts(at, place)) return Outcome();
    if (at.is_adapter()) return answer_of_adapter(*adapters_[at.adapter], place, inputs);
    return at.combiner == kStack ? answer_of_stack(at, place, inputs) : answer_of_combiner(at, place, inputs);
}

Result<AdaptersInGraph::Outcome> AdaptersInGraph::answer_of_adapter(const AdapterInstance& adapter, const Place& place,
                                                                    const SiteInputs& inputs) {
    // One that is not trained has no dropout.
    const int32_t mode = !adapter.trained() && mode_ == HK_MODE_TRAIN ? HK_MODE_EVALUATE : mode_;
    const std::string scope = adapter.name().empty() ? "adapter" : "adapter." + adapter.name();
    return inside(adapter.prefix(place.site), mode, scope, [&]() -> Result<Outcome> {
        joint_->invocation = &adapter.invocation();
        HK_ASSIGN(const AdapterInstance::Answer made, adapter.adapt(*joint_, place.site, inputs, place.layer));
        if (made.kind != HK_ANSWER_VIRTUAL)
            return Outcome{made.kind, made.value, graph::kNone, made.input, made.a, made.b};
        return Outcome{HK_ANSWER_VALUE, with_virtual_tokens(inputs.y, made.value), graph::kNone, inputs.y};
    });
}

graph::ValueId AdaptersInGraph::with(const Outcome& outcome, graph::ValueId y) {
    return outcome.kind == HK_ANSWER_VALUE ? outcome.value : joint_->builder(graph::Op::add, {y, outcome.value});
}

Result<AdaptersInGraph::Outcome> AdaptersInGraph::answer_of_stack(const Combination& at, const Place& place,
                                                                  const SiteInputs& inputs) {
    graph::Builder& builder = joint_->builder;
    Outcome all;
    SiteInputs now = inputs;
    for (const Combination& part : at.parts) {
        if (!acts(part, place)) continue;
        if (all.kind == HK_ANSWER_RESULT)
            return unsupported(fmt::format("'{}' at '{}': '{}' cannot follow an adapter that replaces the residual sum",
                                           at.text, place.site.name, part.text));
        if (all.kind != HK_ANSWER_NONE) {
            now.y = with(all, inputs.y);
            if (place.site.kind == HK_SITE_RESIDUAL) { HK_ASSIGN(now.normed, sum(inputs.x, now.y, place.norm)); }
        }
        HK_ASSIGN(const Outcome next, answer(part, place, now));
        if (next.kind == HK_ANSWER_NONE) continue;
        if (all.kind == HK_ANSWER_NONE || next.kind == HK_ANSWER_RESULT) {
            all = next;
            continue;
        }
        const auto delta_of = [](const Outcome& one) { return one.kind == HK_ANSWER_DELTA ? one.value : one.delta; };
        const bool known = delta_of(all) != graph::kNone && delta_of(next) != graph::kNone;
        const graph::ValueId delta = known ? builder(graph::Op::add, {delta_of(all), delta_of(next)}) : graph::kNone;
        all = {HK_ANSWER_VALUE, with(next, now.y), delta, next.input};
    }
    return all;
}

Result<AdaptersInGraph::Outcome> AdaptersInGraph::answer_of_combiner(const Combination& at, const Place& place,
                                                                     const SiteInputs& inputs) {
    graph::Builder& builder = joint_->builder;
    std::vector<CombinerInstance::Branch> branches;
    graph::ValueId input = graph::kNone;
    for (const Combination& part : at.parts) {
        HK_ASSIGN(const Outcome one, answer(part, place, inputs));
        CombinerInstance::Branch& branch = branches.emplace_back();
        branch.name = part.text;
        if (one.kind == HK_ANSWER_NONE) continue;
        if (one.kind == HK_ANSWER_RESULT)
            return unsupported(fmt::format("'{}' at '{}': '{}' replaces the residual sum, which cannot be combined",
                                           at.text, place.site.name, part.text));
        branch.delta = one.kind == HK_ANSWER_DELTA ? one.value
                       : one.delta != graph::kNone ? one.delta
                                                   : builder(graph::Op::sub, {one.value, inputs.y});
        branch.input = input = one.input;
        branch.a = one.a;
        branch.b = one.b;
    }
    if (input == graph::kNone) return Outcome();
    const CombinerInstance& combiner = *combiners_.at(at.combiner);
    // A residual site has the name of the linear layer before it.
    const std::string site = place.site.name + (place.site.kind == HK_SITE_RESIDUAL ? ".residual" : "");
    const std::string prefix = fmt::format("{}{}.{}.", kAdapter, at.place, site);
    HK_ASSIGN(const CombinerInstance::Combined made,
              inside(prefix, mode_, at.place, [&] { return combiner.combine(*joint_, place.site, inputs, branches); }));
    const std::string_view nested = std::string_view(at.place).substr(std::string_view("combine").size());
    if (made.weights != graph::kNone) joint_->ports.emplace(fmt::format("routing{}.{}", nested, site), made.weights);
    if (made.loss != graph::kNone && mode_ == HK_MODE_TRAIN) losses_.push_back(made.loss);
    return Outcome{HK_ANSWER_DELTA, made.delta, graph::kNone, input};
}

Status AdaptersInGraph::merge(const Place& place, graph::ValueId y) {
    graph::Builder& builder = joint_->builder;
    const Site& site = place.site;
    Merged given;
    if (site.kind != HK_SITE_RESIDUAL) given = {site_weight(builder, site, y), site_bias(builder.graph(), site, y)};
    HK_ASSIGN(const Merged merged, merged_by(combination_, place, given));
    if (merged.weight != given.weight) add_merged(site, site.parameter, as_parameter(builder, site, y, merged.weight));
    if (merged.bias != given.bias) add_merged(site, site.bias, merged.bias);
    return {};
}

Status AdaptersInGraph::add_pair(const Place& place, graph::ValueId y, graph::ValueId adapted) {
    graph::Builder& builder = joint_->builder;
    const Site& site = place.site;
    const Merged given{site_weight(builder, site, y), site_bias(builder.graph(), site, y)};
    HK_ASSIGN(const Merged merged, merged_by(combination_, place, given));
    const std::string name = fmt::format("{}.{}", pairs_++, site.name);
    builder.output(kAdapted + name, adapted);
    builder.output(kAlone + name, layer_with(builder, site, y, merged.weight, merged.bias));
    return {};
}

Result<AdaptersInGraph::Merged> AdaptersInGraph::merged_by(const Combination& at, const Place& place,
                                                           const Merged& given) {
    if (!acts(at, place)) return given;
    if (at.is_adapter()) {
        const AdapterInstance& adapter = *adapters_[at.adapter];
        return inside(adapter.prefix(place.site), mode_, "adapter",
                      [&] { return adapter.merge(*joint_, place.site, given); });
    }
    if (at.combiner != kStack)
        return unsupported(
            fmt::format("'{}' cannot be merged: what it gives depends on its input; use it unmerged", at.text));
    Merged merged = given;
    for (const Combination& part : at.parts) { HK_ASSIGN(merged, merged_by(part, place, merged)); }
    return merged;
}

void AdaptersInGraph::add_merged(const Site& site, const std::string& parameter, graph::ValueId value) {
    merged_by_.emplace(parameter, site.name);
    joint_->builder.output(kMerged + parameter, value);
}

Result<graph::ValueId> AdaptersInGraph::at_layer(Site& site, graph::ValueId y) {
    HK_ASSIGN(const std::vector<bool>* wanted, ask(site));
    if (!site.wanted) return y;
    const Place place{site, *wanted, y, graph::kNone};
    if (merged_) HK_TRY(merge(place, y));
    const graph::ValueId x = joint_->builder.graph().producer(y).inputs[site.kind == HK_SITE_EMBEDDING ? 1 : 0];
    HK_ASSIGN(const Outcome made, answer(combination_, place, {x, y, graph::kNone}));
    const graph::ValueId value = made.kind == HK_ANSWER_NONE ? y : with(made, y);
    if (merge_pairs_) HK_TRY(add_pair(place, y, value));
    return value;
}

Result<graph::ValueId> AdaptersInGraph::at_attention(graph::ValueId y) {
    graph::Builder& builder = joint_->builder;
    const graph::Node of = builder.graph().producer(y);
    if (encoder_decoder_ && of.integer("causal") == 0) return y; // of the encoder, or to its states
    const graph::ValueId k = of.inputs[1], v = of.inputs[2];
    Site site;
    site.kind = HK_SITE_ATTENTION;
    site.index = attentions_++;
    if (encoder_decoder_) site.flags |= HK_SITE_OF_DECODER;
    site.name = fmt::format("attention.{}", site.index);
    site.in = builder.shape(k)[3];
    site.out = builder.shape(k)[1];
    HK_TRY(ask(site).status());
    if (!site.wanted) return y;
    const AdapterInstance& adapter = *adapters_[with_tokens_];
    return inside(adapter.prefix(site), mode_, "adapter", [&]() -> Result<graph::ValueId> {
        HK_ASSIGN(const AdapterInstance::Answer made, adapter.adapt(*joint_, site, {k, v, graph::kNone}, graph::kNone));
        if (made.kind == HK_ANSWER_NONE) return y;
        if (in_attention_) return prefixed(of, made.value, made.second);
        std::vector<graph::ValueId> inputs = of.inputs;
        inputs[1] = with_virtual_tokens(k, made.value);
        inputs[2] = with_virtual_tokens(v, made.second);
        // The attention that body described is not used, and must not append to the cache of the other.
        builder.mutable_graph().nodes[builder.graph().value(y).node].set("cache", std::string());
        return emit_again(builder, of, inputs);
    });
}

graph::ValueId AdaptersInGraph::before(graph::ValueId own, graph::ValueId y, int axis) const {
    using graph::Op;
    graph::Builder& builder = joint_->builder;
    graph::Shape front = builder.shape(y);
    front[axis] = virtual_tokens_.count;
    std::vector<int64_t> one = builder.shape(own).vector();
    one.insert(one.begin(), static_cast<std::size_t>(front.rank()) - one.size(), 1);
    const graph::ValueId first =
        builder(Op::broadcast, {builder(Op::reshape, {own}, {{"shape", one}})}, {{"shape", front.vector()}});
    return builder(Op::concat, {first, y}, {{"axis", int64_t{axis}}});
}

Result<graph::ValueId> AdaptersInGraph::prefixed(const graph::Node& of, graph::ValueId keys,
                                                 graph::ValueId values) const {
    using graph::Op;
    graph::Builder& builder = joint_->builder;
    const auto integer = [&](int64_t n) { return builder.fill(graph::Kind::int32, {}, static_cast<double>(n)); };
    std::vector<graph::ValueId> inputs = of.inputs;
    const std::vector<graph::InputInfo>& known = graph::info(of).inputs;
    inputs.resize(known.size(), graph::kNone);
    const auto at = [&](std::string_view name) -> graph::ValueId& {
        const auto found = std::ranges::find(known, name, [](const graph::InputInfo& one) { return one.name; });
        return inputs[static_cast<std::size_t>(found - known.begin())];
    };
    for (const char* name :
         {"query_distance", "key_distance", "query_class", "q_class", "k_class", "q_group", "k_group"})
        if (at(name) != graph::kNone)
            return unsupported(fmt::format("{}: a prefix without positions, or of an encoder-decoder, is not supported "
                                           "for attention with the input {}",
                                           adapters_[with_tokens_]->what(), name));
    const int64_t count = virtual_tokens_.count, batch = builder.shape(inputs[1])[0];
    const auto counted = [&](graph::ValueId given, int64_t tokens) { // from the first virtual token
        if (given != graph::kNone) return builder(Op::add, {given, integer(count)});
        const std::vector<int64_t> row{1, tokens}, all{batch, tokens};
        return builder(Op::broadcast, {builder(Op::reshape, {builder.iota(tokens, count, 1)}, {{"shape", row}})},
                       {{"shape", all}});
    };
    const bool placed = of.integer("causal") != 0 || of.integer("window") != 0 || of.integer("window_after") != 0 ||
                        at("distance_bias") != graph::kNone || at("prefix") != graph::kNone;
    if (placed) {
        at("q_position") = counted(at("q_position"), builder.shape(inputs[0])[2]);
        at("k_position") = before(builder.iota(count, 0, 1), counted(at("k_position"), builder.shape(inputs[1])[2]), 1);
    }
    inputs[1] = before(keys, inputs[1], 2);
    inputs[2] = before(values, inputs[2], 2);
    if (graph::ValueId& padding = at("key_padding"); padding != graph::kNone) padding = before(integer(1), padding, 1);
    if (graph::ValueId& mask = at("mask"); mask != graph::kNone) mask = before(integer(1), mask, 3);
    if (graph::ValueId& bias = at("bias"); bias != graph::kNone)
        bias = before(builder.fill(graph::Kind::float32, {}, 0.0), bias, 3);
    if (graph::ValueId& prefix = at("prefix"); prefix != graph::kNone)
        prefix = builder(Op::add, {prefix, integer(count)});
    return emit_again(builder, of, inputs);
}

Status AdaptersInGraph::check_positions(graph::ValueId y) const {
    using graph::Op;
    const graph::Graph& graph = joint_->builder.graph();
    const graph::Node& of = graph.producer(y);
    if (of.op != Op::embedding && of.op != Op::gather) return {};
    int64_t most = -1;
    for (graph::ValueId ids = of.inputs[1];;) {
        const graph::Node& node = graph.producer(ids);
        if (node.op == Op::positions) {
            most += node.integer("length");
            break;
        }
        if (node.op != Op::add || graph.producer(node.inputs[1]).op != Op::fill) return {};
        most += static_cast<int64_t>(graph.producer(node.inputs[1]).real("value"));
        ids = node.inputs[0];
    }
    const int64_t rows = graph.shape(of.inputs[0])[0];
    if (most < rows) return {};
    return invalid_argument(fmt::format("{}: with {} virtual tokens the rows of the decoder take {} positions, the "
                                        "body's table has {}: use shorter rows or fewer virtual tokens",
                                        adapters_[with_tokens_]->what(), virtual_tokens_.count, most + 1, rows));
}

graph::ValueId AdaptersInGraph::with_virtual_tokens(graph::ValueId y, graph::ValueId own) const {
    using graph::Op;
    graph::Builder& builder = joint_->builder;
    const int64_t count = virtual_tokens_.count;
    const graph::Shape shape = builder.shape(y);
    const bool heads = shape.rank() == 4;
    const int axis = heads ? 2 : 1;
    const int64_t batch = shape[0], tokens = shape[axis], width = shape[axis + 1];
    if (joint_->virtual_tokens > 0)
        return before(own,
                      builder(Op::slice, {y}, {{"axis", int64_t{axis}}, {"start", count}, {"length", tokens - count}}),
                      axis);
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

Result<graph::ValueId> AdaptersInGraph::adapted(graph::ValueId y) {
    graph::Builder& builder = joint_->builder;
    const graph::ValueId given = y;
    if (joint_->position_shift > 0) HK_TRY(check_positions(y));
    if (joint_->virtual_without_positions && joint_->virtual_tokens > 0 &&
        builder.graph().producer(y).op == graph::Op::cumsum)
        return unsupported(fmt::format("{}: virtual tokens without positions are not supported in a body that counts "
                                       "positions from its tokens, as RoBERTa does",
                                       adapters_[with_tokens_]->what()));
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

Result<graph::ValueId> AdaptersInGraph::at_residual(ResidualFinder::Found& found, graph::ValueId result,
                                                    graph::ValueId norm) {
    HK_ASSIGN(const std::vector<bool>* wanted, ask(found.site));
    if (!found.site.wanted) return result;
    const Place place{found.site, *wanted, graph::kNone, norm};
    if (merged_) HK_TRY(merge(place, found.part));
    HK_ASSIGN(const Outcome made, answer(combination_, place, {found.stream, found.part, result}));
    if (made.kind == HK_ANSWER_NONE) return result;
    return made.kind == HK_ANSWER_RESULT ? Result<graph::ValueId>(made.value)
                                         : sum(found.stream, with(made, found.part), norm);
}

Result<graph::ValueId> AdaptersInGraph::sum(graph::ValueId stream, graph::ValueId part, graph::ValueId norm) {
    graph::Builder& builder = joint_->builder;
    const graph::ValueId sum = builder(graph::Op::add, {stream, part});
    if (norm == graph::kNone || !builder.ok()) return sum;
    const graph::Node of = builder.graph().producer(norm);
    std::vector<graph::ValueId> inputs = of.inputs;
    inputs[0] = sum;
    return emit_again(builder, of, inputs);
}

void AdaptersInGraph::hide_virtual_tokens() {
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

} // namespace hekla::plugin
