// The error type of the engine. A function that can fail returns Status or Result<T>; no exception crosses a room.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace hekla {

// Values are part of the C ABI (hekla/plugin/error.h): never renumber.
enum class Code : int32_t {
    ok = 0,
    invalid_argument = 1,    // the caller's input is wrong: a key, a shape, an option
    not_found = 2,           // a file, plugin, tensor or key that does not exist
    unsupported = 3,         // understood, but not possible: a feature, version, device or combination
    failed_precondition = 4, // a valid call in the wrong state
    out_of_memory = 5,       // host or device memory
    io = 6,                  // the operating system refused a file operation
    corrupt = 7,             // a file or message whose content contradicts itself
    device_lost = 8,         // sticky: the Vulkan device was lost
    cancelled = 9,           // asked to stop
    internal = 10,           // a bug in Hekla
};

const char* code_name(Code code);

// Success, or a code and a message: the given value, the expected one, what to do. Cheap when ok.
class [[nodiscard]] Status {
public:
    Status() = default;
    Status(Code code, std::string message);
    Status(const Status& other);
    Status& operator=(const Status& other);
    Status(Status&&) noexcept = default;
    Status& operator=(Status&&) noexcept = default;
    ~Status() = default;

    bool ok() const { return detail_ == nullptr; }
    explicit operator bool() const = delete; // ask ok(): `if (status)` is ambiguous to readers
    Code code() const { return detail_ ? detail_->code : Code::ok; }
    const std::string& message() const; // empty when ok

    // Returns the same error with "context: " before its message; ok stays ok.
    Status with_context(const std::string& context) const;

private:
    struct Detail {
        Code code;
        std::string message;
    };
    std::unique_ptr<Detail> detail_;
};

Status invalid_argument(std::string message);
Status not_found(std::string message);
Status unsupported(std::string message);
Status failed_precondition(std::string message);
Status out_of_memory(std::string message);
Status io_error(std::string message);
Status corrupt(std::string message);
Status internal_error(std::string message);

// A value or an error. value() must not be called on an error.
template<class T>
class [[nodiscard]] Result {
public:
    Result(T value) : value_(std::move(value)) {}
    Result(Status status) : status_(std::move(status)) {
        if (status_.ok()) status_ = internal_error("an ok status was used as an error");
    }

    bool ok() const { return value_.has_value(); }
    const Status& status() const { return status_; }
    Code code() const { return status_.code(); }
    const std::string& message() const { return status_.message(); }
    T& value() { return *value_; }
    const T& value() const { return *value_; }
    T take() { return std::move(*value_); }
    T* operator->() { return &*value_; }
    const T* operator->() const { return &*value_; }

private:
    std::optional<T> value_;
    Status status_;
};

} // namespace hekla

#define HK_CONCAT_(a, b) a##b
#define HK_CONCAT(a, b) HK_CONCAT_(a, b)

// Returns from the function with the error of an expression of type Status, if it is one.
#define HK_TRY(expression)                                                                                             \
    do {                                                                                                               \
        ::hekla::Status hk_try_status_ = (expression);                                                                 \
        if (!hk_try_status_.ok()) return hk_try_status_;                                                               \
    } while (0)

// HK_ASSIGN(auto x, f()): declares x with the value of a Result, or returns its error.
#define HK_ASSIGN(declaration, expression) HK_ASSIGN_(HK_CONCAT(hk_result_, __LINE__), declaration, expression)
#define HK_ASSIGN_(name, declaration, expression)                                                                      \
    auto name = (expression);                                                                                          \
    if (!name.ok()) return name.status();                                                                              \
    declaration = name.take()
