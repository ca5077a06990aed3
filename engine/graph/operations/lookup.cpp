// The interpreter's lookups by index: embedding, gather, scatter, rotary, and their gradients. An index out of range is
// an error here, so that its cause is found; kernels have to clamp it.
#include "graph/builder.hpp"
#include "graph/reference/call.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace hekla::graph::reference {

namespace {

// excluded: an index that is not used.
Status indices_ok(const Tensor& indices, const char* name, int64_t rows, const char* of,
                  std::optional<int64_t> excluded = {}) {
    for (std::size_t i = 0; i < indices.data.size(); ++i) {
        if (excluded && indices.data[i] == static_cast<double>(*excluded)) continue;
        if (indices.data[i] < 0 || indices.data[i] >= static_cast<double>(rows))
            return invalid_argument(fmt::format("element {} of {} {} is {}, expected 0 to {}, the rows of {}", i, name,
                                                indices.shape.text(), indices.data[i], rows - 1, of));
    }
    return {};
}

int64_t index(const Tensor& indices, int64_t i) { return static_cast<int64_t>(indices.data[at(i)]); }

Status embedding(const Call& call) {
    const Tensor& table = call.in(0);
    const Tensor& ids = call.in(1);
    const int64_t width = table.shape[1];
    HK_TRY(indices_ok(ids, "ids", table.shape[0], "the table"));
    for (int64_t i = 0; i < ids.shape.elements(); ++i)
        std::copy_n(table.data.data() + index(ids, i) * width, width, call.out().data.data() + i * width);
    return {};
}

Status embedding_gradient(const Call& call) {
    const Tensor& ids = call.in(1);
    Tensor& dtable = call.out();
    const int64_t width = dtable.shape[1];
    const int64_t excluded = call.node.integer("no_gradient_id");
    HK_TRY(indices_ok(ids, "ids", dtable.shape[0], "the table", excluded));
    for (int64_t i = 0; i < ids.shape.elements(); ++i) {
        if (index(ids, i) == excluded) continue;
        double* row = dtable.data.data() + index(ids, i) * width;
        const double* dy = call.data(0) + i * width;
        for (int64_t j = 0; j < width; ++j) row[j] += dy[j];
    }
    return {};
}

// x [batch, rows, width] and indices [batch, count].
struct Gather {
    int64_t batch = 1, rows = 1, count = 1, width = 1;
    Gather(const Shape& x, const Shape& indices, int64_t batch_dimensions) {
        for (int i = 0; i < indices.rank(); ++i) (i < batch_dimensions ? batch : count) *= indices[i];
        rows = x[static_cast<int>(batch_dimensions)];
        for (int i = static_cast<int>(batch_dimensions) + 1; i < x.rank(); ++i) width *= x[i];
    }
};

Status gather(const Call& call) {
    const Gather size(call.in(0).shape, call.in(1).shape, call.node.integer("batch_dimensions"));
    HK_TRY(indices_ok(call.in(1), "indices", size.rows, "x"));
    double* y = call.out().data.data();
    for (int64_t b = 0; b < size.batch; ++b)
        for (int64_t i = 0; i < size.count; ++i, y += size.width)
            std::copy_n(call.data(0) + (b * size.rows + index(call.in(1), b * size.count + i)) * size.width, size.width,
                        y);
    return {};
}

Status scatter(const Call& call) {
    const Tensor& indices = call.in(1);
    const Gather size(call.out().shape, indices.shape, call.node.integer("batch_dimensions"));
    const bool adds = call.node.op == Op::scatter_add;
    HK_TRY(indices_ok(indices, "indices", size.rows, "x"));
    if (!adds)
        if (const std::optional<std::size_t> place = repeated_index(indices.data, size.batch))
            return invalid_argument(fmt::format("element {} of indices {} is {} again, expected every row of x once",
                                                *place, indices.shape.text(), indices.data[*place]));
    std::vector<double>& y = call.out().data;
    y = call.in(0).data;
    const double* values = call.data(2);
    for (int64_t b = 0; b < size.batch; ++b)
        for (int64_t i = 0; i < size.count; ++i, values += size.width) {
            double* row = y.data() + (b * size.rows + index(indices, b * size.count + i)) * size.width;
            for (int64_t j = 0; j < size.width; ++j) row[j] = adds ? row[j] + values[j] : values[j];
        }
    if (call.out().kind == Kind::int32)
        for (double& value : y) value = wrapped(static_cast<int64_t>(value));
    return {};
}

Status rotary(const Call& call) {
    const Tensor& x = call.in(0);
    const int64_t batch = x.shape[0], heads = x.shape[1], length = x.shape[2], width = x.shape[3];
    const int64_t half = call.in(1).shape[1];
    const bool interleaved = call.node.integer("interleaved") != 0;
    const double direction = call.node.integer("inverse") != 0 ? -1 : 1;
    if (call.has(3)) HK_TRY(indices_ok(call.in(3), "positions", call.in(1).shape[0], "cosine"));
    call.out().data = x.data;
    double* y = call.out().data.data();
    for (int64_t b = 0; b < batch; ++b)
        for (int64_t h = 0; h < heads; ++h)
            for (int64_t t = 0; t < length; ++t, y += width) {
                const int64_t position = call.has(3) ? index(call.in(3), b * length + t) : t;
                for (int64_t i = 0; i < half; ++i) {
                    double& first = y[interleaved ? 2 * i : i];
                    double& second = y[interleaved ? 2 * i + 1 : i + half];
                    const double cosine = call.data(1)[position * half + i];
                    const double sine = call.data(2)[position * half + i] * direction;
                    const double turned = first * cosine - second * sine;
                    second = second * cosine + first * sine;
                    first = turned;
                }
            }
    return {};
}

} // namespace

Status run_lookup(const Call& call) {
    switch (call.node.op) {
    case Op::embedding: return embedding(call);
    case Op::embedding_gradient: return embedding_gradient(call);
    case Op::gather: return gather(call);
    case Op::scatter_add:
    case Op::scatter: return scatter(call);
    default: return rotary(call);
    }
}

} // namespace hekla::graph::reference
