// hekla chat: a conversation with a model, through hekla.h as any host would. One session answers all messages; another
// adapter begins a new one, which shares the weights.
#include "adapter_option.hpp"
#include "command.hpp"
#include "generation_options.hpp"
#include "hekla/session.h"
#include "output.hpp"

#include "base/file.hpp"
#include "base/host.hpp"
#include "base/interrupts.hpp"
#include "base/json.hpp"

#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

namespace hekla::app {
namespace {

using nlohmann::json;

constexpr uint64_t kPreparing = 100'000'000; // nanoseconds between two looks at a session that prepares
constexpr double kPiece = 20'000.0;          // microseconds of device time at once

constexpr const char* kHelp =
    "/system TEXT   set the message of the system\n"
    "/adapter X     answer with the trained adapter X from now on; without X with none\n"
    "/new           begin a new conversation\n"
    "/save FILE     write the messages as JSON, for --messages\n"
    "/help, /quit\n"
    "A line that ends with a backslash continues in the next one; a message that begins with a\n"
    "slash begins with two. Ctrl+C ends an answer, or the program between answers.\n";

struct ChatArguments {
    std::string model, system, messages_file, chat_template = "auto", date;
    std::vector<std::string> adapters;
    int64_t context = 4096;
    GenerationChoice choice;
};

struct Reply {
    std::string text;
    bool stopped = false; // by a signal
};

// A model that answers conversations, opened by the first.
class Partner {
public:
    Partner(const Globals& globals, const ChatArguments& a) : globals_(globals), a_(a), adapters_(a.adapters) {}
    Partner(const Partner&) = delete;
    Partner& operator=(const Partner&) = delete;
    ~Partner() { close(); }

    // Answers with these adapters from now on.
    void use(std::vector<std::string> adapters) {
        retire();
        adapters_ = std::move(adapters);
    }
    // Prints the answer to a list of messages as it is generated. After an error the next call opens the model again.
    Result<Reply> answer(const json& messages) {
        const std::string prompt = messages.dump(-1, ' ', false, json::error_handler_t::replace);
        answer_ = {};
        Status done = ask(prompt);
        if (done.ok()) done = wait();
        if (!done.ok()) {
            close();
            return done;
        }
        if (answer_.stopped) retire();
        return std::move(answer_);
    }

private:
    void close() {
        hk_session_destroy(session_);
        hk_session_destroy(retired_);
        session_ = retired_ = {};
    }
    // Ends the session's text at once. It exists until the next one has prepared, which finds the weights on the
    // device.
    void retire() {
        if (session_.id == 0) return;
        hk_session_callbacks none{};
        none.struct_size = sizeof none;
        if (hk_session_replace_callbacks(session_, &none, error_.error) != HK_OK) return close();
        hk_session_destroy(retired_);
        retired_ = std::exchange(session_, hk_session{});
    }
    Status failed() const { // of the last call
        return Status(static_cast<Code>(hk_error_code(error_.error)),
                      std::string(view(hk_error_message(error_.error))));
    }

    Status ask(const std::string& prompt) {
        const hk_string text_of = text(prompt);
        if (session_.id != 0)
            return hk_session_prompt(session_, &text_of, 1, error_.error) == HK_OK ? Status() : failed();
        if (!created_) {
            if (context_.create(globals_, error_) != kDone) return Status(Code::cancelled, "");
            created_ = true;
        }
        const std::vector<hk_string> adapters = host_strings(adapters_);
        hk::Views views;
        hk_generate_options options = a_.choice.chosen(views);
        options.model = text(a_.model);
        options.prompts = &text_of;
        options.prompt_count = 1;
        options.chat_template = text(a_.chat_template);
        options.chat_date = text(a_.date);
        options.adapters = adapters.data();
        options.adapter_count = adapters.size();
        options.user = this;
        options.text = [](void* user, uint64_t, hk_string piece) {
            static_cast<Partner*>(user)->answer_.text += view(piece);
            std::fwrite(piece.data, 1, static_cast<std::size_t>(piece.size), stdout);
            std::fflush(stdout);
        };
        hk_session_options own{};
        own.struct_size = sizeof own;
        own.microseconds = kPiece;
        own.length = a_.context;
        return hk_session_generate(context_.context, &options, &own, &session_, error_.error) == HK_OK ? Status()
                                                                                                       : failed();
    }

