#include "model/safetensors.hpp"

#include "temporary.hpp"

#include <doctest/doctest.h>
#include <functional>

namespace safetensors_test {

using namespace hekla;
using namespace hekla::model;
using namespace hekla::test;

namespace {

const std::string good =
    R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}})";

struct Hostile {
    const char* what;
    std::string header;
    std::size_t buffer;
    const char* expected; // part of the message
    Code code = Code::corrupt;
};

std::string one(const std::string& fields) { return R"({"w":{)" + fields + "}}"; }

std::vector<Hostile> hostile_headers() {
    const std::string deep(100'000, '[');
    return {
        // The header as JSON.
        {"empty", "", 0, "does not begin with '{'"},
        {"an array", "[]", 0, "does not begin with '{'"},
        {"space first", " {}", 0, "does not begin with '{'"},
        {"cut", R"({"a":)", 0, "the header is not JSON"},
        {"not JSON", "{a:1}", 0, "the header is not JSON"},
        {"trailing garbage", "{}x", 0, "the header is not JSON"},
        {"two objects", "{}{}", 0, "the header is not JSON"},
        {"trailing comma", R"({"__metadata__":{},})", 0, "the header is not JSON"},
        {"NaN", one(R"("dtype":"F32","shape":[NaN],"data_offsets":[0,4])"), 4, "the header is not JSON"},
        {"not UTF-8", "{\"\xff\":{}}", 0, "the header is not JSON"},
        {"half a surrogate", R"({"\ud800":{}})", 0, "the header is not JSON"},
        {"NUL bytes", std::string("{\0}", 3), 0, "the header is not JSON"},
        {"deep arrays", R"({"w":{"dtype":"F32","shape":)" + deep, 0, "shape holds an array"},
        {"deep metadata", R"({"__metadata__":{"a":)" + deep + std::string(100'000, ']') + "}}", 0,
         "__metadata__: \"a\" is an array"},
        {"NUL after the header", std::string("{}\0", 3), 0, "its byte 3 is NUL"},
        {"deep objects", R"({"w":{"dtype":{"dtype":{}}}})", 0, "dtype is an object, text was expected"},
        // Entries.
        {"tensor is a number", R"({"w":1})", 0, "tensor \"w\": is the number 1, an object"},
        {"tensor is null", R"({"w":null})", 0, "tensor \"w\": is null"},
        {"tensor is an array", R"({"w":[]})", 0, "tensor \"w\": is an array"},
        {"tensor is text", R"({"w":"x"})", 0, "tensor \"w\": is text"},
        {"tensor is a boolean", R"({"w":true})", 0, "tensor \"w\": is a boolean"},
        {"empty entry", R"({"w":{}})", 0, "tensor \"w\": has no dtype"},
        {"no shape", one(R"("dtype":"F32","data_offsets":[0,4])"), 4, "tensor \"w\": has no shape"},
        {"no offsets", one(R"("dtype":"F32","shape":[1])"), 4, "tensor \"w\": has no data_offsets"},
        {"unknown key", one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"strides":[1])"), 4,
         "has a key \"strides\""},
        {"dtype twice", one(R"("dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4])"), 4,
         "dtype occurs twice"},
        {"shape twice", one(R"("dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4])"), 4, "shape occurs twice"},
        {"offsets twice", one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"data_offsets":[0,4])"), 4,
         "data_offsets occurs twice"},
        {"name twice",
         R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
         2, "tensor \"w\" occurs twice"},
        {"name twice, escaped once",
         R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0077":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
         2, "tensor \"w\" occurs twice"},
        {"empty name", R"({"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0, "empty name"},
        {"long name", "{\"" + std::string(5000, 'x') + "\":{}}", 0, "5000 bytes long, at most 4096"},
        // Types.
        {"unknown dtype", one(R"("dtype":"F33","shape":[1],"data_offsets":[0,4])"), 4, "dtype \"F33\" does not exist"},
        {"small letters", one(R"("dtype":"f32","shape":[1],"data_offsets":[0,4])"), 4, "dtype \"f32\" does not exist"},
        {"float8", one(R"("dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4])"), 4,
         "dtype F8_E4M3 is not one that is read", Code::unsupported},
        {"unsigned 64", one(R"("dtype":"U64","shape":[1],"data_offsets":[0,8])"), 8, "dtype U64", Code::unsupported},
        {"dtype a number", one(R"("dtype":32,"shape":[1],"data_offsets":[0,4])"), 4, "dtype is the number 32, text"},
        {"dtype null", one(R"("dtype":null,"shape":[1],"data_offsets":[0,4])"), 4, "dtype is null, text"},
        {"control characters", "{\"w\\u001b[2J\":{\"dtype\":\"?\"}}", 0, "\"w\\x1b[2J\""},
        // Shapes.
        {"shape a number", one(R"("dtype":"F32","shape":1,"data_offsets":[0,4])"), 4,
         "shape is the number 1, an array"},
        {"shape an object", one(R"("dtype":"F32","shape":{},"data_offsets":[0,4])"), 4, "shape is an object, an array"},
        {"negative", one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4,
         "shape has the number -1, which is negative"},
        {"fraction", one(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), 4, "shape has the number \"1.0\""},
        {"exponent", one(R"("dtype":"F32","shape":[1e3],"data_offsets":[0,4])"), 4, "shape has the number \"1e3\""},
        {"2^63", one(R"("dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,4])"), 4, "which is 2^63 or more"},
        {"2^64", one(R"("dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,4])"), 4,
         "whole numbers below 2^63"},
        {"text inside", one(R"("dtype":"U8","shape":["4"],"data_offsets":[0,4])"), 4, "shape holds text"},
        {"nested", one(R"("dtype":"U8","shape":[[4]],"data_offsets":[0,4])"), 4, "shape holds an array"},
        {"product overflows", one(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0,
         "larger than 63 bits"},
        {"bytes overflow", one(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])"), 0,
         "larger than 63 bits"},
        {"overflow hidden by a zero", one(R"("dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0])"), 0,
         "larger than 63 bits"},
        {"65 dimensions",
         one(R"("dtype":"U8","shape":[1)" +
             [] {
                 std::string s;
                 for (int i = 0; i < 64; ++i) s += ",1";
                 return s;
             }() +
             R"(],"data_offsets":[0,1])"),
         1, "more than 64 dimensions"},
        {"smaller than its bytes", one(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])"), 8,
         "[0, 8] hold 8 bytes, f32 [1] needs 4"},
        {"larger than its bytes", one(R"("dtype":"F32","shape":[1000000],"data_offsets":[0,8])"), 8,
         "hold 8 bytes, f32 [1000000] needs 4000000"},
        {"wrong dtype for its bytes", one(R"("dtype":"F16","shape":[2],"data_offsets":[0,8])"), 8,
         "hold 8 bytes, f16 [2] needs 4"},
        // Offsets.
        {"one offset", one(R"("dtype":"U8","shape":[4],"data_offsets":[0])"), 4, "data_offsets has 1 numbers, 2"},
        {"no offset", one(R"("dtype":"U8","shape":[4],"data_offsets":[])"), 4, "data_offsets has 0 numbers, 2"},
        {"three offsets", one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4,4])"), 4, "more than 2 numbers"},
        {"negative offset", one(R"("dtype":"U8","shape":[4],"data_offsets":[-4,0])"), 4,
         "data_offsets has the number -4"},
        {"offset text", one(R"("dtype":"U8","shape":[4],"data_offsets":["0",4])"), 4, "data_offsets holds text"},
        {"offset fraction", one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4.0])"), 4,
         "data_offsets has the number"},
        {"offsets a number", one(R"("dtype":"U8","shape":[4],"data_offsets":4)"), 4, "data_offsets is the number 4"},
        {"backwards", one(R"("dtype":"U8","shape":[4],"data_offsets":[4,0])"), 4, "run backwards"},
        {"outside", one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])"), 3, "outside the 3 bytes after the header"},
        {"far outside", one(R"("dtype":"U8","shape":[4],"data_offsets":[18446744073709551611,18446744073709551615])"),
         4, "outside the 4 bytes"},
        {"a hole in front", one(R"("dtype":"U8","shape":[3],"data_offsets":[1,4])"), 4,
         "leaving a gap of 1 bytes after the header"},
        {"a hole between",
         R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
         4, "tensor \"b\": begins at 3, leaving a gap of 1 bytes after tensor \"a\""},
        {"overlap",
         R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
         4, "tensor \"b\": begins at 2, inside tensor \"a\", which ends at 3"},
        {"the same place",
         R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
         4, "inside tensor"},
        {"one inside the other",
         R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
         4, "tensor \"b\": begins at 2, inside tensor \"a\""},
        {"an empty one inside another",
         R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})",
         4, "tensor \"b\": begins at 2, inside"},
        {"bytes after the last", one(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])"), 5,
         "1 bytes follow the last tensor"},
        {"bytes after nothing", "{}", 5, "5 bytes follow the last tensor"},
        // Metadata.
        {"metadata a number", R"({"__metadata__":1})", 0, "__metadata__ is the number 1, an object"},
        {"metadata an array", R"({"__metadata__":[]})", 0, "__metadata__ is an array"},
        {"metadata null", R"({"__metadata__":null})", 0, "__metadata__ is null"},
        {"metadata of numbers", R"({"__metadata__":{"k":1}})", 0, "__metadata__: \"k\" is the number 1, text"},
        {"metadata of null", R"({"__metadata__":{"k":null}})", 0, "__metadata__: \"k\" is null, text"},
        {"metadata nested", R"({"__metadata__":{"k":{}}})", 0, "__metadata__: \"k\" is an object, text"},
        {"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0, "__metadata__ occurs twice"},
        {"metadata key twice", R"({"__metadata__":{"k":"1","k":"2"}})", 0, "__metadata__: \"k\" occurs twice"},
    };
}

