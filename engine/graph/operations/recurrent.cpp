// Recurrent layers and their gradients, in PyTorch's form:
//   gru:  r = s(x_r + h_r), z = s(x_z + h_z), n = tanh(x_n + r h_n), h' = (1 - z) n + z h
//   lstm: i, f, o = s(x_. + h_.), g = tanh(x_g + h_g), c' = f c + i g, h' = o tanh(c')
// where x_. = W_ih x + b_ih and h_. = W_hh h + b_hh.
#include "graph/gradient/backward.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/reference/call.hpp"
#include "graph/reference/multiply.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::graph {
namespace {

// A layer over padded sequences. All four operations have the same inputs, from `x` on.
struct Layer {
    const Call& call;
    std::size_t x;
    int64_t gates, batch, time, in, hidden;
    bool reverse;

    enum Input : std::size_t {
        input_weight = 1,
        hidden_weight,
        input_bias,
        hidden_bias,
        lengths,
        initial,
        initial_cell
    };

    Layer(const Call& c, std::size_t first, int64_t gate_count)
        : call(c), x(first), gates(gate_count), batch(c.in(first).shape[0]), time(c.in(first).shape[1]),
          in(c.in(first).shape[2]), hidden(c.in(first + hidden_weight).shape[1]),
          reverse(c.node.integer("reverse") != 0) {}

    const double* data(std::size_t input) const { return call.data(x + input); }
    bool has(std::size_t input) const { return call.has(x + input); }
    int64_t length(int64_t b) const { return has(lengths) ? static_cast<int64_t>(data(lengths)[b]) : time; }
    // Returns the token of row b that the layer reads in step s.
    int64_t token(int64_t b, int64_t s) const { return b * time + (reverse ? length(b) - 1 - s : s); }

    Status lengths_ok() const {
        for (int64_t b = 0; b < batch; ++b)
            if (length(b) < 0 || length(b) > time)
                return invalid_argument(fmt::format("lengths[{}] is {}, expected 0 to {}", b, length(b), time));
        return {};
    }

    // rows [n, K] by a weight [gates H, K], plus its bias.
    std::vector<double> project(const double* rows, int64_t count, int64_t depth, std::size_t weight,
                                std::size_t bias) const {
        std::vector<double> result(at(count * gates * hidden));
        for (int64_t row = 0; row < count; ++row)
            std::copy_n(data(bias), gates * hidden, result.data() + row * gates * hidden);
        multiply({.m = count, .k = depth, .n = gates * hidden, .transpose_b = true, .accumulate = true}, rows,
                 data(weight), result.data());
        return result;
    }
    std::vector<double> project_inputs() const { return project(data(0), batch * time, in, input_weight, input_bias); }
    std::vector<double> project_hidden(const std::vector<double>& rows) const {
        return project(rows.data(), static_cast<int64_t>(rows.size()) / hidden, hidden, hidden_weight, hidden_bias);
    }

    // Returns a state [B, H] before the first step.
    std::vector<double> state(std::size_t input) const {
        if (!has(input)) return std::vector<double>(at(batch * hidden));
        return call.in(x + input).data;
    }

    // Returns the state before every token [B, T, H], from the states after them; 0 at padding.
    std::vector<double> before(const double* after, std::size_t first_state) const {
        std::vector<double> result(at(batch * time * hidden));
        for (int64_t b = 0; b < batch; ++b)
            for (int64_t s = 0; s < length(b); ++s) {
                double* to = result.data() + token(b, s) * hidden;
                if (s > 0)
                    std::copy_n(after + token(b, s - 1) * hidden, hidden, to);
                else if (has(first_state))
                    std::copy_n(data(first_state) + b * hidden, hidden, to);
            }
        return result;
    }

    // Computes the gradients of the inputs and weights (outputs 0 to 4) from those of both projections [B T, gates H].
    void finish(const std::vector<double>& dinput, const std::vector<double>& dhidden,
                const std::vector<double>& previous) const {
        const int64_t rows = batch * time, width = gates * hidden;
        multiply({.m = rows, .k = width, .n = in}, dinput.data(), data(input_weight), call.out(0).data.data());
        multiply({.m = width, .k = rows, .n = in, .transpose_a = true}, dinput.data(), data(0),
                 call.out(1).data.data());
        multiply({.m = width, .k = rows, .n = hidden, .transpose_a = true}, dhidden.data(), previous.data(),
                 call.out(2).data.data());
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t i = 0; i < width; ++i) {
                call.out(3).data[at(i)] += dinput[at(row * width + i)];
                call.out(4).data[at(i)] += dhidden[at(row * width + i)];
            }
    }

