// Python's pickle format, read as data. A pickle is a program for a stack machine, and Python's machine calls any
// function that the program names. This one builds strings, numbers, tuples, lists and dictionaries, and passes every
// named function to a PickleMeaning, which knows the few that create a tensor. No code of the file is run.
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

inline constexpr std::size_t kPickleSizeLimit = 64'000'000;  // bytes of one program
inline constexpr std::size_t kPickleObjectLimit = 1'000'000; // about 60,000 tensors

// An object of a Pickle, by number. Objects may refer to each other in cycles, and live as long as the Pickle.
using PickleId = uint32_t;

enum class PickleKind : uint8_t { none, boolean, integer, real, text, tuple, list, dictionary, function, external };
std::string_view name_of(PickleKind kind); // "a string", "a tuple", ...

struct PickleObject {
    PickleKind kind = PickleKind::none;
    int64_t number = 0; // boolean, integer; external: defined by the PickleMeaning
    std::string text;   // text; function: "module.name"; an integer too large for `number`: its bytes, low first
    std::vector<PickleId> items; // tuple, list; dictionary: key, value, key, value, ...
};

class Pickle;

// The meaning of names and external objects in a file. An error ends the reading.
class PickleMeaning {
public:
    virtual ~PickleMeaning() = default;
    virtual Status check_function(const std::string& name) = 0; // fails for a "module.name" that must not occur
    virtual Result<PickleId> call(Pickle& pickle, const std::string& function, PickleId arguments) = 0; // a tuple
    virtual Result<PickleId> persistent(Pickle& pickle, PickleId id) = 0; // an object stored outside the pickle
};

// The objects of one program. Thread: one at a time.
class Pickle {
public:
    // Runs the program at the beginning of `bytes` to its end; `used`: its length. No number in the file determines an
    // allocation, and nothing recurses. Errors: corrupt (with the position), unsupported (an instruction or protocol
    // that is not supported), and those of `meaning`.
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
