// The human-readable texts of a source file: string literals with several words, comments, and documents without their
// code.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::style {

struct Text {
    int line = 1; // of its first character
    std::string text;
};

struct CxxTexts {
    std::vector<Text> strings;  // adjacent literals joined
    std::vector<Text> comments; // without the slashes
};

// Splits C, C++, GLSL, Rust or Zig. Escapes in literals become spaces; line comments on consecutive lines are one text.
inline CxxTexts read_cxx(std::string_view source) {
    CxxTexts texts;
    int line = 1;
    bool joins = false;       // only white space since the last literal
    int comment_line = -1;    // of the last line comment
    bool only_comment = true; // on the line so far
    std::size_t i = 0;
    const auto at = [&](std::size_t k) { return k < source.size() ? source[k] : '\0'; };
    const auto literal = [&](int first, const std::string& text) {
        if (joins)
            texts.strings.back().text += text;
        else
            texts.strings.push_back({first, text});
        joins = true;
    };
    while (i < source.size()) {
        const char c = source[i];
        if (c == '\n') {
            ++line;
            only_comment = true;
        }
        if (c == '/' && at(i + 1) == '/') {
            const std::size_t end = std::min(source.find('\n', i), source.size());
            const std::string text(source.substr(i + 2, end - i - 2));
            if (only_comment && comment_line == line - 1)
                texts.comments.back().text += " " + text;
            else
                texts.comments.push_back({line, text});
            comment_line = line;
            i = end;
        } else if (c == '/' && at(i + 1) == '*') {
            const std::size_t end = std::min(source.find("*/", i + 2), source.size());
            texts.comments.push_back({line, std::string(source.substr(i + 2, end - i - 2))});
            for (; i < end; ++i) line += source[i] == '\n' ? 1 : 0;
            i = end + 2;
        } else if (c == 'R' && at(i + 1) == '"' &&
                   (i == 0 || std::isalnum(static_cast<unsigned char>(at(i - 1))) == 0)) {
            const std::size_t open = source.find('(', i);
            const std::string close = ")" + std::string(source.substr(i + 2, open - i - 2)) + "\"";
            const std::size_t end = std::min(source.find(close, open), source.size());
            const std::string text(source.substr(open + 1, end - open - 1));
            literal(line, text);
            for (const char t : text) line += t == '\n' ? 1 : 0;
            i = end + close.size();
        } else if (c == '"') {
            const int first = line;
            std::string text;
            for (++i; i < source.size() && source[i] != '"' && source[i] != '\n'; ++i) {
                text += source[i] == '\\' ? ' ' : source[i];
                if (source[i] == '\\') ++i;
            }
            ++i;
            literal(first, text);
        } else if (c == '\'' && (at(i + 1) == '\\' || at(i + 2) == '\'')) { // not a lifetime, nor a digit separator
            for (++i; i < source.size() && source[i] != '\''; ++i)
                if (source[i] == '\\') ++i;
            ++i;
            joins = false;
        } else {
            if (std::isspace(static_cast<unsigned char>(c)) == 0) joins = only_comment = false;
            ++i;
        }
    }
    return texts;
}

inline std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        lines.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return lines;
}

// Paragraphs of Markdown: without fenced blocks, `code`, and the targets of links.
inline std::vector<Text> read_markdown(std::string_view source) {
    std::vector<Text> texts;
    bool fenced = false, open = false;
    int number = 0;
    for (const std::string_view line : lines_of(source)) {
        ++number;
        if (line.find("```") == line.find_first_not_of(' ') && line.find("```") != std::string_view::npos) {
            fenced = !fenced;
            open = false;
            continue;
        }
        if (fenced || line.find_first_not_of(' ') == std::string_view::npos || line.starts_with("    ")) {
            open = false;
            continue;
        }
        std::string text;
        bool code = false;
        for (std::size_t i = 0; i < line.size(); ++i) {
            if (line[i] == '`')
                code = !code, text += " ` ";
            else if (!code && line.substr(i).starts_with("]("))
                i = std::min(line.find(')', i), line.size()), text += ' ';
            else if (!code)
                text += line[i];
        }
        // A phrase may continue on the next line; a list item or a table row starts a new text.
        const bool begins =
            line.starts_with("|") || line.starts_with("#") || line.starts_with("* ") || line.starts_with("- ");
        if (open && !begins)
            texts.back().text += " " + text;
        else
            texts.push_back({number, text});
        open = true;
    }
    return texts;
}

// Splits comments that begin with '#', of TOML and shell scripts.
inline std::vector<Text> read_hash_comments(std::string_view source) {
    std::vector<Text> texts;
    int number = 0, last = -1;
    for (const std::string_view line : lines_of(source)) {
        ++number;
        char quote = '\0';
        for (std::size_t i = 0; i < line.size(); ++i) {
            if (quote != '\0') {
                if (line[i] == quote) quote = '\0';
            } else if (line[i] == '"' || line[i] == '\'') {
                quote = line[i];
            } else if (line[i] == '#' && (i == 0 || line[i - 1] == ' ')) {
                if (last == number - 1 && i == 0)
                    texts.back().text += " " + std::string(line.substr(1));
                else
                    texts.push_back({number, std::string(line.substr(i + 1))});
                last = number;
                break;
            }
        }
    }
    return texts;
}

// Splits into lower-case words; "'" and "_" are part of a word. Any character between two words except white space ends
// a phrase, and is returned as an empty word.
inline std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    std::string word;
    const auto finish = [&] {
        if (!word.empty()) words.push_back(word);
        word.clear();
    };
    for (const char c : text) {
        const auto u = static_cast<unsigned char>(c);
        if (std::isalnum(u) != 0 || c == '\'' || c == '_' || u >= 128) {
            word += static_cast<char>(std::tolower(u));
        } else {
            finish();
            if (std::isspace(u) == 0 && (words.empty() || !words.back().empty())) words.emplace_back();
        }
    }
    finish();
    return words;
}

} // namespace hekla::style
