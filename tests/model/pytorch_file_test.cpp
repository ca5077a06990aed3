#include "model/pytorch_file.hpp"

#include "model/pickle.hpp"
#include "model/weights.hpp"
#include "temporary.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>

namespace pytorch_file_test {

using namespace hekla;
using namespace hekla::model;
using namespace hekla::test;

namespace {

fs::path given(const std::string& name) { return fs::path(HEKLA_SOURCE_DIR) / "tests/fixtures/pytorch" / name; }

std::string open_error(const fs::path& path) {
    auto file = PytorchFile::open(path);
    return file.ok() ? "" : file.message();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Returns a file in the old format that contains this pickle program.
std::string legacy(const std::string& program) {
    const std::string number("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
    return number + std::string("\x80\x02M\xe9\x03.", 6) + "\x80\x02}." + "\x80\x02" + program + "." + "\x80\x02].";
}

std::string program_error(const std::string& program) {
    TestFolder folder;
    put(folder / "x.bin", legacy(program));
    return open_error(folder / "x.bin");
}

void check_same(const PytorchFile& file) {
    auto opened = SafetensorsFile::open(given("expected.safetensors"));
    REQUIRE(opened.ok());
    CHECK(file.tensors().size() == opened->tensors().size());
    for (const TensorView& tensor : file.tensors()) {
        CAPTURE(tensor.name);
        const TensorView* expected = opened->find(tensor.name);
        REQUIRE(expected);
        CHECK(tensor.dtype == expected->dtype);
        CHECK(tensor.dims == expected->dims);
        CHECK(std::ranges::equal(tensor.bytes, expected->bytes));
    }
}

// Opens `count` damaged copies of a file, each with a few bytes changed, every fifth also truncated.
void open_damaged(const std::string& name, int count, uint32_t seed) {
    TestFolder folder;
    const std::string whole = get(given(name));
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    int refused = 0;
    for (int i = 0; i < count; ++i) {
        std::string damaged = whole;
        const std::size_t changes = 1 + below(4);
        for (std::size_t k = 0; k < changes; ++k) {
            const std::size_t place = below(damaged.size());
            damaged[place] = static_cast<char>(below(3) == 0 ? 0xff * below(2) : below(256));
        }
        if (i % 5 == 0) damaged.resize(below(damaged.size()));
        put(folder / "x.bin", damaged);
        const auto file = PytorchFile::open(folder / "x.bin");
        if (!file.ok()) {
            ++refused;
            CHECK(!file.message().empty());
            continue;
        }
        std::size_t sum = 0; // reads every byte of the view
        for (const TensorView& tensor : file.value().tensors())
            for (const std::byte b : tensor.bytes) sum += static_cast<std::size_t>(b);
        CHECK(sum < whole.size() * 255 * 4);
    }
    CHECK(refused > 0);
}

} // namespace

TEST_CASE("files saved by PyTorch are read exactly") {
    for (const char* name : {"zip.bin", "zip_protocol4.bin", "legacy.bin"}) {
        CAPTURE(name);
        auto file = PytorchFile::open(given(name));
        if (!file.ok()) FAIL(file.message());
        const PytorchFile moved = file.take();
        check_same(moved);
    }
}

TEST_CASE("functions in a file are named and not executed") {
    for (const char* name : {"runs_code.bin", "runs_code_legacy.bin"}) {
        const std::string error = open_error(given(name));
        CAPTURE(error);
        CHECK(contains(error, std::string(name) + ": pickle, byte "));
        CHECK(contains(error, "names \"posix.system\", which would run code: refused"));
    }
    CHECK(contains(open_error(given("module.bin")), "torch.nn.modules.linear.Linear\", which would run code: refused"));
    CHECK(contains(program_error("cos\nsystem\n"), "\"os.system\", which would run code: refused"));
    CHECK(contains(program_error("\x8c\x02os\x8c\x06system\x93"), "\"os.system\", which would run code: refused"));
    CHECK(contains(program_error("cbuiltins\neval\n"), "would run code: refused"));
    CHECK(contains(program_error("ctorch\nload\n"), "\"torch.load\", which would run code: refused"));
    CHECK(contains(program_error("ctorch\nFloatStorage\n)\x81"), "instruction 0x81 is not one"));
    CHECK(contains(program_error("(ios\nsystem\n"), "instruction 0x69 is not one"));
    CHECK(contains(program_error("]}b"), "would run code and is refused"));
    CHECK(!fs::exists("hekla-was-run"));
}

TEST_CASE("a file without a dictionary of tensors is an error") {
    CHECK(contains(open_error(given("training.bin")), "\"model\" is a dictionary, a tensor was expected"));
    CHECK(contains(open_error(given("complex.bin")), "a type that is not read: \"torch.ComplexFloatStorage\""));
    CHECK(contains(open_error(given("expanded.bin")),
                   "tensor \"weight\": [1000, 1000] repeats elements of its storage, which has 30"));
    CHECK(contains(open_error(given("torchscript.bin")), "is TorchScript"));
    CHECK(contains(open_error(given("expected.safetensors")), "expected.safetensors: pickle, byte 0: instruction"));
    TestFolder folder;
    put(folder / "x.bin", "");
    CHECK(contains(open_error(folder / "x.bin"), "ends in the middle"));
    put(folder / "x.bin", "PK\x03\x04");
    CHECK(contains(open_error(folder / "x.bin"), "its zip archive cannot be read"));
    put(folder / "x.bin", std::string("\x80\x02M\xe9\x03.", 6));
    CHECK(contains(open_error(folder / "x.bin"), "was not written by torch.save: it is neither"));
    CHECK(contains(open_error(folder / "absent.bin"), "absent.bin"));
    CHECK(contains(program_error("]"), "holds a list, a dictionary from names to tensors was expected"));
    CHECK(contains(program_error("}K\x01Ns"), "has an integer as a key"));
    CHECK(contains(program_error("}X\x01\x01\x01\x01"), "ends in the middle"));
}

namespace {

// A zip archive whose directory declares entries of these sizes; the content of each is the same four bytes.
struct ZipEntry {
    std::string name;
    uint16_t method; // 0: stored, 8: deflated
    uint32_t packed, size;
};

std::string zip_of(const std::vector<ZipEntry>& entries) {
    std::string out, directory;
    const auto put16 = [](std::string& to, uint32_t value) {
        to += static_cast<char>(value & 0xff);
        to += static_cast<char>(value >> 8 & 0xff);
    };
    const auto put32 = [&](std::string& to, uint32_t value) { put16(to, value), put16(to, value >> 16); };
    const auto common = [&](std::string& to, const ZipEntry& entry) {
        put16(to, 20), put16(to, 0), put16(to, entry.method), put32(to, 0); // version, flags, method, time
        put32(to, 0), put32(to, entry.packed), put32(to, entry.size);       // checksum
        put16(to, static_cast<uint32_t>(entry.name.size())), put16(to, 0);
    };
    for (const ZipEntry& entry : entries) {
        directory += "PK\x01\x02";
        put16(directory, 20);
        common(directory, entry);
        put16(directory, 0), put16(directory, 0), put16(directory, 0), put32(directory, 0);
        put32(directory, static_cast<uint32_t>(out.size()));
        directory += entry.name;
        out += "PK\x03\x04";
        common(out, entry);
        out += entry.name + "abcd";
    }
    std::string end = "PK\x05\x06";
    put16(end, 0), put16(end, 0);
    put16(end, static_cast<uint32_t>(entries.size())), put16(end, static_cast<uint32_t>(entries.size()));
    put32(end, static_cast<uint32_t>(directory.size())), put32(end, static_cast<uint32_t>(out.size())), put16(end, 0);
    return out + directory + end;
}

} // namespace

TEST_CASE("zip archives cannot declare more than they contain") {
    const TestFolder folder;
    const auto error = [&](const std::vector<ZipEntry>& entries) {
        put(folder / "x.bin", zip_of(entries));
        return open_error(folder / "x.bin");
    };
    // 4 bytes that would expand to 2 GB.
    CHECK(contains(error({{"x/data.pkl", 8, 4, 2'000'000'000}}),
                   "\"x/data.pkl\" in its zip archive is compressed or encrypted; only stored entries are read"));
    const std::string large = error({{"x/data.pkl", 0, 4, 2'000'000'000}});
    CHECK_MESSAGE(contains(large, "declares 2000000000 bytes, at most "), large);
    CHECK_MESSAGE(contains(large, "no larger than the file ("), large);
    CHECK(contains(error({{"x/data.pkl", 0, 4, 4}, {"y/data.pkl", 0, 4, 4}}), "with two files data.pkl"));
    CHECK(contains(error({{"x/other", 0, 4, 4}}), "without data.pkl, so it was not written by torch.save"));
}

TEST_CASE("pickle programs that abuse the interpreter are rejected") {
    using namespace std::string_literals;
    CHECK(contains(program_error("0"), "pops more from the stack than was pushed"));
    CHECK(contains(program_error("K\x01(0"), "pops more from the stack than was pushed"));
    CHECK(contains(program_error("t"), "a mark that was not set"));
    CHECK(contains(program_error("1"), "a mark that was not set"));
    CHECK(contains(program_error("\x85"), "pops more from the stack"));
    CHECK(contains(program_error("h\x05"), "reads memo entry 5, which was not written"));
    CHECK(contains(program_error("j\xff\xff\xff\xff"), "reads memo entry 4294967295"));
    CHECK(contains(program_error("q\x01"), "pops more from the stack"));
    CHECK(contains(program_error("K\x01K\x02\x61"), "adds to an integer, a list was expected"));
    CHECK(contains(program_error("}(K\x01u"), "a key without a value"));
    CHECK(contains(program_error("K\x01)R"), "calls an integer with a tuple"));
    CHECK(contains(program_error("K\x01Q"), "persistent id is not a description of a tensor storage"));
    CHECK(contains(program_error("B\xff\xff\xff\x7f"), "ends in the middle: 2147483647 more bytes were expected"));
    CHECK(contains(program_error("\x95\xff\xff\xff\xff\xff\xff\xff\xff"), "ends in the middle"));
    CHECK(contains(program_error("\x80\x09"), "protocol 9 is not known"));
    CHECK(contains(program_error("ctorch._utils\n_rebuild_tensor_v2\n)R"), "with 0 arguments, 4 were expected"));
    CHECK(contains(program_error("ctorch._utils\n_rebuild_tensor_v2\n(K\x01K\x01))tR"), "a storage was expected"));
    CHECK(contains(program_error("c" + std::string(1000, 'x')), "name is too long"));
    // A dictionary that contains itself, and lists a million deep: valid data, but no tensors.
    CHECK(contains(program_error("}q\x01X\x01\x00\x00\x00xh\x01s"s), "\"x\" is a dictionary, a tensor was expected"));
    CHECK(contains(program_error(std::string(900'000, ']') + std::string(899'999, 'a')), "holds a list"));
    CHECK(contains(program_error(std::string(kPickleObjectLimit + 1, ']')), "more than 1000000 objects"));
    // A list of 1,000 pairs, converted to a dictionary repeatedly.
    std::string many = "]q\x01(";
    for (int i = 0; i < 1000; ++i) many += "NN\x86";
    many += "e";
    for (int i = 0; i < 2000; ++i) many += "0ccollections\nOrderedDict\nh\x01\x85R";
    CHECK(contains(program_error(many), "more than 1000000 objects"));
    const std::string storage = "(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x00"
                                "0X\x03\x00\x00\x00"
                                "cpuK\x04tQ"s;
    const auto tensor = [&](const std::string& rest) {
        return "}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n("s + storage + rest + "tRs";
    };
    CHECK(contains(program_error(tensor("K\x00K\x02\x85K\x01\x85"s)), "storage \"0\" is not in the file"));
    CHECK(contains(program_error(tensor("J\xff\xff\xff\xffK\x02\x85K\x01\x85"s)), "offset is not a number, 0 or more"));
    CHECK(contains(program_error(tensor("K\x00J\xff\xff\xff\xff\x85K\x01\x85"s)),
                   "size holds an integer, a number from 0"));
    CHECK(contains(program_error(tensor("K\x00K\x02\x85)"s)), "has 1 dimensions and 0 strides"));
}

TEST_CASE("views must be inside their storage") {
    using namespace std::string_literals;
    TestFolder folder;
    const auto error = [&](const std::string& window, uint64_t elements = 4, std::size_t bytes = 16) {
        const std::string number("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
        std::string file = number + std::string("\x80\x02M\xe9\x03.", 6) + "\x80\x02}.";
        file += "\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\n"
                "FloatStorage\nX\x01\x00\x00\x00"
                "0X\x03\x00\x00\x00"
                "cpuK\x04tQ"s +
                window + "tRs.";
        file += "\x80\x02]X\x01\x00\x00\x00"
                "0a."s;
        file.append(reinterpret_cast<const char*>(&elements), 8);
        file.append(bytes, '\x01');
        put(folder / "x.bin", file);
        return open_error(folder / "x.bin");
    };
    const std::string huge = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x3f"s;
    CHECK(error("K\x00K\x04\x85K\x01\x85"s) == "");
    CHECK(error("K\x00)"s + ")") == "");
    CHECK(error("K\x01K\x03\x85K\x01\x85"s) == "");
    CHECK(error("K\x00K\x02K\x02\x86K\x01K\x02\x86"s) == "");
    CHECK(contains(error("K\x01K\x04\x85K\x01\x85"s), "tensor \"w\": [4] reaches element 4 of a storage of 4"));
    CHECK(contains(error("K\x00K\x03\x85K\x02\x85"s), "reaches element 4 of a storage of 4"));
    CHECK(contains(error("K\x04))"s), "[] reaches element 4 of a storage of 4"));
    CHECK(contains(error("K\x00K\x03K\x03\x86K\x00K\x01\x86"s), "repeats elements of its storage"));
    CHECK(contains(error("K\x00"s + huge + "\x85K\x00\x85"s), "tensor \"w\": "));
    CHECK(contains(error("K\x00"s + huge + huge + "\x86K\x01K\x01\x86"s), "tensor \"w\""));
    CHECK(contains(error("K\x00K\x04\x85"s + huge + "\x85"), "its strides reach beyond 63 bits"));
    CHECK(contains(error(huge + "K\x04\x85"s + huge + "\x85"), "its strides reach beyond 63 bits"));
    CHECK(contains(error("K\x00K\x04\x85K\x01\x85"s, 5), "has 5 elements, its tensors declare 4"));
    CHECK(contains(error("K\x00K\x04\x85K\x01\x85"s, 4, 15), "ends in the middle of storage \"0\""));
    CHECK(contains(error("K\x00K\x04\x85K\x01\x85"s, 4, 0), "ends in the middle of storage \"0\""));
}

TEST_CASE("a folder of PyTorch files opens like one of safetensors") {
    TestFolder folder;
    fs::copy_file(given("zip.bin"), folder / "pytorch_model.bin");
    auto weights = Weights::open(folder.path());
    if (!weights.ok()) FAIL(weights.message());
    const Weights moved = weights.take();
    CHECK(moved.find("LayerNorm.gamma") != nullptr);
    CHECK(moved.metadata().empty());
    fs::rename(folder / "pytorch_model.bin", folder / "pytorch_model-00001-of-00001.bin");
    std::string map;
    for (const TensorView& tensor : moved.tensors())
        map += (map.empty() ? "\"" : ",\"") + tensor.name + "\":\"pytorch_model-00001-of-00001.bin\"";
    put(folder / "pytorch_model.bin.index.json", "{\"weight_map\":{" + map + "}}");
    CHECK(Weights::open(folder.path()).ok());
    put(folder / "pytorch_model.bin.index.json", "{\"weight_map\":{\"a\":\"x.safetensors\"}}");
    CHECK(contains(Weights::open(folder.path()).message(), "the name of a .bin file in the same folder was expected"));
}

TEST_CASE("damaged files are rejected or read, without any other effect") {
    open_damaged("zip.bin", 300, 1);
    open_damaged("legacy.bin", 300, 2);
    open_damaged("zip_protocol4.bin", 100, 3);
}

TEST_SUITE("long") {
    TEST_CASE("a hundred thousand damaged files") {
        open_damaged("zip.bin", 40'000, 11);
        open_damaged("legacy.bin", 40'000, 12);
        open_damaged("zip_protocol4.bin", 20'000, 13);
    }
}

} // namespace pytorch_file_test