std::string parse_error(std::string_view bytes) {
    auto parsed = parse_safetensors(bytes_of(bytes), "f");
    return parsed.ok() ? "" : parsed.message();
}

std::string written(std::span<const TensorSource> sources, const Metadata& metadata = {},
                    TensorOrder order = TensorOrder::huggingface) {
    std::string out;
    const auto status = write_safetensors(
        [&](std::span<const std::byte> bytes) -> Status {
            out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
            return {};
        },
        sources, metadata, order);
    return status.ok() ? out : "error: " + status.message();
}

TensorSource raw(const std::string& name, DType dtype, std::vector<int64_t> dims, std::size_t bytes) {
    TensorSource source;
    source.name = name;
    source.dtype = dtype;
    source.dims = std::move(dims);
    source.stream = [bytes](const Sink& sink) { return sink(std::vector<std::byte>(bytes, std::byte{7})); };
    return source;
}

} // namespace

TEST_CASE("a valid file is read") {
    auto parsed = parse_safetensors(bytes_of(file_of(good, 19)), "f");
    REQUIRE(parsed.ok());
    REQUIRE(parsed->tensors.size() == 2);
    CHECK(parsed->tensors[0].name == "a");
    CHECK(parsed->tensors[0].dims == std::vector<int64_t>{2, 2});
    CHECK(parsed->tensors[0].bytes.size() == 16);
    CHECK(parsed->tensors[1].dtype == DType::u8);
    CHECK(parsed->tensors[1].bytes.size() == 3);
    CHECK(parsed->metadata.empty());
}

