#include "help/completions.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::app {
namespace {

std::string last_word(const std::string& name) { return name.substr(name.rfind(' ') + 1); }

std::vector<std::string> verbs_below(const CommandInfo& command) {
    std::vector<std::string> names;
    for (const CommandInfo& below : command.commands) names.push_back(last_word(below.name));
    return names;
}

const char* kind_name(const OptionInfo& option) {
    switch (option.kind) {
    case ValueKind::choice: return "choice";
    case ValueKind::file: return "file";
    case ValueKind::folder: return "folder";
    case ValueKind::recipe: return "recipe";
    case ValueKind::recipe_key: return "key";
    case ValueKind::text: break;
    }
    return "text";
}

std::string words_of(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

// Returns the option names of a verb and of every verb.
std::vector<std::string> option_names(const CommandInfo& program, const CommandInfo& command) {
    std::vector<std::string> names{"--help"};
    const auto add = [&](const std::vector<OptionInfo>& options) {
        for (const OptionInfo& option : options) names.insert(names.end(), option.names.begin(), option.names.end());
    };
    add(command.options);
    if (!command.name.empty()) add(program.options);
    if (command.name.empty()) names.emplace_back("--version");
    return names;
}

// Quotes a text with single quotes for a shell.
std::string in_quotes(const std::string& text) {
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

// Escapes a text for zsh's _arguments.
std::string zsh_text(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '[' || c == ']' || c == ':' || c == '\\' || c == '`' || c == '$') out += '\\';
        out += c;
    }
    return out;
}

std::string zsh_action(const OptionInfo& option) {
    switch (option.kind) {
    case ValueKind::choice: return fmt::format("({})", words_of(option.choices));
    case ValueKind::file: return "_files";
    case ValueKind::folder: return "_files -/";
    case ValueKind::recipe: return "_files -g \"*.toml\"";
    case ValueKind::recipe_key: return "_hekla_keys";
    case ValueKind::text: break;
    }
    return "( )";
}

std::string zsh_option(const OptionInfo& option) {
    std::string out;
    for (const std::string& name : option.names) {
        std::string spec = option.repeated ? "*" : "";
        spec += fmt::format("{}[{}]", name, zsh_text(option.about));
        if (!option.value.empty()) spec += fmt::format(":{}:{}", zsh_text(option.value), zsh_action(option));
        out += " \\\n    " + in_quotes(spec);
    }
    return out;
}

std::string zsh_function(const std::string& name) {
    std::string out = "_hekla";
    for (const char c : name) out += c == ' ' || c == '-' ? '_' : c;
    return out;
}

std::string zsh_command(const CommandInfo& program, const CommandInfo& command) {
    const std::string name = zsh_function(command.name.empty() ? "" : " " + command.name);
    std::string out = name + "() {\n";
    if (!command.commands.empty()) out += "  local state line\n  local -a verbs\n";
    out += "  _arguments -s";
    if (!command.commands.empty()) out += " -C";
    out += " \\\n    '(- *)'{-h,--help}'[print this help and exit]'";
    if (command.name.empty()) out += " \\\n    '(- *)--version[print the version and exit]'";
    for (const OptionInfo& option : command.options) out += zsh_option(option);
    if (!command.name.empty())
        for (const OptionInfo& option : program.options) out += zsh_option(option);
    std::size_t position = 0;
    for (const OptionInfo& argument : command.arguments) {
        const std::string place = argument.repeated ? "*" : std::to_string(++position);
        out += " \\\n    " + in_quotes(fmt::format("{}:{}:{}", place, zsh_text(argument.value), zsh_action(argument)));
    }
    if (!command.commands.empty()) {
        out += " \\\n    '1:verb:->verb' \\\n    '*::argument:->argument'\n  case $state in\n  verb)\n    verbs=(";
        for (const CommandInfo& below : command.commands)
            out += "\n      " + in_quotes(last_word(below.name) + ":" + zsh_text(summary_of(below)));
        out += "\n    )\n    _describe verb verbs\n    ;;\n  argument)\n    case $line[1] in\n";
        for (const CommandInfo& below : command.commands)
            out += fmt::format("    {}) {} ;;\n", last_word(below.name), zsh_function(" " + below.name));
        out += "    esac\n    ;;\n  esac";
    }
    return out + "\n}\n\n";
}

std::string fish_option(const OptionInfo& option) {
    std::string out;
    for (const std::string& name : option.names)
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    if (!option.value.empty()) {
        switch (option.kind) {
        case ValueKind::choice: out += " -x -a " + in_quotes(words_of(option.choices)); break;
        case ValueKind::folder: out += " -x -a '(__fish_complete_directories)'"; break;
        case ValueKind::file:
        case ValueKind::recipe: out += " -r -F"; break;
        case ValueKind::recipe_key:
        case ValueKind::text: out += " -x"; break;
        }
    }
    return out + " -d " + in_quotes(option.about);
}

} // namespace

