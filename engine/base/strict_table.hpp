// Reads tables that people write, as JSON or TOML (base/toml.hpp): every key is read by name, with its type and range,
// and what was not read is an error that suggests the nearest name.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hekla {

// What the tables of one file share: the places of values, what is accepted, and the first error.
class TableReading {
public:
    // file: begins every message; empty: none does.
    explicit TableReading(std::string file = {}, Code code = Code::invalid_argument)
        : file_(std::move(file)), code_(code) {}
    TableReading(const TableReading&) = delete;
    TableReading& operator=(const TableReading&) = delete;

    bool refuses_unknown_keys = true;
    bool null_is_absent = false;             // a key with the value null counts as not given
    bool refuses_control_characters = false; // in texts, because they are printed

    const std::string& file() const { return file_; }
    // Sets the place of a value in messages, such as "r.toml:8", instead of the file. The value must stay where it is.
    void set_place(const nlohmann::json& value, std::string place) { places_[&value] = std::move(place); }
    const std::string& place(const nlohmann::json& value) const; // its own, or the file
    bool has_places() const { return !places_.empty(); }
    // Keeps an error at a value, unless there is one already.
    void fail(const nlohmann::json& at, const std::string& what);
    const Status& status() const { return status_; } // the first error

private:
    std::string file_;
    Code code_;
    std::unordered_map<const nlohmann::json*, std::string> places_;
    Status status_;
};

// The numbers that a key accepts, including the limits.
struct NumberRange {
    double low = -std::numeric_limits<double>::infinity();
    double high = std::numeric_limits<double>::infinity();
    bool above = false; // `low` is not accepted
};

// A reader of one table.
class StrictTable {
public:
    // path: of the table, for messages: "train", "provides[0]"; empty: it is the whole file. title: the table in
    // messages about unknown keys: "a task"; empty: by its path. A value that is not a table is an error, and has no
    // keys.
    StrictTable(const nlohmann::json& value, TableReading& reading, std::string path = {}, std::string title = {});

    // Returns the value of a key, which is known from now on; null if it is not given.
    const nlohmann::json* find(std::string_view key);
    // The same for a key that must be given.
    const nlohmann::json* require(std::string_view key);

    // Reads a key into `out` by the take() below of its type; leaves it unchanged and returns false if the key is not
    // given, or wrong.
    template<class T, class... Rule>
    bool read(std::string_view key, T& out, const Rule&... rule) {
        const nlohmann::json* value = find(key);
        return value != nullptr && take(*value, key, out, rule...);
    }
    template<class T, class... Rule>
    bool require(std::string_view key, T& out, const Rule&... rule) {
        const nlohmann::json* value = require(key);
        return value != nullptr && take(*value, key, out, rule...);
    }
    // Reads a table, or each table of an array of `least` or more, by each(StrictTable&).
    template<class Each>
    void table(std::string_view key, const Each& each) {
        if (const nlohmann::json* value = find(key)) read_inner(*value, path_of(key), each);
    }
    template<class Each>
    void tables(std::string_view key, const Each& each, std::size_t least = 1) {
        const nlohmann::json* list = find(key);
        if (list == nullptr) return;
        if (!list->is_array() || list->size() < least) wrong(*list, key, "an array of tables");
        for (std::size_t i = 0; list->is_array() && i < list->size(); ++i)
            read_inner((*list)[i], path_of(key, i), each);
    }

    // Read a value that belongs to a key. choices: accepted texts; empty: all.
    bool take(const nlohmann::json& value, std::string_view key, std::string& out,
              const std::vector<std::string>& choices = {});
    bool take(const nlohmann::json& value, std::string_view key, bool& out);
    bool take(const nlohmann::json& value, std::string_view key, int64_t& out, const NumberRange& range = {});
    bool take(const nlohmann::json& value, std::string_view key, double& out, const NumberRange& range = {});
    bool take(const nlohmann::json& value, std::string_view key, std::vector<std::string>& out,
              const std::vector<std::string>& choices = {}); // an array
    bool take(const nlohmann::json& value, std::string_view key, std::vector<int64_t>& out,
              const NumberRange& range = {}); // an array

    // Keep an error: "PLACE: PATH.KEY: WHAT", where the place is that of a value, or of the key; "PLACE: PATH.KEY: is
    // VALUE, expected EXPECTED"; "PLACE: PATH: WHAT". They return false.
    bool fail(const nlohmann::json& at, std::string_view key, const std::string& what);
    bool fail(std::string_view key, const std::string& what);
    bool wrong(const nlohmann::json& value, std::string_view key, const std::string& expected);
    bool refuse(const std::string& what);

    // Refuses all keys but these, before any of them is found to be missing.
    void expect(std::initializer_list<const char*> keys);
    // Refuses the keys that were not read. Returns the first error of the file.
    const Status& finish();
    // Refuses a key, with the nearest name or `advice`.
    void refuse_key(const std::string& key, const std::string& advice = {});
    std::vector<std::string> unread() const; // keys

    const nlohmann::json& value() const { return value_; } // an object
    const std::string& path() const { return path_; }
    std::string path_of(std::string_view key) const;
    std::string path_of(std::string_view key, std::size_t index) const; // of an array; without it where lines are known
    bool ok() const { return reading_.status().ok(); }

private:
    template<class Each>
    void read_inner(const nlohmann::json& value, std::string path, const Each& each) {
        StrictTable inner(value, reading_, std::move(path));
        if (!value.is_object()) return;
        each(inner);
        inner.finish();
    }

    TableReading& reading_;
    const nlohmann::json& value_;
    std::string path_, title_;
    std::vector<std::string> known_; // keys
};

// Formats a value for a message: as JSON, shortened.
std::string shown_value(const nlohmann::json& value);

} // namespace hekla