TEST_CASE("unusual but valid files are read") {
    for (
        const auto& [header, buffer] : std::vector<std::pair<std::string, std::size_t>>{
            {"{}", 0},
            {"{}      ", 0},
            {R"({"__metadata__":{}})", 0},
            {R"({"__metadata__":{"format":"pt","":""}})", 0},
            {one(R"("dtype":"F32","shape":[],"data_offsets":[0,4])"), 4},
            {one(R"("dtype":"F32","shape":[0],"data_offsets":[0,0])"), 0},
            {one(R"("dtype":"F32","shape":[3,0,2],"data_offsets":[0,0])"), 0},
            {one(R"("data_offsets":[0,2],"shape":[1],"dtype":"BF16")"), 2},
            {R"({ "b" : {"dtype":"U8","shape":[1],"data_offsets":[1,2]}, "a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})",
             2},
            {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[1,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
             1}}) {
        CAPTURE(header);
        CHECK(parse_error(file_of(header, buffer)) == "");
    }
}

TEST_CASE("every hostile header is rejected with a reason") {
    for (const Hostile& hostile : hostile_headers()) {
        CAPTURE(hostile.what);
        const std::string bytes = file_of(hostile.header, hostile.buffer);
        auto parsed = parse_safetensors(bytes_of(bytes), "model.safetensors");
        REQUIRE_FALSE(parsed.ok());
        CHECK(parsed.code() == hostile.code);
        CAPTURE(parsed.message());
        CHECK(parsed.message().starts_with("model.safetensors: "));
        CHECK(parsed.message().find(hostile.expected) != std::string::npos);
        CHECK(parsed.message().size() < 1000);
        for (const char c : parsed.message()) CHECK((static_cast<unsigned char>(c) >= 0x20));
    }
}

