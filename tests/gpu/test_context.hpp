// The fixture of all tests in this room: a context with the validation layer, and the shaders in this folder.
#pragma once

#include "gpu/context.hpp"
#include "gpu_tests_shaders.hpp"
#include "support/test_folder.hpp"
#include "validation.hpp"

#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace hekla::test {

inline gpu::ContextOptions validated() {
    gpu::ContextOptions options;
    options.device.validation = is_validation_off() ? gpu::Validation::off : gpu::Validation::on;
    options.memory.poison = true;
    return options;
}

inline gpu::Context make(const gpu::ContextOptions& options = validated()) {
    Result<gpu::Context> context = gpu::create_context(options);
    REQUIRE_MESSAGE(context.ok(), context.message());
    return context.take();
}

inline void check_silent(const gpu::Context& context) {
    const gpu::ValidationCounts counts = context.device->validation_counts();
    CHECK_MESSAGE(counts.errors == 0, counts.first);
    CHECK_MESSAGE(counts.warnings == 0, counts.first);
}

#define HK_REQUIRE_OK(...)                                                                                             \
    do {                                                                                                               \
        const auto hk_status = ::hekla::test::status_of(__VA_ARGS__);                                                  \
        REQUIRE_MESSAGE(hk_status.ok(), hk_status.message());                                                          \
    } while (0)

inline Status status_of(const Status& status) { return status; }
template<class T>
Status status_of(const Result<T>& result) {
    return result.status();
}

template<class T>
T take(Result<T> result) {
    REQUIRE_MESSAGE(result.ok(), result.message());
    return result.take();
}

inline gpu::Shader shader(std::string_view name) { return take(gpu::Shader::find(embedded::gpu_tests(), name)); }

// Computes y = a * x + y over n floats in one dispatch, the smallest job that uses everything. Returns y.
inline Result<std::vector<float>> axpy(gpu::Context& context, float a, const std::vector<float>& x,
                                       const std::vector<float>& y, std::string_view kernel = "axpy") {
    using namespace gpu;
    struct Arguments {
        VkDeviceAddress x;
        VkDeviceAddress y;
        uint32_t count;
        uint32_t padding;
    };
    const uint64_t bytes = x.size() * sizeof(float);
    HK_ASSIGN(const Buffer xs, context.memory->create_buffer(bytes, Residence::device, "x"));
    HK_ASSIGN(const Buffer ys, context.memory->create_buffer(bytes, Residence::device, "y"));
    HK_ASSIGN(const Buffer record, context.memory->create_buffer(sizeof(Arguments), Residence::upload, "arguments"));
    HK_TRY(context.staging->upload<float>(xs, 0, x));
    HK_TRY(context.staging->upload<float>(ys, 0, y));
    const Arguments arguments{xs.address(), ys.address(), static_cast<uint32_t>(x.size()), 0};
    std::memcpy(record.host().data(), &arguments, sizeof arguments);
    HK_TRY(record.flush(0, sizeof arguments));

    PipelineDescription description;
    HK_ASSIGN(description.shader, Shader::find(embedded::gpu_tests(), kernel));
    uint32_t bits = 0;
    std::memcpy(&bits, &a, sizeof bits);
    description.constants = {64, bits};
    HK_ASSIGN(const std::shared_ptr<const Pipeline> pipeline, context.pipelines->get(description));
    HK_ASSIGN(const std::shared_ptr<CommandPool> pool, CommandPool::create(context.device));
    HK_ASSIGN(CommandBuffer commands, pool->allocate(Level::secondary));
    HK_TRY(commands.begin());
    commands.dispatch(*pipeline, record.address(), (x.size() + 63) / 64);
    HK_TRY(commands.end());
    HK_ASSIGN(const uint64_t value, context.queue->submit(commands));
    HK_TRY(context.queue->wait(value));
    std::vector<float> result(y.size());
    HK_TRY(context.staging->download<float>(ys, 0, result));
    return result;
}

} // namespace hekla::test
