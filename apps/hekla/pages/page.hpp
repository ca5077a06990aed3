// Self-contained HTML pages, generated from the templates in this folder.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace hekla::app {

// Returns the template `file` with every %NAME% replaced. Values are inserted without escaping.
std::string fill_page(std::string_view file,
                      std::initializer_list<std::pair<std::string_view, std::string_view>> values);
// Returns a file of this folder.
std::string_view page_file(std::string_view file);
// Returns a card with a title, which is escaped; nothing without content.
std::string section(const std::string& title, const std::string& content);

} // namespace hekla::app
