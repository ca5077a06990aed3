// A component's JSON object in a tokenizer.json, with its place in the file for messages.
#pragma once

#include "text/files/json_file.hpp"
#include "text/pipeline/pattern.hpp"

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

class Section {
public:
    // `place`: "pre_tokenizer", "pre_tokenizer.pretokenizers[2]". `name`: of the file. Both values must outlive this.
    Section(const Json& json, std::string place, const std::string& name)
        : json_(&json), place_(std::move(place)), name_(&name) {}

    const Json& json() const { return *json_; }
    const std::string& place() const { return place_; }
    bool is_null() const { return json_->is_null(); }

    Result<std::string> type() const; // error: not an object with a "type"
    // Returns the error for a type or option that is not supported.
    Status refused(std::string_view what, std::string_view supported) const;
    // Checks that there are no members except "type" and these.
    Status check_members(std::initializer_list<const char*> known) const;

    Result<bool> flag(const char* key, bool otherwise) const;
    Result<std::string> text(const char* key, const std::string& otherwise) const;
    Result<std::size_t> count(const char* key, std::size_t otherwise) const;
    Result<char32_t> character(const char* key, char32_t otherwise) const; // a string of one character
    Result<Pattern> pattern() const; // "pattern": {"String": ...} or {"Regex": ...}
    // Returns the steps of a "Sequence", and one step itself as the only one.
    Result<std::vector<Section>> steps(const char* list) const;

private:
    Status damaged(const std::string& what) const;
    const Json* json_;
    std::string place_;
    const std::string* name_;
};

} // namespace hekla::text
