#include "plugin/host/host_graph.hpp"

#include "graph/operations/buffer_update.hpp"
#include "graph/output.hpp"
#include "plugin/composition/plugin_set.hpp"
#include "plugin/host/argument_rules.hpp"
#include "plugin/host/batch_inputs.hpp"
#include "plugin/host/host_error.hpp"
#include "plugin/host/host_operation.hpp"
#include "plugin/host/host_struct.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::plugin {
namespace {

using graph::Kind;
using graph::kNone;
using graph::Shape;
using graph::ValueId;

// Every function that describes is called through this: it does nothing after the first error, and catches all
// exceptions.
template<class T, class F>
T call(hk_builder* b, T otherwise, F&& f) noexcept {
    try {
        if (!b->joint.builder.ok()) return otherwise;
        if (b->joint.calls_left == 0) {
            b->joint.builder.fail(out_of_memory("the host has no memory"));
            return otherwise;
        }
        if (b->joint.calls_left > 0) --b->joint.calls_left;
        return f(b->joint.builder);
    } catch (const std::exception& e) {
        try {
            b->joint.builder.fail(Status(Code::out_of_memory, e.what()));
        } catch (...) {}
        return otherwise;
    }
}

Status obeyed(const Broken& broken) { return broken ? invalid_argument(broken->what) : Status(); }

Shape shape_from(const int64_t* dims, uint32_t rank) { return Shape(std::span<const int64_t>(dims, rank)); }

Status check_kind(const char* what, int32_t kind) {
    if (kind >= HK_KIND_FLOAT && kind <= HK_KIND_INT32) return {};
    return invalid_argument(fmt::format("{}: kind {} is not 0, 1 or 2", what, kind));
}

// Checks the name of a parameter or buffer. What another network of a training names so is not saved with the model.
Status check_owner(const Joint& joint, const char* what, const std::string& name) {
    if (!joint.prefix.empty() || !is_of_other_network(name)) return {};
    return invalid_argument(fmt::format("{0} '{1}': names that begin with '{2}' are those of another network of a "
                                        "training, which is not saved with the model: choose another name",
                                        what, name, name.substr(0, name.find('.') + 1)));
}

std::string names_of(const auto& things, auto name) {
    std::vector<std::string> names;
    for (const auto& thing : things) names.push_back(name(thing));
    return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

// Completes the name of a tap by the prefix of the part.
Status name_tap(Joint& joint, std::vector<graph::NamedAttribute>& given) {
    for (graph::NamedAttribute& attribute : given) {
        auto* const name = std::get_if<std::string>(&attribute.value);
        if (attribute.name != "name" || name == nullptr) continue;
        HK_TRY(obeyed(broken_by_name("tap", *name)));
        *name = joint.prefix + *name;
        if (joint.taps.insert(*name).second) return {};
        return invalid_argument(fmt::format("tap: the name '{}' is used twice; expected another one for every value, "
                                            "such as the layer's number in it",
                                            *name));
    }
    return {}; // the builder reports what is missing
}

// An operation that is emitted. own: of a plugin; null: built in.
struct Emitted {
    const graph::OperationInfo* info = nullptr;
    const OwnOperations::Known* own = nullptr;
};
Result<Emitted> find_emitted(const Joint& joint, const std::string& name, uint32_t revision) {
    if (name.find('.') != std::string::npos && joint.own != nullptr) { // built-in names have no dot
        HK_ASSIGN(const OwnOperations::Known* own, joint.own->find(name, revision));
        return Emitted{&own->operation->info(), own};
    }
    const graph::OperationInfo* info = graph::find_operation(name);
    if (info == nullptr || info->internal) return unsupported(fmt::format("unknown operation '{}'", name));
    if (revision == 0 || revision > info->revision)
        return unsupported(
            fmt::format("{}: revision {} was asked for, this host has 1 to {}: update the host, or emit an older "
                        "revision",
                        name, revision, info->revision));
    return Emitted{info, nullptr};
}

// Refuses what a newer revision has first.
Status in_revision(const graph::OperationInfo& info, uint32_t revision, uint32_t input_count,
                   std::span<const graph::NamedAttribute> given) {
    const auto refuse = [&](const char* what, const char* name, uint32_t needed) {
        return invalid_argument(
            fmt::format("{}: {} {} needs revision {}, {} was asked for", info.name, what, name, needed, revision));
    };
    for (std::size_t i = 0; i < info.inputs.size() && i < input_count; ++i)
        if (info.inputs[i].revision > revision) return refuse("input", info.inputs[i].name, info.inputs[i].revision);
    for (const graph::AttributeInfo& attribute : info.attributes)
        if (attribute.revision > revision &&
            std::ranges::any_of(given, [&](const auto& one) { return one.name == attribute.name; }))
            return refuse("attribute", attribute.name, attribute.revision);
    return {};
}

// names: keeps the names that the attributes point to.
Result<std::vector<graph::NamedAttribute>> read_attributes(const std::string& operation, const hk_attribute* attributes,
                                                           uint32_t count, std::vector<std::string>& names) {
    names.resize(count);
    std::vector<graph::NamedAttribute> given;
    for (uint32_t i = 0; i < count; ++i) {
        const std::optional<hk_attribute> attribute = struct_at(attributes, i);
        if (!attribute)
            return invalid_argument(fmt::format("{}: attribute {} has not the struct_size of the first, which is {}, "
                                                "or that is less than {}",
                                                operation, i, attributes->struct_size, kFirstSize<hk_attribute>));
        names[i] = view(attribute->name);
        Result<graph::AttributeValue> value = read_attribute(*attribute);
        if (!value.ok()) return value.status().with_context(operation);
        given.push_back({names[i], value.take()});
    }
    return given;
}

Result<std::vector<ValueId>> try_emit(hk_builder* b, const std::string& operation, uint32_t revision,
                                      const hk_value* inputs, uint32_t input_count, const hk_attribute* attributes,
                                      uint32_t attribute_count, const hk_value* outputs, uint32_t output_count) {
    Joint& joint = b->joint;
    graph::Builder& builder = joint.builder;
    HK_ASSIGN(const Emitted emitted, find_emitted(joint, operation, revision));
    const auto& [info, own] = emitted;
    if ((input_count > 0 && inputs == nullptr) || (attribute_count > 0 && attributes == nullptr) ||
        (output_count > 0 && outputs == nullptr))
        return invalid_argument(fmt::format("{}: a null array with a count above 0", operation));
    std::vector<ValueId> in;
    for (uint32_t i = 0; i < input_count; ++i) in.push_back(value_of(b, inputs[i], info->name));
    std::vector<std::string> names;
    HK_ASSIGN(std::vector<graph::NamedAttribute> given, read_attributes(operation, attributes, attribute_count, names));
    HK_TRY(in_revision(*info, revision, input_count, given));
    const auto visible = std::ranges::count_if(info->outputs, [](const graph::OutputInfo& out) { return !out.hidden; });
    if (static_cast<std::ptrdiff_t>(output_count) > visible)
        return invalid_argument(
            fmt::format("{}: {} outputs were asked for, it has {}", operation, output_count, visible));
    HK_TRY(builder.status());
    if (own == nullptr && info->op == graph::Op::tap) HK_TRY(name_tap(joint, given));
    std::vector<ValueId> made =
        own != nullptr ? emit_own(joint, b->tag, *own, in, given) : builder.emit(info->op, in, given);
    HK_TRY(builder.status());
    if (own == nullptr && info->op == graph::Op::buffer_update && joint.mode != HK_MODE_TRAIN)
        builder.drop_output(
            graph::output_name(graph::OutputKind::buffer_update, builder.graph().producer(in[0]).text("name")));
    // The products that a convolution becomes are not sites of adapters, and neither is what a loop is known by.
    const bool may_be_site = own != nullptr || (!graph::is_expanded(info->op) && info->op != graph::Op::loop_index &&
                                                info->op != graph::Op::loop_state);
    if (joint.adapt != nullptr && !made.empty() && may_be_site) made[0] = (*joint.adapt)(made[0]);
    HK_TRY(builder.status());
    return made;
}

int32_t emit(hk_builder* b, hk_string name, uint32_t revision, const hk_value* inputs, uint32_t input_count,
             const hk_attribute* attributes, uint32_t attribute_count, hk_value* outputs, uint32_t output_count) {
    std::vector<ValueId> made;
    (void)call(b, false, [&](graph::Builder& builder) {
        Result<std::vector<ValueId>> emitted = try_emit(b, std::string(view(name)), revision, inputs, input_count,
                                                        attributes, attribute_count, outputs, output_count);
        if (emitted.ok())
            made = emitted.take();
        else
            builder.fail(emitted.status());
        return emitted.ok();
    });
    for (uint32_t i = 0; outputs != nullptr && i < output_count; ++i)
        outputs[i] = i < made.size() ? call(b, hk_value{0}, [&](graph::Builder&) { return handle_of(b, made[i]); }) : 0;
    return static_cast<int32_t>(b->joint.builder.status().code());
}

bool has_invocation(const Joint& joint) { return joint.invocation != nullptr && !joint.invocation->tokens.empty(); }

// What the plugin gets for a result of GraphCalls.
template<class T>
T returned(hk_builder&, T plain) {
    return plain;
}
int32_t returned(hk_builder& b, const Status& done) {
    if (!done.ok()) b.joint.builder.fail(done);
    return 0;
}
hk_value returned(hk_builder& b, const Result<ValueId>& made) {
    (void)returned(b, made.status());
    return made.ok() ? handle_of(&b, made.value()) : 0;
}

// The functions of hk_graph_interface without what Call adds: it reads texts, reports an error to the builder, and
// gives the handle of a value.
struct GraphCalls {
    static int32_t has_field(hk_builder& b, const std::string& name) {
        if (name == kAdapterStart) return has_invocation(b.joint) ? 1 : 0;
        return find_field(b.joint, name) != nullptr ? 1 : 0;
    }
    static Result<ValueId> input(hk_builder& b, const std::string& name) {
        Joint& joint = b.joint;
        if (name == kAdapterStart && has_invocation(joint)) return adapter_start(joint);
        const BatchField* found = find_field(joint, name);
        if (found == nullptr)
            return not_found(fmt::format("input: the batch has no field '{}' (it has: {})", name,
                                         names_of(joint.fields, [](const BatchField& f) { return f.name; })));
        ValueId value = joint.builder.input(name, found->kind, found->shape);
        if (joint.virtual_tokens > 0) value = with_virtual_tokens(joint, *found, value);
        if (name == "input_ids") joint.token_ids = value;
        return value;
    }
    static Result<ValueId> parameter(hk_builder& b, const std::string& name, const int64_t* dims, uint32_t rank,
                                     int32_t initializer, double first, double second, uint32_t flags) {
        HK_TRY(check_owner(b.joint, "parameter", name));
        HK_TRY(obeyed(broken_by_parameter(name, dims, rank, first, second, flags)));
        if (initializer < HK_INITIALIZE_CONSTANT || initializer > HK_INITIALIZE_TRUNCATED_NORMAL)
            return invalid_argument(fmt::format("parameter '{}': initializer {} is not 0 to 3", name, initializer));
        return b.joint.builder.parameter(b.joint.prefix + name, shape_from(dims, rank), initializer, first, second,
                                         flags);
    }
    static Result<ValueId> buffer(hk_builder& b, const std::string& name, int32_t kind, const int64_t* dims,
                                  uint32_t rank, const double* values) {
        HK_TRY(check_owner(b.joint, "buffer", name));
        HK_TRY(obeyed(broken_by_buffer(name, dims, rank, values)));
        HK_TRY(check_kind("buffer", kind));
        if (values == nullptr) return invalid_argument(fmt::format("buffer '{}': no values", name));
        const Shape shape = shape_from(dims, rank);
        return b.joint.builder.buffer(b.joint.prefix + name, static_cast<Kind>(kind), shape,
                                      std::vector<double>(values, values + shape.elements()));
    }
    static Result<ValueId> constant(hk_builder& b, int32_t kind, const int64_t* dims, uint32_t rank,
                                    const double* values) {
        HK_TRY(obeyed(broken_by_numbers("constant", dims, rank, values)));
        HK_TRY(check_kind("constant", kind));
        const Shape shape = shape_from(dims, rank);
        if (values == nullptr && shape.elements() > 0) return invalid_argument("constant: no values");
        return b.joint.builder.constant(static_cast<Kind>(kind), shape,
                                        std::vector<double>(values, values + shape.elements()));
    }
    static Result<ValueId> fill(hk_builder& b, int32_t kind, const int64_t* dims, uint32_t rank, double value) {
        HK_TRY(obeyed(broken_by_shape("fill", dims, rank)));
        HK_TRY(check_kind("fill", kind));
        return b.joint.builder.fill(static_cast<Kind>(kind), shape_from(dims, rank), value);
    }
    static Result<ValueId> iota(hk_builder& b, int64_t length, int64_t start, int64_t step) {
        return b.joint.builder.iota(length, start, step);
    }
    static Result<ValueId> positions(hk_builder& b, int64_t batch, int64_t length) {
        return shifted_positions(b.joint, batch, length);
    }
    static Result<ValueId> step_scalar(hk_builder& b, const std::string& name, double initial) {
        HK_TRY(obeyed(broken_by_name("step_scalar", name)));
        return b.joint.builder.step_scalar(name, initial);
    }
    static uint32_t operation_revision(hk_builder& b, const std::string& name) {
        const graph::OperationInfo* o = graph::find_operation(name);
        if (o != nullptr && !o->internal) return o->revision;
        return b.joint.own != nullptr ? b.joint.own->newest_revision(name) : 0;
    }
    static int32_t shape(hk_builder& b, hk_value value, int64_t* dims, uint32_t* rank) {
        const ValueId id = value_of(&b, value, "shape");
        if (id == kNone) return -1;
        const Shape& shape = b.joint.builder.shape(id);
        std::ranges::copy(shape.dims(), dims);
        *rank = static_cast<uint32_t>(shape.rank());
        return static_cast<int32_t>(b.joint.builder.kind(id));
    }
    static Status scope_begin(hk_builder& b, const std::string& name) {
        b.joint.builder.scope_begin(name);
        ++b.open_scopes;
        return {};
    }
    static Status scope_end(hk_builder& b) {
        if (b.open_scopes == 0) return failed_precondition("scope_end without a scope_begin");
        --b.open_scopes;
        b.joint.builder.scope_end();
        return {};
    }
    static Status recompute_begin(hk_builder& b) {
        b.joint.builder.recompute_begin();
        b.open_region = true;
        return {};
    }
    static Status recompute_end(hk_builder& b) {
        b.joint.builder.recompute_end();
        b.open_region = false;
        return {};
    }
    static Status offer(hk_builder& b, const std::string& port, hk_value value) {
        const std::string name = b.joint.prefix + port;
        const ValueId id = value_of(&b, value, "offer");
        HK_TRY(obeyed(broken_by_name("offer", name)));
        if (id == kNone) return invalid_argument(fmt::format("offer: port '{}' has no value", name));
        if (b.joint.ports.emplace(name, id).second) return {};
        return invalid_argument(fmt::format("offer: port '{}' is offered twice", name));
    }
    static int32_t has_port(hk_builder& b, const std::string& port) {
        return b.joint.ports.contains(b.joint.prefix + port) ? 1 : 0;
    }
    static Result<ValueId> ask(hk_builder& b, const std::string& port) {
        const std::string name = b.joint.prefix + port;
        if (const auto found = b.joint.ports.find(name); found != b.joint.ports.end()) return found->second;
        return not_found(fmt::format("ask: no plugin offers the port '{}' (known ports: {})", name,
                                     names_of(b.joint.ports, [](const auto& p) { return p.first; })));
    }
    static Status loss(hk_builder& b, const std::string& name, hk_value sum, hk_value count, double weight) {
        const ValueId s = value_of(&b, sum, "loss"), c = value_of(&b, count, "loss");
        HK_TRY(obeyed(broken_by_weight(weight)));
        b.joint.builder.loss(name, s, c, weight);
        return {};
    }
    static Status metric(hk_builder& b, const std::string& name, hk_value sum, hk_value count) {
        const ValueId s = value_of(&b, sum, "metric"), c = value_of(&b, count, "metric");
        b.joint.builder.metric(name, s, c);
        return {};
    }
    static Status fail(hk_builder& /*b*/, int32_t code, const std::string& message) {
        const bool known = code > HK_OK && code <= HK_INTERNAL;
        return Status(known ? static_cast<Code>(code) : Code::internal, message);
    }
    static int64_t position_count(hk_builder& b, int64_t length) {
        if (length >= 0) return plugin::position_count(b.joint, length);
        return returned(b, invalid_argument(fmt::format("position_count: the length {} is below 0", length)));
    }
};

// A function of GraphCalls as the table has it. kOtherwise: what the plugin gets after an error.
template<auto F, int kOtherwise>
struct Call;
template<class R, class... A, R (*F)(hk_builder&, A...), int kOtherwise>
struct Call<F, kOtherwise> {
    template<class T>
    using Given = std::conditional_t<std::is_same_v<T, const std::string&>, hk_string, T>;
    static std::string read(hk_string text) { return std::string(view(text)); }
    template<class T>
    static T read(T other) {
        return other;
    }

    using Returned = decltype(returned(std::declval<hk_builder&>(), std::declval<R>()));
    static std::conditional_t<std::is_same_v<R, Status>, void, Returned> function(hk_builder* b, Given<A>... given) {
        const Returned result =
            call(b, Returned{kOtherwise}, [&](graph::Builder&) { return returned(*b, F(*b, read(given)...)); });
        if constexpr (!std::is_same_v<R, Status>) return result;
    }
};
template<auto F, int kOtherwise = 0>
constexpr auto kCall = &Call<F, kOtherwise>::function;

} // namespace

const hk_graph_interface* host_graph_interface() {
    static const hk_graph_interface kTable = {
        .mode = [](hk_builder* b) -> int32_t { return b->joint.mode; },
        .has_field = kCall<GraphCalls::has_field>,
        .input = kCall<GraphCalls::input>,
        .parameter = kCall<GraphCalls::parameter>,
        .buffer = kCall<GraphCalls::buffer>,
        .constant = kCall<GraphCalls::constant>,
        .fill = kCall<GraphCalls::fill>,
        .iota = kCall<GraphCalls::iota>,
        .positions = kCall<GraphCalls::positions>,
        .step_scalar = kCall<GraphCalls::step_scalar>,
        .emit = emit,
        .operation_revision = kCall<GraphCalls::operation_revision>,
        .shape = kCall<GraphCalls::shape, -1>,
        .scope_begin = kCall<GraphCalls::scope_begin>,
        .scope_end = kCall<GraphCalls::scope_end>,
        .recompute_begin = kCall<GraphCalls::recompute_begin>,
        .recompute_end = kCall<GraphCalls::recompute_end>,
        .offer = kCall<GraphCalls::offer>,
        .has_port = kCall<GraphCalls::has_port>,
        .ask = kCall<GraphCalls::ask>,
        .loss = kCall<GraphCalls::loss>,
        .metric = kCall<GraphCalls::metric>,
        .fail = kCall<GraphCalls::fail>,
        .status = [](hk_builder* b, hk_error* error) -> int32_t {
            const Status& status = b->joint.builder.status();
            return status.ok() ? HK_OK : refuse(error, static_cast<int32_t>(status.code()), status.message());
        },
        .position_count = kCall<GraphCalls::position_count>,
    };
    return &kTable;
}

} // namespace hekla::plugin