std::string bash_completion(const CommandInfo& program, const std::vector<std::string>& recipe_keys) {
    std::string verbs, options, values, arguments;
    for_each_command(program, [&](const CommandInfo& command) {
        const std::string place = in_quotes(command.name);
        if (!command.commands.empty())
            verbs += fmt::format("  {}) words={} ;;\n", place, in_quotes(words_of(verbs_below(command))));
        options += fmt::format("  {}) words={} ;;\n", place, in_quotes(words_of(option_names(program, command))));
        for (const OptionInfo& option : command.options) {
            if (option.value.empty()) continue;
            for (const std::string& name : option.names)
                values += fmt::format("  {}) kind={} words={} ;;\n",
                                      command.name.empty() ? "*' " + name + "'" : in_quotes(command.name + " " + name),
                                      kind_name(option), in_quotes(words_of(option.choices)));
        }
        std::size_t position = 0;
        for (const OptionInfo& argument : command.arguments)
            arguments += fmt::format("  {}) kind={} words={} ;;\n",
                                     in_quotes(command.name + " " + std::to_string(position++)) +
                                         (argument.repeated ? "|" + in_quotes(command.name + " ") + "*" : ""),
                                     kind_name(argument), in_quotes(words_of(argument.choices)));
    });
    return fmt::format(R"sh(# Completion of hekla for bash. Generated by `hekla completion bash`.
# Each function sets what it finds for the verb that is given as "tokenize train".

_hekla_verbs() {{
  words=
  case $1 in
{}  esac
}}

_hekla_options() {{
  words=
  case $1 in
{}  esac
}}

# The kind of an option's value, given as "tokenize train --kind"; "" if it has none.
_hekla_value() {{
  kind= words=
  case $1 in
{}  esac
}}

# The kind of the argument at a position, given as "tokenize train 0".
_hekla_argument() {{
  kind= words=
  case $1 in
{}  esac
}}

_hekla_keys={}

_hekla() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous= verb= words= kind= word position=0 i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${{COMP_WORDS[i]}}
    if [[ $word == = ]]; then
      continue
    elif [[ -n $previous ]]; then
      previous=
    elif [[ $word == -* ]]; then
      _hekla_value "$verb $word"
      [[ -n $kind ]] && previous=$word
    else
      _hekla_verbs "$verb"
      if [[ " $words " == *" $word "* ]]; then
        verb=${{verb:+$verb }}$word
      elif [[ ${{COMP_WORDS[i - 1]}} != = ]]; then
        ((++position))
      fi
    fi
  done
  [[ $current == = ]] && current=
  if [[ -n $previous ]]; then
    _hekla_value "$verb $previous"
  elif [[ $current == -* ]]; then
    _hekla_options "$verb"
    kind=choice
  elif [[ ${{COMP_WORDS[COMP_CWORD]}} == = || ${{COMP_WORDS[COMP_CWORD - 1]}} == = ]]; then
    return # the value of a recipe's key
  else
    _hekla_verbs "$verb"
    kind=choice
    [[ -z $words ]] && _hekla_argument "$verb $position"
  fi
  case $kind in
  choice) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
  key)
    COMPREPLY=($(compgen -W "$_hekla_keys" -S = -- "$current"))
    compopt -o nospace 2>/dev/null
    ;;
  file | folder | recipe)
    local IFS=$'\n' found
    if [[ $kind == folder ]]; then
      COMPREPLY=($(compgen -d -- "$current"))
    elif [[ $kind == recipe ]]; then
      COMPREPLY=($(compgen -d -- "$current"))
      for found in $(compgen -f -- "$current"); do [[ $found == *.toml ]] && COMPREPLY+=("$found"); done
    else
      COMPREPLY=($(compgen -f -- "$current"))
    fi
    compopt -o filenames 2>/dev/null
    ;;
  esac
  return 0
}}

