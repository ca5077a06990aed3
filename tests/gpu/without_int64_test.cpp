// Shaders without 64-bit integers compute what they would with them.
#include "gpu/without_int64.hpp"

#include "base/philox.hpp"
#include "test_context.hpp"

#include <algorithm>
#include <array>

using namespace hekla;
using namespace hekla::gpu;
using namespace hekla::test;

namespace {

constexpr std::size_t kResults = 16;

std::array<uint64_t, kResults> expected(uint64_t a, uint64_t b) {
    const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
    const uint32_t amount = low(b) & 63;
    const uint64_t size = 7;
    return {a + b,
            a - b,
            a * b,
            a << amount,
            a >> amount,
            a << 13 ^ b >> 32,
            (a & b) | ~b,
            std::max(a, b),
            (a < b ? 1u : 0u) | (a <= b ? 2u : 0u) | (a > b ? 4u : 0u) | (a >= b ? 8u : 0u) | (a == b ? 16u : 0u) |
                (a != b ? 32u : 0u),
            static_cast<uint64_t>(int64_t{static_cast<int32_t>(low(a))}),
            uint64_t{low(a)} * low(b),
            a << 32 | a >> 32,
            a * amount,
            a * size + size * 4,
            uint64_t{low(a >> 7)} + 0x123456789ABCDEF0u,
            a};
}

std::vector<uint64_t> computed(const ContextOptions& options, const std::vector<uint64_t>& x,
                               const std::vector<uint64_t>& y) {
    struct Arguments {
        VkDeviceAddress x, y, results;
        uint32_t count, padding;
    };
    Context context = make(options);
    const uint64_t bytes = x.size() * sizeof(uint64_t);
    const Buffer xs = take(context.memory->create_buffer(bytes, Residence::device, "x"));
    const Buffer ys = take(context.memory->create_buffer(bytes, Residence::device, "y"));
    const Buffer results = take(context.memory->create_buffer(bytes * kResults, Residence::device, "results"));
    const Buffer record = take(context.memory->create_buffer(sizeof(Arguments), Residence::upload, "arguments"));
    HK_REQUIRE_OK(context.staging->upload<uint64_t>(xs, 0, x));
    HK_REQUIRE_OK(context.staging->upload<uint64_t>(ys, 0, y));
    const Arguments arguments{xs.address(), ys.address(), results.address(), static_cast<uint32_t>(x.size()), 0};
    std::memcpy(record.host().data(), &arguments, sizeof arguments);
    HK_REQUIRE_OK(record.flush(0, sizeof arguments));
    const auto pipeline = take(context.pipelines->get({.shader = shader("wide_integers"), .constants = {7}}));
    const auto pool = take(CommandPool::create(context.device));
    CommandBuffer commands = take(pool->allocate(Level::secondary));
    HK_REQUIRE_OK(commands.begin());
    commands.dispatch(*pipeline, record.address(), (x.size() + 31) / 32);
    HK_REQUIRE_OK(commands.end());
    const uint64_t value = take(context.queue->submit(commands));
    HK_REQUIRE_OK(context.queue->wait(value));
    std::vector<uint64_t> out(x.size() * kResults);
    HK_REQUIRE_OK(context.staging->download<uint64_t>(results, 0, out));
    check_silent(context);
    return out;
}

} // namespace

TEST_CASE("64-bit integers and pairs of 32-bit integers give the same results") {
    std::vector<uint64_t> x{0, 1, UINT64_MAX, uint64_t{1} << 32, 0xFFFFFFFF, 0x80000000, 5, 5, uint64_t{1} << 63};
    std::vector<uint64_t> y{0, UINT64_MAX, 1, 0xFFFFFFFF, uint64_t{1} << 32, 0x80000000, 5, 32, 31};
    RandomStream random(11, 5);
    while (x.size() < 1000) {
        const auto number = [&] {
            return (uint64_t{random.next_u32()} << 32 | random.next_u32()) >> random.next_below(64);
        };
        x.push_back(number());
        y.push_back(number());
    }
    ContextOptions without = validated();
    without.device.overrides.disable = {"int64"};
    const std::vector<uint64_t> replaced = computed(without, x, y);
    CHECK(computed(validated(), x, y) == replaced);
    for (std::size_t i = 0; i < x.size(); ++i)
        for (std::size_t k = 0; k < kResults; ++k) {
            CAPTURE(i);
            CAPTURE(k);
            REQUIRE(replaced[i * kResults + k] == expected(x[i], y[i])[k]);
        }
}

TEST_SUITE("no_device") {
    TEST_CASE("modules lose the capability Int64, or are refused") {
        const auto has_int64 = [](const Shader& module) {
            return std::ranges::find(module.capabilities(), 11u) != module.capabilities().end();
        };
        for (const EmbeddedShader& row : embedded::gpu_tests()) {
            CAPTURE(row.name);
            const Shader original = take(Shader::from_embedded(row));
            const Shader module = take(Shader::from_words("rewritten", take(without_int64(original.words()))));
            CHECK_FALSE(has_int64(module));
            CHECK(module.workgroup()[0].value == original.workgroup()[0].value);
            if (!has_int64(original)) CHECK(std::ranges::equal(module.words(), original.words()));
        }
        // Damaged modules are read without leaving their bounds.
        const Shader good = shader("wide_integers");
        RandomStream random(3, 9);
        for (int i = 0; i < 3000; ++i) {
            std::vector<uint32_t> damaged(good.words().begin(), good.words().end());
            damaged[random.next_below(damaged.size())] =
                random.next_below(2) == 0 ? random.next_u32() : random.next_u32() % 2000;
            if (const auto read = Shader::from_words("damaged", damaged); read.ok()) {
                const auto rewritten = without_int64(read->words());
                CHECK((rewritten.ok() || rewritten.code() == Code::unsupported));
            }
        }
    }
}