TEST_CASE("wrong header lengths") {
    const std::string whole = file_of(good, 19);
    const auto with_length = [&](uint64_t length) {
        std::string bytes = whole;
        std::memcpy(bytes.data(), &length, 8);
        return parse_error(bytes);
    };
    CHECK(with_length(0).find("does not begin with '{'") != std::string::npos);
    CHECK(with_length(1).find("not JSON") != std::string::npos);
    CHECK(with_length(good.size() - 1).find("not JSON") != std::string::npos);
    CHECK(with_length(good.size() + 1).find("not JSON") != std::string::npos);
    CHECK(with_length(good.size() + 20).find("the file is truncated") != std::string::npos);
    CHECK(with_length(kHeaderSizeLimit + 1).find("at most 100000000") != std::string::npos);
    CHECK(with_length(~uint64_t{0}).find("at most 100000000") != std::string::npos);
    CHECK(with_length(~uint64_t{0} - 7).find("at most 100000000") != std::string::npos);
}

TEST_CASE("a file truncated at any byte, or with one more, is rejected") {
    const std::string whole = file_of(good, 19);
    REQUIRE(parse_error(whole) == "");
    for (std::size_t size = 0; size < whole.size(); ++size) {
        CAPTURE(size);
        CHECK(parse_error(std::string_view(whole).substr(0, size)) != "");
    }
    CHECK(parse_error(whole + 'x') != "");
}

TEST_CASE("a header with any one byte changed is rejected or read, without any other effect") {
    std::string bytes = file_of(good, 19);
    std::size_t refused = 0, tried = 0;
    for (std::size_t at = 0; at < 8 + good.size(); ++at) {
        const char before = bytes[at];
        for (const char value : std::string_view("\0\1\"{}[],09-\x7f\xff", 13)) {
            bytes[at] = value;
            ++tried;
            auto parsed = parse_safetensors(bytes_of(bytes), "f");
            if (!parsed.ok())
                ++refused;
            else
                for (const TensorView& tensor : parsed->tensors) {
                    const auto* begin = reinterpret_cast<const char*>(tensor.bytes.data());
                    CHECK(begin >= bytes.data());
                    CHECK(begin + tensor.bytes.size() <= bytes.data() + bytes.size());
                }
        }
        bytes[at] = before;
    }
    CHECK(refused > tried / 2);
}

