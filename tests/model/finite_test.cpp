#include "model/finite.hpp"

#include <bit>
#include <doctest/doctest.h>
#include <limits>
#include <vector>

namespace finite_test {

using namespace hekla;
using namespace hekla::model;

namespace {

// Returns the bytes of `count` ones in a type, with one element replaced.
std::vector<std::byte> numbers(DType dtype, std::size_t count, std::size_t at, double value) {
    std::vector<double> values(count, 1.0);
    values[at] = value;
    std::vector<std::byte> bytes(count * size_of(dtype));
    REQUIRE(from_float64(dtype, values, bytes).ok());
    return bytes;
}

TensorView view_of(DType dtype, const std::vector<std::byte>& bytes) {
    TensorView tensor;
    tensor.name = "layer.weight";
    tensor.dtype = dtype;
    tensor.dims = {static_cast<int64_t>(bytes.size() / size_of(dtype))};
    tensor.bytes = bytes;
    return tensor;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

} // namespace

TEST_CASE("the first non-finite element, in every floating-point type") {
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64})
        for (const double value : {kInfinity, -kInfinity, kNan})
            for (const std::size_t at : {0, 1023, 1024, 2999}) {
                CAPTURE(name_of(dtype));
                CAPTURE(at);
                const auto found = first_non_finite(dtype, numbers(dtype, 3000, at, value));
                REQUIRE(found);
                CHECK(found->index == at);
                CHECK((std::bit_cast<uint64_t>(found->value) & 0x7ff0000000000000) == 0x7ff0000000000000);
            }
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64})
        CHECK(!first_non_finite(dtype, numbers(dtype, 3000, 7, -65504.0 / 2)));
    const std::vector<std::byte> ones(64, std::byte{0xff}); // -1, and NaN in all other types
    CHECK(!first_non_finite(DType::i32, ones));
    CHECK(first_non_finite(DType::f32, ones)->index == 0);
    CHECK(!first_non_finite(DType::f32, {}));
}

TEST_CASE("the error names tensor, type and element") {
    const auto bytes = numbers(DType::f32, 8, 5, kNan);
    const Status status = check_finite(view_of(DType::f32, bytes));
    CHECK(status.code() == Code::corrupt);
    CHECK(status.message() == "tensor \"layer.weight\" (f32 [8]): element 5 is nan");
    CHECK(check_finite(view_of(DType::f32, numbers(DType::f32, 8, 5, 2.0))).ok());
}

TEST_CASE("a checked source passes its bytes on, in pieces of any size, until the first bad element") {
    for (const std::size_t bad : {0, 3, 9}) {
        const std::vector<std::byte> bytes = numbers(DType::f32, 10, bad, kInfinity);
        const std::vector<std::byte> good = numbers(DType::f32, 10, bad, 0.5);
        for (const std::size_t piece : {1, 3, 4, 7, 40}) {
            CAPTURE(bad);
            CAPTURE(piece);
            const auto stream = [piece](const std::vector<std::byte>& all) {
                TensorSource source;
                static_cast<TensorInfo&>(source) = view_of(DType::f32, all);
                source.stream = [all, piece](const Sink& sink) -> Status {
                    for (std::size_t at = 0; at < all.size(); at += piece)
                        HK_TRY(sink(std::span(all).subspan(at, std::min(piece, all.size() - at))));
                    return {};
                };
                return finite_source(std::move(source));
            };
            std::vector<std::byte> passed;
            const Sink sink = [&](std::span<const std::byte> more) -> Status {
                passed.insert(passed.end(), more.begin(), more.end());
                return {};
            };
            CHECK(stream(good).stream(sink).ok());
            CHECK(passed == good);
            const Status status = stream(bytes).stream(sink);
            CHECK(status.code() == Code::corrupt);
            CHECK(status.message().find("element " + std::to_string(bad) + " is inf") != std::string::npos);
        }
    }
}

} // namespace finite_test
