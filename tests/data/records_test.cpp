// Rows written once and read at random, in memory and on disk.
#include "counting_resource.hpp"
#include "data/encoded.hpp"
#include "data/row_store.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <random>
#include <string>
#include <vector>

using namespace hekla;

namespace {

// An environment variable that is set while this object exists.
class Variable {
public:
    Variable(const char* name, const char* value) : name_(name) {
        if (const char* old = std::getenv(name)) old_ = old;
        ::setenv(name, value, 1);
    }
    ~Variable() { old_.empty() ? ::unsetenv(name_) : ::setenv(name_, old_.c_str(), 1); }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

private:
    const char* name_;
    std::string old_;
};

} // namespace

TEST_CASE("records: the same rows from memory and from a file") {
    std::mt19937 random(7);
    std::vector<std::string> rows;
    for (int i = 0; i < 3000; ++i) {
        std::string row(random() % 2000, '\0'); // some are empty
        for (char& c : row) c = static_cast<char>(random());
        rows.push_back(std::move(row));
    }
    for (const std::size_t in_memory : {data::Records::kInMemory, std::size_t{100000}, std::size_t{0}}) {
        test::CountingResource memory;
        data::Records records(&memory, in_memory);
        for (const std::string& row : rows) REQUIRE(records.add(row).ok());
        REQUIRE(records.finish().ok());
        const data::Records moved(std::move(records));
        REQUIRE(moved.size() == rows.size());
        bool same = true;
        for (std::size_t i = rows.size(); i-- > 0;) same = same && moved[i] == rows[i];
        CHECK(same);
        std::size_t bytes = 0;
        for (const std::string& row : rows) bytes += row.size();
        if (in_memory > bytes) CHECK(memory.live() >= bytes + rows.size() * sizeof(uint64_t));
        if (in_memory == 0) CHECK(memory.live() < bytes);
    }
    data::Records none;
    REQUIRE(none.finish().ok());
    CHECK(none.size() == 0);
    data::Records empty(std::pmr::new_delete_resource(), 0);
    REQUIRE(empty.add("").ok());
    REQUIRE(empty.finish().ok());
    CHECK(empty[0].empty());
}

TEST_CASE("records: a folder that is not writable is named in the error") {
    const Variable folder("TMPDIR", "/proc");
    data::Records records(std::pmr::new_delete_resource(), 1);
    const Status status = records.add("more than a byte");
    REQUIRE(!status.ok());
    CHECK(status.message().find("/proc: cannot make a temporary file") != std::string::npos);
    CHECK(status.message().find("TMPDIR") != std::string::npos);
}

TEST_CASE("stored examples: every column round-trips") {
    data::EncodedExample example;
    example.document = 9;
    example.columns.push_back({"text", HK_COLUMN_WORDS, {1, 2, 3}, {}, {0, 2}});
    example.columns.push_back({"score", HK_COLUMN_NUMBERS, {}, {0.5F, -1.0F}, {}});
    data::StoredExamples examples;
    REQUIRE(examples.add({}).ok());
    REQUIRE(examples.add(example).ok());
    REQUIRE(examples.finish().ok());
    CHECK(examples.size() == 2);
    CHECK(examples[0].columns.empty());
    const data::EncodedExample back = examples[1];
    CHECK(back.index == 1);
    CHECK(back.document == 9);
    REQUIRE(back.columns.size() == 2);
    CHECK(back.columns[0].name == "text");
    CHECK(back.columns[0].kind == HK_COLUMN_WORDS);
    CHECK(back.columns[0].ids == std::vector<int32_t>{1, 2, 3});
    CHECK(back.columns[0].parts == std::vector<uint64_t>{0, 2});
    CHECK(back.columns[1].numbers == std::vector<float>{0.5F, -1.0F});
}
