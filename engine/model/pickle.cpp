#include "model/pickle.hpp"

#include "model/tensor.hpp"

#include <bit>
#include <fmt/format.h>

namespace hekla::model {
namespace {

constexpr unsigned kNewestProtocol = 5;

// The supported instructions, by their bytes in the format.
enum class Instruction : uint8_t {
    mark = '(',
    stop = '.',
    pop = '0',
    pop_mark = '1',
    duplicate = '2',
    real8 = 'G',
    int4 = 'J',
    int1 = 'K',
    int2 = 'M',
    none = 'N',
    persistent_id = 'Q',
    reduce = 'R',
    bytes4_python2 = 'T',
    bytes1_python2 = 'U',
    bytes4 = 'B',
    bytes1 = 'C',
    text4 = 'X',
    append = 'a',
    build = 'b',
    global = 'c',
    empty_dictionary = '}',
    appends = 'e',
    get1 = 'h',
    get4 = 'j',
    put1 = 'q',
    put4 = 'r',
    set_item = 's',
    tuple = 't',
    empty_tuple = ')',
    set_items = 'u',
    empty_list = ']',
    protocol = 0x80,
    tuple1 = 0x85,
    tuple2 = 0x86,
    tuple3 = 0x87,
    yes = 0x88,
    no = 0x89,
    long1 = 0x8a,
    text1 = 0x8c,
    text8 = 0x8d,
    stack_global = 0x93,
    memoize = 0x94,
    frame = 0x95,
};

PickleObject object_of(PickleKind kind) {
    PickleObject object;
    object.kind = kind;
    return object;
}

PickleObject number_of(PickleKind kind, int64_t number) {
    PickleObject object = object_of(kind);
    object.number = number;
    return object;
}

} // namespace

std::string_view name_of(PickleKind kind) {
    switch (kind) {
    case PickleKind::none: return "None";
    case PickleKind::boolean: return "True or False";
    case PickleKind::integer: return "an integer";
    case PickleKind::real: return "a number with a fraction";
    case PickleKind::text: return "a string";
    case PickleKind::tuple: return "a tuple";
    case PickleKind::list: return "a list";
    case PickleKind::dictionary: return "a dictionary";
    case PickleKind::function: return "a function's name";
    case PickleKind::external: return "a tensor or storage";
    }
    return "an object";
}

Result<PickleId> Pickle::add(PickleObject object) {
    if (objects_.size() >= kPickleObjectLimit)
        return corrupt(fmt::format("creates more than {} objects", kPickleObjectLimit));
    objects_.push_back(std::move(object));
    return static_cast<PickleId>(objects_.size() - 1);
}

class PickleMachine {
public:
    PickleMachine(std::span<const std::byte> bytes, PickleMeaning& meaning)
        : bytes_(bytes.first(std::min(bytes.size(), kPickleSizeLimit))), meaning_(meaning),
          cut_(bytes.size() > kPickleSizeLimit) {}

