// Memory, dispatches, copies, submits and timing on a real device.
#include "test_context.hpp"
#include <algorithm>

#include "base/file.hpp"
#include "base/philox.hpp"
#include "measure.hpp"

#include <chrono>
#include <numeric>
#include <thread>

using namespace hekla;
using namespace hekla::gpu;
using namespace hekla::test;

namespace {

std::vector<uint32_t> pattern(std::size_t words, uint64_t seed) {
    RandomStream random(seed, 0);
    std::vector<uint32_t> out(words);
    for (uint32_t& word : out) word = random.next_u32();
    return out;
}

struct CountArguments {
    VkDeviceAddress numbers;
    uint32_t count;
    uint32_t padding;
};

Buffer upload_record(Context& context, const CountArguments& arguments) {
    Buffer record = take(context.memory->create_buffer(sizeof arguments, Residence::upload, "arguments"));
    std::memcpy(record.host().data(), &arguments, sizeof arguments);
    HK_REQUIRE_OK(record.flush(0, sizeof arguments));
    return record;
}

} // namespace

TEST_CASE("a dispatch through addresses") {
    Context context = make();
    std::vector<float> x(1000);
    std::iota(x.begin(), x.end(), 0.0F);
    const std::vector<float> y = take(axpy(context, 0.5F, x, x));
    for (std::size_t i = 0; i < y.size(); ++i) REQUIRE(y[i] == 1.5F * x[i]);
    check_silent(context);
}

TEST_CASE("a kernel in SPIR-V 1.6, whose workgroup's size is an id") {
    Context context = make(validated());
    if (!context.capabilities().spirv_1_6) return;
    const std::vector<float> x(300, 2), y(300, 1);
    CHECK(take(axpy(context, 3, x, y, "axpy.new")) == std::vector<float>(300, 7));
}

TEST_CASE("buffers: addresses, poison, counts, refusals") {
    Context context = make();
    {
        const Buffer a = take(context.memory->create_buffer(1, Residence::device, "a"));
        const Buffer b = take(context.memory->create_buffer((1 << 20) + 3, Residence::readback, "b"));
        CHECK(a.address() % 256 == 0);
        CHECK(b.address() % 256 == 0);
        CHECK(a.bytes() == 1);
        CHECK(b.bytes() == (1 << 20) + 3);
        REQUIRE(b.mapped());
        CHECK(b.host().size() == b.bytes());
        CHECK(static_cast<int>(b.host()[12345]) == 0xFF);
        CHECK(a.mapped() == context.capabilities().mapped_device_memory);
        const MemoryUsage usage = context.memory->usage();
        CHECK(usage.buffers == 2);
        CHECK(usage.current_bytes >= a.bytes() + b.bytes() + 2 * 16384);
        CHECK(usage.peak_bytes == usage.current_bytes);
        if (context.capabilities().memory_budget) CHECK(usage.heap_budget_bytes > 0);
        CHECK(b.flush(0, b.bytes() + 1).code() == Code::internal);
        Buffer moved;
        moved = take(context.memory->create_buffer(64, Residence::upload, "c"));
        Buffer other = std::move(moved);
        CHECK(other.mapped());
        CHECK_FALSE(moved); // NOLINT: moved from, and empty
    }
    CHECK(context.memory->usage().current_bytes == 0);
    CHECK(context.memory->usage().buffers == 0);
    CHECK(context.memory->usage().peak_bytes > 0);
    CHECK(context.memory->create_buffer(0, Residence::device, "none").code() == Code::invalid_argument);
    const auto huge = context.memory->create_buffer(context.memory->max_buffer_bytes() + 1, Residence::device, "huge");
    CHECK(huge.code() == Code::out_of_memory);
    CHECK(huge.message().find("huge") != std::string::npos);
    CHECK(context.memory->create_buffer(UINT64_MAX, Residence::device, "all").code() == Code::out_of_memory);
    check_silent(context);
}

TEST_CASE("a memory cap is enforced, and a refused allocation costs nothing") {
    ContextOptions options = validated();
    options.memory.cap_bytes = 1 << 20;
    Context context = make(options);
    Buffer half = take(context.memory->create_buffer(512 << 10, Residence::device, "half"));
    const auto refused = context.memory->create_buffer(512 << 10, Residence::device, "other half");
    CHECK(refused.code() == Code::out_of_memory);
    CHECK(refused.message().find("other half") != std::string::npos);
    CHECK(refused.message().find("1.0 MiB") != std::string::npos);
    half = {};
    CHECK(context.memory->create_buffer(512 << 10, Residence::device, "again").ok());
    CHECK(context.memory->usage().peak_bytes <= 1 << 20);
}

