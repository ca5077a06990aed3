// The built-in chat templates: the formats that the models of these names were trained with.
#include "text/chat_template.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::text {
namespace {

struct NamedTemplate {
    std::string_view name, text;
};

constexpr std::array<NamedTemplate, 8> kTemplates{{
    {"chatml", R"({%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- endif %}
)"},
    {"llama2", R"({%- set state = namespace(system='') %}
{%- for message in messages %}
{%- if message['role'] == 'system' and loop.first %}
{%- set state.system = '<<SYS>>\n' + message['content'] + '\n<</SYS>>\n\n' %}
{%- elif message['role'] == 'user' %}
{{- bos_token + '[INST] ' + state.system + message['content'] | trim + ' [/INST]' }}
{%- set state.system = '' %}
{%- elif message['role'] == 'assistant' %}
{{- ' ' + message['content'] | trim + ' ' + eos_token }}
{%- else %}
{{- raise_exception('roles are a first system, then user and assistant') }}
{%- endif %}
{%- endfor %}
)"},
    {"llama3", R"({%- for message in messages %}
{%- if loop.first %}
{{- bos_token }}
{%- endif %}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
)"},
    {"zephyr", R"({%- for message in messages %}
{{- '<|' + message['role'] + '|>\n' + message['content'] + eos_token + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|assistant|>\n' }}
{%- endif %}
)"},
    {"mistral", R"({{- bos_token }}
{%- set state = namespace(system='') %}
{%- for message in messages %}
{%- if message['role'] == 'system' and loop.first %}
{%- set state.system = message['content'] + '\n\n' %}
{%- elif message['role'] == 'user' %}
{{- ' [INST] ' + state.system + message['content'] + ' [/INST]' }}
{%- set state.system = '' %}
{%- elif message['role'] == 'assistant' %}
{{- ' ' + message['content'] + eos_token }}
{%- else %}
{{- raise_exception('roles are a first system, then user and assistant') }}
{%- endif %}
{%- endfor %}
)"},
    {"gemma", R"({{- bos_token }}
{%- set state = namespace(system='') %}
{%- for message in messages %}
{%- if message['role'] == 'system' and loop.first %}
{%- set state.system = message['content'] | trim + '\n\n' %}
{%- else %}
{%- set role = 'model' if message['role'] == 'assistant' else message['role'] %}
{{- '<start_of_turn>' + role + '\n' + state.system + message['content'] | trim + '<end_of_turn>\n' }}
{%- set state.system = '' %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<start_of_turn>model\n' }}
{%- endif %}
)"},
    {"phi3", R"({%- for message in messages %}
{{- '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|assistant|>\n' }}
{%- endif %}
)"},
    {"alpaca", R"({%- for message in messages %}
{%- if message['role'] == 'system' %}
{{- message['content'] + '\n\n' }}
{%- elif message['role'] == 'user' %}
{{- '### Instruction:\n' + message['content'] + '\n\n' }}
{%- elif message['role'] == 'assistant' %}
{{- '### Response:\n' + message['content'] + eos_token + '\n\n' }}
{%- else %}
{{- raise_exception('roles are system, user and assistant') }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '### Response:\n' }}
{%- endif %}
)"},
}};

} // namespace

std::vector<std::string_view> ChatTemplate::names() {
    std::vector<std::string_view> all;
    for (const NamedTemplate& one : kTemplates) all.push_back(one.name);
    return all;
}

Result<ChatTemplate> ChatTemplate::named(std::string_view name) {
    const auto found = std::ranges::find(kTemplates, name, &NamedTemplate::name);
    if (found == kTemplates.end())
        return invalid_argument(
            fmt::format("'{}' is not a chat template; expected {}, or a file", name, fmt::join(names(), ", ")));
    return parse(std::string(found->text), std::string(name));
}

} // namespace hekla::text