    // Propagates d [B, H] from the state after step s to the state before it, through the hidden projection of that
    // step's tokens.
    void back_through_hidden(int64_t s, const std::vector<double>& dhidden, std::vector<double>& d) const {
        const int64_t width = gates * hidden;
        std::vector<double> step(at(batch * width)); // 0 where a row has no such step
        for (int64_t b = 0; b < batch; ++b)
            if (s < length(b)) std::copy_n(dhidden.data() + token(b, s) * width, width, step.data() + b * width);
        multiply({.m = batch, .k = width, .n = hidden, .accumulate = true}, step.data(), data(hidden_weight), d.data());
    }
};

// Checks the inputs of gru and lstm, whose x is input `x`; gates: 3 or 4.
Status recurrent_inputs(const Rule& r, std::size_t x, int64_t gates) {
    using enum Layer::Input; // from x on
    HK_TRY(r.rank(x, 3, "[B, T, I]"));
    HK_TRY(r.rank(x + hidden_weight, 2, "[gates H, H]"));
    const int64_t b = r.shape(x)[0], in = r.shape(x)[2], h = r.shape(x + hidden_weight)[1];
    HK_TRY(r.expect(x + input_weight, Shape{gates * h, in}));
    HK_TRY(r.expect(x + hidden_weight, Shape{gates * h, h}));
    HK_TRY(r.expect(x + input_bias, Shape{gates * h}));
    HK_TRY(r.expect(x + hidden_bias, Shape{gates * h}));
    HK_TRY(r.expect(x + lengths, Shape{b}));
    HK_TRY(r.expect(x + initial, Shape{b, h}));
    if (gates == 4) HK_TRY(r.expect(x + initial_cell, Shape{b, h}));
    return {};
}

Result<Outputs> recurrent_outputs(const Rule& r) {
    const bool lstm = r.node.op == Op::lstm;
    HK_TRY(recurrent_inputs(r, 0, lstm ? 4 : 3));
    const int64_t b = r.shape(0)[0], t = r.shape(0)[1], h = r.shape(Layer::hidden_weight)[1];
    const Kind kind = r.kind(0);
    Outputs outputs{{kind, Shape{b, t, h}}, {kind, Shape{b, h}}};
    if (lstm) {
        outputs.push_back({kind, Shape{b, h}});
        outputs.push_back({kind, Shape{b, t, h}});
    }
    return outputs;
}

Result<Outputs> recurrent_gradient_outputs(const Rule& r) {
    const bool lstm = r.node.op == Op::lstm_gradient;
    const std::size_t x = lstm ? 5 : 3;
    HK_TRY(recurrent_inputs(r, x, lstm ? 4 : 3));
    const int64_t b = r.shape(x)[0], t = r.shape(x)[1], h = r.shape(x + Layer::hidden_weight)[1];
    // dy; the gradients of the last states; y, and the cells of an LSTM.
    for (std::size_t i = 0; i < x; ++i)
        HK_TRY(r.expect(i, i >= 1 && i <= (lstm ? 2U : 1U) ? Shape{b, h} : Shape{b, t, h}));
    Outputs outputs{{r.kind(x), r.shape(x)}};
    for (std::size_t i = x + Layer::input_weight; i <= x + Layer::hidden_bias; ++i)
        outputs.push_back({Kind::float32, r.shape(i)});
    outputs.push_back({r.kind(x), Shape{b, h}});
    if (lstm) outputs.push_back({r.kind(x), Shape{b, h}});
    return outputs;
}

