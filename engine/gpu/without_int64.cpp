#include "gpu/without_int64.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace hekla::gpu {

namespace {

// SPIR-V's numbers (unified1 specification, section 3.49).
enum Operation : uint32_t {
    op_undef = 1,
    op_ext_inst = 12,
    op_capability = 17,
    op_type_void = 19,
    op_type_bool = 20,
    op_type_int = 21,
    op_type_vector = 23,
    op_type_array = 28,
    op_type_runtime_array = 29,
    op_type_struct = 30,
    op_type_pointer = 32,
    op_type_function = 33,
    op_type_forward_pointer = 39,
    op_constant_true = 41,
    op_constant = 43,
    op_constant_composite = 44,
    op_constant_null = 46,
    op_spec_constant_composite = 51,
    op_spec_constant_op = 52,
    op_function = 54,
    op_function_parameter = 55,
    op_function_end = 56,
    op_function_call = 57,
    op_load = 61,
    op_store = 62,
    op_copy_memory = 63,
    op_decorate = 71,
    op_composite_construct = 80,
    op_composite_extract = 81,
    op_copy_object = 83,
    op_u_convert = 113,
    op_s_convert = 114,
    op_convert_ptr_to_u = 117,
    op_convert_u_to_ptr = 120,
    op_bitcast = 124,
    op_i_add = 128,
    op_i_sub = 130,
    op_i_mul = 132,
    op_i_add_carry = 149,
    op_i_sub_borrow = 150,
    op_u_mul_extended = 151,
    op_logical_or = 166,
    op_logical_and = 167,
    op_select = 169,
    op_i_equal = 170,
    op_i_not_equal = 171,
    op_u_greater_than = 172,
    op_u_greater_than_equal = 174,
    op_u_less_than = 176,
    op_s_less_than = 177,
    op_u_less_than_equal = 178,
    op_s_less_than_equal = 179,
    op_shift_right_logical = 194,
    op_shift_left_logical = 196,
    op_bitwise_or = 197,
    op_bitwise_xor = 198,
    op_bitwise_and = 199,
    op_not = 200,
    op_control_barrier = 224,
    op_memory_barrier = 225,
    op_phi = 245,
    op_unreachable = 255,
    op_no_line = 317,
};
constexpr uint32_t kCapabilityInt64 = 11;

using Words = std::vector<uint32_t>;

// An instruction; operands that it lacks are 0, because a plugin's module may be damaged.
class In {
public:
    explicit In(std::span<const uint32_t> words) : words_(words) {}
    uint32_t operation() const { return words_[0] & 0xFFFF; }
    std::size_t size() const { return words_.size(); }
    uint32_t operator[](std::size_t i) const { return i < words_.size() ? words_[i] : 0; }
    auto begin() const { return words_.begin(); }
    auto end() const { return words_.end(); }

private:
    std::span<const uint32_t> words_;
};

// Whether an instruction's first two operands are its result's type and its result.
bool has_result(uint32_t operation) {
    if (operation == op_undef || operation == op_ext_inst) return true;
    if (operation < op_constant_true) return false; // names, modes, types
    switch (operation) {
    case op_function_end:
    case op_store:
    case op_copy_memory:
    case op_control_barrier:
    case op_memory_barrier:
    case op_no_line: return false;
    default: break;
    }
    const bool annotation = operation >= op_decorate && operation <= 75;
    const bool control_flow = operation > op_phi && operation <= op_unreachable;
    return !annotation && !control_flow && operation != 331 && operation != 332;
}

class Rewriter {
public:
    explicit Rewriter(std::span<const uint32_t> words) : words_(words), next_id_(words[3]) {}

    Result<Words> rewrite() {
        scan();
        if (long_types_.empty()) return Words(words_.begin(), words_.end());
        out_.assign(words_.begin(), words_.begin() + 5);
        for (std::size_t at = 5; at < words_.size();) {
            const In in(words_.subspan(at, words_[at] >> 16));
            at += in.size();
            HK_TRY(instruction(in));
        }
        out_[3] = next_id_;
        return std::move(out_);
    }

private:
    uint32_t fresh() { return next_id_++; }

    void put(uint32_t operation, std::initializer_list<uint32_t> operands) {
        out_.push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | operation);
        out_.insert(out_.end(), operands);
    }
    // The same with a new result of a type.
    uint32_t make(uint32_t operation, uint32_t type, std::initializer_list<uint32_t> operands) {
        const uint32_t result = fresh();
        out_.push_back(static_cast<uint32_t>(operands.size() + 3) << 16 | operation);
        out_.push_back(type);
        out_.push_back(result);
        out_.insert(out_.end(), operands);
        return result;
    }