    Result<Pickle> run(std::size_t& used) {
        while (!stopped_) {
            const std::size_t place = at_;
            if (const Status status = step(); !status.ok())
                return status.with_context(fmt::format("pickle, byte {}", place));
        }
        used = at_;
        return std::move(pickle_);
    }

private:
    Status step() {
        using enum Instruction;
        HK_ASSIGN(const uint64_t instruction, number(1));
        switch (static_cast<Instruction>(instruction)) {
        case protocol: {
            HK_ASSIGN(const uint64_t version, number(1));
            if (version > kNewestProtocol)
                return unsupported(fmt::format("protocol {} is not known, {} is the newest", version, kNewestProtocol));
            return {};
        }
        case frame: { // the length of the following data, for readers that read ahead
            HK_ASSIGN(const uint64_t size, number(8));
            return size <= bytes_.size() - at_ ? Status() : truncated(size);
        }
        case stop: {
            HK_ASSIGN(pickle_.root_, popped());
            stopped_ = true;
            return {};
        }
        case mark: marks_.push_back(stack_.size()); return {};
        case pop: return popped().status();
        case pop_mark: return from_mark().status();
        case duplicate: HK_TRY(need(1)); return push_id(stack_.back());
        case none: return push(object_of(PickleKind::none));
        case yes: return push(number_of(PickleKind::boolean, 1));
        case no: return push(number_of(PickleKind::boolean, 0));
        case int1: return integer(1);
        case int2: return integer(2);
        case int4: {
            HK_ASSIGN(const uint64_t bits, number(4));
            return push(number_of(PickleKind::integer, static_cast<int32_t>(static_cast<uint32_t>(bits))));
        }
        case long1: return long_integer();
        case real8: { // high byte first; no tensor depends on a real number
            HK_TRY(number(8).status());
            return push(object_of(PickleKind::real));
        }
        case bytes1:
        case bytes1_python2:
        case text1: return text_of(1);
        case bytes4:
        case bytes4_python2:
        case text4: return text_of(4);
        case text8: return text_of(8);
        case empty_tuple: return push(object_of(PickleKind::tuple));
        case tuple1: return tuple_of(1);
        case tuple2: return tuple_of(2);
        case tuple3: return tuple_of(3);
        case tuple: {
            PickleObject made = object_of(PickleKind::tuple);
            HK_ASSIGN(made.items, from_mark());
            return push(std::move(made));
        }
        case empty_list: return push(object_of(PickleKind::list));
        case empty_dictionary: return push(object_of(PickleKind::dictionary));
        case append: {
            HK_ASSIGN(const PickleId item, popped());
            return extend(PickleKind::list, {&item, 1});
        }
        case appends: {
            HK_ASSIGN(const std::vector<PickleId> items, from_mark());
            return extend(PickleKind::list, items);
        }
        case set_item: {
            HK_ASSIGN(const PickleId value, popped());
            HK_ASSIGN(const PickleId key, popped());
            const PickleId pair[]{key, value};
            return extend(PickleKind::dictionary, pair);
        }
        case set_items: {
            HK_ASSIGN(const std::vector<PickleId> items, from_mark());
            if (items.size() % 2 != 0) return corrupt("a dictionary has a key without a value");
            return extend(PickleKind::dictionary, items);
        }
        case global: {
            HK_ASSIGN(const std::string module, line());
            HK_ASSIGN(const std::string name, line());
            return function(module + "." + name);
        }
        case stack_global: {
            HK_ASSIGN(const PickleId name, popped());
            HK_ASSIGN(const PickleId module, popped());
            if (pickle_.at(name).kind != PickleKind::text || pickle_.at(module).kind != PickleKind::text)
                return corrupt("the name of a function is not a string");
            return function(pickle_.at(module).text + "." + pickle_.at(name).text);
        }
        case reduce: {
            HK_ASSIGN(const PickleId arguments, popped());
            HK_ASSIGN(const PickleId called, popped());
            if (pickle_.at(called).kind != PickleKind::function || pickle_.at(arguments).kind != PickleKind::tuple)
                return corrupt(fmt::format("calls {} with {}, a function and a tuple were expected",
                                           name_of(pickle_.at(called).kind), name_of(pickle_.at(arguments).kind)));
            const std::string name = pickle_.at(called).text; // a copy, since a call may add objects and move this one
            HK_ASSIGN(const PickleId made, meaning_.call(pickle_, name, arguments));
            return push_id(made);
        }
        case build: { // attributes of an ordered dictionary (a module's version), not its content
            HK_TRY(popped().status());
            HK_TRY(need(1));
            const PickleKind kind = pickle_.at(stack_.back()).kind;
            if (kind != PickleKind::dictionary)
                return unsupported(fmt::format("sets attributes of {}, which only the code of a class could do: it "
                                               "would run code and is refused",
                                               name_of(kind)));
            return {};
        }
        case persistent_id: {
            HK_ASSIGN(const PickleId id, popped());
            HK_ASSIGN(const PickleId made, meaning_.persistent(pickle_, id));
            return push_id(made);
        }
        case put1: return put(1);
        case put4: return put(4);
        case memoize: return remember(memo_.size());
        case get1: return get(1);
        case get4: return get(4);
        }
        return unsupported(fmt::format("instruction {:#04x} is not one that a file of tensors needs", instruction));
    }

    // ---- the program's bytes ----

    Status truncated(uint64_t wanted) const {
        return corrupt(cut_ ? fmt::format("is longer than {} bytes", kPickleSizeLimit)
                            : fmt::format("ends in the middle: {} more bytes were expected, {} are there", wanted,
                                          bytes_.size() - at_));
    }

    Result<uint64_t> number(std::size_t size) { // low byte first
        if (size > bytes_.size() - at_) return truncated(size);
        uint64_t value = 0;
        for (std::size_t i = 0; i < size; ++i) value |= static_cast<uint64_t>(bytes_[at_ + i]) << (8 * i);
        at_ += size;
        return value;
    }

    Result<std::string> bytes(uint64_t size) {
        if (size > bytes_.size() - at_) return truncated(size);
        std::string text(reinterpret_cast<const char*>(bytes_.data() + at_), static_cast<std::size_t>(size));
        at_ += static_cast<std::size_t>(size);
        return text;
    }

