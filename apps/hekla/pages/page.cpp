#include "pages/page.hpp"

#include "base/markup.hpp"
#include "pages_texts.hpp"

namespace hekla::app {

std::string_view page_file(std::string_view file) { return embedded::pages_text(file); }

std::string fill_page(std::string_view file,
                      std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
    const std::string_view page = page_file(file);
    std::string out;
    for (std::size_t at = 0; at < page.size();) {
        bool replaced = false;
        for (const auto& [name, value] : values) {
            const std::string_view rest = page.substr(at);
            if (rest.size() < name.size() + 2 || rest[0] != '%' || rest.substr(1, name.size()) != name ||
                rest[name.size() + 1] != '%')
                continue;
            out += value;
            at += name.size() + 2;
            replaced = true;
            break;
        }
        if (!replaced) out += page[at++];
    }
    return out;
}

std::string section(const std::string& title, const std::string& content) {
    return content.empty() ? "" : "<section><h2>" + escape_markup(title) + "</h2>" + content + "</section>\n";
}

} // namespace hekla::app