    // Finds types and the types of results.
    void scan() {
        for (std::size_t at = 5; at < words_.size();) {
            const In in(words_.subspan(at, words_[at] >> 16));
            at += in.size();
            const uint32_t operation = in.operation();
            if (operation == op_type_bool) bool_ = in[1];
            if (operation == op_type_int && in[2] == 64) long_types_.insert(in[1]);
            if (operation == op_type_int && in[2] == 32) (in[3] == 0 ? uint_ : int_) = in[1];
            if (operation == op_type_vector && in[3] == 2 && in[2] == uint_) pair_ = in[1];
            if (has_result(operation) && in.size() >= 3) types_[in[2]] = in[1];
        }
    }

    uint32_t type_of(uint32_t id) const {
        const auto type = types_.find(id);
        return type == types_.end() ? 0 : type->second;
    }
    bool is_long(uint32_t id) const { return long_types_.contains(type_of(id)); }

    // Returns the type that replaces one: the pair for 64-bit integers, or an equal type declared earlier.
    uint32_t replaced(uint32_t type) const {
        if (long_types_.contains(type)) return pair_;
        const auto found = same_types_.find(type);
        return found == same_types_.end() ? type : found->second;
    }

    // Declares 32-bit integers, booleans and pairs of integers before all other types.
    void begin_types() {
        if (has_types_) return;
        has_types_ = true;
        const auto declare = [&](uint32_t& id, uint32_t operation, std::initializer_list<uint32_t> operands) {
            if (id == 0) id = fresh();
            declared_.insert(id);
            out_.push_back(static_cast<uint32_t>(operands.size() + 2) << 16 | operation);
            out_.push_back(id);
            out_.insert(out_.end(), operands);
        };
        declare(uint_, op_type_int, {32, 0});
        declare(int_, op_type_int, {32, 1});
        declare(bool_, op_type_bool, {});
        declare(pair_, op_type_vector, {uint_, 2});
        two_results_ = fresh();
        put(op_type_struct, {two_results_, uint_, uint_});
        zero_ = constant(0);
        ones_ = constant(UINT32_MAX);
        int_zero_ = make(op_constant, int_, {0});
        for (const uint32_t number : {1u, 31u, 32u}) constant(number);
    }

    uint32_t constant(uint32_t value) { // only among types and constants
        const auto [found, is_new] = constants_.emplace(value, 0);
        if (is_new) found->second = make(op_constant, uint_, {value});
        return found->second;
    }

    struct Parts {
        uint32_t low = 0, high = 0;
    };
    Parts parts_of(uint32_t id) {
        if (const auto known = constant_parts_.find(id); known != constant_parts_.end()) return known->second;
        return {make(op_composite_extract, uint_, {id, 0}), make(op_composite_extract, uint_, {id, 1})};
    }
    void pair(uint32_t result, Parts parts) { put(op_composite_construct, {pair_, result, parts.low, parts.high}); }
    // Returns a 32-bit value of any integer type as an unsigned one.
    uint32_t as_uint(uint32_t id) {
        const uint32_t type = type_of(id);
        if (type == uint_) return id;
        return make(type == int_ ? op_bitcast : op_u_convert, uint_, {id});
    }

    Status unsupported_operation(In in) const {
        return unsupported(
            fmt::format("the device has no 64-bit integers (shaderInt64), and the shader has an operation "
                        "on them that cannot be replaced (SPIR-V opcode {})",
                        in.operation()));
    }

    Status instruction(In in) {
        const uint32_t operation = in.operation();
        if (operation == op_capability && in[1] == kCapabilityInt64) return {};
        if (operation >= op_type_void && operation <= op_type_forward_pointer) {
            begin_types();
            type(in);
            return {};
        }
        if (operation >= op_constant_true && operation <= op_spec_constant_op) begin_types();
        if (!has_result(operation)) {
            copy(in);
            return {};
        }
        if (long_types_.contains(in[1])) return long_result(in);
        if (takes_long(operation))
            for (std::size_t i = operation == op_spec_constant_op ? 4 : 3; i < in.size(); ++i)
                if (is_long(in[i])) return long_operand(in);
        copy(in);
        return {};
    }

    // Operations that read a 64-bit integer as a number; others only pass it on.
    static bool takes_long(uint32_t operation) {
        return (operation >= 109 && operation <= op_bitcast) || operation == op_spec_constant_op ||
               (operation >= op_i_equal && operation <= op_s_less_than_equal) ||
               (operation >= op_shift_right_logical && operation <= op_not) || (operation >= 227 && operation <= 242);
    }

    void copy(In in) {
        const std::size_t at = out_.size();
        out_.insert(out_.end(), in.begin(), in.end());
        const uint32_t operation = in.operation();
        if (has_result(operation)) out_[at + 1] = replaced(in[1]);
        if (operation == op_function) out_[at + 4] = replaced(in[4]);
    }