TEST_CASE("uploads and downloads of any size, mapped and through staging") {
    for (const bool mapped : {true, false}) {
        CAPTURE(mapped);
        ContextOptions options = validated();
        options.memory.allow_mapped_device = mapped;
        Context context = make(options);
        const auto staging = take(Staging::create(context.memory, context.queue, 4096));
        const Buffer buffer = take(context.memory->create_buffer(100001 * 4, Residence::device, "data"));
        CHECK(buffer.mapped() == (mapped && context.capabilities().mapped_device_memory));
        const std::vector<uint32_t> data = pattern(100001, 7);
        HK_REQUIRE_OK(staging->upload<uint32_t>(buffer, 0, data));
        std::vector<uint32_t> back(data.size());
        HK_REQUIRE_OK(staging->download<uint32_t>(buffer, 0, back));
        CHECK(back == data);
        for (const std::size_t words : {1, 2, 1023, 1024, 1025, 2048, 3000}) {
            std::vector<uint32_t> part(words);
            HK_REQUIRE_OK(staging->download<uint32_t>(buffer, 404, part));
            CHECK(std::equal(part.begin(), part.end(), data.begin() + 101));
            HK_REQUIRE_OK(staging->upload<uint32_t>(buffer, 20000, part));
            HK_REQUIRE_OK(staging->download<uint32_t>(buffer, 20000, part));
            CHECK(std::equal(part.begin(), part.end(), data.begin() + 101));
        }
        HK_REQUIRE_OK(staging->fill(buffer, 8, 400, 0xABCD1234));
        HK_REQUIRE_OK(staging->download<uint32_t>(buffer, 0, back));
        CHECK(back[1] == data[1]);
        CHECK(back[2] == 0xABCD1234);
        CHECK(back[101] == 0xABCD1234);
        CHECK(back[102] == data[102]);
        CHECK(staging->upload<uint32_t>(buffer, 4, data).code() == Code::internal);
        CHECK(staging->download<uint32_t>(buffer, UINT64_MAX, back).code() == Code::internal);
        CHECK(staging->fill(buffer, 2, 4, 0).code() == Code::invalid_argument);
        check_silent(context);
    }
}

TEST_CASE("a folded dispatch reaches every group once") {
    for (const uint32_t limit : {0U, 11U}) {
        ContextOptions options = validated();
        if (limit) options.device.overrides.max_groups = limit;
        Context context = make(options);
        const uint32_t count = limit ? 1000 : 70001; // above 65535, and above 11 x 11
        const Buffer numbers = take(context.memory->create_buffer(count * 4, Residence::device, "numbers"));
        HK_REQUIRE_OK(context.staging->fill(numbers, 0, count * 4, 0));
        const Buffer record = upload_record(context, {numbers.address(), count, 0});
        const auto pipeline = take(context.pipelines->get({shader("count"), {}}));
        const auto pool = take(CommandPool::create(context.device));
        CommandBuffer commands = take(pool->allocate(Level::secondary));
        HK_REQUIRE_OK(commands.begin(true));
        commands.dispatch(*pipeline, record.address(), count, 42);
        HK_REQUIRE_OK(commands.end());
        REQUIRE(commands.trace().size() == 1);
        CHECK(commands.trace()[0].tag == 42);
        CHECK((commands.trace()[0].groups[1] > 1) == (count > context.capabilities().max_groups[0]));
        HK_REQUIRE_OK(context.queue->wait(take(context.queue->submit(commands))));
        std::vector<uint32_t> back(count);
        HK_REQUIRE_OK(context.staging->download<uint32_t>(numbers, 0, back));
        CHECK(std::ranges::count(back, 1U) == count);
        check_silent(context);
    }
}