TEST_CASE("a written file reads back, and any order of tensors gives the same bytes") {
    const std::vector<TensorSource> sources{floats("z", {2, 3}, {1, 2, 3, 4, 5, 6}), raw("half", DType::f16, {5}, 10),
                                            raw("ids", DType::i64, {3}, 24),         raw("flag", DType::boolean, {}, 1),
                                            raw("none", DType::f32, {0, 4}, 0),      floats("a \"b\"\n", {1}, {9})};
    const std::string bytes = written(sources, {{"format", "pt"}});
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), 8);
    CHECK(header % 8 == 0);
    auto parsed = parse_safetensors(bytes_of(bytes), "f");
    REQUIRE(parsed.ok());
    REQUIRE(parsed->tensors.size() == 6);
    CHECK(parsed->metadata == Metadata{{"format", "pt"}});
    std::vector<std::string> names;
    for (const TensorView& tensor : parsed->tensors) {
        names.push_back(tensor.name);
        // Larger types first, so that each starts at a multiple of its size.
        CHECK(static_cast<std::size_t>(reinterpret_cast<const char*>(tensor.bytes.data()) - bytes.data()) %
                  size_of(tensor.dtype) ==
              0);
    }
    CHECK(names == std::vector<std::string>{"ids", "a \"b\"\n", "none", "z", "half", "flag"});
    std::vector<TensorSource> reversed(sources.rbegin(), sources.rend());
    CHECK(written(reversed, {{"format", "pt"}}) == bytes);
    CHECK(written(sources_of(parsed->tensors), parsed->metadata) == bytes);

    auto given = parse_safetensors(bytes_of(written(sources, {}, TensorOrder::given)), "f");
    REQUIRE(given.ok());
    CHECK(given->tensors.front().name == "z");
    CHECK(given->tensors.back().name == "a \"b\"\n");
    CHECK(parse_error(written({})) == "");
}

TEST_CASE("incorrect use of a writer") {
    const auto error = [](std::vector<TensorSource> sources) { return written(sources); };
    CHECK(error({raw("w", DType::f32, {2}, 7)}) == "error: tensor \"w\": its source gave 7 bytes, f32 [2] needs 8");
    CHECK(error({raw("w", DType::f32, {2}, 9)}) ==
          "error: tensor \"w\": its source gave more than the 8 bytes of f32 [2]");
    CHECK(error({raw("w", DType::f32, {-2}, 8)}).find("negative") != std::string::npos);
    CHECK(error({raw("w", DType::f32, {int64_t{1} << 40, int64_t{1} << 40}, 8)}).find("63 bits") != std::string::npos);
    CHECK(error({raw("w", DType::u8, {int64_t{1} << 62}, 0), raw("v", DType::u8, {int64_t{1} << 62}, 0),
                 raw("u", DType::u8, {int64_t{1} << 62}, 0)})
              .find("63 bits") != std::string::npos);
    CHECK(error({raw("w", DType::u8, {1}, 1), raw("w", DType::u8, {1}, 1)}) == "error: tensor \"w\" was given twice");
    CHECK(error({raw("", DType::u8, {1}, 1)}).find("cannot be a tensor's name") != std::string::npos);
    CHECK(error({raw("__metadata__", DType::u8, {1}, 1)}).find("cannot be a tensor's name") != std::string::npos);
    CHECK(error({raw("\xff", DType::u8, {1}, 1)}).find("not UTF-8") != std::string::npos);
    CHECK(error({raw("w", DType::u8, std::vector<int64_t>(65, 1), 1)}).find("65 dimensions") != std::string::npos);
    TensorSource without = raw("w", DType::u8, {1}, 1);
    without.stream = nullptr;
    CHECK(error({without}).find("has no source") != std::string::npos);
}