void add_to(const double* from, int64_t count, double* to) {
    if (from == nullptr) return;
    for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

// The gates of one unit at one step.
struct GruUnit {
    double r, z, n, hidden_n;
    GruUnit(const double* x, const double* h, int64_t size)
        : r(sigmoid(x[0] + h[0])), z(sigmoid(x[size] + h[size])), n(0), hidden_n(h[2 * size]) {
        n = std::tanh(x[2 * size] + r * hidden_n);
    }
};
struct LstmUnit {
    double i, f, g, o;
    LstmUnit(const double* x, const double* h, int64_t size)
        : i(sigmoid(x[0] + h[0])), f(sigmoid(x[size] + h[size])), g(std::tanh(x[2 * size] + h[2 * size])),
          o(sigmoid(x[3 * size] + h[3 * size])) {}
};

// Emits the gradient of a layer, whose inputs are these and those of the layer.
void emit_gradient(Backward& b, Op op, std::vector<ValueId> inputs) {
    inputs.insert(inputs.end(), b.node().inputs.begin(), b.node().inputs.end());
    const std::vector<ValueId> d = b.builder().emit(op, inputs, attributes_of(b.node()));
    for (std::size_t i = 0; i < d.size(); ++i) b.give(i < Layer::lengths ? i : i + 1, d[i]); // lengths has none
}

void gru_gradient(Backward& b) { emit_gradient(b, Op::gru_gradient, {b.dy(0), b.dy(1), b.y(0)}); }

Status run_gru(const Call& call) {
    const Layer layer(call, 0, 3);
    HK_TRY(layer.lengths_ok());
    const int64_t size = layer.hidden;
    const std::vector<double> from_inputs = layer.project_inputs();
    std::vector<double> h = layer.state(Layer::initial);
    for (int64_t s = 0; s < layer.time; ++s) {
        const std::vector<double> from_hidden = layer.project_hidden(h);
        for (int64_t b = 0; b < layer.batch; ++b) {
            if (s >= layer.length(b)) continue;
            const int64_t token = layer.token(b, s);
            for (int64_t u = 0; u < size; ++u) {
                const GruUnit unit(from_inputs.data() + token * 3 * size + u, from_hidden.data() + b * 3 * size + u,
                                   size);
                double& state = h[at(b * size + u)];
                state = (1 - unit.z) * unit.n + unit.z * state;
                call.out(0).data[at(token * size + u)] = state;
            }
        }
    }
    call.out(1).data = std::move(h);
    return {};
}

Status run_gru_gradient(const Call& call) {
    const Layer layer(call, 3, 3);
    HK_TRY(layer.lengths_ok());
    const int64_t size = layer.hidden;
    const std::vector<double> previous = layer.before(call.data(2), Layer::initial);
    const std::vector<double> from_inputs = layer.project_inputs();
    const std::vector<double> from_hidden = layer.project_hidden(previous);
    std::vector<double> dinput(from_inputs.size()), dhidden(from_hidden.size());
    std::vector<double> d(at(layer.batch * size)); // of the state after the current step
    add_to(call.data(1), layer.batch * size, d.data());
    for (int64_t s = layer.time; s-- > 0;) {
        for (int64_t b = 0; b < layer.batch; ++b) {
            if (s >= layer.length(b)) continue;
            const int64_t token = layer.token(b, s);
            if (call.has(0)) add_to(call.data(0) + token * size, size, d.data() + b * size);
            for (int64_t u = 0; u < size; ++u) {
                const int64_t gate = token * 3 * size + u;
                const GruUnit unit(from_inputs.data() + gate, from_hidden.data() + gate, size);
                double& dstate = d[at(b * size + u)];
                const double dn = dstate * (1 - unit.z) * (1 - unit.n * unit.n);
                const double dr = dn * unit.hidden_n * unit.r * (1 - unit.r);
                const double dz = dstate * (previous[at(token * size + u)] - unit.n) * unit.z * (1 - unit.z);
                dinput[at(gate)] = dhidden[at(gate)] = dr;
                dinput[at(gate + size)] = dhidden[at(gate + size)] = dz;
                dinput[at(gate + 2 * size)] = dn;
                dhidden[at(gate + 2 * size)] = dn * unit.r;
                dstate *= unit.z;
            }
        }
        layer.back_through_hidden(s, dhidden, d);
    }
    layer.finish(dinput, dhidden, previous);
    call.out(5).data = std::move(d);
    return {};
}

void lstm_gradient(Backward& b) { emit_gradient(b, Op::lstm_gradient, {b.dy(0), b.dy(1), b.dy(2), b.y(0), b.y(3)}); }

Status run_lstm(const Call& call) {
    const Layer layer(call, 0, 4);
    HK_TRY(layer.lengths_ok());
    const int64_t size = layer.hidden;
    const std::vector<double> from_inputs = layer.project_inputs();
    std::vector<double> h = layer.state(Layer::initial), c = layer.state(Layer::initial_cell);
    for (int64_t s = 0; s < layer.time; ++s) {
        const std::vector<double> from_hidden = layer.project_hidden(h);
        for (int64_t b = 0; b < layer.batch; ++b) {
            if (s >= layer.length(b)) continue;
            const int64_t token = layer.token(b, s);
            for (int64_t u = 0; u < size; ++u) {
                const LstmUnit unit(from_inputs.data() + token * 4 * size + u, from_hidden.data() + b * 4 * size + u,
                                    size);
                double& cell = c[at(b * size + u)];
                cell = unit.f * cell + unit.i * unit.g;
                h[at(b * size + u)] = unit.o * std::tanh(cell);
                call.out(0).data[at(token * size + u)] = h[at(b * size + u)];
                call.out(3).data[at(token * size + u)] = cell;
            }
        }
    }
    call.out(1).data = std::move(h);
    call.out(2).data = std::move(c);
    return {};
}

Status run_lstm_gradient(const Call& call) {
    const Layer layer(call, 5, 4);
    HK_TRY(layer.lengths_ok());
    const int64_t size = layer.hidden;
    const double* cells = call.data(4);
    const std::vector<double> previous = layer.before(call.data(3), Layer::initial);
    const std::vector<double> previous_cells = layer.before(cells, Layer::initial_cell);
    const std::vector<double> from_inputs = layer.project_inputs();
    const std::vector<double> from_hidden = layer.project_hidden(previous);
    std::vector<double> dgates(from_inputs.size()); // both projections are summed, so they share their gradient
    std::vector<double> d(at(layer.batch * size)),
        dcell(at(layer.batch * size)); // of the states after the current step
    add_to(call.data(1), layer.batch * size, d.data());
    add_to(call.data(2), layer.batch * size, dcell.data());
    for (int64_t s = layer.time; s-- > 0;) {
        for (int64_t b = 0; b < layer.batch; ++b) {
            if (s >= layer.length(b)) continue;
            const int64_t token = layer.token(b, s);
            if (call.has(0)) add_to(call.data(0) + token * size, size, d.data() + b * size);
            for (int64_t u = 0; u < size; ++u) {
                const int64_t gate = token * 4 * size + u;
                const LstmUnit unit(from_inputs.data() + gate, from_hidden.data() + gate, size);
                double& dh = d[at(b * size + u)];
                double& dc = dcell[at(b * size + u)];
                const double squashed = std::tanh(cells[token * size + u]);
                dc += dh * unit.o * (1 - squashed * squashed);
                dgates[at(gate)] = dc * unit.g * unit.i * (1 - unit.i);
                dgates[at(gate + size)] = dc * previous_cells[at(token * size + u)] * unit.f * (1 - unit.f);
                dgates[at(gate + 2 * size)] = dc * unit.i * (1 - unit.g * unit.g);
                dgates[at(gate + 3 * size)] = dh * squashed * unit.o * (1 - unit.o);
                dc *= unit.f;
                dh = 0; // the state before the step affects this one only through the gates
            }
        }
        layer.back_through_hidden(s, dgates, d);
    }
    layer.finish(dgates, dgates, previous);
    call.out(5).data = std::move(d);
    call.out(6).data = std::move(dcell);
    return {};
}

} // namespace

const OperationRules gru_rules{recurrent_outputs, gru_gradient, run_gru};
const OperationRules gru_gradient_rules{recurrent_gradient_outputs, nullptr, run_gru_gradient};
const OperationRules lstm_rules{recurrent_outputs, lstm_gradient, run_lstm};
const OperationRules lstm_gradient_rules{recurrent_gradient_outputs, nullptr, run_lstm_gradient};

} // namespace hekla::graph