    void type(In in) {
        const uint32_t operation = in.operation(), id = in[1];
        if (long_types_.contains(id) || declared_.contains(id)) return;
        Words words(in.begin(), in.end());
        const auto replace_from = [&](std::size_t first) {
            for (std::size_t i = first; i < words.size(); ++i) words[i] = replaced(words[i]);
        };
        if (operation == op_type_array) words[2] = replaced(words[2]);
        if (operation == op_type_runtime_array || operation == op_type_struct || operation == op_type_function)
            replace_from(2);
        if (operation == op_type_pointer) words[3] = replaced(words[3]);
        // Types other than aggregates are declared once.
        if (operation == op_type_pointer || operation == op_type_function) {
            Words key = words;
            key[1] = 0;
            const auto [found, is_new] = unique_types_.emplace(std::move(key), id);
            if (!is_new) {
                same_types_[id] = found->second;
                return;
            }
        }
        out_.insert(out_.end(), words.begin(), words.end());
    }

    Status long_result(In in) {
        const uint32_t operation = in.operation(), result = in[2];
        switch (operation) {
        case op_constant: {
            const Parts parts{constant(in[3]), constant(in[4])};
            constant_parts_[result] = parts;
            put(op_constant_composite, {pair_, result, parts.low, parts.high});
            return {};
        }
        case op_spec_constant_op: return long_spec_constant(in);
        case op_u_convert:
            if (is_long(in[3]))
                put(op_copy_object, {pair_, result, in[3]});
            else
                pair(result, {as_uint(in[3]), zero_});
            return {};
        case op_s_convert: {
            if (is_long(in[3])) {
                put(op_copy_object, {pair_, result, in[3]});
                return {};
            }
            const uint32_t type = type_of(in[3]);
            const uint32_t number = type == int_    ? in[3]
                                    : type == uint_ ? make(op_bitcast, int_, {in[3]})
                                                    : make(op_s_convert, int_, {in[3]});
            const uint32_t negative = make(op_s_less_than, bool_, {number, int_zero_});
            pair(result, {make(op_bitcast, uint_, {number}), make(op_select, uint_, {negative, ones_, zero_})});
            return {};
        }
        case op_convert_ptr_to_u: put(op_bitcast, {pair_, result, in[3]}); return {};
        case op_bitcast: {
            const bool same = is_long(in[3]) || type_of(in[3]) == pair_;
            put(same ? op_copy_object : op_bitcast, {pair_, result, in[3]});
            return {};
        }
        case op_i_add:
        case op_i_sub: {
            const Parts a = parts_of(in[3]), b = parts_of(in[4]);
            const uint32_t low =
                make(operation == op_i_add ? op_i_add_carry : op_i_sub_borrow, two_results_, {a.low, b.low});
            const uint32_t high = make(operation, uint_, {a.high, b.high});
            const uint32_t carry = make(op_composite_extract, uint_, {low, 1});
            pair(result, {make(op_composite_extract, uint_, {low, 0}), make(operation, uint_, {high, carry})});
            return {};
        }
        case op_i_mul: {
            const Parts a = parts_of(in[3]), b = parts_of(in[4]);
            const uint32_t product = make(op_u_mul_extended, two_results_, {a.low, b.low});
            uint32_t high = make(op_composite_extract, uint_, {product, 1});
            for (const auto& [x, y] : {std::pair(a.low, b.high), std::pair(a.high, b.low)})
                if (x != zero_ && y != zero_) high = make(op_i_add, uint_, {high, make(op_i_mul, uint_, {x, y})});
            pair(result, {make(op_composite_extract, uint_, {product, 0}), high});
            return {};
        }
        case op_select: {
            const Parts a = parts_of(in[4]), b = parts_of(in[5]);
            const uint32_t low = make(op_select, uint_, {in[3], a.low, b.low});
            pair(result, {low, make(op_select, uint_, {in[3], a.high, b.high})});
            return {};
        }
        case op_shift_left_logical:
        case op_shift_right_logical: shift(in); return {};
        case op_bitwise_or:
        case op_bitwise_xor:
        case op_bitwise_and:
        case op_not: // of vectors as of numbers
        case op_undef:
        case op_constant_null:
        case op_phi:
        case op_load:
        case op_function_call:
        case op_function_parameter:
        case op_composite_extract:
        case op_copy_object:
        case op_function: copy(in); return {};
        default: return unsupported_operation(in);
        }
    }

