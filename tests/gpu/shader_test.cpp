#include "test_context.hpp"
#include <algorithm>

#include "base/file.hpp"
#include "base/philox.hpp"

using namespace hekla;
using namespace hekla::gpu;
using namespace hekla::test;

namespace {

// Each byte of a row is damaged, and the row is cut at each byte: an error that names it, or the same module.
void check_damages(const EmbeddedShader& good) {
    const std::vector<uint8_t> bytes(good.compressed.begin(), good.compressed.end());
    const Shader whole = take(Shader::from_embedded(good));
    const auto refused = [&](const std::vector<uint8_t>& damaged) {
        EmbeddedShader row = good;
        row.compressed = damaged;
        const Result<Shader> read = Shader::from_embedded(row);
        if (read.ok()) {
            CHECK(std::ranges::equal(read->words(), whole.words())); // a bit that means nothing
            return false;
        }
        CHECK(read.code() == Code::corrupt);
        CHECK(read.message().find(good.name) != std::string::npos);
        return true;
    };
    for (std::size_t length = 0; length < bytes.size(); ++length)
        CHECK(refused({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)}));
    std::size_t found = 0;
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        std::vector<uint8_t> damaged = bytes;
        damaged[at] ^= 0x10;
        found += refused(damaged) ? 1 : 0;
    }
    CHECK(found > bytes.size() * 9 / 10);
}

} // namespace

TEST_SUITE("no_device") {

    TEST_CASE("embedded shaders are found by name, with their variants") {
        CHECK(shader("axpy").workgroup()[0].constant == 0);
        CHECK(shader("axpy").workgroup()[1].value == 1);
        CHECK(shader("count").workgroup()[0].constant == -1);
        const Shader half = shader("count.f16");
        CHECK(std::ranges::find(half.capabilities(), 4433U) != half.capabilities().end());
        CHECK_FALSE(half.hash() == shader("count").hash());
        CHECK(Shader::find(embedded::gpu_tests(), "nothing").code() == Code::not_found);
        for (const EmbeddedShader& row : embedded::gpu_tests()) {
            CHECK(row.source_hash.size() == 64);
            CHECK(take(Shader::from_embedded(row)).words()[1] == (row.name == "axpy.new" ? 0x00010600 : 0x00010500));
        }
        const Shader newer = shader("axpy.new"); // SPIR-V 1.6 has no built-in constant for the workgroup's size
        CHECK(newer.is_spirv_1_6());
        CHECK_FALSE(half.is_spirv_1_6());
        CHECK(newer.workgroup()[0].constant == 0);
        CHECK(newer.workgroup()[1].constant == -1);
    }

    TEST_CASE("damaged modules are rejected, or read without leaving their bounds") {
        const Shader good = shader("axpy");
        const std::vector<uint32_t> words(good.words().begin(), good.words().end());
        CHECK(Shader::from_words("empty", {}).code() == Code::corrupt);
        for (std::size_t length = 0; length < words.size(); length += 7) {
            CHECK_FALSE(
                Shader::from_words("cut", {words.begin(), words.begin() + static_cast<std::ptrdiff_t>(length)}).ok());
        }
        RandomStream random(3, 4);
        int refused = 0;
        for (int i = 0; i < 2000; ++i) {
            std::vector<uint32_t> damaged = words;
            damaged[random.next_below(damaged.size())] = random.next_u32();
            refused += Shader::from_words("damaged", damaged).ok() ? 0 : 1;
        }
        CHECK(refused > 100);
        std::vector<uint32_t> newer = words;
        newer[1] = 0x00010700;
        CHECK(Shader::from_words("newer", newer).message().find("1.7") != std::string::npos);
    }

    TEST_CASE("a damaged embedded module is an error that names it") {
        const std::span<const EmbeddedShader> rows = embedded::gpu_tests();
        const auto variant = std::ranges::find_if(rows, [](const EmbeddedShader& row) { return !row.like.empty(); });
        REQUIRE(variant != rows.end());
        EmbeddedShader other = *variant; // after another module than it was compressed after
        other.like = other.compressed;
        CHECK(Shader::from_embedded(other).code() == Code::corrupt);
        for (const EmbeddedShader& good : {rows.front(), *variant}) check_damages(good);
    }

    TEST_CASE("GLSL at run time: compiled, cached, reported") {
        const TestFolder folder;
        const std::string source = read_file(HEKLA_SOURCE_DIR "/tests/gpu/shaders/subgroup.comp").value();
        GlslOptions options;
        options.cache = folder_cache(folder.path() / "cache");
        Hash128 hash;
        {
            GlslCompiler compiler(options);
            HK_REQUIRE_OK(compiler.available());
            const Shader made = take(compiler.compile("subgroup", source));
            hash = made.hash();
            CHECK(made.workgroup()[0].constant == 0);
            const auto wrong = compiler.compile("wrong", "#version 460\nvoid main() { x = 3; }\n");
            CHECK(wrong.code() == Code::invalid_argument);
            CHECK(wrong.message().find("'x' : undeclared identifier") != std::string::npos);
        }
        std::vector<std::filesystem::path> files;
        for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "cache"))
            files.push_back(entry.path());
        REQUIRE(files.size() == 1);
        {
            // Without a compiler only the cache can be used.
            GlslOptions without = options;
            without.module = folder.path() / "no-such-module.so";
            GlslCompiler compiler(without);
            CHECK(take(compiler.compile("subgroup", source)).hash() == hash);
            const auto other = compiler.compile("other", source + "\n");
            CHECK(other.code() == Code::unsupported);
            CHECK(other.message().find("libhekla_glsl.so") != std::string::npos);
            // A damaged cache file is ignored.
            std::string content = read_file(files[0]).value();
            content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 1);
            HK_REQUIRE_OK(write_file_atomically(files[0], content));
            CHECK(compiler.compile("subgroup", source).code() == Code::unsupported);
        }
        GlslCompiler again(options);
        CHECK(take(again.compile("subgroup", source)).hash() == hash);
    }

} // suite
