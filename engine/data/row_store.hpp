// Rows that are written once and read in any order: in memory while they are small, otherwise in an unnamed file that
// the system pages in and out, so that a table can be larger than memory.
#pragma once

#include "base/file_handle.hpp"
#include "base/resource_allocator.hpp"
#include "base/status.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hekla::data {

// A store of rows. Thread: reading, many at once after finish(); writing, one.
class Records {
public:
    static constexpr std::size_t kInMemory = std::size_t{64} << 20;

    // in_memory: above this many bytes, the rows are stored in a temporary file (TMPDIR).
    explicit Records(std::pmr::memory_resource* memory = std::pmr::new_delete_resource(),
                     std::size_t in_memory = kInMemory)
        : in_memory_(in_memory), buffer_(memory), ends_(memory) {}
    Records(Records&& other) noexcept;
    Records& operator=(Records&& other) noexcept;
    ~Records();

    // Errors contain the folder: it cannot be written, the disk is full.
    Status add(std::string_view record);
    Status finish(); // before the first read

    uint64_t size() const { return ends_.size(); }
    // The result is valid as long as this.
    std::string_view operator[](uint64_t index) const;

private:
    Status flush();
    void swap(Records& other) noexcept;

    std::size_t in_memory_;
    ResourceVector<char> buffer_; // all rows, or those that are not in the file yet
    ResourceVector<uint64_t> ends_;
    FileHandle file_;
    std::string folder_;
    const char* mapped_ = nullptr;
    std::size_t mapped_size_ = 0;
};

} // namespace hekla::data