    // Specialization constants are computed by the driver, with few operations; a product must fit 32 bits, as sizes
    // within a workgroup do.
    Status long_spec_constant(In in) {
        const uint32_t result = in[2], operation = in[3];
        Parts parts{0, zero_};
        if (operation == op_u_convert && !is_long(in[4])) {
            parts.low = type_of(in[4]) == uint_ ? in[4] : make(op_spec_constant_op, uint_, {op_bitcast, in[4]});
        } else if (operation == op_i_mul || operation == op_i_add) {
            const auto a = constant_parts_.find(in[4]), b = constant_parts_.find(in[5]);
            if (a == constant_parts_.end() || b == constant_parts_.end() || a->second.high != zero_ ||
                b->second.high != zero_)
                return unsupported_operation(in);
            parts.low = make(op_spec_constant_op, uint_, {operation, a->second.low, b->second.low});
        } else {
            return unsupported_operation(in);
        }
        constant_parts_[result] = parts;
        put(op_spec_constant_composite, {pair_, result, parts.low, parts.high});
        return {};
    }

    // By 0 to 63.
    void shift(In in) {
        const bool left = in.operation() == op_shift_left_logical;
        const uint32_t back = left ? op_shift_right_logical : op_shift_left_logical;
        const Parts x = parts_of(in[3]);
        const uint32_t from = left ? x.low : x.high, to = left ? x.high : x.low; // bits move from one to the other
        const uint32_t amount = is_long(in[4]) ? parts_of(in[4]).low : as_uint(in[4]);
        const uint32_t far = make(op_u_greater_than_equal, bool_, {amount, constants_.at(32)});
        const uint32_t within = make(op_bitwise_and, uint_, {amount, constants_.at(31)});
        const uint32_t from_shifted = make(in.operation(), uint_, {from, within});
        const uint32_t to_shifted = make(in.operation(), uint_, {to, within});
        // A shift back by 32 - within in two steps, because within may be 0.
        const uint32_t rest = make(op_i_sub, uint_, {constants_.at(31), within});
        const uint32_t half = make(back, uint_, {from, constants_.at(1)});
        const uint32_t crossing = make(back, uint_, {half, rest});
        const uint32_t near = make(op_bitwise_or, uint_, {to_shifted, crossing});
        const uint32_t moved = make(op_select, uint_, {far, from_shifted, near});
        const uint32_t kept = make(op_select, uint_, {far, zero_, from_shifted});
        pair(in[2], left ? Parts{kept, moved} : Parts{moved, kept});
    }

    Status long_operand(In in) {
        const uint32_t operation = in.operation(), result = in[2], type = replaced(in[1]);
        switch (operation) {
        case op_convert_u_to_ptr: put(op_bitcast, {type, result, in[3]}); return {};
        case op_bitcast: copy(in); return {}; // to a pointer
        case op_u_convert:
        case op_s_convert: {
            const uint32_t low = make(op_composite_extract, uint_, {in[3], 0});
            put(type == uint_ ? op_copy_object : type == int_ ? op_bitcast : operation, {type, result, low});
            return {};
        }
        case op_i_equal:
        case op_i_not_equal: {
            const Parts a = parts_of(in[3]), b = parts_of(in[4]);
            const uint32_t low = make(operation, bool_, {a.low, b.low}),
                           high = make(operation, bool_, {a.high, b.high});
            put(operation == op_i_equal ? op_logical_and : op_logical_or, {type, result, low, high});
            return {};
        }
        case op_u_greater_than:
        case op_u_greater_than_equal:
        case op_u_less_than:
        case op_u_less_than_equal: {
            const Parts a = parts_of(in[3]), b = parts_of(in[4]);
            const bool less = operation == op_u_less_than || operation == op_u_less_than_equal;
            const uint32_t high = make(less ? op_u_less_than : op_u_greater_than, bool_, {a.high, b.high});
            const uint32_t same = make(op_i_equal, bool_, {a.high, b.high});
            const uint32_t low = make(op_logical_and, bool_, {same, make(operation, bool_, {a.low, b.low})});
            put(op_logical_or, {type, result, high, low});
            return {};
        }
        default: return unsupported_operation(in);
        }
    }

    std::span<const uint32_t> words_;
    Words out_;
    uint32_t next_id_;
    bool has_types_ = false;
    std::set<uint32_t> long_types_;
    uint32_t uint_ = 0, int_ = 0, bool_ = 0, pair_ = 0, two_results_ = 0; // types
    uint32_t zero_ = 0, ones_ = 0, int_zero_ = 0;                         // constants
    std::set<uint32_t> declared_;                                         // types of begin_types()
    std::map<uint32_t, uint32_t> types_;                                  // of results
    std::map<uint32_t, uint32_t> constants_;                              // 32-bit numbers, by value
    std::map<uint32_t, Parts> constant_parts_;                            // of 64-bit constants
    std::map<Words, uint32_t> unique_types_;                              // declarations without their result
    std::map<uint32_t, uint32_t> same_types_;                             // not declared: the equal type
};

} // namespace

Result<std::vector<uint32_t>> without_int64(std::span<const uint32_t> words) { return Rewriter(words).rewrite(); }

} // namespace hekla::gpu