    Status wait() {
        const bool terminal = is_terminal(stderr);
        bool shown = false;
        for (;;) {
            hk_session_info info{};
            info.struct_size = sizeof info;
            if (hk_session_wait(session_, kPreparing, &info, error_.error) != HK_OK) return failed();
            if (terminal && info.state == HK_SESSION_PREPARING)
                fmt::print(stderr, "\r\x1b[Kreading the model: {:.0f}%", info.progress * 100.0);
            if (shown && info.state != HK_SESSION_PREPARING) fmt::print(stderr, "\r\x1b[K");
            shown = terminal && info.state == HK_SESSION_PREPARING;
            if (info.state != HK_SESSION_PREPARING) {
                hk_session_destroy(retired_);
                retired_ = {};
            }
            if (info.state == HK_SESSION_FAILED)
                return Status(static_cast<Code>(info.code), std::string(view(info.message)));
            if (info.state == HK_SESSION_IDLE || info.state == HK_SESSION_DONE) return {};
            if (interrupted() || output_failed()) {
                answer_.stopped = true;
                if (shown) fmt::print(stderr, "\r\x1b[K");
                return {};
            }
            hk_advance advance{};
            advance.struct_size = sizeof advance;
            advance.microseconds = kPiece;
            hk_advanced did{};
            did.struct_size = sizeof did;
            if (info.state == HK_SESSION_WORKING && hk_session_advance(session_, &advance, &did, error_.error) != HK_OK)
                return failed();
            if (did.pieces == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
    }

    const Globals& globals_;
    const ChatArguments& a_;
    std::vector<std::string> adapters_;
    HostError error_;
    HostContext context_;
    bool created_ = false;
    hk_session session_{}, retired_{};
    Reply answer_; // its text is written by the session's thread
};

// The messages so far; that of the system is kept by a new conversation.
class Conversation {
public:
    explicit Conversation(const std::string& system) { set_system(system); }

    void set_system(const std::string& text) {
        if (!messages_.empty() && messages_[0]["role"] == "system") messages_.erase(0);
        if (!text.empty()) messages_.insert(messages_.begin(), message("system", text));
    }
    void add(const char* role, const std::string& text) { messages_.push_back(message(role, text)); }
    void remove_last() { messages_.erase(messages_.size() - 1); }
    void begin_again() {
        while (!messages_.empty() && messages_.back()["role"] != "system") remove_last();
    }
    Status read(const std::string& file) {
        HK_ASSIGN(const std::string content, read_file(file));
        HK_ASSIGN(json read, parse_json(content, file));
        if (!read.is_array())
            return invalid_argument(
                fmt::format("{}: is {}, expected a list of messages, such as /save writes", file, read.type_name()));
        messages_ = std::move(read);
        return {};
    }
    Status save(const std::string& file) const {
        return write_file_atomically(file, messages_.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
    }
    const json& messages() const { return messages_; }

private:
    static json message(const char* role, const std::string& text) {
        json one = json::object();
        one["role"] = role;
        one["content"] = text;
        return one;
    }

    json messages_ = json::array();
};

// Reads a message: a line, and those after it while they end with a backslash. Nothing at the end of the input.
std::optional<std::string> read_message(bool terminal) {
    std::string message;
    for (;;) {
        if (terminal) fmt::print("{}", message.empty() ? "> " : "  ");
        std::fflush(stdout);
        std::string line;
        if (!std::getline(std::cin, line)) return message.empty() ? std::nullopt : std::optional(message);
        if (line.ends_with('\r')) line.pop_back();
        if (!line.ends_with('\\')) return message + line;
        line.back() = '\n';
        message += line;
    }
}

class Chat {
public:
    Chat(const Globals& globals, const ChatArguments& a)
        : partner_(globals, a), talk_(a.system), terminal_(is_terminal(stdin) && is_terminal(stdout)) {}

    int run(const std::string& messages_file) {
        if (!messages_file.empty())
            if (const Status read = talk_.read(messages_file); !read.ok()) return fail(read);
        if (terminal_) fmt::print("/help lists the commands; Ctrl+D ends the conversation.\n");
        while (!ended_) {
            std::optional<std::string> message = read_message(terminal_);
            if (!message) break;
            if (message->empty()) continue;
            const Status done =
                message->starts_with('/') && !message->starts_with("//") ? command(*message) : say(*message);
            if (stopped_) return stopped_status();
            if (done.ok()) continue;
            if (const int status = done.message().empty() ? kFailed : fail(done); !terminal_) return status;
        }
        if (terminal_) fmt::print("\n");
        return kDone;
    }

private:
    Status say(std::string message) {
        if (message.starts_with("//")) message.erase(0, 1);
        talk_.add("user", message);
        watch_interrupts(kStoppedEarly);
        Result<Reply> answer = partner_.answer(talk_.messages());
        if (!answer.ok()) {
            talk_.remove_last();
            forget_interrupts();
            return answer.status();
        }
        fmt::print("\n");
        if (answer->text.empty() && answer->stopped)
            talk_.remove_last(); // as if it was not asked
        else
            talk_.add("assistant", answer->text);
        ended_ = output_failed();
        stopped_ = answer->stopped && !ended_ && !(terminal_ && stopped_status() == kInterrupted);
        if (!stopped_) forget_interrupts();
        return flush_output();
    }

    Status command(const std::string& line) {
        const std::size_t space = std::min(line.find(' '), line.size());
        const std::string name = line.substr(0, space), rest = line.substr(std::min(space + 1, line.size()));
        if (name == "/quit" || name == "/exit") {
            ended_ = true;
        } else if (name == "/help") {
            fmt::print("{}", kHelp);
        } else if (name == "/system") {
            talk_.set_system(rest);
        } else if (name == "/new") {
            talk_.begin_again();
        } else if (name == "/adapter") {
            partner_.use(rest.empty() ? std::vector<std::string>()
                                      : std::vector{rest.find('=') == std::string::npos ? "adapter=" + rest : rest});
        } else if (name == "/save") {
            if (rest.empty()) return invalid_argument("/save needs the name of a file");
            return talk_.save(rest);
        } else {
            return invalid_argument(
                fmt::format("'{}' is not a command: expected /system, /adapter, /new, /save, /help or "
                            "/quit; a message that begins with a slash begins with two",
                            name));
        }
        return {};
    }

    static constexpr int kInterrupted = 130; // after Ctrl+C

    Partner partner_;
    Conversation talk_;
    bool terminal_;
    bool ended_ = false, stopped_ = false;
};

} // namespace

void add_chat(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = app.add_subcommand("chat", "Talk with a model: each line is a message, which it answers.");
    const auto a = std::make_shared<ChatArguments>();
    a->choice.options.max_new_tokens = 512;
    parser
        ->add_option("model", a->model,
                     "folder of a run, a checkpoint or a Hugging Face model, or a file that `hekla export` wrote")
        ->required();
    CLI::Option* const system = parser->add_option("--system", a->system, "message of the system");
    parser
        ->add_option(
            "--messages", a->messages_file,
            "file with a JSON list of earlier messages, as /save writes: the conversation continues from there")
        ->excludes(system);
    parser
        ->add_option("--chat-template", a->chat_template,
                     "chatml, llama2, llama3, zephyr, mistral, gemma, phi3, alpaca or a file; auto: the model's own")
        ->capture_default_str();
    parser->add_option("--date", a->date,
                       "date that the chat template prints where it asks for one, as 2026-01-31; not given: today");
    parser
        ->add_option("--context", a->context,
                     "tokens of a conversation that there is room for, at most the model's own context; a longer one "
                     "takes a pause for more")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
        ->capture_default_str();
    add_generation_options(*parser, a->choice);
    add_adapter_option(*parser, a->adapters);
    parser->footer(
        "/help lists the commands: /system, /adapter, /new, /save, /quit. Ctrl+C ends an answer.\n"
        "Where standard input is not a terminal, each of its lines is a message, and answers alone are printed.\n"
        "Example: hekla chat SmolLM2-135M-Instruct --temperature 0.7\n"
        "Example: hekla chat out/chat --adapter style=out/style --system \"Reply in one sentence.\"");
    verbs.push_back({parser, [&globals, a] { return Chat(globals, *a).run(a->messages_file); }});
}

} // namespace hekla::app
