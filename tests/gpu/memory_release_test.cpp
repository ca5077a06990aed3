// Device memory that is released and restored: the contents stay, for mapped buffers and through staging, and no memory
// is held in between.
#include "test_context.hpp"

#include "gpu/eviction.hpp"

using namespace hekla;
using namespace hekla::gpu;
using namespace hekla::test;

TEST_CASE("released buffers are restored with their contents, mapped and through staging") {
    for (const bool mapped : {true, false}) {
        CAPTURE(mapped);
        ContextOptions options = validated();
        options.memory.allow_mapped_device = mapped;
        const Context context = make(options);
        const auto memory = take(Memory::create_separate(*context.memory));
        std::vector<Buffer> buffers;
        for (const uint64_t words : {uint64_t{1}, uint64_t{100001}, uint64_t{700000}})
            for (const Residence residence : {Residence::device, Residence::upload, Residence::readback})
                buffers.push_back(take(memory->create_buffer(words * 4, residence, "data")));
        const auto staging = take(Staging::create(context.memory, context.queue, 4096));
        const auto content = [](std::size_t buffer, uint64_t bytes) {
            std::vector<uint32_t> words(static_cast<std::size_t>(bytes / 4));
            for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint32_t>(i * 2654435761u + buffer);
            return words;
        };
        for (std::size_t b = 0; b < buffers.size(); ++b)
            HK_REQUIRE_OK(staging->upload<uint32_t>(buffers[b], 0, content(b, buffers[b].bytes())));
        const uint64_t before = context.memory->usage().current_bytes;
        buffers.erase(buffers.begin() + 4); // a destroyed buffer is not restored
        HK_REQUIRE_OK(evict(*memory, context.queue));
        CHECK(context.memory->usage().buffers <= 4); // those for staging
        CHECK(context.memory->usage().current_bytes < before / 4);
        for (const Buffer& buffer : buffers) {
            CHECK(buffer.handle() == VK_NULL_HANDLE);
            CHECK(!buffer.mapped());
            CHECK(buffer.bytes() > 0);
        }
        HK_REQUIRE_OK(restore(*memory, context.queue));
        for (std::size_t b = 0; b < buffers.size(); ++b) {
            std::vector<uint32_t> back(static_cast<std::size_t>(buffers[b].bytes() / 4));
            HK_REQUIRE_OK(staging->download<uint32_t>(buffers[b], 0, back));
            CHECK(back == content(b < 4 ? b : b + 1, buffers[b].bytes()));
        }
        HK_REQUIRE_OK(evict(*memory, context.queue));
        buffers.pop_back(); // buffers may be destroyed while they are released
        HK_REQUIRE_OK(restore(*memory, context.queue));
        check_silent(context);
    }
}