TEST_CASE("subgroups have the requested size") {
    Context context = make();
    const Capabilities& c = context.capabilities();
    if (!c.subgroup_arithmetic) return;
    const Buffer out = take(context.memory->create_buffer(8, Residence::readback, "out"));
    const Buffer record = upload_record(context, {out.address(), 0, 0});
    const auto pool = take(CommandPool::create(context.device));
    CommandBuffer commands = take(pool->allocate(Level::secondary));
    for (uint32_t size = c.min_subgroup_size; size <= c.max_subgroup_size; size *= 2) {
        PipelineDescription description{shader("subgroup"), {c.max_subgroup_size}};
        if (c.subgroup_size_control) description.subgroup_size = size;
        description.full_subgroups = c.full_subgroups;
        const auto pipeline = take(context.pipelines->get(description));
        HK_REQUIRE_OK(commands.begin());
        commands.dispatch(*pipeline, record.address(), 1);
        HK_REQUIRE_OK(commands.end());
        HK_REQUIRE_OK(context.queue->wait(take(context.queue->submit(commands))));
        uint32_t words[2];
        HK_REQUIRE_OK(out.invalidate(0, 8));
        std::memcpy(words, out.host().data(), 8);
        if (c.subgroup_size_control) CHECK(words[0] == size);
        CHECK(words[1] == words[0] * (words[0] - 1) / 2);
    }
    check_silent(context);
}

TEST_CASE("pipelines are cached, and rejected if the device does not support them") {
    ContextOptions options = validated();
    options.device.overrides.disable = {"storage_16bit", "subgroup_size_control"};
    options.device.overrides.shared_memory_bytes = 16384;
    Context context = make(options);
    PipelineDescription description{shader("axpy"), {64, 0}};
    const auto first = take(context.pipelines->get(description));
    CHECK(take(context.pipelines->get(description)) == first);
    CHECK(first->workgroup() == std::array<uint32_t, 3>{64, 1, 1});
    description.constants[0] = 32;
    CHECK(take(context.pipelines->get(description)) != first);
    CHECK(context.pipelines->count() == 2);
    CHECK(context.pipelines->compiled() == 2);

    const auto refuse = [&](PipelineDescription wrong, std::string_view word) {
        const auto refused = context.pipelines->get(wrong);
        CHECK(refused.code() == Code::unsupported);
        CHECK_MESSAGE(refused.message().find(word) != std::string::npos, refused.message());
    };
    refuse({shader("count.f16"), {}}, "StorageBuffer16BitAccess");
    refuse({shader("axpy"), {1 << 20, 0}}, "workgroup");
    refuse({shader("axpy"), {0, 0}}, "workgroup");
    description.shared_memory_bytes = 16385;
    refuse(description, "shared memory");
    description.shared_memory_bytes = 16384;
    CHECK(context.pipelines->get(description).ok());
    description.subgroup_size = 1 << 20;
    refuse(description, "subgroups of");
    description.subgroup_size = 0;
    description.full_subgroups = true;
    refuse(description, "full subgroups");
    CHECK(context.pipelines->get({}).code() == Code::invalid_argument);
    check_silent(context);
}

TEST_CASE("several threads create the same pipelines") {
    Context context = make();
    std::vector<std::thread> threads;
    std::atomic<int> failed = 0;
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&] {
            for (uint32_t i = 1; i <= 4; ++i) {
                if (!context.pipelines->get({shader("axpy"), {8 * i, 0}}).ok()) ++failed;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(failed == 0);
    CHECK(context.pipelines->count() == 4);
    check_silent(context);
}

TEST_CASE("the driver's pipeline cache is saved, read, and rejected when it is damaged") {
    const TestFolder folder;
    std::vector<std::string> lines;
    ContextOptions options = validated();
    options.device.log = Log([&](Severity, std::string_view line) { lines.emplace_back(line); });
    options.cache = folder_cache(folder.path());
    {
        Context context = make(options);
        CHECK_FALSE(context.pipelines->started_from_cache());
        HK_REQUIRE_OK(context.pipelines->save()); // nothing was compiled, so nothing is written
        CHECK(std::filesystem::is_empty(folder.path()));
        CHECK(context.pipelines->get({shader("axpy"), {64, 0}}).ok());
        HK_REQUIRE_OK(context.pipelines->save());
    }
    REQUIRE_FALSE(std::filesystem::is_empty(folder.path()));
    const std::filesystem::path file = std::filesystem::directory_iterator(folder.path())->path();
    {
        Context context = make(options);
        CHECK(context.pipelines->started_from_cache());
        CHECK(context.pipelines->get({shader("axpy"), {64, 0}}).ok());
        CHECK(lines.empty());
    }
    const std::string good = read_file(file).value();
    for (const std::size_t at : {std::size_t{0}, std::size_t{9}, std::size_t{20}, good.size() - 1}) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 0x40);
        HK_REQUIRE_OK(write_file_atomically(file, bad));
        lines.clear();
        Context context = make(options);
        CHECK_FALSE(context.pipelines->started_from_cache());
        REQUIRE(lines.size() == 1);
        CHECK(lines[0].find("is not used") != std::string::npos);
    }
    HK_REQUIRE_OK(write_file_atomically(file, good.substr(0, 10)));
    CHECK_FALSE(make(options).pipelines->started_from_cache());
    // An intact cache of another driver: the hash matches, Vulkan's own header does not.
    std::string foreign = good;
    foreign[32 + 8] = static_cast<char>(foreign[32 + 8] ^ 1);
    const Hash128 hash = hash128(std::string_view(foreign).substr(32));
    std::memcpy(foreign.data() + 16, &hash, sizeof hash);
    HK_REQUIRE_OK(write_file_atomically(file, foreign));
    lines.clear();
    CHECK_FALSE(make(options).pipelines->started_from_cache());
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find("another driver") != std::string::npos);
}

