// Adapters on the open model: chosen, mixed and compared while texts are written.
#pragma once

#include "models/adapter_writing.hpp"
#include "models/word_difference.hpp"
#include "observatory.hpp"

#include <string>
#include <vector>

namespace observatory {

class AdaptersPanel final : public Panel {
public:
    // What texts are written with.
    enum class Choice { base, one, mix, compared };
    // adapters: "NAME=FOLDER" or "NAME=FOLDER:SCALE", opened with the first model. use: "base", "mix", "compare" or a
    // name. prompt: "" is the default. Throws a Failure for an argument of another form.
    AdaptersPanel(Engine& engine, const std::vector<std::string>& adapters, const std::string& use,
                  const std::string& prompt);
    const char* name() const override { return "Adapters"; }
    const char* about() const override { return "Adapters of the model: choose, mix and compare them while it writes"; }
    void change(Observatory& app, bool shown) override;
    void draw(Observatory& app) override;
    bool is_settled(Observatory& app) override;
    std::string problem(Observatory& app) override;
    void write_when_open() { waits_ = true; } // starts as soon as the model and the adapters are open

private:
    void take_model(Observatory& app);
    void write(Observatory& app);
    std::vector<AdapterUse> uses() const;
    const Adapter* not_in_slot() const;
    void draw_list(Observatory& app);
    void draw_choice(Observatory& app);
    void draw_controls(Observatory& app);
    void draw_texts(Observatory& app);
    void draw_text(Observatory& app, std::size_t row, float width);
    Adapters adapters_;
    AdapterWriting writing_;
    std::vector<AdapterArgument> arguments_; // opened with the next model
    std::string use_;                        // the command line's choice, until its adapter is open
    Choice choice_ = Choice::compared;
    uint64_t one_ = 0; // the adapter of Choice::one
    bool mix_too_ = true, from_start_ = true, waits_ = false;
    bool follows_ = false; // the text that is written follows what is chosen
    std::string prompt_ = "The";
    int tokens_ = 80, top_k_ = 40, seed_ = 1;
    float temperature_ = 0.0F;
    uint64_t number_ = 0;               // of the model that adapters_ are for
    std::vector<std::string> compared_; // the texts that words_ are of
    std::vector<std::vector<Word>> words_;
};

} // namespace observatory
