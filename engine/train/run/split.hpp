// One of the training, validation and test data of a run, as examples.
#pragma once

#include "base/status.hpp"
#include "batch/rows_by_length.hpp"
#include "data/class_balance.hpp"
#include "data/encoded.hpp"
#include "data/length_groups.hpp"
#include "data/packed_rows.hpp"
#include "data/window_order.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::batch {
struct DrawnExample;
}
namespace hekla::data {
struct Field;
class TaskTable;
} // namespace hekla::data
namespace hekla::plugin {
class Composition;
}

namespace hekla::train {

class Split {
public:
    uint64_t size() const { return order_.examples_per_epoch(); } // examples per epoch
    const data::EncodedExamples& examples() const { return *examples_; }
    // Returns the rows of an epoch of training: size(), or fewer if they hold several examples.
    uint64_t rows() const { return packed_ != nullptr ? packed_->size() : size(); }
    // Returns the example that a run draws at position `number`. Thread: any, several at once.
    batch::DrawnExample draw(uint64_t number) const;
    // Returns the examples of the row that a training draws at position `number`. Thread: any, several at once.
    std::vector<batch::DrawnExample> row(uint64_t number) const;
    // Returns example i of size(), in the order of the data.
    batch::DrawnExample at(uint64_t i) const;
    // Makes the fields of a batch of this split's examples, as batch::make_fields() does. Errors: those of the
    // objective, with the file and line of the row that it refuses. Thread: any, several at once.
    Status make_fields(const plugin::Composition& composition, std::span<const batch::DrawnExample> examples,
                       uint64_t seed, int64_t batch, int64_t length, std::vector<data::Field>& fields,
                       std::pmr::memory_resource* memory, uint64_t step) const;
    // The same for a training, where DrawnExample::row gives the row of an example if rows hold several.
    Status make_training_fields(const plugin::Composition& composition, std::span<const batch::DrawnExample> examples,
                                uint64_t seed, int64_t batch, int64_t length, std::vector<data::Field>& fields,
                                std::pmr::memory_resource* memory, uint64_t step) const;
    // Returns all examples, or, with a limit above 0, that many, evenly spaced and the same ones every time. Each is
    // assigned the shortest of `lengths` (ascending) that holds it; the longest truncates it.
    std::vector<batch::RowLength> spread(const plugin::Composition& composition, std::span<const int64_t> lengths,
                                         uint64_t limit) const;
    // Returns the file and line of example i of a table, and the text of a column; empty without a table.
    std::string place(uint64_t i) const;
    std::string text(uint64_t i, std::string_view column) const;
    std::string group(uint64_t i) const; // its value in the column data.group

private:
    using Make = std::function<Status(std::span<const batch::DrawnExample>)>;
    // Calls `make`. If an example is refused, adds its file and line.
    Status made(std::span<const batch::DrawnExample> examples, const Make& make) const;

    friend class RunData;
    std::shared_ptr<const data::EncodedExamples> examples_;
    std::shared_ptr<const data::LengthGroups> groups_;  // replaces order_ if rows are grouped by length
    std::shared_ptr<const data::PackedRows> packed_;    // replaces order_ if rows hold several examples
    std::shared_ptr<const data::ClassBalance> balance_; // replaces order_ if classes are balanced
    data::WindowOrder order_, sequence_;
    std::shared_ptr<const data::TaskTable> table_;
    std::vector<uint64_t> rows_; // of the table
};

} // namespace hekla::train