    Result<std::string> line() {
        constexpr std::size_t kLongest = 512;
        std::string text;
        while (text.size() <= kLongest) {
            HK_ASSIGN(const uint64_t next, number(1));
            if (next == '\n') return text;
            text += static_cast<char>(next);
        }
        return corrupt("a function's name is too long");
    }

    // ---- the stack ----

    Status need(std::size_t count) const {
        const std::size_t floor = marks_.empty() ? 0 : marks_.back();
        return stack_.size() - floor >= count ? Status() : corrupt("pops more from the stack than was pushed");
    }
    Result<PickleId> popped() {
        HK_TRY(need(1));
        const PickleId id = stack_.back();
        stack_.pop_back();
        return id;
    }
    Result<std::vector<PickleId>> from_mark() {
        if (marks_.empty()) return corrupt("uses a mark that was not set");
        const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
        std::vector<PickleId> items(begin, stack_.end());
        stack_.erase(begin, stack_.end());
        marks_.pop_back();
        return items;
    }
    Status push_id(PickleId id) {
        stack_.push_back(id);
        return {};
    }
    Status push(PickleObject object) {
        HK_ASSIGN(const PickleId id, pickle_.add(std::move(object)));
        return push_id(id);
    }

    Status integer(std::size_t size) {
        HK_ASSIGN(const uint64_t value, number(size));
        return push(number_of(PickleKind::integer, static_cast<int64_t>(value)));
    }
    Status long_integer() {
        HK_ASSIGN(const uint64_t size, number(1));
        HK_ASSIGN(std::string digits, bytes(size));
        PickleObject made = object_of(PickleKind::integer);
        if (size > sizeof made.number) {
            made.text = std::move(digits);
            return push(std::move(made));
        }
        uint64_t value = 0;
        for (std::size_t i = 0; i < digits.size(); ++i)
            value |= static_cast<uint64_t>(static_cast<uint8_t>(digits[i])) << (8 * i);
        if (!digits.empty() && size < 8 && (static_cast<uint8_t>(digits.back()) & 0x80U) != 0)
            value |= ~uint64_t{0} << (8 * size); // two's complement of that many bytes
        made.number = std::bit_cast<int64_t>(value);
        return push(std::move(made));
    }
    Status text_of(std::size_t width) {
        HK_ASSIGN(const uint64_t size, number(width));
        PickleObject made = object_of(PickleKind::text);
        HK_ASSIGN(made.text, bytes(size));
        return push(std::move(made));
    }
    Status tuple_of(std::size_t count) {
        HK_TRY(need(count));
        PickleObject made = object_of(PickleKind::tuple);
        made.items.assign(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
        stack_.resize(stack_.size() - count);
        return push(std::move(made));
    }
    Status extend(PickleKind kind, std::span<const PickleId> items) {
        HK_TRY(need(1));
        PickleObject& target = pickle_.objects_[stack_.back()];
        if (target.kind != kind)
            return corrupt(fmt::format("adds to {}, {} was expected", name_of(target.kind), name_of(kind)));
        target.items.insert(target.items.end(), items.begin(), items.end());
        return {};
    }
    Status function(std::string name) {
        HK_TRY(meaning_.check_function(name));
        PickleObject made = object_of(PickleKind::function);
        made.text = std::move(name);
        return push(std::move(made));
    }

    // ---- the memo: objects that are referenced again ----

    Status remember(uint64_t place) {
        HK_TRY(need(1));
        memo_[place] = stack_.back();
        return {};
    }
    Status put(std::size_t width) {
        HK_ASSIGN(const uint64_t place, number(width));
        return remember(place);
    }
    Status get(std::size_t width) {
        HK_ASSIGN(const uint64_t place, number(width));
        const auto found = memo_.find(place);
        if (found == memo_.end()) return corrupt(fmt::format("reads memo entry {}, which was not written", place));
        return push_id(found->second);
    }

    std::span<const std::byte> bytes_;
    std::size_t at_ = 0;
    PickleMeaning& meaning_;
    bool cut_ = false, stopped_ = false;
    Pickle pickle_;
    std::vector<PickleId> stack_;
    std::vector<std::size_t> marks_;
    std::unordered_map<uint64_t, PickleId> memo_;
};

Result<Pickle> Pickle::read(std::span<const std::byte> bytes, PickleMeaning& meaning, std::size_t& used) {
    return PickleMachine(bytes, meaning).run(used);
}

} // namespace hekla::model
