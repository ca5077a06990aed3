#include "plugin/host/host_graph.hpp"

#include "graph/operations/buffer_update.hpp"
#include "graph/output.hpp"
#include "plugin/composition/plugin_set.hpp"
#include "plugin/host/host_error.hpp"
#include "plugin/host/host_operation.hpp"
#include "plugin/host/host_struct.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

namespace hekla::plugin {
namespace {

using graph::Kind;
using graph::kNone;
using graph::Shape;
using graph::ValueId;

std::string text(hk_string s) {
    return s.data != nullptr ? std::string(s.data, static_cast<std::size_t>(s.size)) : std::string();
}

// Every function of the table is called through this: it does nothing after the first error, and catches all
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

hk_value fail(hk_builder* b, const Status& status) {
    b->joint.builder.fail(status);
    return 0;
}

bool dims_ok(hk_builder* b, const std::string& what, const int64_t* dims, uint32_t rank) {
    if (rank > HK_MAX_RANK || (rank > 0 && dims == nullptr)) {
        fail(b, invalid_argument(fmt::format("{}: {} dimensions, at most {} are possible", what, rank, HK_MAX_RANK)));
        return false;
    }
    int64_t product = 1;
    for (uint32_t i = 0; i < rank; ++i) {
        if (dims[i] < 0 || (dims[i] > 0 && product > (int64_t{1} << 46) / dims[i])) {
            fail(b, invalid_argument(fmt::format("{}: dimension {} is {}, expected 0 or more, and no more than 2^46 "
                                                 "elements in all",
                                                 what, i, dims[i])));
            return false;
        }
        product *= std::max<int64_t>(dims[i], 1);
    }
    return true;
}

Shape shape_from(const int64_t* dims, uint32_t rank) { return Shape(std::span<const int64_t>(dims, rank)); }

bool kind_ok(hk_builder* b, const char* what, int32_t kind) {
    if (kind >= HK_KIND_FLOAT && kind <= HK_KIND_INT32) return true;
    fail(b, invalid_argument(fmt::format("{}: kind {} is not 0, 1 or 2", what, kind)));
    return false;
}

bool name_ok(hk_builder* b, const char* what, const std::string& name) {
    if (!name.empty() && is_utf8(name)) return true;
    fail(b, invalid_argument(fmt::format("{}: the name is empty or not UTF-8", what)));
    return false;
}

// Checks the name of a parameter or buffer. What another network of a training names so is not saved with the model.
bool tensor_name_ok(hk_builder* b, const char* what, const std::string& name) {
    if (!name_ok(b, what, name)) return false;
    if (!b->joint.prefix.empty() || !is_of_other_network(name)) return true;
    fail(b, invalid_argument(fmt::format("{0} '{1}': names that begin with '{2}' are those of another network of a "
                                         "training, which is not saved with the model: choose another name",
                                         what, name, name.substr(0, name.find('.') + 1))));
    return false;
}

bool finite(std::span<const double> values) {
    return std::ranges::all_of(values, [](double v) { return !std::isnan(v); });
}

const BatchField* find_field(const Joint& joint, std::string_view name) {
    const auto found = std::ranges::find_if(joint.fields, [&](const BatchField& f) { return f.name == name; });
    return found == joint.fields.end() ? nullptr : &*found;
}

std::string names_of(const auto& things, auto name) {
    std::vector<std::string> names;
    for (const auto& thing : things) names.push_back(name(thing));
    return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

// Returns positions as the body sees them, with an adapter's virtual tokens.
ValueId shifted_positions(Joint& joint, int64_t batch, int64_t length) {
    graph::Builder& builder = joint.builder;
    const ValueId counted = builder.positions(batch, length);
    if (joint.position_shift == 0) return counted;
    const auto number = [&](int64_t n) { return builder.fill(Kind::int32, {}, static_cast<double>(n)); };
    const ValueId shifted = builder(graph::Op::add, {counted, number(joint.position_shift)});
    return joint.position_shift > 0 ? shifted : builder(graph::Op::maximum, {shifted, number(0)});
}

// Returns the number that all of shifted_positions() are below.
int64_t position_count(const Joint& joint, int64_t length) {
    const int64_t most = std::numeric_limits<int64_t>::max();
    const int64_t counted = joint.mode != HK_MODE_DECODE ? length : joint.cache_capacity;
    if (joint.mode == HK_MODE_DECODE && counted == 0) return most;
    return joint.position_shift > most - counted ? most : std::max<int64_t>(counted + joint.position_shift, 1);
}

// Returns a field of the batch with an adapter's virtual tokens at the beginning of each row.
ValueId with_virtual_tokens(Joint& joint, const BatchField& field, ValueId value) {
    graph::Builder& builder = joint.builder;
    const int64_t count = joint.virtual_tokens;
    const BatchField* ids = find_field(joint, "input_ids");
    const auto per_token = [&] {
        return ids != nullptr && field.shape.rank() == 2 && ids->shape.rank() == 2 && field.shape[0] == ids->shape[0] &&
               field.shape[1] == ids->shape[1];
    };
    const auto after = [&](ValueId front) {
        return builder(graph::Op::concat, {front, value}, {{"axis", int64_t{1}}});
    };
    const auto filled = [&](int64_t columns, double with) {
        return builder.fill(field.kind, {field.shape[0], columns}, with);
    };
    const bool of_decoder = field.name == "labels" || field.name.starts_with("decoder_");
    if (joint.encoder_decoder) {
        const auto decodes = [](const BatchField& one) {
            return one.name == "decoder_input_ids" || (one.name == "labels" && one.shape.rank() == 2);
        };
        if (field.name == "input_ids" && joint.in_body && joint.mode != HK_MODE_ENCODE &&
            std::ranges::none_of(joint.fields, decodes)) {
            builder.fail(unsupported("input: virtual tokens in an encoder need a batch with labels of tokens or "
                                     "decoder_input_ids"));
            return kNone;
        }
        if (of_decoder || field.name == "next_ids") return value;
    } else if (joint.in_body && of_decoder) {
        builder.fail(unsupported("input: an adapter with virtual tokens does not support this encoder-decoder"));
        return kNone;
    }
    if (field.name == "prefix_length")
        return builder(graph::Op::add, {value, builder.fill(Kind::int32, {}, static_cast<double>(count))});
    if (field.name == "labels" && !per_token()) return value; // of rows
    if (per_token()) {
        if (field.name == "input_ids" || field.name == "token_type_ids" || field.name == "langs")
            return after(filled(count, 0.0));
        if (field.name == "attention_mask") return after(filled(count, 1.0));
        if (field.name == "labels") return after(filled(count, -100.0));
        if (field.name == "position_ids" && joint.virtual_without_positions) return after(filled(count, 0.0));
        if (field.name == "position_ids") {
            const ValueId shifted =
                builder(graph::Op::add, {value, builder.fill(Kind::int32, {}, static_cast<double>(count))});
            return builder(graph::Op::concat, {builder.positions(field.shape[0], count), shifted},
                           {{"axis", int64_t{1}}});
        }
        if (field.name == "next_ids") { // the last virtual token predicts the row's first, unless the row is padding
            const ValueId tokens = builder.input("input_ids", ids->kind, ids->shape);
            const ValueId taken = builder(graph::Op::slice, {tokens},
                                          {{"axis", int64_t{1}}, {"start", int64_t{0}}, {"length", int64_t{1}}});
            const ValueId counts =
                builder(graph::Op::compare, {value, builder.fill(field.kind, {}, -100.0)}, {{"relation", int64_t{1}}});
            const ValueId labels =
                builder(graph::Op::sum, {counts}, {{"axes", std::vector<int64_t>{1}}, {"keep", int64_t{1}}});
            const ValueId first = builder(graph::Op::where, {labels, taken, filled(1, -100.0)});
            const ValueId front =
                count > 1 ? builder(graph::Op::concat, {filled(count - 1, -100.0), first}, {{"axis", int64_t{1}}})
                          : first;
            return after(front);
        }
    }
    builder.fail(unsupported(fmt::format("input: an adapter with virtual tokens does not support the field '{}' {}",
                                         field.name, field.shape.text())));
    return kNone;
}

// Returns the field kAdapterStart of the adapter that is being described: given by the host in decode mode, which does
// not see whole rows, otherwise computed from the rows.
ValueId adapter_start(Joint& joint) {
    graph::Builder& builder = joint.builder;
    const Invocation& invocation = *joint.invocation;
    if (const BatchField* given = find_field(joint, invocation.field))
        return builder.input(invocation.field, given->kind, given->shape);
    const BatchField* ids = find_field(joint, "input_ids");
    if (ids == nullptr || ids->shape.rank() != 2) {
        builder.fail(unsupported(
            fmt::format("input: {} needs a batch with the field input_ids [rows, tokens]", kInvocationTokens)));
        return kNone;
    }
    const auto number = [&](int64_t n) { return builder.fill(Kind::int32, {}, static_cast<double>(n)); };
    const auto count = static_cast<int64_t>(invocation.tokens.size());
    const int64_t places = ids->shape[1] - count + 1; // at which it may begin
    if (places < 1) return builder.fill(Kind::int32, {ids->shape[0]}, kNeverStarts);
    const ValueId tokens = builder.input("input_ids", ids->kind, ids->shape);
    const auto equal = [&](ValueId a, ValueId b) {
        return builder(graph::Op::compare, {a, b}, {{"relation", int64_t{0}}});
    };
    ValueId found = kNone;
    for (int64_t i = 0; i < count; ++i) {
        const ValueId part =
            builder(graph::Op::slice, {tokens}, {{"axis", int64_t{1}}, {"start", i}, {"length", places}});
        const ValueId same = equal(part, number(invocation.tokens[static_cast<std::size_t>(i)]));
        found = i == 0 ? same : builder(graph::Op::mul, {found, same});
    }
    // The last place, counted from 1; 0: none.
    const ValueId last = builder(graph::Op::max, {builder(graph::Op::mul, {found, builder.iota(places, 1, 1)})},
                                 {{"axes", std::vector<int64_t>{1}}});
    return builder(graph::Op::where,
                   {equal(last, number(0)), number(kNeverStarts), builder(graph::Op::sub, {last, number(1)})});
}

bool has_invocation(const Joint& joint) { return joint.invocation != nullptr && !joint.invocation->tokens.empty(); }

// Completes the name of a tap by the prefix of the part; false if it is not one.
bool name_tap(hk_builder* b, std::vector<graph::NamedAttribute>& given) {
    for (graph::NamedAttribute& attribute : given) {
        auto* const name = std::get_if<std::string>(&attribute.value);
        if (attribute.name != "name" || name == nullptr) continue;
        if (!name_ok(b, "tap", *name)) return false;
        *name = b->joint.prefix + *name;
        if (b->joint.taps.insert(*name).second) return true;
        fail(b, invalid_argument(fmt::format("tap: the name '{}' is used twice; expected another one for every value, "
                                             "such as the layer's number in it",
                                             *name)));
        return false;
    }
    return true; // the builder reports what is missing
}

int32_t emit(hk_builder* b, hk_string name, uint32_t revision, const hk_value* inputs, uint32_t input_count,
             const hk_attribute* attributes, uint32_t attribute_count, hk_value* outputs, uint32_t output_count) {
    std::vector<ValueId> made;
    const bool done = call(b, false, [&](graph::Builder& builder) {
        const std::string operation = text(name);
        const graph::OperationInfo* o = graph::find_operation(operation);
        const OwnOperations::Known* own = nullptr;
        if (operation.find('.') != std::string::npos && b->joint.own != nullptr) { // built-in names have no dot
            const Result<const OwnOperations::Known*> found = b->joint.own->find(operation, revision);
            if (!found.ok()) {
                fail(b, found.status());
                return false;
            }
            own = found.value();
            o = &own->operation->info();
        }
        if (o == nullptr || o->internal) {
            fail(b, unsupported(fmt::format("unknown operation '{}'", operation)));
            return false;
        }
        if (own == nullptr && (revision == 0 || revision > o->revision)) {
            fail(b,
                 unsupported(fmt::format(
                     "{}: revision {} was asked for, this host has 1 to {}: update the host, or emit an older revision",
                     operation, revision, o->revision)));
            return false;
        }
        if ((input_count > 0 && inputs == nullptr) || (attribute_count > 0 && attributes == nullptr) ||
            (output_count > 0 && outputs == nullptr)) {
            fail(b, invalid_argument(fmt::format("{}: a null array with a count above 0", operation)));
            return false;
        }
        std::vector<ValueId> in;
        for (uint32_t i = 0; i < input_count; ++i) in.push_back(value_of(b, inputs[i], o->name));
        std::vector<std::string> names(attribute_count);
        std::vector<graph::NamedAttribute> given;
        for (uint32_t i = 0; i < attribute_count; ++i) {
            const std::optional<hk_attribute> attribute = struct_at(attributes, i);
            if (!attribute) {
                fail(b, invalid_argument(fmt::format("{}: attribute {} has not the struct_size of the first, which is "
                                                     "{}, or that is less than {}",
                                                     operation, i, attributes->struct_size, kFirstSize<hk_attribute>)));
                return false;
            }
            names[i] = text(attribute->name);
            Result<graph::AttributeValue> value = read_attribute(*attribute);
            if (!value.ok()) {
                fail(b, value.status().with_context(operation));
                return false;
            }
            given.push_back({names[i], value.take()});
        }
        const auto visible =
            std::ranges::count_if(o->outputs, [](const graph::OutputInfo& out) { return !out.hidden; });
        if (static_cast<std::ptrdiff_t>(output_count) > visible) {
            fail(b, invalid_argument(
                        fmt::format("{}: {} outputs were asked for, it has {}", operation, output_count, visible)));
            return false;
        }
        if (!builder.ok() || (own == nullptr && o->op == graph::Op::tap && !name_tap(b, given))) return false;
        made = own != nullptr ? emit_own(b->joint, b->tag, *own, in, given) : builder.emit(o->op, in, given);
        if (own == nullptr && o->op == graph::Op::buffer_update && b->joint.mode != HK_MODE_TRAIN && builder.ok())
            builder.drop_output(
                graph::output_name(graph::OutputKind::buffer_update, builder.graph().producer(in[0]).text("name")));
        // The products that a convolution becomes are not sites of adapters, and neither is what a loop is known by.
        const bool may_be_site = own != nullptr || (!graph::is_expanded(o->op) && o->op != graph::Op::loop_index &&
                                                    o->op != graph::Op::loop_state);
        if (builder.ok() && b->joint.adapt != nullptr && !made.empty() && may_be_site)
            made[0] = (*b->joint.adapt)(made[0]);
        return builder.ok();
    });
    for (uint32_t i = 0; outputs != nullptr && i < output_count; ++i)
        outputs[i] =
            done && i < made.size() ? call(b, hk_value{0}, [&](graph::Builder&) { return handle_of(b, made[i]); }) : 0;
    return static_cast<int32_t>(b->joint.builder.status().code());
}

} // namespace

const hk_graph_interface* host_graph_interface() {
    static const hk_graph_interface kTable = {
        [](hk_builder* b) -> int32_t { return b->joint.mode; },
        [](hk_builder* b, hk_string field) -> int32_t {
            return call(b, 0, [&](graph::Builder&) {
                const std::string name = text(field);
                if (name == kAdapterStart) return has_invocation(b->joint) ? 1 : 0;
                return find_field(b->joint, name) != nullptr ? 1 : 0;
            });
        },
        [](hk_builder* b, hk_string field) {
            return call(b, hk_value{0}, [&](graph::Builder& builder) {
                const std::string name = text(field);
                if (name == kAdapterStart && has_invocation(b->joint)) return handle_of(b, adapter_start(b->joint));
                const BatchField* found = find_field(b->joint, name);
                if (found == nullptr)
                    return fail(b, not_found(fmt::format(
                                       "input: the batch has no field '{}' (it has: {})", name,
                                       names_of(b->joint.fields, [](const BatchField& f) { return f.name; }))));
                ValueId value = builder.input(name, found->kind, found->shape);
                if (b->joint.virtual_tokens > 0) value = with_virtual_tokens(b->joint, *found, value);
                if (name == "input_ids") b->joint.token_ids = value;
                return handle_of(b, value);
            });
        },
        [](hk_builder* b, hk_string name, const int64_t* dims, uint32_t rank, int32_t initializer, double a, double c,
           uint32_t flags) {
            return call(b, hk_value{0}, [&](graph::Builder& builder) {
                const std::string n = text(name);
                if (!tensor_name_ok(b, "parameter", n) || !dims_ok(b, fmt::format("parameter '{}'", n), dims, rank))
                    return hk_value{0};
                if (initializer < HK_INITIALIZE_CONSTANT || initializer > HK_INITIALIZE_TRUNCATED_NORMAL)
                    return fail(b, invalid_argument(
                                       fmt::format("parameter '{}': initializer {} is not 0 to 3", n, initializer)));
                if ((flags & ~HK_PARAMETER_NO_DECAY) != 0)
                    return fail(b, invalid_argument(fmt::format(
                                       "parameter '{}': flags {:#x}, of which only {:#x} (HK_PARAMETER_NO_DECAY) is "
                                       "known",
                                       n, flags, HK_PARAMETER_NO_DECAY)));
                if (!std::isfinite(a) || !std::isfinite(c))
                    return fail(b, invalid_argument(fmt::format("parameter '{}': its initializer is not finite", n)));
                return handle_of(
                    b, builder.parameter(b->joint.prefix + n, shape_from(dims, rank), initializer, a, c, flags));
            });
        },
        [](hk_builder* b, hk_string name, int32_t kind, const int64_t* dims, uint32_t rank, const double* values) {
            return call(b, hk_value{0}, [&](graph::Builder& builder) {
                const std::string n = text(name);
                if (!tensor_name_ok(b, "buffer", n) || !dims_ok(b, "buffer", dims, rank) || !kind_ok(b, "buffer", kind))
                    return hk_value{0};
                const Shape shape = shape_from(dims, rank);
                if (values == nullptr) return fail(b, invalid_argument(fmt::format("buffer '{}': no values", n)));
                std::vector<double> copy(values, values + shape.elements());
                if (!finite(copy)) return fail(b, invalid_argument(fmt::format("buffer '{}' holds a NaN", n)));
                return handle_of(b,
                                 builder.buffer(b->joint.prefix + n, static_cast<Kind>(kind), shape, std::move(copy)));
            });
        },
        [](hk_builder* b, int32_t kind, const int64_t* dims, uint32_t rank, const double* values) {
            return call(b, hk_value{0}, [&](graph::Builder& builder) {
                if (!dims_ok(b, "constant", dims, rank) || !kind_ok(b, "constant", kind)) return hk_value{0};
                const Shape shape = shape_from(dims, rank);
                if (values == nullptr && shape.elements() > 0) return fail(b, invalid_argument("constant: no values"));
                std::vector<double> copy(values, values + shape.elements());
                if (!finite(copy)) return fail(b, invalid_argument("constant: holds a NaN"));
                return handle_of(b, builder.constant(static_cast<Kind>(kind), shape, std::move(copy)));
            });
        },
        [](hk_builder* b, int32_t kind, const int64_t* dims, uint32_t rank, double value) {
            return call(b, hk_value{0}, [&](graph::Builder& builder) {
                if (!dims_ok(b, "fill", dims, rank) || !kind_ok(b, "fill", kind)) return hk_value{0};
                return handle_of(b, builder.fill(static_cast<Kind>(kind), shape_from(dims, rank), value));
            });
        },
        [](hk_builder* b, int64_t length, int64_t start, int64_t step) {
            return call(b, hk_value{0},
                        [&](graph::Builder& builder) { return handle_of(b, builder.iota(length, start, step)); });
        },
        [](hk_builder* b, int64_t batch, int64_t length) {
            return call(b, hk_value{0},
                        [&](graph::Builder&) { return handle_of(b, shifted_positions(b->joint, batch, length)); });
        },
        [](hk_builder* b, hk_string name, double initial) {
            return call(b, hk_value{0}, [&](graph::Builder& builder) {
                const std::string n = text(name);
                return name_ok(b, "step_scalar", n) ? handle_of(b, builder.step_scalar(n, initial)) : hk_value{0};
            });
        },
        emit,
        [](hk_builder* b, hk_string name) -> uint32_t {
            return call(b, 0u, [&](graph::Builder&) {
                const std::string operation = text(name);
                const graph::OperationInfo* o = graph::find_operation(operation);
                if (o != nullptr && !o->internal) return o->revision;
                return b->joint.own != nullptr ? b->joint.own->newest_revision(operation) : 0u;
            });
        },
        [](hk_builder* b, hk_value value, int64_t* dims, uint32_t* rank) -> int32_t {
            return call(b, -1, [&](graph::Builder& builder) {
                const ValueId id = value_of(b, value, "shape");
                if (id == kNone) return -1;
                const Shape& shape = builder.shape(id);
                std::ranges::copy(shape.dims(), dims);
                *rank = static_cast<uint32_t>(shape.rank());
                return static_cast<int32_t>(builder.kind(id));
            });
        },
        [](hk_builder* b, hk_string name) {
            (void)call(b, 0, [&](graph::Builder& builder) {
                builder.scope_begin(text(name));
                ++b->open_scopes;
                return 0;
            });
        },
        [](hk_builder* b) {
            (void)call(b, 0, [&](graph::Builder& builder) {
                if (b->open_scopes == 0)
                    builder.fail(failed_precondition("scope_end without a scope_begin"));
                else {
                    --b->open_scopes;
                    builder.scope_end();
                }
                return 0;
            });
        },
        [](hk_builder* b) {
            (void)call(b, 0, [&](graph::Builder& builder) {
                builder.recompute_begin();
                b->open_region = true;
                return 0;
            });
        },
        [](hk_builder* b) {
            (void)call(b, 0, [&](graph::Builder& builder) {
                builder.recompute_end();
                b->open_region = false;
                return 0;
            });
        },
        [](hk_builder* b, hk_string port, hk_value value) {
            (void)call(b, 0, [&](graph::Builder& builder) {
                const std::string name = b->joint.prefix + text(port);
                const ValueId id = value_of(b, value, "offer");
                if (!name_ok(b, "offer", name)) return 0;
                if (id == kNone) builder.fail(invalid_argument(fmt::format("offer: port '{}' has no value", name)));
                if (!b->joint.ports.emplace(name, id).second)
                    builder.fail(invalid_argument(fmt::format("offer: port '{}' is offered twice", name)));
                return 0;
            });
        },
        [](hk_builder* b, hk_string port) -> int32_t {
            return call(b, 0,
                        [&](graph::Builder&) { return b->joint.ports.contains(b->joint.prefix + text(port)) ? 1 : 0; });
        },
        [](hk_builder* b, hk_string port) {
            return call(b, hk_value{0}, [&](graph::Builder&) {
                const std::string name = b->joint.prefix + text(port);
                const auto found = b->joint.ports.find(name);
                if (found == b->joint.ports.end())
                    return fail(
                        b, not_found(fmt::format("ask: no plugin offers the port '{}' (known ports: {})", name,
                                                 names_of(b->joint.ports, [](const auto& p) { return p.first; }))));
                return handle_of(b, found->second);
            });
        },
        [](hk_builder* b, hk_string name, hk_value sum, hk_value count, double weight) {
            (void)call(b, 0, [&](graph::Builder& builder) {
                const ValueId s = value_of(b, sum, "loss"), c = value_of(b, count, "loss");
                if (!std::isfinite(weight)) builder.fail(invalid_argument("loss: the weight is not finite"));
                builder.loss(text(name), s, c, weight);
                return 0;
            });
        },
        [](hk_builder* b, hk_string name, hk_value sum, hk_value count) {
            (void)call(b, 0, [&](graph::Builder& builder) {
                const ValueId s = value_of(b, sum, "metric"), c = value_of(b, count, "metric");
                builder.metric(text(name), s, c);
                return 0;
            });
        },
        [](hk_builder* b, int32_t code, hk_string message) {
            (void)call(b, 0, [&](graph::Builder& builder) {
                const bool known = code > HK_OK && code <= HK_INTERNAL;
                builder.fail(Status(known ? static_cast<Code>(code) : Code::internal, text(message)));
                return 0;
            });
        },
        [](hk_builder* b, hk_error* error) -> int32_t {
            const Status& status = b->joint.builder.status();
            if (!status.ok())
                host_error_interface()->set(error, static_cast<int32_t>(status.code()),
                                            {status.message().data(), status.message().size()});
            return static_cast<int32_t>(status.code());
        },
        [](hk_builder* b, int64_t length) -> int64_t {
            return call(b, int64_t{0}, [&](graph::Builder& builder) -> int64_t {
                if (length >= 0) return position_count(b->joint, length);
                builder.fail(invalid_argument(fmt::format("position_count: the length {} is below 0", length)));
                return 0;
            });
        },
    };
    return &kTable;
}

} // namespace hekla::plugin