TEST_CASE("segments run in order, in as many submits as the budget requires") {
    Context context = make();
    constexpr uint32_t count = 256;
    const Buffer numbers = take(context.memory->create_buffer(count * 4, Residence::device, "numbers"));
    HK_REQUIRE_OK(context.staging->fill(numbers, 0, count * 4, 5));
    const Buffer record = upload_record(context, {numbers.address(), count, 0});
    const auto pipeline = take(context.pipelines->get({shader("count"), {}}));
    const auto pool = take(CommandPool::create(context.device));
    std::vector<CommandBuffer> commands;
    std::vector<Segment> segments;
    for (int i = 0; i < 6; ++i) {
        commands.push_back(take(pool->allocate(Level::secondary)));
        HK_REQUIRE_OK(commands.back().begin());
        if (i == 3) {
            commands.back().fill(numbers, 0, count * 4, 100);
        } else {
            commands.back().dispatch(*pipeline, record.address(), count);
        }
        commands.back().barrier();
        HK_REQUIRE_OK(commands.back().end());
    }
    for (const CommandBuffer& c : commands) segments.push_back({&c, 0.4});
    std::vector<uint32_t> back(count);
    for (const double budget : {0.0, 1.0, 0.1}) {
        const uint64_t before = context.queue->submits();
        SubmitOptions options;
        options.budget_seconds = budget;
        const uint64_t value = take(context.queue->submit(segments, options));
        CHECK(context.queue->submits() - before == (budget == 0.0 ? 1 : budget == 1.0 ? 3 : 6));
        HK_REQUIRE_OK(context.queue->wait(value));
        CHECK(take(context.queue->reached(value)));
        HK_REQUIRE_OK(context.staging->download<uint32_t>(numbers, 0, back));
        CHECK(std::ranges::count(back, 102U) == count);
    }
    CHECK(context.queue->wait(context.queue->last_submitted() + 1).code() == Code::invalid_argument);
    CommandBuffer primary = take(pool->allocate(Level::primary));
    CHECK(context.queue->submit(primary).code() == Code::invalid_argument);
    check_silent(context);
}

TEST_CASE("submits wait for and signal a timeline of the host") {
    Context context = make();
    const Functions& f = context.device->functions();
    VkSemaphoreTypeCreateInfo type{};
    type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    VkSemaphoreCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
    create.pNext = &type;
    VkSemaphore semaphore = VK_NULL_HANDLE;
    REQUIRE(f.vkCreateSemaphore(context.device->handle(), &create, nullptr, &semaphore) == VK_SUCCESS);
    {
        // Two of our queues on the same VkQueue: the first waits for the second's work.
        const auto other = take(Queue::create(context.device));
        const TimelinePoint signal{semaphore, 7};
        SubmitOptions first;
        first.signals = std::span(&signal, 1);
        const uint64_t done = take(other->submit({}, first));
        SubmitOptions second;
        const TimelinePoint wait{semaphore, 7};
        second.waits = std::span(&wait, 1);
        HK_REQUIRE_OK(context.queue->wait(take(context.queue->submit({}, second))));
        CHECK(take(other->reached(done)));
        uint64_t reached = 0;
        REQUIRE(f.vkGetSemaphoreCounterValue(context.device->handle(), semaphore, &reached) == VK_SUCCESS);
        CHECK(reached == 7);
        // A wait for an unsignaled value times out, and succeeds later.
        const auto signal_by_hand = reinterpret_cast<PFN_vkSignalSemaphore>(
            f.vkGetDeviceProcAddr(context.device->handle(), "vkSignalSemaphore"));
        const TimelinePoint later{semaphore, 8};
        second.waits = std::span(&later, 1);
        const uint64_t value = take(context.queue->submit({}, second));
        CHECK_FALSE(take(context.queue->wait_for(value, std::chrono::milliseconds(20))));
        VkSemaphoreSignalInfo info{};
        info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO;
        info.semaphore = semaphore;
        info.value = 8;
        REQUIRE(signal_by_hand(context.device->handle(), &info) == VK_SUCCESS);
        HK_REQUIRE_OK(context.queue->wait(value));
    }
    HK_REQUIRE_OK(context.queue->wait_all());
    f.vkDestroySemaphore(context.device->handle(), semaphore, nullptr);
    check_silent(context);
}

