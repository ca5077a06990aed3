// Python's pickle format, read as data. A pickle is a program for a stack machine, and Python's own machine calls
// whatever function the program names; this one builds texts, numbers, tuples, lists and dictionaries, and hands every
// named function to its owner, who knows the few that make a tensor. Nothing of the file is ever run.
#pragma once

#include "base/status.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hekla::model {

inline constexpr std::size_t pickle_size_limit = 64'000'000;  // bytes of one program
inline constexpr std::size_t pickle_object_limit = 1'000'000; // some 60,000 tensors

// An object of a Pickle, by number: objects refer to one another freely, in circles too, and live as long as it.
using PickleId = uint32_t;

enum class PickleKind : uint8_t { none, boolean, integer, real, text, tuple, list, dictionary, function, external };
std::string_view name_of(PickleKind kind); // "a text", "a tuple", ...

struct PickleObject {
    PickleKind kind = PickleKind::none;
    int64_t number = 0; // boolean, integer; external: the owner's own
    std::string text;   // text; function: "module.name"; an integer too large for `number`: its bytes, low first
    std::vector<PickleId> items; // tuple, list; dictionary: key, value, key, value, ...
};

class Pickle;

// What names and foreign objects in the file mean. Errors end the reading.
class PickleMeaning {
public:
    virtual ~PickleMeaning() = default;
    virtual Status check_function(const std::string& name) = 0; // "module.name" may be named at all
    virtual Result<PickleId> call(Pickle& pickle, const std::string& function, PickleId arguments) = 0; // a tuple
    virtual Result<PickleId> persistent(Pickle& pickle, PickleId id) = 0; // what the file keeps elsewhere
};

// One program's objects. Thread: one at a time.
class Pickle {
public:
    // Runs the program at the beginning of `bytes` up to its end; `used` is how long it was. Nothing is allocated by a
    // number in the file, nothing recurses. Errors: corrupt (with the place), unsupported (an instruction or protocol
    // that is not read), and the meaning's own.
    static Result<Pickle> read(std::span<const std::byte> bytes, PickleMeaning& meaning, std::size_t& used);

    const PickleObject& root() const { return objects_[root_]; }
    const PickleObject& at(PickleId id) const { return objects_[id]; }
    Result<PickleId> add(PickleObject object);

private:
    friend class PickleMachine;
    std::vector<PickleObject> objects_;
    PickleId root_ = 0;
};

} // namespace hekla::model
