// Conversations as texts: the chat template of a model, or one of those with a name.
#pragma once

#include "base/file_place.hpp"
#include "base/json.hpp"
#include "base/stop_poll.hpp"
#include "text/jinja/template.hpp"
#include "text/tokenizer.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hekla::text {

// A list of messages: objects with the strings "role" ("system", "user", "assistant", ...) and "content", and whatever
// else a template reads.
using Messages = nlohmann::ordered_json;

// Checks that the value is a list of messages, at least one. Errors contain the number of the message.
Status check_messages(const Messages& messages);

// A conversation as text, and what the assistant writes in it.
struct Conversation {
    std::string text;
    std::vector<ByteRange> answers; // of `text`, each with the token that ends its turn
};

// A prompt and what follows it.
struct PromptAndAnswer {
    std::string prompt; // ends where the assistant begins
    std::string answer; // with the end of the turn
};

// Immutable. Thread: any.
class ChatTemplate {
public:
    // `name` is for messages: a file, or the name of a template. Errors: those of jinja::parse.
    static Result<ChatTemplate> parse(std::string text, std::string name);
    // A built-in template. Error: no such name, with all names.
    static Result<ChatTemplate> named(std::string_view name);
    // Returns the same template, which prints this date. Without one, strftime_now is undefined.
    ChatTemplate dated(const jinja::DateTime& date) const;
    // Returns whether its text may depend on the date.
    bool reads_date() const { return template_.reads_date(); }
    static std::vector<std::string_view> names();

    const std::string& text() const { return text_; } // in Jinja
    const std::string& name() const { return name_; }

    // Returns the text as transformers' apply_chat_template() does. `answer_follows`: up to where the assistant begins.
    // Errors: those of check_messages and of rendering.
    Result<std::string> render(const Messages& messages, bool answer_follows, const Vocabulary& tokens) const;
    // Returns the text up to the end of the last message, which is to be continued: with continue_final_message=True of
    // the same function. Errors: also a template that does not write the last message.
    Result<std::string> render_open(const Messages& messages, const Vocabulary& tokens) const;
    // Returns the text of a whole conversation. Answers are where the template has {% generation %}, or else what each
    // message of the assistant adds to the messages before it; white space after the token that ends the turn is not
    // part of it. Where the text of the first messages depends on later ones, as that of thoughts, they are found by
    // marks in the whole text. Errors: no message of the assistant; an answer that is not found; cancelled by `stop`,
    // which is asked for each message.
    Result<Conversation> conversation(const Messages& messages, const Vocabulary& tokens,
                                      const StopPoll& stop = {}) const;
    // Returns a prompt and an answer to it, as TRL does. Error: the prompt ends with a message of the assistant.
    Result<PromptAndAnswer> answer(const Messages& prompt, const Messages& answer, const Vocabulary& tokens) const;
    // Returns the token that ends the assistant's turn: what the template puts after a message, without white space.
    // Errors: nothing, or a text that is several tokens, with the keys that change it.
    Result<int32_t> turn_end(const Tokenizer& tokenizer) const;

private:
    ChatTemplate(std::string text, std::string name, jinja::Template parsed)
        : text_(std::move(text)), name_(std::move(name)), template_(std::move(parsed)) {}
    Result<jinja::Rendered> rendered(const Messages& messages, bool answer_follows, const Vocabulary& tokens) const;
    // Returns the text that the template puts after a message of the assistant, without white space around it.
    Result<std::string> end_text(const Vocabulary& tokens) const;
    // What a template writes around an answer.
    struct Turn {
        std::string header, prompt; // before an answer: what is always there; what a prompt ends with
        std::string end, last_end;  // after an answer, and after the last message of a conversation
    };
    Result<Turn> turn_of(const Vocabulary& tokens) const;
    Status find_by_marks(const Messages& messages, const Vocabulary& tokens, const StopPoll& stop,
                         Conversation& conversation) const;

    std::string text_, name_;
    jinja::Template template_;
    std::optional<jinja::DateTime> date_;
};

// The text of a template, and where it was found, for messages.
struct ChatTemplateSource {
    std::string text, name;
};
// Finds the template of a tokenizer's folder: chat_template.jinja, or "chat_template" of tokenizer_config.json (of
// several, the one named "default"). Nothing if the folder has none.
Result<std::optional<ChatTemplateSource>> find_chat_template(const FilePlace& folder);

// Returns a template by its name, or from a file. Errors: neither, with the names.
Result<ChatTemplate> chat_template_of(const std::string& name_or_file);

// Returns the token ids of a text that a template made: its special tokens are recognized, and none is added.
Result<std::vector<int32_t>> chat_ids(const Tokenizer& tokenizer, std::string_view text,
                                      std::vector<ByteRange>* ranges = nullptr);

} // namespace hekla::text