TEST_CASE("work is timed, with timestamps and without") {
    for (const bool timestamps : {true, false}) {
        ContextOptions options = validated();
        if (!timestamps) options.device.overrides.disable = {"timestamps"};
        Context context = make(options);
        constexpr uint32_t count = 20000;
        const Buffer numbers = take(context.memory->create_buffer(count * 4, Residence::device, "numbers"));
        const Buffer record = upload_record(context, {numbers.address(), count, 0});
        const auto pipeline = take(context.pipelines->get({shader("count"), {}}));
        const auto pool = take(CommandPool::create(context.device));
        CommandBuffer commands = take(pool->allocate(Level::secondary));
        HK_REQUIRE_OK(commands.begin());
        commands.dispatch(*pipeline, record.address(), count);
        HK_REQUIRE_OK(commands.end());
        const auto started = std::chrono::steady_clock::now();
        const Measurement measured = take(measure(*context.queue, commands, 1, 5));
        const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
        CHECK(measured.from_timestamps == (timestamps && context.capabilities().timestamps));
        CHECK(measured.seconds.size() == 5);
        CHECK(measured.median_seconds > 0);
        CHECK(std::accumulate(measured.seconds.begin(), measured.seconds.end(), 0.0) < wall);
        CHECK(measure(*context.queue, commands, 0, 0).code() == Code::invalid_argument);
        if (!timestamps) CHECK(Timer::create(context.device, 2).code() == Code::unsupported);
        check_silent(context);
    }
}

TEST_CASE("recording errors are kept until end() returns them") {
    Context context = make();
    const Buffer small = take(context.memory->create_buffer(64, Residence::device, "small"));
    const auto pool = take(CommandPool::create(context.device));
    CommandBuffer commands = take(pool->allocate(Level::secondary));
    CHECK(commands.end().code() == Code::failed_precondition);
    HK_REQUIRE_OK(commands.begin(true));
    commands.fill(small, 32, 64, 0);
    commands.copy(small, 0, small, 0, 65);
    const Status status = commands.end();
    CHECK(status.code() == Code::internal);
    CHECK(status.message().find("fill") != std::string::npos);
    CHECK(commands.trace().empty());
    HK_REQUIRE_OK(commands.begin());
    const std::vector<std::byte> bytes(64, std::byte{9});
    commands.update(small, 0, bytes);
    HK_REQUIRE_OK(commands.end());
    HK_REQUIRE_OK(context.queue->wait(take(context.queue->submit(commands))));
    std::vector<std::byte> back(64);
    HK_REQUIRE_OK(context.staging->download(small, 0, std::span(back)));
    CHECK(back == bytes);
    check_silent(context);
}

TEST_CASE("GPU-assisted validation detects an address beyond its buffer") {
    ContextOptions options;
    options.device.validation = Validation::gpu_assisted;
    options.memory.guard_bytes = 65536; // reads and writes there do no harm
    Context context = make(options);
    constexpr uint32_t count = 1000;
    const Buffer numbers = take(context.memory->create_buffer(count * 4, Residence::device, "numbers"));
    const auto pipeline = take(context.pipelines->get({shader("count"), {}}));
    const auto pool = take(CommandPool::create(context.device));
    CommandBuffer commands = take(pool->allocate(Level::secondary));
    // Also beyond the guard: the layer knows the VkBuffer, and the guard is part of it.
    for (const uint32_t beyond : {0U, 64U}) {
        const Buffer record = upload_record(context, {numbers.address() + (beyond ? 65536 : 0), count + beyond, 0});
        HK_REQUIRE_OK(commands.begin());
        commands.dispatch(*pipeline, record.address(), count + beyond);
        HK_REQUIRE_OK(commands.end());
        HK_REQUIRE_OK(context.queue->wait(take(context.queue->submit(commands))));
        const ValidationCounts counts = context.device->validation_counts();
        CAPTURE(counts.first);
        CHECK((counts.errors > 0) == (beyond > 0));
    }
}
