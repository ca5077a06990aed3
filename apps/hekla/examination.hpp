// What `hekla doctor` finds out about this machine: the Vulkan devices, what the engine can do with them, and how to
// repair what is wrong.
#pragma once

#include "command.hpp"

#include <nlohmann/json.hpp>

namespace hekla::app {

// The result of one check. `advice` is what to do if it is not good.
struct Finding {
    std::string what, value, advice;
    bool good = true;
    bool fatal = false; // the engine cannot run
};

// Collects findings; prints each at once, unless `quiet`.
class Doctor {
public:
    explicit Doctor(bool quiet) : quiet_(quiet) {}
    void add(Finding finding);
    void good(const std::string& what, const std::string& value) { add({what, value, "", true, false}); }
    void note(const std::string& what, const std::string& value, const std::string& advice) {
        add({what, value, advice, false, false});
    }
    void bad(const std::string& what, const std::string& value, const std::string& advice) {
        add({what, value, advice, false, true});
    }
    void number(const char* key, const nlohmann::ordered_json& value) { report_[key] = value; }
    bool healthy() const { return !failed_; } // nothing fatal was found
    nlohmann::ordered_json report() const;    // findings and numbers

private:
    bool quiet_;
    bool failed_ = false;
    nlohmann::ordered_json report_{{"healthy", false}, {"findings", nlohmann::ordered_json::array()}};
};

// Checks loader, driver, features, correctness and speed, until something is fatal.
void examine(Doctor& doctor, const Globals& globals);

// Prints the Vulkan devices, as JSON if `json`. Returns the exit status.
int list_devices(const Globals& globals, bool json);

} // namespace hekla::app