complete -F _hekla hekla
)sh",
                       verbs, options, values, arguments, in_quotes(words_of(recipe_keys)));
}

std::string zsh_completion(const CommandInfo& program, const std::vector<std::string>& recipe_keys) {
    std::string out = "#compdef hekla\n# Completion of hekla for zsh. Generated by `hekla completion zsh`.\n\n"
                      "_hekla_keys() {\n  compadd -S '=' -- \\\n    " +
                      words_of(recipe_keys) + "\n}\n\n";
    for_each_command(program, [&](const CommandInfo& command) { out += zsh_command(program, command); });
    return out + "if [ \"$funcstack[1]\" = _hekla ]; then _hekla \"$@\"; else compdef _hekla hekla; fi\n";
}

std::string fish_completion(const CommandInfo& program, const std::vector<std::string>& recipe_keys) {
    std::vector<std::string> paths;
    for_each_command(program, [&](const CommandInfo& command) {
        if (!command.name.empty()) paths.push_back(in_quotes(command.name));
    });
    std::string out = fmt::format("# Completion of hekla for fish. Generated by `hekla completion fish`.\n\n"
                                  "set -g __hekla_verbs {}\n\n"
                                  "# Whether the words before the cursor name this verb (\"tokenize train\").\n"
                                  "function __hekla_at\n"
                                  "    set -l verb\n"
                                  "    for word in (commandline -opc)[2..-1]\n"
                                  "        set -l longer (string join -- ' ' $verb $word)\n"
                                  "        contains -- \"$longer\" $__hekla_verbs; and set verb $longer\n"
                                  "    end\n"
                                  "    test \"$verb\" = \"$argv[1]\"\n"
                                  "end\n\n"
                                  "complete -c hekla -f\n"
                                  "complete -c hekla -s h -l help -d 'print this help and exit'\n",
                                  fmt::join(paths, " "));
    for (const OptionInfo& option : program.options) out += "complete -c hekla" + fish_option(option) + "\n";
    for_each_command(program, [&](const CommandInfo& command) {
        const std::string at = "complete -c hekla -n " + in_quotes("__hekla_at " + in_quotes(command.name));
        for (const CommandInfo& below : command.commands)
            out += at + " -a " + last_word(below.name) + " -d " + in_quotes(summary_of(below)) + "\n";
        if (command.name.empty()) return;
        for (const OptionInfo& option : command.options) out += at + fish_option(option) + "\n";
        for (const OptionInfo& argument : command.arguments) {
            if (argument.kind == ValueKind::choice) out += at + " -a " + in_quotes(words_of(argument.choices)) + "\n";
            if (argument.kind == ValueKind::folder) out += at + " -a '(__fish_complete_directories)'\n";
            if (argument.kind == ValueKind::file || argument.kind == ValueKind::recipe) out += at + " -F\n";
            if (argument.kind == ValueKind::recipe_key)
                out += at + " -a " + in_quotes(fmt::format("{}=", fmt::join(recipe_keys, "= "))) + "\n";
        }
    });
    return out;
}

} // namespace hekla::app