TEST_CASE("a file is written completely or not at all") {
    TestFolder folder;
    const auto path = folder / "model.safetensors";
    auto record = write_safetensors_file(path, std::vector{floats("w", {2}, {1, 2})});
    REQUIRE(record.ok());
    const std::string before = get(path);
    CHECK(record->name == "model.safetensors");
    CHECK(record->size == before.size());
    CHECK(record->hash == hash128(before));

    TensorSource failing = floats("w", {2}, {1, 2});
    failing.stream = [](const Sink& sink) -> Status {
        HK_TRY(sink(std::vector<std::byte>(4)));
        return Status(Code::device_lost, "the device is gone");
    };
    auto failed = write_safetensors_file(path, std::vector{failing});
    CHECK(failed.code() == Code::device_lost);
    CHECK(get(path) == before);
    CHECK(names_in(folder.path()) == "model.safetensors");

    auto file = SafetensorsFile::open(path);
    REQUIRE(file.ok());
    SafetensorsFile moved = file.take();
    REQUIRE(moved.find("w"));
    CHECK(moved.find("w")->bytes.size() == 8);
    CHECK(moved.find("v") == nullptr);
    CHECK(moved.get("ww").message() == path.string() + ": has no tensor \"ww\"; the nearest is \"w\"");
    // A mapped file may be replaced: the mapping keeps the old one.
    REQUIRE(write_safetensors_file(path, std::vector{floats("other", {1}, {3})}).ok());
    float value = 0;
    std::memcpy(&value, moved.find("w")->bytes.data() + 4, 4);
    CHECK(value == 2);
    CHECK(SafetensorsFile::open(folder / "absent").code() == Code::not_found);
    CHECK_FALSE(SafetensorsFile::open(folder.path()).ok());
    put(folder / "empty", "");
    CHECK(SafetensorsFile::open(folder / "empty").code() == Code::corrupt);
}

TEST_CASE("hashes round-trip") {
    TestFolder folder;
    std::string content(3'000'001, '\0');
    for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * i >> 3);
    auto file = HashedFile::create(folder / "x");
    REQUIRE(file.ok());
    REQUIRE(file->write(std::string_view(content).substr(0, 5)).ok());
    REQUIRE(file->write(std::string_view(content).substr(5)).ok());
    auto written = file->commit();
    REQUIRE(written.ok());
    CHECK(written->hash == hash128(content));
    auto found = hash_file(folder / "x");
    REQUIRE(found.ok());
    CHECK(found->hash == written->hash);
    CHECK(found->size == content.size());
    CHECK_FALSE(hash_file(folder.path()).ok());
    CHECK(hash_file(folder / "y").code() == Code::not_found);
}

TEST_CASE("real files are read, and written again") {
    std::size_t found = 0;
    const auto fixtures = shared() / "fixtures" / "models";
    for (const auto& top : {fixtures, shared() / "data" / "pretrained"}) {
        if (!fs::is_directory(top)) continue;
        for (const auto& entry : fs::recursive_directory_iterator(top)) {
            if (entry.path().extension() != ".safetensors") continue;
            CAPTURE(entry.path().string());
            auto file = SafetensorsFile::open(entry.path());
            REQUIRE_MESSAGE(file.ok(), file.message());
            ++found;
            const std::string again = written(sources_of(file->tensors()), file->metadata());
            // The fixtures were written by the reference's writer, so they are equal byte for byte. Others order
            // tensors differently.
            if (top == fixtures) {
                const bool same = again == get(entry.path());
                CHECK(same);
            }
            auto parsed = parse_safetensors(bytes_of(again), "again");
            REQUIRE(parsed.ok());
            REQUIRE(parsed->tensors.size() == file->tensors().size());
            for (const TensorView& tensor : parsed->tensors) {
                const TensorView* original = file->find(tensor.name);
                REQUIRE(original);
                CHECK(describe(tensor) == describe(*original));
                CHECK(std::ranges::equal(tensor.bytes, original->bytes));
            }
        }
    }
    MESSAGE(found, " real files");
}

} // namespace safetensors_test
